"""The command ``sojourn serve`` as a process, for tests with a real socket."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
from sojourn.serve.guard import HEADER

STARTED = 60.0  # s


@dataclass(frozen=True)
class Served:
    """A running page.

    Attributes:
        address: first line of standard output.
        process: the command.
    """

    address: str
    process: subprocess.Popen[str]

    @property
    def token(self) -> str:
        """The token of the address."""
        return parse_qs(urlsplit(self.address).query)["token"][0]

    def get(self, name: str, **query: object) -> httpx.Response:
        """Return an answer for data."""
        base = "{0.scheme}://{0.netloc}".format(urlsplit(self.address))
        return httpx.get(f"{base}/api/{name}", params=query, headers={HEADER: self.token}, timeout=30)  # type: ignore[arg-type]


@contextmanager
def served(*arguments: str, folder: Path | None = None) -> Iterator[Served]:
    """Run ``sojourn serve`` in a folder until the end of the block."""
    command = [sys.executable, "-m", "sojourn", "serve", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline().strip()  # ends with the process
        assert line.startswith("http://127.0.0.1:"), line or process.stderr.read()
        yield Served(line, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()


def until(check: object, seconds: float = STARTED) -> None:
    """Wait until ``check()`` is true."""
    deadline = time.monotonic() + seconds
    while not check():  # type: ignore[operator]
        assert time.monotonic() < deadline, "still not true"
        time.sleep(0.05)
