"""Service times of the live signal: of the last requests, however few there are in a window."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
import sojourn
from sojourn.analyses.whatif.workload import Workload, workload_of
from sojourn.export.live.demand import Demand, demand_of
from sojourn.export.memory import LAST_TIMES
from watch_support import EPOCH, record


def workload(log: Path, since: float, until: float) -> Workload:
    """The requests that ended in (since, until], s after ``EPOCH``."""
    begin, end = (datetime.fromtimestamp(EPOCH + each, UTC) for each in (since, until))
    rows = sojourn.split(log).rows
    return workload_of(rows.filter((pl.col("time") > begin) & (pl.col("time") <= end)))


def demands(log: Path, windows: list[tuple[float, float]]) -> list[Demand]:
    """The demand after each window."""
    each: list[Demand] = []
    for since, until in windows:
        each.append(demand_of(workload(log, since, until), 1.0, None, each[-1] if each else None, None))
    return each


def test_few_requests_are_added_to_those_before(tmp_path: Path) -> None:
    """Ten requests of 0.1 s, then ten of 1 s, in windows that overlap."""
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(record(EPOCH + 2.0 * n, 0.0, 0.1 if n <= 10 else 1.0) for n in range(1, 21)))
    first, second, third = demands(log, [(0.0, 20.0), (10.0, 30.0), (20.0, 40.0)])
    assert [len(each.lasted) for each in (first, second, third)] == [10, 15, 20]
    means = [each.times.mean for each in (first, second, third) if each.times is not None]
    assert means == pytest.approx([0.1, (10 * 0.1 + 5) / 15, (10 * 0.1 + 10) / 20], abs=0.002)
    assert first.times is not None
    assert first.times.cs2 == 1.0, "too few to show how much they vary"


def test_only_the_last_times_count(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(record(EPOCH + n / 10, 0.0, 0.05 if n <= 600 else 0.02) for n in range(1, 1201)))
    first, second = demands(log, [(0.0, 60.0), (30.0, 120.0)])
    assert first.times is not None
    assert second.times is not None
    assert (first.times.mean, second.times.mean) == (pytest.approx(0.05, abs=0.002), pytest.approx(0.02, abs=0.002))
    assert len(first.lasted) == len(second.lasted) == LAST_TIMES
    assert second.times.cs2 < 0.1
