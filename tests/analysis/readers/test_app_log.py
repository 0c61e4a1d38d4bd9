"""The app's own log: a number written as a text has the grammar of the log record, a JSON number has JSON's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sojourn.readers.app_log import read_app_log

TABLE = json.loads((Path(__file__).parents[2] / "vectors/log_lines.json").read_text("utf-8"))
CASES = [case for case in TABLE["cases"] if case["name"].startswith("request_time '")]


def test_takes_and_refuses_the_numbers_of_the_table(tmp_path: Path) -> None:
    expected, lines = [], []
    for case in CASES:
        time = json.loads(case["line"])["request_time"]
        if case["reason"] is None or not time.replace(".", "").isascii() or not time.replace(".", "").isdigit():
            lines.append(json.dumps({"request_id": str(len(lines)), "service_time": time}))
            expected.append(None if case["reason"] else case["row"]["request_time"])
    assert len(lines) > 30
    log = tmp_path / "app.jsonl"
    log.write_text("".join(f"{line}\n" for line in lines))
    read = read_app_log([log])
    rows, records = read.rows, read.records
    seconds = dict(zip(rows["request_id"], rows["span_service_time"], strict=True))
    assert [seconds.get(str(number)) for number in range(len(lines))] == pytest.approx(expected)
    assert records.reasons == {"invalid_service_time": expected.count(None)}


def test_takes_json_numbers_with_an_exponent(tmp_path: Path) -> None:
    log = tmp_path / "app.jsonl"
    log.write_text('{"request_id":"a","service_time":9e-05,"start":1.7672256e9}\n')
    read = read_app_log([log])
    rows, records = read.rows, read.records
    assert rows["span_service_time"].to_list() == [0.00009]
    assert records.reasons == {}
