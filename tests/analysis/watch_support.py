"""Records with a chosen end, and a watcher of a file that has been read to its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sojourn.sources.live.follow import FileFollower
from sojourn.sources.live.tail import from_the_beginning
from sojourn.watch.watcher import Watcher

EPOCH = 1_767_225_600.0


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(EPOCH + seconds, UTC)


def record(end: float, queue: float = 0.0, service: float = 0.01, **fields: str) -> bytes:
    """A request that ended at ``end`` (unix s) after ``queue`` and ``service`` seconds."""
    response = queue + service + 0.001
    start = end - response
    app = {"queueing_delay": f"{queue:.6f}", "service_time": f"{service:.6f}", "worker": "1"}
    values = {
        "time": f"{end:.3f}", "request_time": f"{response:.3f}", "request_start": f"{start:.3f}", "status": "200",
        "route": "/", "uri": "/", "service": "shop", "proxy": "edge", "upstream_addr": "10.0.0.1:80",
        "upstream_connect_time": "0.000", "upstream_header_time": f"{response:.3f}",
        "upstream_response_time": f"{response:.3f}", **app, **fields,
    }  # fmt: skip
    return json.dumps(values).encode() + b"\n"


def given_up(end: float, response: float, status: str = "504", **fields: str) -> bytes:
    """A request without an answer."""
    none = {"upstream_header_time": "-", "queueing_delay": "", "service_time": "", "worker": "", "status": status}
    return record(end, response - 0.001, 0.0, **{**none, **fields})


@contextmanager
def watching(path: Path, **options: bool) -> Iterator[Watcher]:
    """Yield a watcher that has read a file from its beginning to its end."""
    watcher = Watcher([FileFollower(str(path), from_the_beginning)], **options)
    watcher.catch_up(datetime.now(UTC))
    try:
        yield watcher
    finally:
        watcher.close()


def until(condition: Callable[[], object], seconds: float = 40.0) -> None:
    """Wait for something to hold.

    Raises:
        AssertionError: it did not in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)
