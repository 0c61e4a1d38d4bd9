"""Workers held by bodies and by work after the answer: what is inferred without spans, with the truth known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sojourn
from sojourn.timeline.after_times import completed, distribution
from sojourn.timeline.visits import Visits, visits
from worker_log import EXPORTS, Draw, WorkerSystem, exponential, of_route, worker_log

EXPORT = (("/page", 0.97), ("/export", 0.03))
SIGNUP = (("/page", 0.75), ("/signup", 0.25))


def _of_route(route: str, draw: Draw) -> Draw:
    return lambda rng, name: draw(rng, name) if name == route else 0.0


HELD = {
    "constant bodies": EXPORTS,
    "bodies": WorkerSystem(workers=3, load=0.3, routes=EXPORT, body=_of_route("/export", exponential(1.5))),
    "bodies of all": WorkerSystem(load=0.35, body=exponential(0.06)),
    "after one route": WorkerSystem(load=0.45, routes=SIGNUP, after=_of_route("/signup", exponential(0.2))),
    "after all routes": WorkerSystem(load=0.4, after=lambda rng, _: rng.uniform(0.03, 0.1)),
    "uploads that workers read": WorkerSystem(
        load=0.45, routes=SIGNUP, before=_of_route("/signup", exponential(0.2))
    ),
    "bodies and after": WorkerSystem(
        load=0.25, routes=(("/page", 0.8), ("/export", 0.02), ("/signup", 0.18)),
        body=of_route("/export", 2.0), after=_of_route("/signup", exponential(0.3)),
    ),
}  # fmt: skip
UNHELD = WorkerSystem(load=0.8, routes=EXPORT, body=of_route("/export", 2.0), body_holds=False)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", HELD)
def test_blame_names_route_and_phase(tmp_path: Path, name: str, seed: int) -> None:
    truth = worker_log(tmp_path / "a.jsonl", replace(HELD[name], seed=seed))
    result = sojourn.blame(tmp_path / "a.jsonl")
    assert result.looked_free < 0.03 * result.waited
    assert result.blamed + result.imbalance + result.dispatch == pytest.approx(result.waited, abs=1e-6)
    shares = {(row["culprit"], row["phase"]): row["seconds"] for row in result.phases.to_dicts()}
    for what, share in truth.blame().items():
        assert shares.get(what, 0.0) / result.waited == pytest.approx(
            share, abs=0.025 if what[1] == "read" else 0.015
        ), what
    assert result.phases["seconds"].sum() == pytest.approx(result.blamed, abs=1e-6)
    assert result.culprits["seconds"].sum() == pytest.approx(result.blamed, abs=1e-6)


@pytest.mark.parametrize("name", HELD)
def test_one_worker_more_is_predicted(tmp_path: Path, name: str) -> None:
    worker_log(tmp_path / "a.jsonl", HELD[name])
    result = sojourn.whatif(tmp_path / "a.jsonl", {"workers": "+1"})
    assert result.refused is None
    system = HELD[name]
    load = system.load * system.workers / (system.workers + 1)
    changed = worker_log(tmp_path / "b.jsonl", replace(system, workers=system.workers + 1, load=load))
    predicted = result.variants[0].response_time
    assert predicted["mean"] == pytest.approx(np.mean(changed.responses), rel=0.04, abs=0.002)
    assert predicted["p99"] == pytest.approx(np.quantile(changed.responses, 0.99), rel=0.06, abs=0.004)


@pytest.mark.parametrize("name", HELD)
def test_utilisation_counts_held_times(tmp_path: Path, name: str) -> None:
    truth = worker_log(tmp_path / "a.jsonl", HELD[name])
    overall = sojourn.depth(tmp_path / "a.jsonl").overall
    assert not overall["lower_bound"]
    assert overall["utilisation"] == pytest.approx(truth.utilisation, abs=0.03)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bodies_sent_by_another_thread_hold_nothing(tmp_path: Path, seed: int) -> None:
    worker_log(tmp_path / "a.jsonl", replace(UNHELD, seed=seed))
    read = _visits(tmp_path / "a.jsonl")
    assert read.phases is not None
    assert read.phases.backends[0].elsewhere == ("/export",)
    assert np.array_equal(read.busy_end, read.phases.headers)
    assert not read.phases.in_doubt.any()


@pytest.mark.parametrize("name", ["bodies", "after one route", "uploads that workers read"])
def test_split_shows_held_times_beside_the_service_time(tmp_path: Path, name: str) -> None:
    truth = worker_log(tmp_path / "a.jsonl", HELD[name])
    result = sojourn.split(tmp_path / "a.jsonl")
    assert result.held is not None
    count = len(truth.waits)
    for phase, mean in result.held.phases.items():
        seconds = sum(end - begin for begin, end, (_, each) in truth.holds if each == phase)
        assert mean == pytest.approx(seconds / count, rel=0.05, abs=0.0005), phase
    assert result.held.time["mean"] == pytest.approx(sum(result.held.phases.values()))
    assert result.to_dict()["held"]["time"]["mean"] == pytest.approx(result.held.time["mean"])
    assert result.components["service_time"]["mean"] < 0.9 * result.held.time["mean"]


def test_held_times_like_the_service_times_are_not_shown(tmp_path: Path) -> None:
    worker_log(tmp_path / "a.jsonl", WorkerSystem())
    result = sojourn.split(tmp_path / "a.jsonl")
    assert result.held is None
    assert result.to_dict()["held"] is None


def test_request_that_is_read_is_in_service_and_no_longer_waits(tmp_path: Path) -> None:
    system = HELD["uploads that workers read"]
    truth = worker_log(tmp_path / "a.jsonl", system)
    overall = sojourn.depth(tmp_path / "a.jsonl").overall
    read = sum(end - begin for begin, end, (_, phase) in truth.holds if phase == "read")
    waited = sum(end - begin for begin, end in truth.waits) - read
    seconds = max(end for _, end, _ in truth.holds) - truth.waits[0][0]
    assert overall["waiting"] * seconds == pytest.approx(waited, rel=0.03)
    assert sojourn.depth(tmp_path / "a.jsonl").held["read"] == pytest.approx(read, rel=0.03)


def test_few_bodies_are_in_doubt(tmp_path: Path) -> None:
    system = WorkerSystem(requests=600, load=0.3, routes=(("/page", 0.99), ("/export", 0.01)))
    worker_log(tmp_path / "a.jsonl", replace(system, body=of_route("/export", 0.2)))
    read = _visits(tmp_path / "a.jsonl")
    assert read.phases is not None
    assert read.phases.backends[0].doubtful == ("/export",)
    assert read.phases.in_doubt.sum() > 0


def test_workers_without_names_are_left_to_their_headers(tmp_path: Path) -> None:
    worker_log(tmp_path / "a.jsonl", replace(HELD["bodies"], named=False))
    read = _visits(tmp_path / "a.jsonl")
    assert read.phases is not None
    assert read.phases.backends == {}
    assert np.array_equal(read.busy_end, read.phases.headers)


def test_distribution_of_exact_times_is_the_empirical_one() -> None:
    times = np.array([3.0, 1.0, 2.0, 2.0])
    values, share = distribution(times, times)
    assert values.tolist() == [1.0, 2.0, 3.0]
    assert share.tolist() == pytest.approx([0.25, 0.5, 0.25])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_distribution_recovers_what_bounds_hide(seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = rng.exponential(0.5, 4_000)
    seen = rng.random(4_000) < 0.4
    until = times + rng.exponential(0.3, 4_000)
    since = np.maximum(times - rng.exponential(0.3, 4_000), 0.0)
    lower, upper = np.where(seen, times, since), np.where(seen, times, until)
    filled = completed(lower, upper)
    assert ((filled >= lower) & (filled <= upper)).all()
    assert filled.mean() == pytest.approx(times.mean(), rel=0.03)
    assert np.quantile(filled, 0.9) == pytest.approx(np.quantile(times, 0.9), rel=0.06)


def test_time_without_a_next_request_is_drawn_from_the_others() -> None:
    lower = np.array([0.2, 0.4, 0.0])
    assert completed(lower, np.array([0.2, 0.4, np.inf]))[2] in (0.2, 0.4)


def _visits(log: Path) -> Visits:
    return visits(sojourn.split(log).rows)
