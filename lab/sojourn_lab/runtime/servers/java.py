"""The app servers in Java: the JDK's own HTTP server and Tomcat, compiled with the sources of the Java middleware."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sojourn_lab.errors import LabError
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.start import Start

BUILD_DEADLINE = 100.0
"""Seconds."""
START_DEADLINE = 30.0
_JARS = Path("/usr/share/java")


def java(start: Start) -> Process:
    """Return the JDK's own HTTP server with a fixed pool of `workers` threads, compiled when it starts.

    It cannot inherit a socket: it binds a port of its own and writes it to the file that `java_port` reads.
    """
    return _server(start, "App", [], "-Dsun.net.httpserver.nodelay=true")


def tomcat(start: Start) -> Process:
    """Return Tomcat inside a program, with `maxThreads` = `workers`, compiled when it starts.

    It binds a port of its own, as `java` does. `acceptCount` is the backlog, which fills only beyond `maxConnections`.
    """
    return _server(start, "TomcatApp", tomcat_jars())


def tomcat_jars() -> list[str]:
    """Return the jars of Tomcat 10 where Debian and Ubuntu install them; empty if not installed."""
    return sorted(str(jar) for jar in _JARS.glob("tomcat10-*.jar") if "-i18n-" not in jar.name)


def tomcat_missing() -> str | None:
    """Return what is not installed; None if nothing is."""
    if shutil.which("java") and shutil.which("javac") and tomcat_jars():
        return None
    return "tomcat is not installed: apt install default-jdk-headless libtomcat10-java"


def java_port(start: Start, process: Process) -> int:
    """Return the port that the started Java app has bound; LabError if it does not print one in time."""
    path = start.folder / f"{start.name}.port"
    process.wait_until(path.exists, START_DEADLINE, f"{start.name} to bind a port")
    return int(path.read_text())


def compiled(source: Path, classes: Path, jars: Sequence[str]) -> str:
    """Compile a program and the classes of the middleware that it uses, and return its class path.

    Args:
        source: the file of its class.
        classes: a folder that does not exist yet.
        jars: other parts of the class path.

    Raises:
        LabError: the compiler fails.
    """
    class_path = ":".join([str(classes), *jars])
    middleware = str(resource_file("middleware", "java", "src", "main", "java"))
    classes.mkdir()
    # A short compilation is faster with the simple compiler of the JVM.
    options = ["-J-XX:TieredStopAtLevel=1", "-proc:none", "-encoding", "UTF-8", "-d", str(classes), "-cp", class_path]
    try:
        built = subprocess.run(
            ["javac", *options, "-sourcepath", middleware, str(source)],
            capture_output=True, text=True, timeout=BUILD_DEADLINE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LabError(f"javac took more than {BUILD_DEADLINE:g} s") from None
    if built.returncode != 0:
        raise LabError(f"javac failed: {built.stderr.strip()}")
    return class_path


def _server(start: Start, program: str, jars: Sequence[str], *options: str) -> Process:
    source = resource_file("backend", f"{program}.java")
    class_path = compiled(source, start.folder / f"{start.name}.classes", jars)
    numbers = (str(start.topology.workers), str(start.topology.backlog))
    return start.process(["java", *options, "-cp", class_path, program, *numbers, f"{start.folder / start.name}.port"])
