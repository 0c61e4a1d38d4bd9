"""The file reader and the columns of the store answer alike for every line of one table."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from simulator import BAD_LINES
from sojourn.components.split import checked_split
from sojourn.readers.record import REASONS
from sojourn.sources.requests import read
from sojourn.store import connect

TABLE = json.loads((Path(__file__).parents[1] / "vectors" / "log_lines.json").read_text("utf-8"))
CASES: list[dict[str, Any]] = TABLE["cases"]
GOOD = [case for case in CASES if case["reason"] is None]


def line_of(case: Mapping[str, Any]) -> bytes:
    """The line of a case, without its end."""
    return base64.b64decode(case["line_base64"]) if "line_base64" in case else str(case["line"]).encode()


def row_of(case: Mapping[str, Any]) -> dict[str, Any]:
    """The whole row of a case, without its source."""
    return {**TABLE["row_empty"], **case["row"]}


def same(value: object, expected: object) -> bool:
    """Equal; figures to the microsecond."""
    if isinstance(value, float) and expected is not None:
        return bool(value == pytest.approx(expected, abs=1e-6, rel=1e-12))
    return value == expected


def test_the_table_is_worth_its_name() -> None:
    assert len({case["name"] for case in CASES}) == len(CASES)
    assert len(CASES) > 200
    # Three reasons do not follow from the line alone, one needs a line of 1 MiB, and two are of other formats.
    assert {c["reason"] for c in CASES} == {None, *REASONS} - {
        "incomplete_line",
        "damaged_compression",
        "cut_while_read",
        "line_too_long",
        "other_format",
        "invalid_duration",
    }
    lines = [line_of(case) for case in CASES]
    for line, reason in BAD_LINES:
        assert CASES[lines.index(line.removesuffix(b"\n"))]["reason"] == reason


def test_the_reader_refuses_and_takes_the_same_lines(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(line_of(case) + b"\n" for case in CASES))
    requests = read([log])
    reasons = {int(str(reject["line"])): reject["reason"] for reject in requests.records.rejects}
    assert [reasons.get(i) for i in range(1, len(CASES) + 1)] == [case["reason"] for case in CASES]


def test_the_reader_splits_as_the_table_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Some cases are the same request, and would count once.
    monkeypatch.setattr("sojourn.sources.requests.each_once", lambda rows, _: (rows, 0))
    # One has an instant of its own.
    monkeypatch.setattr("sojourn.sources.jumps.FEW", 0)
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(line_of(case) + b"\n" for case in GOOD))
    rows = checked_split(read([log]).rows).to_dicts()
    assert len(rows) == len(GOOD)
    for row, case in zip(rows, GOOD, strict=True):
        expected = {**TABLE["split_empty"], **case["split"]}
        values = {
            name: row[name]
            for name in (
                "upload",
                "retries",
                "redirects",
                "transfer",
                "redirected",
                "send",
                "upstream",
                "attempts",
                "answered",
            )
        }
        values["upstream"] = values["upstream"] or ""
        for name, value in values.items():
            assert same(value, expected[name]), (case["name"], name)
        stored = row_of(case)
        assert row["route"] in (stored["route"], None)
        assert row["time"].timestamp() == pytest.approx(stored["time"], abs=5e-7)
        assert row["app_garbled"] == stored["app_garbled"]


def test_the_store_takes_every_row_and_splits_it_as_the_table_says(store_dsn: str) -> None:
    names = ", ".join(TABLE["split_empty"])
    with connect(store_dsn) as store:
        # Some cases are the same request: each has a proxy of its own.
        rows = "\n".join(
            json.dumps({**row_of(case), "proxy": f"p{i}", "source": str(i)}) for i, case in enumerate(GOOD)
        )
        settings = "input_format_skip_unknown_fields = 0, optimize_on_insert = 0, max_partitions_per_insert_block = 0"
        store.client.command(f"INSERT INTO incoming_rows SETTINGS {settings} FORMAT JSONEachRow {rows}")
        answer = store.client.query(
            f"SELECT toUInt32(source) AS number, {names} FROM requests_split ORDER BY number"
        ).result_rows
    assert len(answer) == len(GOOD)
    for case, (_, *values) in zip(GOOD, answer, strict=True):
        expected = {**TABLE["split_empty"], **case["split"]}
        for (name, right), value in zip(expected.items(), values, strict=True):
            assert same(value, right), (case["name"], name)
