"""A condition selects the requests to analyse; all requests remain the ones that hold workers and clocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from clock_support import requests_through
from sojourn.cli import app
from typer.testing import CliRunner

LONG, SHORT = "/reports", "/"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One worker: every tenth request is of another route and holds the worker for 0.4 s; the others for 5 ms."""
    path = tmp_path_factory.mktemp("where") / "access.jsonl"
    free, records = 0.0, []
    (start,) = (one.record for one in requests_through(lambda _: 0.0, requests=1, rate=1.0))
    for number in range(1000):
        now = number * 0.06
        service = 0.4 if number % 10 == 0 else 0.005
        begun = max(now, free)
        free = begun + service
        spent = f"{free - now + 0.001:.6f}"
        records.append(
            {
                **start, "time": f"{1_767_225_600 + free + 0.001:.6f}", "request_start": f"{1_767_225_600 + now:.6f}",
                "request_time": spent, "upstream_header_time": spent, "upstream_response_time": spent,
                "queueing_delay": f"{begun - now:.6f}", "service_time": f"{service:.6f}", "request_id": str(number),
                "route": LONG if number % 10 == 0 else SHORT, "service": "shop",
            }
        )  # fmt: skip
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


def ran(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json", "--quiet"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(params=["file", "store"])
def source(request: pytest.FixtureRequest, log: Path) -> str:
    if request.param == "file":
        return str(log)
    dsn: str = request.getfixturevalue("store_dsn")
    sojourn.store.load(dsn, log)
    return dsn


def test_blame_of_a_selection_finds_the_culprit_that_the_selection_leaves_out(log: Path) -> None:
    where = {"route": SHORT}
    whole = sojourn.blame(log, where=where)
    assert whole.culprits["culprit"][0] == LONG
    assert whole.accounts["dispatch"] < 0.05 * whole.waited
    selected = sojourn.split(log, where=where)
    assert selected.requests == 900
    for result in (sojourn.blame(selected), sojourn.blame(sojourn.split(log, columns=("uri",)), where=where)):
        assert result.culprits.to_dicts() == whole.culprits.to_dicts()
        assert result.requests == whole.requests == 900


def test_depth_of_a_selection_counts_the_workers_that_all_requests_hold(log: Path) -> None:
    every, part = ran("depth", log), ran("depth", log, "--where", f"route={SHORT}")
    assert part["overall"]["in_service"] == pytest.approx(every["overall"]["in_service"])
    assert part["overall"]["utilisation"] == pytest.approx(every["overall"]["utilisation"])
    assert every["overall"]["utilisation"] > 0.7
    assert part["visits"] == 900
    assert part["present"] == every["visits"] == 1000
    assert part["where"] == {"route": SHORT}
    other = ran("depth", log, "--where", f"route={LONG}")
    together = part["overall"]["waiting"] + other["overall"]["waiting"]
    assert together == pytest.approx(every["overall"]["waiting"])
    assert part["overall"]["arrivals"] == 900
    # They wait behind all requests, not only behind their own.
    behind = sum(row["requests"] * row["low"] for row in part["on_arrival"]) / 900
    assert part["overall"]["seen_waiting"] == pytest.approx(behind)


def test_a_report_of_a_selection_blames_what_it_leaves_out(log: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["report", str(log), "--where", f"route={SHORT}", "--html", str(page), "--quiet"])
    assert result.exit_code == 0, result.output
    assert f"{LONG} caused" in page.read_text("utf-8")


@pytest.mark.parametrize("question", ["laws", "whatif", "capacity"])
def test_questions_about_workers_refuse_a_part_of_their_requests(log: Path, question: str) -> None:
    with pytest.raises(sojourn.SojournError, match=r"100 of 1,000 requests"):
        getattr(sojourn, question)(log, where={"route": SHORT})
    getattr(sojourn, question)(log, where={"service": "shop"})


def test_rows_that_were_filtered_are_not_taken_for_the_whole(log: Path) -> None:
    rows = sojourn.split(log).rows
    assert sojourn.blame(rows).queue_source.filtered == ()
    assert sojourn.blame(rows, since=1_767_225_610.0).queue_source.filtered == ()
    filtered = rows.filter(pl.col("route") == SHORT)
    for result in (sojourn.blame(filtered), sojourn.depth(filtered.collect())):
        (sentence,) = result.queue_source.filtered
        assert "900 of 1,000 requests" in sentence
        assert str(result) == sentence


def test_a_selection_is_corrected_by_the_clock_of_all_requests(source: str) -> None:
    where = {"route": LONG}
    every, part = sojourn.split(source), sojourn.split(source, where=where)
    assert part.requests == 100
    assert part.clock.to_dicts() == every.clock.to_dicts()
    columns = ["start", "queueing_delay"]
    expected = every.rows.filter(route=LONG).select(columns).collect().sort("start")
    assert part.rows.select(columns).collect().sort("start").equals(expected)
