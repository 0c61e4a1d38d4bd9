"""The loader makes of every line of the common table the very row that table says, as Vector's programs do."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sojourn.readers.blocks import parsed_blocks
from sojourn.readers.inputs import opened_inputs
from sojourn.readers.record import KEYS
from sojourn.store.log_rows import MACROS, request_rows, rows_query

TABLE = json.loads((Path(__file__).parents[1] / "vectors/log_lines.json").read_text("utf-8"))
CASES: list[dict[str, Any]] = TABLE["cases"]


def line_of(case: dict[str, Any]) -> bytes:
    return base64.b64decode(case["line_base64"]) if "line_base64" in case else case["line"].encode()


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return round(value.timestamp() * 1e6)
    if isinstance(value, Decimal):
        return round(value * 1_000_000)
    return [plain(v) for v in value] if isinstance(value, list) else value


def micros(column: str, value: Any) -> Any:
    """What the table writes in seconds, as whole microseconds."""
    if isinstance(value, list):
        return [micros(column, v) for v in value]
    timed = column in ("time", "request_time", "request_start", "proxy_start", "app_queueing_delay", "app_service_time")
    if value is not None and (timed or column in ("attempt_connect", "attempt_header", "attempt_response")):
        return round(Decimal(str(value)) * 1_000_000)
    return value


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    """Rows and reasons by the number of the line."""
    log = tmp_path_factory.mktemp("vectors") / "a.jsonl"
    log.write_bytes(b"".join(line_of(case) + b"\n" for case in CASES))
    inputs = opened_inputs([log])
    rows: dict[int, dict[str, Any]] = {}
    reasons: dict[int, str] = {}
    try:
        for block in parsed_blocks(inputs.logs, rows_query, None, MACROS):
            reasons |= {reject.line: reject.reason for reject in block.rejects}
            assert block.accepted is not None
            numbers = block.accepted["number"].to_pylist()
            rows |= dict(zip(numbers, request_rows(block.accepted, "x").to_pylist(), strict=True))
    finally:
        inputs.close()
    return rows, reasons


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case["name"] for case in CASES])
def test_a_line(made: tuple[dict[int, dict[str, Any]], dict[int, str]], number: int) -> None:
    rows, reasons = made
    case = CASES[number]
    assert reasons.get(number + 1) == case.get("reason")
    if case.get("reason") is None:
        expected = {**TABLE["row_empty"], **case["row"]}
        row = {name: plain(value) for name, value in rows[number + 1].items() if name != "source"}
        assert row == {name: micros(name, value) for name, value in expected.items()}


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


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), numbers, max_size=12), min_size=1, max_size=30))
def test_no_line_whatever_it_holds_stops_a_load(tmp_path: Path, records: list[dict[str, object]]) -> None:
    """Every line is a row or a rejection; the sound ones among them are there."""
    sound = {"time": "1767225600.000", "request_time": "0.1", "status": "200", "request_id": "sound"}
    log = tmp_path / "a.jsonl"
    log.write_text("".join(json.dumps(r) + "\n" for r in [*records, *({**sound, **r} for r in records), sound]))
    inputs = opened_inputs([log])
    try:
        blocks = list(parsed_blocks(inputs.logs, rows_query, None, MACROS))
    finally:
        inputs.close()
    accepted = [row for b in blocks if b.accepted is not None for row in request_rows(b.accepted, "x").to_pylist()]
    assert len(accepted) + sum(len(b.rejects) for b in blocks) == 2 * len(records) + 1
    assert accepted[-1]["request_id"] == "sound"
