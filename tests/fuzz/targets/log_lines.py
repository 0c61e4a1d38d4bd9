"""Lines of a log: every one is a record or refused for one of the reasons, and the reader, the store's loader and
Vector's program agree about which, and about the figures.
"""

from __future__ import annotations

import io
import json
from decimal import Decimal
from random import Random
from typing import Any

from sojourn.model.frame import COLUMNS
from sojourn.readers.blocks import BlockParser
from sojourn.readers.inputs import LogInput
from sojourn.readers.lines import blocks_of_lines
from sojourn.readers.record import KEYS, LIST_KEYS, REASONS, records_query
from sojourn.store.log_rows import MACROS, request_rows, rows_query

from fuzz import nasty, peers

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
_READER = BlockParser(records_query(COLUMNS, "block"), threads=1)
_LOADER = BlockParser(rows_query(), MACROS, threads=1)
# Column of the store -> of the frame, µs there; the frame has the last attempt and the sum of those before it.
_SAME = ("request_time", "app_queueing_delay", "app_service_time")
_LAST = {"attempt_connect": "connect", "attempt_header": "header", "attempt_response": "response"}


def check(data: bytes) -> None:
    """Nothing is lost, nothing is read in two ways."""
    rows, refused = read(data)
    stored, refused_there = loaded(data)
    assert refused == refused_there, (refused, refused_there)
    assert rows.keys() == stored.keys()
    for number, row in rows.items():
        _agree(row, stored[number])


def compare(batch: list[bytes]) -> None:
    """Vector's program. It is given lines, each by itself and of valid UTF-8, as Vector hands them over.

    Not compared is what nginx never writes: values that are no strings (the text of a JSON number is another there, and
    one beyond a float is no JSON), a key twice (the first value counts here, the last one there), and integers beyond
    2^53 with an exponent, which pass through a float there.
    """
    lines = [
        line
        for data in batch
        for line in data.decode("utf-8", "replace").split("\n")
        if "\r" not in line and _of_strings(line)
    ]
    reported = peers.rows_by_vrl(lines)
    if reported is None:
        return
    rows, refused = loaded("".join(f"{line}\n" for line in lines).encode())
    wrong: list[tuple[Any, ...]] = []
    for number, (line, produced) in enumerate(zip(lines, reported, strict=True), 1):
        expected = refused.get(number) or figures_of_row(rows[number])
        result = produced if isinstance(produced, str) else figures_of_vrl(produced)
        if isinstance(result, str) or isinstance(expected, str):
            wrong += [(line, result, expected)] if result != expected else []
        else:
            differ = [
                name for name in result if result[name] != expected[name] and abs(_integer(expected[name])) < 2**53
            ]
            wrong += [(line, name, result[name], expected[name]) for name in differ]
    assert not wrong, wrong[:8]


def _of_strings(line: str) -> bool:
    try:
        pairs = json.loads(line, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return True
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        return False
    return all(isinstance(value, str) for _, value in pairs) and len(dict(pairs)) == len(pairs)


def _integer(value: Any) -> int:
    return value if isinstance(value, int) else 0


def read(data: bytes) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    """What the reader takes, and refuses, by the number of the line."""
    return _parsed(data, _READER, store=False)


def loaded(data: bytes) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    """What the loader of the store takes, and refuses."""
    return _parsed(data, _LOADER, store=True)


def _parsed(data: bytes, parser: BlockParser, *, store: bool) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    rows: dict[int, dict[str, Any]] = {}
    refused: dict[int, str] = {}
    count = 0
    for block in blocks_of_lines(LogInput("", io.BytesIO(data), None, None, None)):
        parsed = parser.parsed("", block)
        count += parsed.lines
        for reject in parsed.rejects:
            assert reject.reason in REASONS, reject.reason
            assert reject.line not in refused
            refused[reject.line] = reject.reason
        if parsed.accepted is not None:
            numbers = parsed.accepted["number"].to_pylist()
            table = request_rows(parsed.accepted, "x") if store else parsed.accepted
            rows.update(zip(numbers, table.to_pylist(), strict=True))
    assert count == data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    assert sorted([*rows, *refused]) == list(range(1, count + 1))
    return rows, refused


def _agree(row: dict[str, Any], stored: dict[str, Any]) -> None:
    for name in _SAME:
        assert row[name] == _micros(stored[name]), (name, row[name], stored[name])
    for name in ("time", "request_start", "proxy_start", "status", "app_garbled", "bytes_sent", "connection"):
        assert row[name] == stored[name], (name, row[name], stored[name])
    for name in ("route", "service", "worker", "proxy", "request_id"):
        assert (row[name] or "") == stored[name], (name, row[name], stored[name])
    if row["attempts"] == len(stored["attempt_addr"]):
        for there, current in _LAST.items():
            last = stored[there][-1] if stored[there] else None
            assert row[current] == _micros(last) or not row["attempts"], (current, row[current], stored[there])


def _micros(value: Decimal | None) -> int | None:
    return None if value is None else int(value * 10**6)


def figures_of_row(row: dict[str, Any]) -> dict[str, Any]:
    """What can be compared of a row of the loader's."""
    instants = {name: _unix_us(row[name]) for name in ("time", "request_start", "proxy_start")}
    lists = {name: [_micros(each) for each in row[name]] for name in _LAST}
    plain = ("status", "app_garbled", "attempt_addr", "attempt_status", "route", "connection", "bytes_sent", "worker")
    return {**instants, **lists, **{n: _micros(row[n]) for n in _SAME}, **{n: row[n] for n in plain}}


def figures_of_vrl(produced: dict[str, Any]) -> dict[str, Any]:
    """The same of what Vector's program made."""
    figures = {name: _rounded(produced[name]) for name in ("time", "request_start", "proxy_start", *_SAME)}
    lists = {name: [_rounded(each) for each in produced[name]] for name in _LAST}
    plain = ("status", "app_garbled", "attempt_addr", "attempt_status", "route", "connection", "bytes_sent", "worker")
    return {**figures, **lists, **{name: produced[name] for name in plain}}


def _rounded(seconds: float | None) -> int | None:
    return None if seconds is None else round(Decimal(str(seconds)) * 10**6)


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
