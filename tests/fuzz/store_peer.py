"""Lines as a store parses them."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sojourn.store import connect, init
from sojourn.store.client import rows

COLUMNS = (
    "time", "request_time", "request_start", "proxy_start", "status", "service", "route", "proxy", "worker", "stamp",
    "method", "protocol", "host", "uri", "remote_addr", "request_id", "trace_id", "span_id", "bytes_sent",
    "request_length", "connection", "connection_requests", "attempt_addr", "attempt_status", "attempt_connect",
    "attempt_header", "attempt_response", "redirects_after", "app_queueing_delay", "app_service_time", "app_garbled",
    "dropped",
)  # fmt: skip
OF_ATTEMPTS = ("upstream", "attempts", "retries", "redirects", "redirected", "connect", "header", "response")
SETTINGS = {"max_partitions_per_insert_block": 0, "optimize_on_insert": 0}


@functools.cache
def _own_store() -> str:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    init(f"chdb://{folder}")
    return f"chdb://{folder}"


class _Peer:
    """The store that is queried: an own one, unless tests give another; a process can open only one."""

    dsn = ""


def use(dsn: str) -> None:
    """Ask this store, which has the schema and loses its rows."""
    _Peer.dsn = dsn


def rows_by_store(lines: Sequence[bytes], *, redact: bool = False) -> list[dict[str, Any] | str]:
    """Return for each line its row, with instants and seconds in whole microseconds, or the reason of its refusal.

    The lines arrive in one insert: none may make it fail, and none may be lost.
    """
    table = pa.table(
        {
            "line": pa.array(lines, pa.binary()),
            "file": [str(number) for number in range(len(lines))],
            "redact": [redact] * len(lines),
        }
    )
    names = (*COLUMNS, *OF_ATTEMPTS)
    with connect(_Peer.dsn or _own_store()) as store:
        store.client.command("TRUNCATE TABLE requests")
        store.client.command("TRUNCATE TABLE dead_letters")
        store.client.insert_arrow("incoming", table, settings=SETTINGS)
        stored = rows(store, f"SELECT source, {', '.join(names)} FROM requests")
        refused = rows(store, "SELECT source, reason FROM dead_letters FINAL WHERE kind = 'requests'")
    made: dict[int, dict[str, Any] | str] = {}
    for source, *values in stored:
        row = dict(zip(names, map(_plain, values), strict=True))
        seconds = {name: _micros(row[name]) for name in OF_ATTEMPTS[2:]}
        assert int(source) not in made, lines[int(source)]
        made[int(source)] = row | seconds
    for source, reason in refused:
        assert int(source) not in made, lines[int(source)]
        made[int(source)] = reason
    assert sorted(made) == list(range(len(lines))), "a line was lost"
    return [made[number] for number in range(len(lines))]


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e6)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return round(value.timestamp() * 1e6)
    if isinstance(value, Decimal):
        return int(value * 1_000_000)
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
