"""The servers of the apps in PHP, JavaScript and Go, each with the same small app of backend/."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
from collections.abc import Callable

from sojourn_lab.errors import LabError
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.start import Start, whole_seconds

BUILD_DEADLINE = 200.0
"""Seconds. The first build on a machine compiles Go's own packages, too."""
_SBIN = ("/usr/sbin", "/usr/local/sbin")
_FPM_VERSIONS = ("", "8.5", "8.4", "8.3", "8.2", "8.1", "8.0")


def fpm_program() -> str | None:
    """Return the path of php-fpm, or of the newest versioned name, as in Debian; None if not installed."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *_SBIN))
    programs = (shutil.which(f"php-fpm{version}", path=path) for version in _FPM_VERSIONS)
    return next((program for program in programs if program), None)


def php_fpm(start: Start) -> Process:
    """Return php-fpm with one static pool (`pm = static`) of `workers` processes, as the current user."""
    user = f"user = {getpass.getuser()}\n" if os.geteuid() == 0 else ""
    measuring = resource_file("middleware", "php", "auto_prepend.php")
    settings = start.file(
        "fpm.conf",
        f"""\
; Written by the lab. The socket comes in FPM_SOCKETS, under the address that the pool names.
[global]
daemonize = no
error_log = {start.folder / start.name}.fpm.log
[lab]
{user}listen = {start.bound}
listen.backlog = {start.topology.backlog}
pm = static
pm.max_children = {start.topology.workers}
request_terminate_timeout = {whole_seconds(start.topology.worker_timeout)}
clear_env = no
php_admin_value[auto_prepend_file] = "{measuring}"
""",
    )
    # Root is allowed as the pool's user because a container's lab has no other; -n: no php.ini of this machine.
    command = [fpm_program() or "php-fpm", "-n", "--allow-to-run-as-root", "--nodaemonize", "--fpm-config", settings]
    return start.process(command, FPM_SOCKETS=f"{start.bound}={start.fd}")


def node(start: Start) -> Process:
    """Return Node's own http server: an event loop, which a request holds; several `workers` are a cluster of them."""
    package = str(resource_file("middleware", "node"))
    app = str(resource_file("backend", "app.js"))
    return start.process(["node", app, str(start.fd), str(start.topology.workers)], LAB_SOJOURN_JS=package)


def go(start: Start) -> Process:
    """Return Go's net/http, built here, with `workers` places for requests in service."""
    folder = start.folder / f"{start.name}.go"
    folder.mkdir()
    shutil.copyfile(resource_file("backend", "app.go"), folder / "app.go")
    (folder / "go.mod").write_text(
        "module lab\n\ngo 1.22\n\nrequire sojourn/middleware v0.0.0\n\n"
        f"replace sojourn/middleware => {json.dumps(str(resource_file('middleware', 'go')), ensure_ascii=False)}\n"
    )
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off", "GOPROXY": "off"}
    try:
        built = subprocess.run(
            ["go", "build", "-o", "app", "."],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=BUILD_DEADLINE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LabError(f"go build took more than {BUILD_DEADLINE:g} s") from None
    if built.returncode != 0:
        raise LabError(f"go build failed: {built.stderr.strip()}")
    return start.process([str(folder / "app"), str(start.fd), str(start.topology.workers)])


def program_missing(*programs: str, install: str = "") -> Callable[[], str | None]:
    """Return a function that returns the first of these programs that is not installed, None if all are.

    `install`: the command that installs them.
    """
    advice = f": {install}" if install else ""

    def missing() -> str | None:
        return next((f"{program} is not installed{advice}" for program in programs if not shutil.which(program)), None)

    return missing
