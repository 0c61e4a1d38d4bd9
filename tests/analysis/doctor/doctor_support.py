"""A configuration in a folder of its own, a real nginx that runs it, and an app behind it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

from doctor_faults import GOOD, SOMAXCONN, Fault
from sojourn.doctor.doctor import diagnose
from sojourn.doctor.findings import Diagnosis, Edit, edited
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.nginx import build_text, js_module_line, nginx_program
from sojourn_lab.runtime.ports import free_ports, wait_for_port
from sojourn_lab.runtime.process import Process

DEADLINE_S = 60.0


@dataclass
class Laid:
    """A configuration in a folder of its own, with the include files of Sojourn."""

    folder: Path
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.folder / "nginx.conf"

    def filled(self, text: str) -> str:
        """``text`` with this machine's ports and paths."""
        program = nginx_program()
        module = (js_module_line(build_text(program)) if program else "") or ""
        user = "user root;" if os.geteuid() == 0 else ""
        names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temp = " ".join(f"{name}_temp_path {self.folder}/temp/{name};" for name in names)
        values = {"MODULE": f"{module}\n{user}", "FOLDER": str(self.folder), "TEMP": temp, **self.ports}
        for name, value in values.items():
            text = text.replace(f"@{name}@", str(value))
        return text

    def apply(self, edits: tuple[Edit, ...]) -> None:
        """Apply edits to the files."""
        texts = {edit.file: Path(edit.file).read_text() for edit in edits}
        for file, text in edited(texts, edits).items():
            Path(file).write_text(text)

    def accepted(self) -> str:
        """Return the error of ``nginx -t``; empty where it accepts the configuration."""
        done = subprocess.run(
            [nginx_program() or "nginx", "-t", "-c", self.path], capture_output=True, text=True, check=False
        )
        return "" if done.returncode == 0 else done.stderr

    def diagnosed(self, somaxconn: int = SOMAXCONN, *, server: str = "") -> Diagnosis:
        """Return the diagnosis; ``server``: the Server header of an app that runs meanwhile and gets a request."""
        with app(self.ports["APP"], server=server) if server else nullcontext():
            return diagnose(str(self.path), somaxconn=somaxconn, ask_backends=bool(server))


def laid(folder: Path, fault: Fault | None = None, text: str = GOOD) -> Laid:
    """The good configuration in a folder, broken by a fault."""
    (folder / "temp").mkdir(parents=True)
    system = folder / "sojourn"
    system.mkdir()
    for source in resource_file("nginx").iterdir():
        if source.suffix in {".conf", ".js"}:
            shutil.copyfile(source, system / source.name)
    names = ("PORT", "APP", "INNER", "OUTER", "SPARE")
    produced = Laid(folder, dict(zip(names, free_ports(len(names)), strict=True)))
    for old, new in fault.edits if fault else ():
        assert text.count(old) == 1, (fault, old)
        text = text.replace(old, new)
    for name, more in fault.files if fault else ():
        (system / name).write_text((system / name).read_text() + more)
    produced.path.write_text(produced.filled(text))
    return produced


@contextmanager
def running(conf: Laid) -> Iterator[None]:
    """nginx with this configuration, as long as the block."""
    program = nginx_program()
    assert program is not None
    (conf.folder / "logs").mkdir(exist_ok=True)
    (conf.folder / "access.jsonl").unlink(missing_ok=True)
    command: list[str | os.PathLike[str]] = [program, "-p", f"{conf.folder}/", "-c", conf.path, "-g", "daemon off;"]
    with Process(command, name="nginx", folder=conf.folder / "logs") as process:
        wait_for_port("127.0.0.1", conf.ports["PORT"], DEADLINE_S, process)
        yield


@contextmanager
def app(port: int, delay_s: float = 0.0, server: str = "") -> Iterator[list[dict[str, Any]]]:
    """An app with the middleware's headers; yields the headers of the requests it got, as they come."""
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def version_string(self) -> str:
            return server or super().version_string()

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.end_headers()

        def do_GET(self) -> None:
            got.append({name.lower(): self.headers.get_all(name) for name in self.headers})
            if delay_s:
                stop.wait(delay_s)
            self.send_response(200)
            answer = {
                "X-Queueing-Delay": "0.000100",
                "X-Service-Time": "0.001000",
                "X-Worker": "7",
                "Content-Length": "2",
            }
            for name, value in answer.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            pass

    stop = Event()

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    listening = Server(("127.0.0.1", port), Handler)
    thread = Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield got
    finally:
        stop.set()
        listening.shutdown()
        listening.server_close()
        thread.join(DEADLINE_S)


def got(port: int, path: str = "/", headers: dict[str, str] | None = None) -> dict[str, str]:
    """The headers a client is answered with."""
    connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    try:
        connection.request("GET", path, headers={"Host": "shop.example", **(headers or {})})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        return {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()
