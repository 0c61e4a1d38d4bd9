"""Lines of a log: each is a record or refused for one of the reasons, and file reader and store agree about which, and
about the figures.
"""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

from sojourn.model.frame import COLUMNS
from sojourn.readers.blocks import BlockParser, Plan
from sojourn.readers.inputs import LogInput
from sojourn.readers.lines import blocks_of_lines
from sojourn.readers.record import KEYS, LIST_KEYS, REASONS, records_query

from fuzz import nasty
from fuzz.store_peer import rows_by_store

PACKAGES: tuple[str, ...] = ()
JOINED = True
SOUND = {
    "time": "1767225600.123", "request_id": "5f0c", "service": "shop", "route": "orders#show", "method": "GET",
    "uri": "/orders/1234?q=1", "status": "200", "bytes_sent": "5120", "request_length": "431", "request_time": "0.250",
    "request_start": "1767225599.900", "connection": "77", "connection_requests": "3", "upstream_addr": "10.0.0.1:8080",
    "upstream_status": "200", "upstream_connect_time": "0.001", "upstream_header_time": "0.200",
    "upstream_response_time": "0.210", "queueing_delay": "0.100000", "service_time": "0.090000", "worker": "17",
    "proxy": "edge-1", "stamp": "own", "proxy_start": "1767225599.900",
}  # fmt: skip
_READER = BlockParser(Plan(records_query(COLUMNS, "block"), threads=1))
_SECONDS = (
    "request_time", "app_queueing_delay", "app_service_time", "retries", "redirects", "redirected", "connect", "header",
    "response",
)  # fmt: skip
_INSTANTS = ("time", "request_start", "proxy_start")
_NUMBERS = ("status", "bytes_sent", "request_length", "connection", "connection_requests", "app_garbled", "attempts")
_TEXTS = (
    "route", "service", "worker", "proxy", "stamp", "request_id", "span_id", "method", "uri", "protocol", "host",
    "remote_addr", "upstream", "dropped",
)  # fmt: skip


def check(data: bytes) -> None:
    """No line is lost: each is a record or refused."""
    read(data)


def compare(batch: list[bytes]) -> None:
    """The store makes of every line what the file reader makes of it.

    Not compared is what nginx never writes: values that are not strings (the text of a JSON number differs: 1e+300 is
    1e300 there). All lines are sent to the store, and none may be lost.
    """
    lines = [line for data in batch for line in data.split(b"\n") if len(line) < 1 << 20]
    rows, refused = read(b"".join(line + b"\n" for line in lines))
    wrong: list[tuple[Any, ...]] = []
    for number, (line, stored) in enumerate(zip(lines, rows_by_store(lines), strict=True), 1):
        expected = refused.get(number) or _figures(rows[number])
        result = stored if isinstance(stored, str) else {name: stored[name] for name in _figures_of(stored)}
        if isinstance(result, str) or isinstance(expected, str):
            wrong += [(line, result, expected)] if result != expected else []
        else:
            wrong += [(line, name, result[name], expected[name]) for name in result if result[name] != expected[name]]
    wrong = [each for each in wrong if _of_strings(each[0])]
    assert not wrong, wrong[:8]


def _of_strings(line: bytes) -> bool:
    try:
        values = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return True
    return not isinstance(values, dict) or all(isinstance(value, str) for value in values.values())


def _figures_of(row: dict[str, Any]) -> tuple[str, ...]:
    """Return what is compared: not the times of attempts where there was none, or more than 16 bits count."""
    times = _SECONDS if 0 < row["attempts"] < 32767 else _SECONDS[:3]
    return (*_INSTANTS, *times, *_NUMBERS, *_TEXTS)


def _figures(row: dict[str, Any]) -> dict[str, Any]:
    """Return a record of the reader as the store has it."""
    texts = {name: row[name] or "" for name in _TEXTS}
    return {**row, **texts, **{name: _unix_us(row[name]) for name in _INSTANTS}}


def read(data: bytes) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    """Return what the reader accepts, and refuses, by the number of the line."""
    rows: dict[int, dict[str, Any]] = {}
    refused: dict[int, str] = {}
    count = 0
    for block in blocks_of_lines(LogInput("", io.BytesIO(data), None, None, None)):
        parsed = _READER.parsed("", block)
        count += parsed.lines
        for reject in parsed.rejects:
            assert reject.reason in REASONS, reject.reason
            assert reject.line not in refused
            refused[reject.line] = reject.reason
        if parsed.accepted is not None:
            rows.update(zip(parsed.accepted["number"].to_list(), parsed.accepted.to_dicts(), strict=True))
    assert count == data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    assert sorted([*rows, *refused]) == list(range(1, count + 1))
    return rows, refused


def _unix_us(instant: Any) -> int | None:
    return None if instant is None else round(instant.timestamp() * 10**6)


def generated(rng: Random) -> bytes:
    """A few lines: sound ones with some values replaced, and what is no record at all."""
    return b"\n".join(line(rng) for _ in range(rng.randrange(1, 4))) + rng.choice((b"", b"\n"))


def line(rng: Random) -> bytes:
    """One line."""
    kind = rng.random()
    if kind < 0.05:
        return nasty.dumped(nasty.value(rng), rng)
    record: dict[str, Any] = dict(SOUND)
    for _ in range(rng.choice((0, 1, 1, 2, 3, 8))):
        key = rng.choice(KEYS)
        record[key] = a_value(key, rng)
        if rng.random() < 0.1:
            del record[key]
    if kind < 0.15:
        record = {rng.choice((*KEYS, nasty.text(rng))): nasty.value(rng) for _ in range(rng.randrange(6))} | {
            key: SOUND[key] for key in ("time", "status", "request_time") if rng.random() < 0.8
        }
    return nasty.dumped(record, rng).replace(b"\n", b" ")


def a_value(key: str, rng: Random) -> Any:
    """What may stand under a key."""
    if key in LIST_KEYS:
        if rng.random() < 0.6:
            return _list(key, rng)
        return nasty.number(rng)
    if rng.random() < 0.1:
        return nasty.value(rng)
    if key in ("time", "request_start", "proxy_start"):
        return rng.choice((*nasty.INSTANTS, nasty.number(rng)))
    return nasty.text(rng) if key in ("route", "uri", "worker", "request_id") else nasty.number(rng)


def _list(key: str, rng: Random) -> str:
    separator = rng.choice((", ", " : ", ",", ":", " ,", " , : "))
    parts = [rng.choice(("10.0.0.1:80", "[::1]:80", "unix:/s", "-", "")) if key == "upstream_addr" else
             rng.choice(("-", "0.1", "0.001", "", nasty.number(rng))) for _ in range(rng.randrange(1, 5))]  # fmt: skip
    return separator.join(parts)
