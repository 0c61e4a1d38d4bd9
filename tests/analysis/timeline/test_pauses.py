"""Pauses of all workers, and gaps in which each worker is held by something of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sojourn
from sojourn.timeline.pauses import are_together, overlap_with, pauses_of
from sojourn.timeline.visits import visits
from worker_log import WorkerSystem, of_route, worker_log

PAUSED = WorkerSystem(load=0.5, pauses=tuple((5.0 * k + 3, 5.0 * k + 3.8) for k in range(40)))


def _pauses(log: Path) -> tuple[np.ndarray, np.ndarray]:
    read = visits(sojourn.split(log).rows)
    return pauses_of(read.arrival, read.busy_start, read.evident_end, 4)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_pauses_have_their_begin_and_end(tmp_path: Path, seed: int) -> None:
    worker_log(tmp_path / "a.jsonl", replace(PAUSED, seed=seed))
    begin, end = _pauses(tmp_path / "a.jsonl")
    assert len(begin) > 5
    assert np.median(end - begin) == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "system",
    [
        WorkerSystem(load=0.9, hidden=0.5),
        WorkerSystem(load=0.9, hidden=0.3, routes=(("/page", 0.97), ("/export", 0.03)), body=of_route("/export", 1.0)),
        WorkerSystem(load=0.45, routes=(("/page", 0.75), ("/signup", 0.25)), after=of_route("/signup", 0.2)),
        WorkerSystem(load=0.1),
    ],
    ids=["hidden load", "hidden load and bodies", "work after the answer", "little load"],
)
def test_other_gaps_are_no_pauses(tmp_path: Path, system: WorkerSystem, seed: int) -> None:
    worker_log(tmp_path / "a.jsonl", replace(system, seed=seed))
    assert len(_pauses(tmp_path / "a.jsonl")[0]) == 0


def test_overlap_is_the_time_in_pauses() -> None:
    pauses = np.array([1.0, 5.0]), np.array([2.0, 6.0])
    since, until = np.array([0.0, 1.5, 2.5, 0.0, np.nan]), np.array([0.5, 5.5, 3.0, 10.0, 3.0])
    assert overlap_with(pauses, since, until).tolist() == [0.0, 1.0, 0.0, 2.0, 0.0]


def test_instants_that_come_together_are_recognised() -> None:
    rng = np.random.default_rng(1)
    apart = np.cumsum(rng.exponential(0.1, 500))
    assert not are_together(apart)
    assert are_together(np.concatenate([apart, apart[::6] + 0.0005]))
