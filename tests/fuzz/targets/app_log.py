"""The app's own late log: every line is taken or refused for a reason, and what is taken has sound figures."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from sojourn.model.errors import SojournError
from sojourn.readers.app_log import REASONS, read_app_log
from sojourn.readers.record import REASONS as OF_ANY_LINE

from fuzz import nasty

PACKAGES: tuple[str, ...] = ("sojourn",)
JOINED = True
_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz")
# Lines of app servers, whose format is recognised.
_OF_SERVERS = (
    b'{"pid": 17, "req": {"id": 1, "headers": {"x-request-id": "5f0c"}}, "responseTime": 250}',
    b'{"controller": "A", "action": "b", "duration": 250.5, "request_id": "5f0c"}',
    b'{"requestId": "5f0c", "elapsed_ms": 12}',
    b"method=GET path=/ controller=A status=200 duration=250.50 view=1.00 request_id=5f0c",
    b"I, [2026-01-01T00:00:00 #17]  INFO -- : [5f0c] Completed 200 OK in 250ms (Views: 1.0ms)",
    b'INFO:     127.0.0.1:1234 - "GET / HTTP/1.1" 200 OK',
    b"[pid: 17|app: 0|req: 1/1] 10.0.0.9 () {30 vars in 400 bytes} [Thu Jan  1 00:00:00 2026] GET / => generated 5",
)
_KEYS = ("request_id", "service_time", "start", "route", "worker")


def check(data: bytes) -> None:
    """Whatever the file holds."""
    path = Path(_FOLDER.name, "app.jsonl")
    path.write_bytes(data)
    if data[:2] == b"\x1f\x8b" or data[:4] in (b"PAR1", b"\x28\xb5\x2f\xfd"):
        return
    try:
        read = read_app_log([path])
    except SojournError:  # of another format
        return
    reported, records = read.rows, read.records
    assert records.read == data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    assert records.accepted == len(reported)
    assert set(records.reasons) <= {*REASONS, *OF_ANY_LINE}
    for row in reported.to_dicts():
        assert 0 <= row["span_seconds"] < 1e9, row
        assert math.isfinite(row["span_service_time"]), row
        assert row["span_start"] is None or row["span_start"] <= row["span_end"], row
        assert row["request_id"], row


def generated(rng: Random) -> bytes:
    """Some lines."""
    if rng.random() < 0.3:
        line = bytearray(rng.choice(_OF_SERVERS))
        for _ in range(rng.randrange(4)):
            line[rng.randrange(len(line))] = rng.randrange(256)
        return b"\n".join([bytes(line)] * rng.randrange(1, 3))
    return b"\n".join(_line(rng) for _ in range(rng.randrange(1, 4)))


def _line(rng: Random) -> bytes:
    record: dict[str, Any] = {
        "request_id": "5f0c",
        "service_time": 1.25,
        "start": 1767225600.123,
        "route": "/a",
        "worker": "1",
    }
    for _ in range(rng.randrange(3)):
        key = rng.choice(_KEYS)
        record[key] = rng.choice((nasty.number(rng), nasty.value(rng), nasty.text(rng)))
    if rng.random() < 0.2:
        record.pop(rng.choice(_KEYS))
    return nasty.dumped(record, rng).replace(b"\n", b" ")
