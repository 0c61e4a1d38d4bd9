"""The number of workers that holds an objective: against every number below it, replayed one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sojourn
from pool_simulator import PoolSettings, as_lines, simulated_pool
from sojourn.analyses.whatif.replays import replay_workload
from sojourn.analyses.whatif.variants import Amount, Change
from sojourn.analyses.whatif.workers_needed import workers_needed
from sojourn.analyses.whatif.workload import Workload, workload_of
from sojourn.model.objective import objective_of
from sojourn.queueing.replay import replay
from sojourn.queueing.staffing import erlang_c_workers
from sojourn.queueing.system import System


def workload(folder: Path, settings: PoolSettings) -> Workload:
    log = folder / "access.jsonl"
    records, _ = simulated_pool(settings)
    log.write_bytes(b"".join(as_lines(records)))
    return workload_of(sojourn.split(log).rows)


@pytest.mark.parametrize("text", ["queueing_delay:p95=0.1", "queueing_delay:p50=0.01", "response_time:p90=0.3"])
@pytest.mark.parametrize("backends", [1, 3])
def test_is_the_smallest_number_that_holds_the_objective(tmp_path: Path, text: str, backends: int) -> None:
    load = workload(
        tmp_path, PoolSettings(requests=3_000, backends=backends, workers=2, rate=12.0 * backends, skews=())
    )
    objective = objective_of(text)
    size, key = (1, "workers") if backends == 1 else (2, "backends")

    def share(units: int) -> float:
        replayed = replay_workload(load, Change(balancer=load.balancers[0], **{key: Amount("", units)}))
        values = replayed.wait if objective.measure == "queueing_delay" else replayed.response
        return float((values <= objective.seconds).mean())

    needed = workers_needed(load, objective)
    assert needed is not None
    units = needed // size
    assert share(units) >= objective.share
    assert all(share(fewer) < objective.share for fewer in range(1, units))


def test_requests_that_wait_are_served_before_the_next_ones(tmp_path: Path) -> None:
    load = workload(tmp_path, PoolSettings(requests=300, backends=1, workers=4, rate=24.0, skews=()))
    objective = objective_of("queueing_delay:p95=0.1")
    arrivals, services, count = load.visits.arrival, load.services, 100
    waiting = np.arange(len(load)) >= len(load) - count

    def share(workers: int) -> float:
        first = np.concatenate([np.full(count, arrivals[0]), arrivals])
        waits = replay(first, np.concatenate([services[-count:], services]), System((workers,))).wait[count:]
        return float((waits + load.way <= objective.seconds).mean())

    needed = workers_needed(load, objective, waiting)
    assert needed is not None
    assert share(needed) >= objective.share
    assert all(share(fewer) < objective.share for fewer in range(1, needed))
    assert needed > workers_needed(load, objective)
    assert workers_needed(load, objective, np.zeros(len(load), np.bool_)) == workers_needed(load, objective)


def test_agrees_with_erlang_c_where_its_assumptions_hold(tmp_path: Path) -> None:
    routes = {"/": (1.0, 0.1)}
    settings = PoolSettings(requests=30_000, backends=1, workers=12, rate=80.0, routes=routes, skews=(), one_way=0.0)
    load = workload(tmp_path, settings)
    objective = objective_of("queueing_delay:p95=0.05")
    assert abs(workers_needed(load, objective) - erlang_c_workers(80.0, 0.1, 0.05, 0.95)) <= 1


def test_none_holds_an_objective_that_is_shorter_than_the_service(tmp_path: Path) -> None:
    load = workload(tmp_path, PoolSettings(requests=500))
    assert workers_needed(load, objective_of("response_time:p99=0.02")) is None


def test_no_request_needs_no_worker(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(as_lines(simulated_pool(PoolSettings(requests=10))[0])))
    empty = workload_of(sojourn.split(log).rows.filter(False), service_times={"/": np.array([0.1])})
    assert workers_needed(empty, objective_of("p95=0.1")) == 0


def test_service_times_of_abandoned_requests_come_from_earlier_ones(tmp_path: Path) -> None:
    records, _ = simulated_pool(PoolSettings(requests=400, timeout=1.0, rate=80.0))
    lost = [record for record in records if record["status"] == "504"]
    assert len(lost) > 100
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(as_lines(lost)))
    rows = sojourn.split(log).rows
    with pytest.raises(sojourn.SojournError, match="no request has a service time"):
        workload_of(rows)
    load = workload_of(rows, service_times={"/product": np.array([0.25]), "/gone": np.array([9.0])})
    assert load.imputed == len(load)
    assert set(load.services[load.route == "/product"]) == {0.25}
    # A route without times of its own takes those of any.
    assert set(load.services[load.route != "/product"]) <= {0.25, 9.0}
