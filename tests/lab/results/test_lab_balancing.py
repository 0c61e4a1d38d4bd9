"""Shares of backends and waits caused by imbalance: of synthetic visits first, then behind a real nginx."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from lab_support import first_round, sound_run
from sojourn.timeline.visits import FROM_OPTION, Visits, Workers
from sojourn_lab.results.analyses.balance import before_and_after, newcomer_figures, shares_and_waits
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.run_options import RunOptions, scenario_with_options

needs_nginx = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")

NAMES = {"10.0.0.1:80": "a", "10.0.0.2:80": "b"}


def visits_of(rows: list[tuple[float, float, float, int]], backends: tuple[str, ...] = tuple(NAMES)) -> Visits:
    """Visits of (arrival, start, end, backend), in seconds after the year 2000; a worker at each backend."""
    arrival, start, end, backend = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    count = len(backends)
    return Visits(
        base=datetime(2000, 1, 1, tzinfo=UTC),
        arrival=arrival, wait_end=start, busy_start=start.copy(), busy_end=end,
        backend=backend.astype(np.int32), backends=backends,
        pool=np.zeros(count, np.int32), pools=("all",),
        workers=Workers(np.ones(count, np.int64), (FROM_OPTION,) * count, np.ones(count, np.int64)),
        rows=pl.DataFrame({"route": ["/"] * len(rows)}),
    )  # fmt: skip


def test_only_waiting_during_which_another_backend_is_idle_is_imbalance() -> None:
    # Two at a: the second waits 1 s, for 0.5 s of which b is idle (it works from 0.5 on).
    result = shares_and_waits(visits_of([(0.0, 0.0, 1.0, 0), (0.0, 1.0, 2.0, 0), (0.5, 0.5, 2.0, 1)]), NAMES, 2.0)
    assert result["requests"] == 3
    assert result["rate"] == pytest.approx(1.5)
    assert [result["backends"][name]["requests"] for name in "ab"] == [2, 1]
    assert (result["most"], result["least"]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert result["backends"]["a"]["queueing_delay"] == pytest.approx(0.5)
    assert result["backends"]["b"]["service_time"] == pytest.approx(1.5)
    assert result["waited"] == pytest.approx(1.0)
    assert result["imbalance"] == pytest.approx(0.5)
    assert result["imbalance_share"] == pytest.approx(0.5)
    assert result["imbalance_mean"] == pytest.approx(0.5 / 3)


def test_backend_without_requests_has_a_row_and_empty_sets_have_none() -> None:
    result = shares_and_waits(visits_of([(0.0, 0.0, 1.0, 0)]), NAMES, 1.0)
    assert result["backends"]["b"] == {
        "requests": 0, "share": 0.0, "rate": 0.0, "service_time": None, "queueing_delay": None,
    }  # fmt: skip
    assert result["least"] == 0.0
    assert result["imbalance_share"] is None
    empty = shares_and_waits(visits_of([(0.0, 0.0, 1.0, 0)]), NAMES, 1.0, np.array([False]))
    assert empty["queueing_delay"] == {"mean": None, "p99": None}
    assert empty["requests"] == 0


def evenly(backends: int, since: float, until: float, every: float) -> list[tuple[float, int]]:
    count = round((until - since) / every)
    return [(since + number * every, number % backends) for number in range(count)]


def test_added_backend_in_rotation_has_its_share_after_a_full_lookback() -> None:
    rows = evenly(2, 0.0, 10.0, 0.1) + evenly(3, 10.0, 20.0, 0.1)
    arrival, backend = (np.array(column) for column in zip(*rows, strict=True))
    result = newcomer_figures(arrival, backend, at=10.0, settled=16.0, backends=3)
    assert (result["requests"], result["fair"]) == (33, pytest.approx(1 / 3))
    assert result["share"] == pytest.approx(0.33)
    assert result["settled_share"] == pytest.approx(1 / 3, abs=0.02)
    assert result["seconds_to_first"] == pytest.approx(0.2)
    # It had 10 of the first 30 requests, which took 2.9 s.
    assert result["seconds_to_share"] == pytest.approx(2.9)


def test_added_backend_without_requests_has_no_instants() -> None:
    rows = evenly(2, 0.0, 20.0, 0.1)
    arrival, backend = (np.array(column) for column in zip(*rows, strict=True))
    result = newcomer_figures(arrival, backend, at=10.0, settled=16.0, backends=3)
    assert (result["requests"], result["share"], result["settled_share"]) == (0, 0.0, 0.0)
    assert result["seconds_to_first"] is result["seconds_to_share"] is None


def test_added_backend_does_not_count_as_idle_before_its_addition() -> None:
    # Both at a, b joins at 10: the first two could not have gone there, the last two could.
    rows = [(0.0, 0.0, 5.0, 0), (1.0, 5.0, 9.0, 0), (11.0, 11.0, 15.0, 0), (12.0, 15.0, 16.0, 0)]
    base = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
    result = before_and_after(
        visits_of(rows[:2], ("10.0.0.1:80",)), visits_of(rows), NAMES, since=base, at=base + 10.0, until=base + 16.0
    )
    assert (result["before"]["imbalance"], result["before"]["waited"]) == (0.0, pytest.approx(4.0))
    assert (result["after"]["imbalance"], result["after"]["waited"]) == (pytest.approx(3.0), pytest.approx(3.0))
    assert result["after"]["backends"]["b"]["requests"] == 0
    assert result["joined"]["share"] == 0.0


def test_action_time_scales_with_the_duration() -> None:
    unchanged, _ = scenario_with_options("added-backend", RunOptions())
    longer, _ = scenario_with_options("added-backend", RunOptions(duration=2.0 * unchanged.duration))
    scaled, _ = scenario_with_options("added-backend", RunOptions(scale=0.5))
    at = unchanged.cases[0].actions[0].at
    assert [each.cases[0].actions[0].at for each in (longer, scaled)] == [2.0 * at, 0.5 * at]


@pytest.mark.scenario
@needs_nginx
def test_counting_connections_keeps_requests_from_a_slow_backend(tmp_path: Path) -> None:
    run = sound_run(tmp_path, "balancing", "--scale", "0.3", "--seed", "77", "--set", "cases.*.load.rate=30")
    assert [each for each in run["criteria"] if not each["passed"]] == []
    cases = first_round(run).values()
    turns, counted, drawn = (case["figures"]["balance"] for case in cases)
    # The same schedule; the requests that nginx saw in the window differ by one or two at its edges.
    (offered,) = {case["client"]["offered"] for case in cases}
    assert offered > 60
    assert [each["requests"] for each in (turns, counted, drawn)] == pytest.approx([offered] * 3, rel=0.05)
    assert counted["imbalance"] < turns["imbalance"]
    assert turns["backends"]["backend-3"]["service_time"] > 2 * turns["backends"]["backend-1"]["service_time"]


@pytest.mark.scenario
@needs_nginx
def test_backend_added_during_the_run_has_its_share_at_once(tmp_path: Path) -> None:
    run = sound_run(tmp_path, "added-backend", "--duration", "5", "--seed", "78")
    assert [each for each in run["criteria"] if not each["passed"]] == []
    for case in run["cases"]:
        result = case["figures"]["balance"]
        before = result["before"]["backends"]
        assert before["backend-1"]["requests"] + before["backend-2"]["requests"] == result["before"]["requests"] > 20
        assert result["joined"]["seconds_to_first"] > 0.0
