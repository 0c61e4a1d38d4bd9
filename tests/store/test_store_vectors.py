"""A store makes of every line of the common table the very row that the table has, or refuses it for its reason."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sojourn.readers.record import KEYS

sys.path.insert(0, str(Path(__file__).parents[1]))
from fuzz import store_peer
from fuzz.store_peer import COLUMNS, rows_by_store

TABLE = json.loads((Path(__file__).parents[1] / "vectors/log_lines.json").read_text("utf-8"))
CASES: list[dict[str, Any]] = TABLE["cases"]
SECONDS = (
    "time", "request_time", "request_start", "proxy_start", "app_queueing_delay", "app_service_time", "attempt_connect",
    "attempt_header", "attempt_response",
)  # fmt: skip
SOUND = {"time": "1767225600.000", "request_time": "0.1", "status": "200", "request_id": "sound"}


def line_of(case: dict[str, Any]) -> bytes:
    return base64.b64decode(case["line_base64"]) if "line_base64" in case else case["line"].encode()


def micros(value: Any) -> Any:
    """What the table writes in seconds, as whole microseconds."""
    if isinstance(value, list):
        return [micros(each) for each in value]
    return None if value is None else round(Decimal(str(value)) * 1_000_000)


@pytest.fixture(scope="module", autouse=True)
def store(make_lasting_store: Callable[[], str]) -> None:
    """The store of the process that the lines are sent to."""
    store_peer.use(make_lasting_store())


@pytest.fixture(scope="module")
def made(store: None) -> list[dict[str, Any] | str]:
    return rows_by_store([line_of(case) for case in CASES], redact=True)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case["name"] for case in CASES])
def test_a_line(made: list[dict[str, Any] | str], number: int) -> None:
    case, result = CASES[number], made[number]
    if case.get("reason") is not None:
        assert result == case["reason"]
        return
    assert isinstance(result, dict), result
    expected = {**TABLE["row_empty"], **case["row"]}
    if expected["trace_id"] == expected["request_id"] and expected["span_id"]:
        expected["trace_id"] = ""
    assert expected.keys() == set(COLUMNS)
    assert {name: result[name] for name in COLUMNS} == {
        name: micros(value) if name in SECONDS else value for name, value in expected.items()
    }


numbers = st.one_of(
    st.sampled_from(
        ["99999", "-1", "1e18", "1e19", "1e300", "-1e300", "nan", "inf", "-inf", "0x10", "1e", " 1", "\uff11", "9" * 40]
    ),
    st.floats().map(str),
    st.integers(-(10**20), 10**20).map(str),
    st.lists(st.sampled_from(["0.1", "-", "", "1e30", "-1", "x"]), max_size=4).map(", ".join),
    st.text(max_size=5),
    st.none(),
    st.booleans(),
    st.integers(),
    st.lists(st.integers(), max_size=2),
)


# Few inserts of many lines.
@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), numbers, max_size=12), min_size=30, max_size=60))
def test_no_line_whatever_it_holds_stops_a_load(records: list[dict[str, object]]) -> None:
    """Every line is a row or a dead letter; the sound one among them is there."""
    lines = [json.dumps(each).encode() for each in [*records, *({**SOUND, **each} for each in records), SOUND]]
    last = rows_by_store(lines)[-1]
    assert isinstance(last, dict)
    assert last["request_id"] == "sound"


HOSTILE = {
    "bytes that are not UTF-8": b"\xff\xfe{\x80",
    "NUL": b"\x00" * 100,
    "NUL in a sound line": json.dumps(SOUND).encode().replace(b"sound", b"\x00"),
    "nesting without end": b"[" * 200_000,
    "nested objects": b'{"a":' * 10_000,
    "1 MiB less a byte": b'{"time":"' + b"1" * ((1 << 20) - 12) + b'"}',
    "1 MiB": b"x" * (1 << 20),
    "16 MiB": b'{"uri":"' + b"y" * (16 << 20) + b'"}',
    "16 MiB of NUL": b"\x00" * (16 << 20),
    "a million question marks": b"?" * 1_000_000,
    "half an escape": b'{"time":"\\u12',
    "a lone surrogate": b'{"time":"\\ud800"}',
    "a list of 100,000 attempts": json.dumps({**SOUND, "upstream_addr": ", ".join(["a:1"] * 100_000)}).encode(),
    "a number without end": json.dumps({**SOUND, "time": "9" * 500_000}).encode(),
    "a date beyond all": json.dumps({**SOUND, "time": "9999999999.999999", "request_time": "0"}).encode(),
    "an SQL text": b"'); DROP TABLE requests; --",
    "CRLF": json.dumps({**SOUND, "request_id": "crlf"}).encode() + b"\r",
    "nothing": b"",
}  # fmt: skip


def test_a_batch_of_hostile_lines_loses_nothing() -> None:
    """Each of them between two good lines, all in one insert."""
    lines = [json.dumps({**SOUND, "request_id": "first"}).encode()]
    for number, hostile in enumerate(HOSTILE.values()):
        lines += [hostile, json.dumps({**SOUND, "request_id": f"good {number}"}).encode()]
    parsed = rows_by_store(lines, redact=True)
    assert [row["request_id"] for row in parsed[::2] if isinstance(row, dict)] == [
        "first", *(f"good {number}" for number in range(len(HOSTILE)))
    ]  # fmt: skip
    reasons = dict(zip(HOSTILE, parsed[1::2], strict=True))
    assert reasons["16 MiB"] == reasons["1 MiB"] == reasons["16 MiB of NUL"] == "line_too_long"
    assert isinstance(reasons["CRLF"], dict)
    assert reasons["nothing"] == "empty_line"
    assert reasons["1 MiB less a byte"] == "missing_request_time" or reasons["1 MiB less a byte"] == "invalid_time"
