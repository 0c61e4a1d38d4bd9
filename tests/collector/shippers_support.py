"""What the tests of the page on shippers share: its blocks with a test's addresses, a log, and the store's counts."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / folder) for folder in ("docs", "collector/vector") if str(TESTS / folder) not in sys.path]

from clickhouse_http import StandIn  # noqa: E402 - the paths come first
from recipe_support import blocks_of  # noqa: E402
from split_support import BAD_LINES  # noqa: E402
from store_support import record  # noqa: E402

PAGE = "ship-lines.md"
LOG = "/var/log/nginx/sojourn.jsonl"
STORE = "http://store:8123"
ACCOUNT = ("sojourn_writer", "pass-for-the-test-only")
FILLED = ("requests", "dead_letters", "lines_received", "line_runs", "spans")


def lines_of_log(good: int, first: int = 0) -> list[bytes]:
    """Return records with every kind of bad line among them; some end with CRLF, and the last has no newline."""
    records = [json.dumps(record(first + i)).encode() for i in range(good)]
    ended = [line + (b"\r\n" if number % 3 == 1 else b"\n") for number, line in enumerate(records)]
    lines = [*ended[: good // 2], *(raw for raw, _ in BAD_LINES), *ended[good // 2 :]]
    return [*lines[:-1], lines[-1].rstrip(b"\r\n")]


@dataclass
class Store:
    """A stand-in for ClickHouse with Sojourn's tables, and a netrc file with its account."""

    http: StandIn
    folder: Path

    def count(self, table: str, condition: str = "1") -> int:
        """Return the number of rows, each once."""
        return int(self.http.ask(f"SELECT count() AS n FROM {table} FINAL WHERE {condition}")[0]["n"])

    def counts(self) -> tuple[int, int]:
        """Return the numbers of requests and of dead letters."""
        return self.count("requests"), self.count("dead_letters")

    def empty(self) -> None:
        """Remove all rows."""
        user, password = ACCOUNT
        for table in FILLED:
            path = f"/?database=sojourn&user={user}&password={password}"
            status, _, body = self.http.request("POST", path, f"TRUNCATE TABLE {table}".encode())
            assert status == 200, body

    def block(self, name: str, words: dict[str, object] | None = None) -> str:
        """Return a block of the page, named in its first line, with this store's address, account and these words."""
        text = blocks_of(PAGE)[name]
        known = {
            STORE: self.http.url, "/etc/sojourn/netrc": self.folder / "netrc",
            "machine store ": "machine 127.0.0.1 ", "the-password": ACCOUNT[1],
        }  # fmt: skip
        for word, value in {**known, **(words or {})}.items():
            assert word in text or word in known, (name, word)
            text = text.replace(word, str(value))
        return text

    def run(self, name: str, words: dict[str, object]) -> subprocess.CompletedProcess[str]:
        """Run the commands of a block; see ``block``."""
        return run_commands(self.block(name, words))


def run_commands(text: str) -> subprocess.CompletedProcess[str]:
    """Run the text of a block."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", text],
        capture_output=True, text=True, check=False, timeout=60, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip


@contextmanager
def started(folder: Path, store_in: Callable[[Path], StandIn]) -> Iterator[Store]:
    """Start a store with Sojourn's tables, as the fixture ``store_in`` makes it."""
    with store_in(folder) as http:
        store = Store(http, folder)
        netrc = folder / "netrc"
        netrc.write_text(store.block("netrc"))
        netrc.chmod(0o600)
        yield store


@contextmanager
def relayed(port: int, target: int) -> Iterator[None]:
    """Forward connections from one port of 127.0.0.1 to another."""

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near = server.accept()[0]
                far = socket.create_connection(("127.0.0.1", target))
                connections.extend((near, far))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    connections: list[socket.socket] = []
    server = socket.create_server(("127.0.0.1", port))
    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        for each in (server, *connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
