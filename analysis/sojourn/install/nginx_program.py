"""The nginx of this machine: what it was built with, whether it accepts a configuration, and its master process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sojourn.doctor.app_lookup import command_of
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable
from sojourn.nginx.program import nginx_path
from sojourn.nginx.syntax import Directive

PATIENCE_S = 20.0
_BETWEEN_LOOKS_S = 0.02
_PROC = Path("/proc")
_MASTER, _WORKER = "nginx: master process", "nginx: worker process"
_EMERG = re.compile(r".*?\[(?:emerg|alert)\] (?:\d+#\d+: )?")


@dataclass(frozen=True)
class NginxProgram:
    """An nginx.

    Attributes:
        path: of the program.
        built_with: option of its build -> value, such as ``--modules-path``.
        has_njs: whether njs is a part of the program.
    """

    path: str
    built_with: dict[str, str] = field(default_factory=dict)
    has_njs: bool = False

    def folder_of(self, option: str, default: str) -> str:
        """Return the path of an option of its build, below its prefix if it is relative."""
        return os.path.join(self.built_with.get("--prefix", "/usr/local/nginx"), self.built_with.get(option, default))

    @property
    def default_conf(self) -> str:
        """The configuration that it reads if none is named."""
        return self.folder_of("--conf-path", "conf/nginx.conf")

    @property
    def default_log(self) -> str:
        """The log that it writes if the configuration names none."""
        return self.folder_of("--http-log-path", "logs/access.log")

    @property
    def modules(self) -> str:
        """The folder of its modules."""
        return self.folder_of("--modules-path", "modules")

    def refusal(self, conf: str | Path) -> str | None:
        """Return why it refuses a configuration; None if it accepts it."""
        done = _run([self.path, "-t", "-q", "-c", os.path.abspath(conf)])
        if done.returncode == 0:
            return None
        lines = [line for line in done.stderr.splitlines() if "[emerg]" in line or "[alert]" in line]
        message = _EMERG.sub("", lines[-1]) if lines else done.stderr.strip() or "without a reason"
        return printable(message, 500)

    def njs_line(self, root: Directive, name: str) -> str | None:
        """Return the line that loads the njs module; empty if it is loaded already; None if this nginx lacks it.

        Args:
            root: the configuration.
            name: file name of the module.
        """
        loaded = any(each.args and each.args[0].endswith(name) for each in root.block if each.name == "load_module")
        if loaded or self.has_njs:
            return ""
        module = os.path.join(self.modules, name)
        if not os.path.isfile(module):
            return None
        line = f"load_module {module};"
        with tempfile.TemporaryDirectory(prefix="sojourn-") as folder:
            conf = Path(folder, "nginx.conf")
            conf.write_text(f"{line}\npid {folder}/pid;\nerror_log stderr;\nevents {{ }}\n", encoding="utf-8")
            return line if self.refusal(conf) is None else None


def nginx_program() -> NginxProgram | None:
    """Return the nginx of this machine (or OpenResty, which is one); None without one."""
    path = nginx_path("nginx", "openresty")
    if path is None:
        return None
    build = _run([path, "-V"]).stderr
    options = {name: value.strip("'") for name, value in re.findall(r"(--[\w-]+)=('[^']*'|\S+)", build)}
    return NginxProgram(path, options, re.search(r"--add-module=\S*njs", build) is not None)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PATIENCE_S, text=True,
            errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SojournError(f"{command[0]}: cannot be run ({error})") from None


# ---- The running nginx


def master_of(conf: str | Path, root: Directive, program: NginxProgram) -> int | None:
    """Return the process id of the nginx that runs with a configuration; None if there is none.

    Args:
        conf: the first file of the configuration.
        root: the configuration.
        program: the nginx of this machine, whose default is the file of the process id.
    """
    lines = [each.args[0] for each in root.block if each.name == "pid" and each.args]
    file = os.path.join(program.folder_of("--prefix", "/usr/local/nginx"), lines[-1]) if lines else (
        program.folder_of("--pid-path", "logs/nginx.pid"))  # fmt: skip
    with suppress(OSError, ValueError):
        pid = int(Path(file).read_text())
        if command_of(_PROC / str(pid)).startswith(_MASTER):
            return pid
    is_default = os.path.realpath(conf) == os.path.realpath(program.default_conf)
    for process in _PROC.glob("[0-9]*"):
        words = command_of(process).split()
        if " ".join(words[:3]) != _MASTER:
            continue
        read = words[words.index("-c") + 1] if "-c" in words[:-1] else None
        if (read is not None and os.path.realpath(read) == os.path.realpath(conf)) or (read is None and is_default):
            return int(process.name)
    return None


def reload(master: int) -> str | None:
    """Make a running nginx read its configuration again, and wait until its old workers accept no more requests.

    Returns:
        None, or why it did not.
    """
    old = _workers(master)
    try:
        os.kill(master, signal.SIGHUP)
    except OSError as error:
        return f"nginx (process {master}) cannot be reloaded: {error.strerror}"
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        workers = _workers(master)
        if workers - old and not workers & old:
            return None
        time.sleep(_BETWEEN_LOOKS_S)
    return f"nginx (process {master}) did not reload within {PATIENCE_S:.0f} s: its error log says why"


def _workers(master: int) -> set[int]:
    """Return the workers of an nginx that accept requests."""
    try:
        children = (_PROC / str(master) / "task" / str(master) / "children").read_text()
    except OSError:
        return set()
    titles = {int(word): command_of(_PROC / word) for word in children.split()}
    return {pid for pid, title in titles.items() if title.startswith(_WORKER) and "shutting down" not in title}
