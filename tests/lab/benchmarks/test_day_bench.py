"""The suite of a big site's day: its steps, its extrapolation, and the day it generates; speeds are not asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from benchmarks import odd_lines, store_generator
from benchmarks.measure import Cost
from benchmarks.rows import Settings
from benchmarks.suites import day
from sojourn.store import connect

REPOSITORY = Path(__file__).parents[3]


def test_a_day_is_extrapolated_by_the_slope_and_refusals_are_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Costs are stated here by size: 1 s and 100 MB a thousand requests, and no more than 10,000 are fetched."""
    size = 0

    def make(dsn: str, rows: int, _: object) -> None:
        nonlocal size
        size = rows
        Path(dsn.removeprefix("chdb://")).mkdir()

    def cost(command: list[str]) -> Cost:
        if command[1] == "-c":
            lines = len(Path(command[3]).read_bytes().splitlines())
            return Cost(1.0, 1.0 + 1e-5 * lines, 200.0)
        if command[3] == "blame" and size > 10_000:
            raise SystemExit("too many are fetched")
        return Cost(size / 1e3, 1.0, size / 10)

    monkeypatch.setattr(day, "make_store", make)
    monkeypatch.setattr(day, "command_cost", cost)
    monkeypatch.setattr(day, "_bytes_on_disk", lambda _: 40.0 * size)
    monkeypatch.setattr(day, "vector_program", lambda: None)
    monkeypatch.setattr(day, "LOGS", (2_000_000, 4_000_000))
    measurements = day.run(Settings(repeats=1, scale=0.001, folder=tmp_path, progress=lambda _: None))
    rows = {row.what: row for row in measurements.rows}
    load = rows["store: `sojourn store load`, a day of 1,000,000,000 requests"]
    assert load.ours == pytest.approx(1e-5 * 1e9 / 3600, rel=0.1)  # with the cost of a start
    assert (load.goal, load.at, load.met) == (24.0, "most", True)
    assert rows["store: a day of 1,000,000,000 requests on disk"].ours == pytest.approx(40.0)
    worst = rows["split of the worst hour, 9,000 requests"]
    assert (worst.ours, worst.goal, worst.met) == (100.0, 10.0, False)
    assert "at 1,000,000,000 a day (90,000,000 requests): 1,000,000 s" in worst.note
    memory = rows["split of the day, 100,000 requests: memory"]
    assert (memory.ours, memory.goal, memory.met) == (10_000.0, 4_096.0, False)
    # The largest size that was not refused.
    assert rows["blame of the worst hour, 900 requests"].ours == 10.0
    assert "blame of the worst hour, a day of 100,000 requests: too many are fetched" in measurements.skipped
    assert {slope.what: round(slope.slope, 2) for slope in measurements.slopes}["split of the day"] == 1.0
    assert not list(tmp_path.glob("day-*"))


DAY = """
import json, sys
from pathlib import Path
from benchmarks.rows import Settings
from benchmarks.suites import day
day.LOGS, day.STORES = (2_000_000,), (20_000_000,)
measurements = day.run(Settings(repeats=1, scale=0.001, folder=Path(sys.argv[1]), progress=lambda _: None))
print(json.dumps(measurements.to_dict()))
"""


@pytest.mark.thorough
@pytest.mark.timeout(400)
def test_every_step_of_a_day_is_measured(tmp_path: Path) -> None:
    """Run in a process of its own: a process holds one embedded store at a time."""
    done = subprocess.run(
        [sys.executable, "-c", DAY, str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=380,
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY / 'analysis'}:{REPOSITORY / 'lab'}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    measurements = json.loads(done.stdout)
    figures = [row["what"] for row in measurements["rows"]]
    for name, question in day.QUESTIONS.items():
        assert f"{name}, {round(20_000 * question.part):,} requests" in figures
    assert measurements["slopes"] == []  # of one size
    assert all(row["ours"] > 0 for row in measurements["rows"])
    assert all(row["peak_mb"] > 100 for row in measurements["rows"] if row["unit"] == "s")
    assert not [reason for reason in measurements["skipped"] if "Vector" not in reason]


def generated(dsn: str, rows: int, first: int) -> pl.DataFrame:
    """Return 20,000 of the requests of a generated day, by arrival."""
    with connect(dsn) as store:
        store.client.command(store_generator.rows_sql(rows, first, 20_000))
        table = store.client.query_arrow(
            "SELECT toUnixTimestamp64Milli(time) AS time, toUnixTimestamp64Milli(start) AS start, status, attempts, "
            "upstream, worker, route, toFloat64(app_queueing_delay) AS delay, toFloat64(app_service_time) AS service, "
            "uri FROM requests FINAL ORDER BY start",
            use_strings=True,
        )
    return pl.DataFrame(table)


def test_a_worker_of_a_generated_day_serves_one_request_at_a_time(store_dsn: str) -> None:
    worst_hour = generated(store_dsn, 100_000_000, 80_000_000)
    served = (
        worst_hour.filter(pl.col("attempts") == 1, pl.col("delay").is_not_null())
        .with_columns(begun=pl.col("start") / 1e3 + pl.col("delay"))
        .with_columns(ended=pl.col("begun") + pl.col("service"))
        .sort("begun")
    )
    overlap = served.select((pl.col("ended").shift(1) - pl.col("begun")).over("upstream", "worker").max()).item()
    assert overlap < 1e-6
    waited = served.filter(pl.col("delay") > 0.001)
    assert len(waited) > len(served) / 20


def test_a_generated_day_is_skewed_and_has_odd_records(store_dsn: str) -> None:
    first_hour = generated(store_dsn, 1_000_000, 0)
    assert len(first_hour) == 20_000  # the first hour has 2 % of the day
    assert (first_hour["time"].max() - first_hour["time"].min()) / 3.6e6 == pytest.approx(1.0, rel=0.01)  # type: ignore[operator]
    routes = first_hour["route"].value_counts(sort=True)["count"].to_list()
    assert len(routes) == 20
    assert routes[0] > 10 * routes[-1]
    parts = {
        "retried": pl.col("attempts") == 2,
        "abandoned": pl.col("status") == 499,
        "timed out": pl.col("status") == 504,
        "escaped": pl.col("uri").str.contains('"', literal=True),
        "not ASCII": pl.col("uri").str.contains("ö"),
    }
    for kind, of_kind in parts.items():
        expected = 20 * odd_lines.ODD[kind]
        assert abs(len(first_hour.filter(of_kind)) - expected) < 5 * expected**0.5, kind
