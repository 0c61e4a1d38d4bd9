"""Times as differences and ids as numbers: what is read back is what was logged, and a record is one row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sojourn.store import connect
from store_support import ask

Row = dict[str, Any]
TIME = datetime(2026, 1, 1, 0, 0, 10, 250_001, UTC)
HEXADECIMAL = "0123456789abcdef00ff00ff00ff00ff"
ROW: Row = {
    "time": TIME, "request_time": Decimal("0.500000"), "request_start": TIME - timedelta(seconds=0.498_001),
    "proxy_start": TIME - timedelta(seconds=0.499), "proxy_queue": Decimal("0.001000"), "status": 200, "service": "s",
    "route": "/r", "proxy": "edge", "worker": "7", "stamp": "own", "upstream_cache_status": "", "limit_req_status": "",
    "method": "GET", "protocol": "HTTP/1.1", "host": "h", "uri": "/r/1", "remote_addr": "10.0.0.0",
    "request_id": HEXADECIMAL, "trace_id": "", "span_id": "50f0a4e250f0a4e2", "bytes_sent": 10, "request_length": None,
    "connection": 3, "connection_requests": 1, "attempt_addr": ["a:1", "b:1"], "attempt_status": [502, 200],
    "attempt_connect": [None, Decimal("0.000100")], "attempt_header": [None, Decimal("0.400000")],
    "attempt_response": [Decimal("0.050000"), Decimal("0.410000")], "app_queueing_delay": Decimal("-0.298500"),
    "app_service_time": Decimal("0.200000"), "app_garbled": False, "vantage": "", "time_step": 0.001, "source": "x",
}  # fmt: skip
NO_ATTEMPT = {f"attempt_{name}": [] for name in ("addr", "status", "connect", "header", "response")}
ONE = {"attempt_addr": ["a:1"], "attempt_status": [0], "attempt_connect": [None]}
# Each of these is another record than ROW, and than the others.
CHANGES: dict[str, Row] = {
    "another id": {"request_id": HEXADECIMAL[::-1]},
    "first half of the id": {"request_id": "f" + HEXADECIMAL[1:]},
    "second half of the id": {"request_id": HEXADECIMAL[:-1] + "0"},
    "zeros": {"request_id": "0" * 32},
    "upper case": {"request_id": HEXADECIMAL.upper()},
    "short id": {"request_id": HEXADECIMAL[:31]},
    "long id": {"request_id": HEXADECIMAL + "0"},
    "uuid": {"request_id": "01234567-89ab-cdef-00ff-00ff00ff00ff"},
    "text": {"request_id": "Zürich \x00"},
    "no id": {"request_id": ""},
    "no id, no connection": {"request_id": "", "connection": None},
    "no id, no connection, another path": {"request_id": "", "connection": None, "uri": "/r/2"},
    "status": {"status": 499},
    "proxy": {"proxy": "edge-2"},
    "request time": {"request_time": Decimal("0.500001")},
    "time": {"time": TIME + timedelta(microseconds=1)},
    "connection": {"connection": 4},
    "no connection": {"connection": None},
    "connection -1": {"connection": -1},
    "connection like the status": {"connection": -200},
    "requests of the connection": {"connection_requests": 2},
    "requests of the connection unknown": {"connection_requests": None},
    "no attempt": NO_ATTEMPT,
    "one attempt without an end": {**ONE, "attempt_header": [None], "attempt_response": [None]},
}
# These are ROW with other values: only one of them is stored with it.
VALUES: dict[str, Row] = {
    "no stamp": {"request_start": None},
    "no start at the proxy": {"proxy_start": None},
    "neither": {"request_start": None, "proxy_start": None},
    "a stamp of another day": {"request_start": TIME - timedelta(days=400)},
    "header without an end": {**ONE, "attempt_header": [Decimal("0.3")], "attempt_response": [None]},
    "end without a header": {**ONE, "attempt_header": [None], "attempt_response": [Decimal("0.4")]},
    "longer than the request": {**ONE, "attempt_header": [Decimal("7")], "attempt_response": [Decimal("9")]},
    "no report": {"app_queueing_delay": None, "app_service_time": None},
    "delay alone": {"app_service_time": None},
    "service time alone": {"app_queueing_delay": None},
    "31 years": {"request_time": Decimal("999999999.999999"), "app_queueing_delay": Decimal("-999999999.999999")},
}


def insert(dsn: str, *rows: Row) -> None:
    with connect(dsn) as store:
        store.client.insert("incoming_rows", [list(row.values()) for row in rows], column_names=list(ROW))


def stored(dsn: str) -> list[Row]:
    return [dict(zip(ROW, row, strict=True)) for row in ask(dsn, f"SELECT {', '.join(ROW)} FROM requests FINAL")]


def plain(row: Row) -> Row:
    """Instants without their zone."""
    return {name: value.replace(tzinfo=None) if isinstance(value, datetime) else value for name, value in row.items()}


def test_different_records_are_all_there_and_equal_ones_once(store_dsn: str) -> None:
    rows = [ROW, *({**ROW, **change} for change in CHANGES.values())]
    for _ in range(2):
        insert(store_dsn, *rows)
    result = stored(store_dsn)
    assert len(result) == len(rows)
    for row, name in zip(rows, ["as it is", *CHANGES], strict=True):
        assert plain(row) in [plain(each) for each in result], name


@pytest.mark.parametrize("name", VALUES)
def test_values_are_read_as_they_were_logged(store_dsn: str, name: str) -> None:
    row = {**ROW, **VALUES[name]}
    insert(store_dsn, row)
    assert list(map(plain, stored(store_dsn))) == [plain(row)]


@pytest.mark.parametrize("request_id", [HEXADECIMAL, HEXADECIMAL.upper(), "text", "0" * 32])
def test_a_request_is_looked_up_by_an_index(store_dsn: str, request_id: str) -> None:
    """Of 20 granules one or two are read; an expression with a literal would lose the index without an error."""
    insert(store_dsn, {**ROW, "request_id": request_id})
    instant = "toDateTime64('2026-01-01', 6, 'UTC') + number / 1e3"
    filler = f"SELECT {instant}, 's', lower(hex(sipHash128(number))), 200 FROM numbers(160000)"
    with connect(store_dsn) as store:
        store.client.command(f"INSERT INTO incoming_rows (time, service, request_id, status) {filler}")
        store.client.command("OPTIMIZE TABLE requests FINAL")
    for table in ("requests", "requests_split"):
        query = f"SELECT route FROM {table} WHERE request_id = '{request_id}'"
        assert ask(store_dsn, query) == [("/r",)]
        plan = "\n".join(line for (line,) in ask(store_dsn, f"EXPLAIN indexes = 1 {query}"))
        after = plan.split("by_request_id")[1]
        granules = [int(part.split("/")[0]) for part in after.split("Granules: ")[1:2]]
        assert granules[0] <= 3, plan
