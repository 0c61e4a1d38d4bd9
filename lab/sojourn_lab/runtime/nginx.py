"""A real nginx for one run: its own folder, its own port, with the project's include files unchanged."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from sojourn.nginx.program import nginx_path

from sojourn_lab.errors import LabError
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.ports import free_port, port_answers
from sojourn_lab.runtime.process import Process, group_members

_HOST = "127.0.0.1"
_PORT_ATTEMPTS = 4
_CONNECTIONS = 4096
_JS_MODULE = "ngx_http_js_module.so"
_MODULE_FOLDERS = (
    "/usr/lib/nginx/modules",
    "/usr/lib64/nginx/modules",
    "/usr/share/nginx/modules",
    "/etc/nginx/modules",
    "/usr/local/nginx/modules",
)
_TEMP_FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def nginx_program() -> Path | None:
    """Return the nginx executable; sbin is searched too, because an ordinary user's PATH lacks it."""
    path = nginx_path("nginx")
    return Path(path) if path else None


@functools.cache
def build_text(program: Path) -> str:
    """Return the output of `nginx -V`, the build options."""
    return subprocess.run([program, "-V"], capture_output=True, text=True, check=False).stderr


def nginx_version(program: Path) -> str:
    """Return the version number, for instance `1.22.1`; empty if unknown."""
    version = re.search(r"nginx version: [^/\s]*/(\S+)", build_text(program))
    return version[1] if version else ""


def js_module_line(build: str) -> str | None:
    """Return the load_module line for njs; empty if njs is compiled in, None if the module does not exist."""
    if re.search(r"--add-module=\S*njs", build):
        return ""
    option = re.search(r"--modules-path=('[^']*'|\S+)", build)
    folders = ([option[1].strip("'")] if option else []) + list(_MODULE_FOLDERS)
    for folder in folders:
        module = Path(folder, _JS_MODULE)
        if module.is_file():
            return f"load_module {quoted(module)};"
    return None


def quoted(path: Path) -> str:
    """Return the path as one nginx parameter; LabError for a path that nginx cannot use."""
    text = os.fspath(path)
    if "$" in text:
        raise LabError(f"nginx would read the $ in {text} as a variable: choose another folder")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Nginx:
    """nginx with `workers` processes in `<folder>/nginx`, serving `server` on a free loopback port.

    `server` is the inside of a server block without its `listen`; `http` is extra text at http level, after the
    project's include (upstreams, maps, more servers). The log goes to `access_log` in the format `sojourn`. A worker
    holds at most `connections`, those to the apps included.
    `edit` changes nginx.conf in the folder each time it is written, before nginx reads it.
    `files` replaces the text of include files by name; `trusted.conf` is the one users edit. Requests in
    progress may take `drain_s` seconds after a stop. With `http2` it accepts HTTP/2 without TLS only.
    LabError from `start()` has the output of `nginx -t`.
    """

    def __init__(
        self,
        folder: Path,
        server: str,
        *,
        access_log: Path,
        http: str = "",
        files: Mapping[str, str] | None = None,
        error_level: str = "notice",
        port: int | None = None,
        drain_s: float = 4.0,
        workers: int = 1,
        connections: int = _CONNECTIONS,
        http2: bool = False,
        edit: Callable[[Path], None] | None = None,
    ) -> None:
        self.folder = folder.resolve() / "nginx"
        self.access_log = access_log.resolve()
        self.error_log = self.folder / "logs" / "error.log"
        self.port = 0
        self._server = server
        self._http = http
        self._files = dict(files or {})
        self._error_level = error_level
        self._fixed_port = port
        self._drain_s = drain_s
        self._workers = workers
        self._connections = connections
        # As a word of `listen`: newer versions warn of it, but older ones know no other way.
        self._protocol = " http2" if http2 else ""
        self._edit = edit
        self._process: Process | None = None

    @staticmethod
    def why_unavailable() -> str | None:
        """Return the reason that nginx cannot start here, with the missing tool; None if it can."""
        program = nginx_program()
        if program is None:
            return "nginx is not installed"
        if js_module_line(build_text(program)) is None:
            return "the njs module of nginx is not installed"
        return None

    @property
    def url(self) -> str:
        """The base URL, without a slash at the end."""
        return f"http://{_HOST}:{self.port}"

    @property
    def process(self) -> Process:
        """The master process; LabError before `start()`."""
        if self._process is None:
            raise LabError("nginx was never started")
        return self._process

    def start(self, deadline_s: float = 15.0) -> Self:
        """Create the folder, check the configuration, start, and wait until it accepts connections."""
        program = nginx_program()
        if (reason := self.why_unavailable()) is not None or program is None:
            raise LabError(reason or "nginx is not installed")
        self._lay_out()
        attempts = _PORT_ATTEMPTS if self._fixed_port is None else 1
        for attempt in range(1, attempts + 1):
            self.port = self._fixed_port if self._fixed_port is not None else free_port(_HOST)
            self._write_config(program)
            self._check_config(program)
            try:
                self._launch(program, deadline_s)
            except LabError as error:
                # Another process has bound the port in the meantime: pick another one.
                if "Address already in use" not in str(error) or attempt == attempts:
                    raise
            else:
                break
        return self

    def _lay_out(self) -> None:
        includes = self.folder / "sojourn"
        for folder in (includes, self.folder / "logs", self.folder / "temp", self.access_log.parent):
            folder.mkdir(parents=True, exist_ok=True)
        for source in resource_file("nginx").iterdir():
            if source.suffix in {".conf", ".js"}:
                shutil.copyfile(source, includes / source.name)
        for name, text in self._files.items():
            (includes / name).write_text(text)

    def _write_config(self, program: Path) -> None:
        module = js_module_line(build_text(program)) or ""
        # Run as the owner of the folder: another user could not enter a private run folder. Only root may set it.
        user = f"user {pwd.getpwuid(0).pw_name};" if os.geteuid() == 0 else ""
        # Two files for each connection: the client's and the app's. More than the hard limit only root may ask for.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        files = 2 * self._connections if hard == resource.RLIM_INFINITY else min(2 * self._connections, hard)
        temp = "\n    ".join(f"{name}_temp_path {quoted(self.folder / 'temp' / name)};" for name in _TEMP_FOLDERS)
        (self.folder / "nginx.conf").write_text(f"""\
{module}
{user}
daemon off;
worker_processes {self._workers};
worker_shutdown_timeout {round(1000 * self._drain_s)}ms;
worker_rlimit_nofile {files};
pid {quoted(self._pid_path)};
lock_file {quoted(self.folder / "logs" / "nginx.lock")};
error_log {quoted(self.error_log)} {self._error_level};

events {{
    use epoll;
    worker_connections {self._connections};
}}

http {{
    server_tokens off;
    {temp}
    include sojourn/sojourn.conf;
    access_log {quoted(self.access_log)} sojourn;
{self._http}
    server {{
        listen {_HOST}:{self.port}{self._protocol};
{self._server}
    }}
}}
""")
        if self._edit is not None:
            self._edit(self.folder / "nginx.conf")

    def _command(self, program: Path) -> list[str | os.PathLike[str]]:
        return [program, "-p", f"{self.folder}/", "-e", self.error_log, "-c", self.folder / "nginx.conf"]

    def _check_config(self, program: Path) -> None:
        words = self.config_words(program)
        if "test is successful" not in words:
            raise LabError(f"nginx does not accept {self.folder / 'nginx.conf'}:\n{words.strip()}")

    def config_words(self, program: Path) -> str:
        """Return the output of `nginx -t` for the configuration in the folder, warnings included."""
        check = subprocess.run(
            [*self._command(program), "-t"], capture_output=True, text=True, errors="replace", check=False
        )
        return check.stderr

    @property
    def _pid_path(self) -> Path:
        return self.folder / "logs" / "nginx.pid"

    def _launch(self, program: Path, deadline_s: float) -> None:
        self._pid_path.unlink(missing_ok=True)
        self._process = Process(self._command(program), name="nginx", folder=self.folder / "logs")
        self._process.start()
        try:
            # nginx writes the pid once its sockets are bound; otherwise another program on the port would pass.
            self._process.wait_until(self._owns_port, deadline_s, f"nginx to answer on port {self.port}")
        except BaseException:
            self._process.stop()
            raise

    def _owns_port(self) -> bool:
        try:
            written = self._pid_path.read_text().strip()
        except OSError:
            return False
        return written == str(self.process.pid) and port_answers(_HOST, self.port)

    def reopen(self, deadline_s: float = 5.0) -> None:
        """Signal nginx to reopen its logs (after a rename), and wait until every process writes to the new file."""
        self.process.send_signal(signal.SIGUSR1)
        self.process.wait_until(
            lambda: all(self._holds_access_log(pid) for pid in group_members(self.process.pid)),
            deadline_s,
            "nginx to reopen its logs",
        )

    def reconfigure(self, server: str, http: str, deadline_s: float = 5.0) -> None:
        """Replace the texts of `server` and `http`, and reload.

        Returns when no old worker accepts connections; LabError with the output of `nginx -t` for an invalid text.
        """
        program = nginx_program()
        if program is None:
            raise LabError("nginx is not installed")
        before = self._server, self._http
        self._server, self._http = server, http
        self._write_config(program)
        try:
            self._check_config(program)
        except LabError:
            self._server, self._http = before
            self._write_config(program)
            raise
        old = set(group_members(self.process.pid)) - {self.process.pid}
        self.process.send_signal(signal.SIGHUP)
        self.process.wait_until(
            lambda: (
                not any(self._accepts(pid) for pid in old)
                and bool(set(group_members(self.process.pid)) - old - {self.process.pid})
            ),
            deadline_s,
            "nginx to take its new configuration",
        )

    @staticmethod
    def _accepts(pid: int) -> bool:
        # nginx puts a worker's state into its process title; a worker that only finishes its requests is marked there.
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        return bool(words) and b"shutting down" not in words

    def _holds_access_log(self, pid: int) -> bool:
        try:
            log = self.access_log.stat()
            opened = [os.stat(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.exists()]
        except OSError:
            return False
        return any(os.path.samestat(log, one) for one in opened)

    def stop(self) -> None:
        """Let requests in progress finish for up to `drain_s` seconds, then end nginx. Can be called again."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGQUIT)
        with contextlib.suppress(LabError):
            # nginx closes the remaining connections after drain_s, and gets some more time for it.
            self._process.wait(self._drain_s + 3.0)
        self._process.stop()

    def error_log_text(self) -> str:
        """Return the error log so far; empty without one."""
        try:
            return self.error_log.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def alerts(self) -> list[str]:
        """Return the lines of the error log with a failure of nginx itself: [alert] and [emerg]."""
        return [line for line in self.error_log_text().splitlines() if "[alert]" in line or "[emerg]" in line]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
