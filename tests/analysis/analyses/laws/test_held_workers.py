"""Workers that are held for longer than their services show: utilisation by the laws is a lower bound."""

from __future__ import annotations

from pathlib import Path

import pytest
import sojourn
from worker_log import WorkerSystem, of_route, worker_log


@pytest.mark.parametrize("seed", [1, 2])
def test_load_not_in_the_log_makes_the_utilisation_a_lower_bound(tmp_path: Path, seed: int) -> None:
    log = tmp_path / "held.jsonl"
    worker_log(log, WorkerSystem(load=0.9, hidden=0.5, seed=seed))
    (station,) = sojourn.laws(log).stations
    assert station.lower_bound
    assert "`sojourn blame`" in station.sentence or "too few requests" in station.sentence


@pytest.mark.parametrize("seed", [1, 2])
def test_bodies_that_hold_workers_are_services(tmp_path: Path, seed: int) -> None:
    log = tmp_path / "held.jsonl"
    routes = (("/page", 0.97), ("/export", 0.03))
    truth = worker_log(log, WorkerSystem(workers=2, load=0.28, routes=routes, body=of_route("/export", 2.0), seed=seed))
    (station,) = sojourn.laws(log).stations
    assert not station.lower_bound
    assert station.station.utilisation == pytest.approx(truth.utilisation, abs=0.02)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
@pytest.mark.parametrize("burst", [1, 8])
def test_plain_pool_has_no_lower_bound(tmp_path: Path, load: float, burst: int) -> None:
    log = tmp_path / "plain.jsonl"
    worker_log(log, WorkerSystem(requests=6_000, load=load, burst=burst))
    assert not any(station.lower_bound for station in sojourn.laws(log).stations)
