"""What the tests of the how-to recipes share: the code of a page, and the server that the page starts."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from wsgiref.simple_server import WSGIRequestHandler, make_server

from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.ports import wait_for_port
from sojourn_lab.runtime.process import Process
from sojourn_middleware import WSGIMiddleware

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"
FENCED = re.compile(r"^```\w+\n((?:<\?php )?(?:#|//) ?([^\n]+)\n.*?)^```$", re.M | re.S)
OURS = ("x-queueing-delay", "x-service-time", "x-worker", "x-route")
DEADLINE_S = 60.0
BUILD_DEADLINE_S = 150.0  # Go compiles its own library first where it never did


def page_text(page: str) -> str:
    """A how-to page as it is written."""
    return (HOW_TO / page).read_text()


def blocks_of(page: str) -> dict[str, str]:
    """The fenced blocks of a page by the name in their first line, a comment: a file, or what the commands are for.

    A block is whole, as a reader copies it.
    """
    blocks = FENCED.findall(page_text(page))
    names = [name for _, name in blocks]
    assert len(names) == len(set(names)), f"{page} has two blocks of one name"
    return {name: text for text, name in blocks}


def command_environment() -> dict[str, str]:
    """The environment of a reader who has activated the virtual environment and sets nothing else."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "SOJOURN_", "DJANGO_"))}
    return {
        **clean,
        "PATH": f"{Path(sys.executable).parent}:{clean['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GOTOOLCHAIN": "local",  # it is not to fetch another one of itself
        "GUNICORN_CMD_ARGS": "--no-control-socket",  # it would lie in the home folder
    }


@contextmanager
def page_server(folder: Path, command: str, port: int) -> Iterator[Process]:
    """The start command of a page, its port 8000 exchanged for a free one; ended when the block is left."""
    assert "8000" in command or any("8000" in file.read_text() for file in folder.iterdir() if file.is_file())
    for file in folder.rglob("*"):
        if file.suffix in {".go", ".java", ".js", ".ru"}:
            file.write_text(file.read_text().replace("8000", str(port)))
    lines = ["sh", "-c", command.strip().replace("8000", str(port))]
    with Process(lines, name="server", folder=folder, env=command_environment(), cwd=folder) as process:
        wait_for_port("127.0.0.1", port, BUILD_DEADLINE_S, process)
        yield process


@dataclass
class Answer:
    """What a client got; names of headers in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def fetch(port: int, path: str, headers: dict[str, str] | None = None, deadline_s: float = DEADLINE_S) -> Answer:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=deadline_s)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        pairs = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, pairs, response.read())
    finally:
        connection.close()


def fetch_together(port: int, path: str, count: int) -> list[Answer]:
    """The answers to `count` requests that are sent at the same time."""
    answers: list[Answer] = []
    gate = threading.Barrier(count)

    def one() -> None:
        gate.wait(60)
        answers.append(fetch(port, path))

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == count
    return answers


def log_lines(log: Path, prefix: str, count: int) -> list[str]:
    """The lines of the log whose URI begins with `prefix`, once there are `count` (nginx answers before it logs)."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        text = log.read_text(errors="replace")
        # The last line may be in the middle of being written.
        whole = text[: text.rfind("\n") + 1].splitlines()
        lines = [line for line in whole if f'"uri":"{prefix}' in line]
        if len(lines) >= count:
            return lines
        assert time.monotonic() < deadline, f"{len(lines)} of {count} records for {prefix}"
        time.sleep(0.01)


def shell(command: str) -> str:
    """What the command of a page prints; it must end well."""
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False, env=command_environment()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_check(page: str, address: str, log: Path, prefix: str, count: int) -> list[str]:
    """Run the page's block `check`, its requests and then its look into the log; returns the lines it prints.

    Args:
        page: the page's file name.
        address: of the server, in the place of http://localhost.
        log: in the place of /var/log/nginx/sojourn.jsonl.
        prefix: how the URIs of the records begin, of which the log must hold `count` before it is read.
        count: number of records.
    """
    _, requests, reading = blocks_of(page)["check"].replace("http://localhost", address).splitlines()
    shell(requests)
    log_lines(log, prefix, count)
    return shell(reading.replace("/var/log/nginx/sojourn.jsonl", str(log))).splitlines()


def why_no_nginx() -> str | None:
    """Why there is no nginx for the recipes here; None when there is."""
    return Nginx.why_unavailable()


class App:
    """One worker with the WSGI middleware around a service of `service_s`; remembers the headers it was sent."""

    def __init__(self, service_s: float = 0.0) -> None:
        self.service_s = service_s
        self.requests: list[dict[str, str]] = []

    @property
    def stamps(self) -> list[str | None]:
        return [headers.get("x-request-start") for headers in self.requests]

    def __call__(self, environ: dict[str, str], start_response: Callable[..., Any]) -> list[bytes]:
        names = {key: key.removeprefix("HTTP_").replace("_", "-").lower() for key in environ if key.startswith("HTTP_")}
        self.requests.append({name: environ[key] for key, name in names.items()})
        environ["sojourn.route"] = "/of/{app}"
        time.sleep(self.service_s)
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
        return [b"ok\n"]

    def measured(self) -> Callable[..., Any]:
        """The app in its middleware."""
        return WSGIMiddleware(self)

    def __enter__(self) -> Self:
        self._server = make_server("127.0.0.1", 0, self.measured(), handler_class=_Quiet)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass
