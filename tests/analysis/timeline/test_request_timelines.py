"""Request timelines, and the sequence chart of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from sojourn.analyses.depth.charts_sequence import ABANDONED, UNKNOWN, WAITING, WORKING, sequence_chart
from sojourn.analyses.split.run import split
from sojourn.model.errors import SojournError
from sojourn.timeline.request_timelines import (
    GIVEN_UP,
    SERVED,
    TIMELINE,
    TURNED_AWAY,
    timelines_with_workers,
)


def drawn(*rows: tuple[float, float | None, float | None, float, str]) -> pl.DataFrame:
    """Timelines of (arrival, begin, end, left, outcome)."""
    table = [
        {"number": n + 1, "arrival": a, "begin": b, "end": e, "left": gone, "outcome": outcome, "backend": "a:1"}
        for n, (a, b, e, gone, outcome) in enumerate(rows)
    ]
    return pl.DataFrame(table, schema_overrides=TIMELINE)


TWO = drawn((0.0, 0.0, 45.0, 45.0, SERVED), (5.0, 45.0, 90.0, 65.0, GIVEN_UP), (6.0, None, None, 45.0, TURNED_AWAY))


def bars(table: pl.DataFrame) -> dict[str, list[tuple[str, float, float]]]:
    """Request -> (what, begin, end) of its bars, read from the chart itself."""
    result: dict[str, list[tuple[str, float, float]]] = {}
    spec = sequence_chart(table).to_dict()
    for layer in spec["layer"]:
        if layer["mark"]["type"] == "bar":
            for bar in spec["datasets"][layer["data"]["name"]]:
                result.setdefault(bar["request"], []).append((bar["what"], bar["begin"], bar["end"]))
    return result


def test_sequence_chart_colours_waiting_service_and_abandoned_work() -> None:
    assert bars(TWO) == {
        "#1": [(WORKING, 0.0, 45.0)],
        "#2": [(WAITING, 5.0, 45.0), (WORKING, 45.0, 65.0), (ABANDONED, 65.0, 90.0)],
        "#3": [(WAITING, 6.0, 45.0)],
    }


def test_request_with_unknown_wait_is_not_drawn_as_waiting() -> None:
    without = drawn((0.0, None, None, 60.0, GIVEN_UP)).with_columns(wait_known=False)
    assert bars(without)["#1"] == [(UNKNOWN, 0.0, 60.0)]
    (scale,) = (
        layer["encoding"]["color"]["scale"]["domain"]
        for layer in sequence_chart(without).to_dict()["layer"]
        if layer["mark"]["type"] == "bar"
    )
    assert UNKNOWN in scale


def test_abandoned_request_waits_on_in_grey() -> None:
    late = drawn((0.0, 70.0, 72.0, 60.0, GIVEN_UP))
    assert bars(late)["#1"] == [(WAITING, 0.0, 60.0), (ABANDONED, 60.0, 70.0), (ABANDONED, 70.0, 72.0)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of three: one answered, one refused by the app server, one that nginx gave up on."""

    def line(start: float, used: float, status: int, **app: str) -> str:
        record = {
            "time": f"{1_767_312_000 + start + used:.3f}", "request_time": f"{used:.3f}",
            "request_start": f"{1_767_312_000 + start:.3f}", "status": str(status), "route": "/r", "service": "s",
            "upstream_addr": "10.0.0.1:80", "upstream_status": str(status), "upstream_connect_time": "0.000",
            "upstream_header_time": "-" if status == 504 else f"{used:.3f}", "upstream_response_time": f"{used:.3f}",
        }  # fmt: skip
        return json.dumps(record | app) + "\n"

    path = tmp_path / "access.jsonl"
    answered = line(0.0, 2.0, 200, queueing_delay="0.5", service_time="1.5", worker="1")
    path.write_text(answered + line(1.0, 3.0, 503) + line(2.0, 9.0, 504))
    return path


def test_timelines_of_a_log(log: Path) -> None:
    result = timelines_with_workers(split(log).rows).table
    assert result.schema == pl.Schema(TIMELINE)
    assert result.select("number", "status", "outcome").rows() == [
        (1, 200, SERVED),
        (2, 503, TURNED_AWAY),
        (3, 504, GIVEN_UP),
    ]
    assert result["arrival"].to_list() == pytest.approx([0.0, 1.0, 2.0])
    assert result["left"].to_list() == pytest.approx([2.0, 4.0, 11.0])
    # The begin of service of the last two is unknown.
    assert [result[name].to_list() for name in ("begin", "end")] == [
        [pytest.approx(0.5, abs=1e-3), None, None],
        [pytest.approx(2.0, abs=1e-3), None, None],
    ]


def test_rejects_too_many_requests_and_none(log: Path) -> None:
    with pytest.raises(SojournError, match="3 requests are more than the 2"):
        timelines_with_workers(split(log).rows, most=2)
    with pytest.raises(SojournError, match="no queue to be drawn"):
        timelines_with_workers(split(log, where={"service": "other"}).rows)


def test_timelines_with_workers(log: Path) -> None:
    rows = split(log).rows
    result = timelines_with_workers(rows)
    assert result.first == datetime.fromtimestamp(1_767_312_000, UTC)
    assert result.workers == {"10.0.0.1:80": 1}
    assert timelines_with_workers(rows, workers=3).workers == {"10.0.0.1:80": 3}
    # The wait of the first was logged, the second was turned away from the queue, the wait of the third is unknown.
    assert result.table["wait_known"].to_list() == [True, True, False]
    assert result.table["service"].unique().to_list() == ["s"]


def test_request_without_service_time_holds_a_worker_until_its_answer_began(log: Path) -> None:
    record = json.loads(log.read_text().splitlines()[0])
    log.write_text(json.dumps(record | {"service_time": ""}) + "\n")
    row = timelines_with_workers(split(log).rows).table.row(0, named=True)
    assert (row["begin"], row["end"], row["wait_known"]) == (pytest.approx(0.4995), pytest.approx(2.0), True)
