"""Each kind of system is what it says."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
import systems.kinds  # noqa: F401 - registers the kinds
from systems.plain_systems import plain_system
from systems.registry import KINDS
from systems.requests import Change
from systems.truth import NOT_LOGGED, Truth

QUEUES_ELSEWHERE = {"far-backend", "light-load", "inner-pool", "thread-pool", "goroutines", "one-worker-each"}


@cache
def truth(name: str) -> Truth:
    return Truth(KINDS[name].simulation, KINDS[name].facts)


def test_has_at_least_forty_kinds() -> None:
    assert len(KINDS) >= 40


@pytest.mark.parametrize("name", KINDS)
def test_log_is_small_and_complete(name: str, tmp_path: Path) -> None:
    log, spans, written = KINDS[name].written(tmp_path)
    lines = log.read_text().splitlines()
    assert len(lines) == len(written.served().logged)
    assert 1500 <= len(lines) <= 8000
    assert all(isinstance(value, str) for value in json.loads(lines[0]).values())
    assert (spans is not None) == bool(KINDS[name].facts.spans)


@pytest.mark.parametrize("name", sorted(set(KINDS) - QUEUES_ELSEWHERE))
def test_requests_wait_for_workers(name: str) -> None:
    assert truth(name).queued > 0.005


@pytest.mark.parametrize("name", sorted(QUEUES_ELSEWHERE))
def test_no_request_waits_for_a_worker(name: str) -> None:
    assert truth(name).queued < 0.001


@pytest.mark.parametrize("name", sorted(KINDS))
def test_utilisation_is_a_share(name: str) -> None:
    utilisation = truth(name).utilisation
    assert utilisation is None or 0.05 < utilisation < 1.0


@pytest.mark.parametrize(
    ("name", "culprit", "least"),
    [
        ("streaming-body", "/export", 0.7),
        ("after-one-route", "/order", 0.8),
        ("slow-readers", "/file", 0.5),
        ("upload-before-start", "/upload", 0.5),
        ("reserved-workers", "/search", 0.9),
        ("hidden-load", NOT_LOGGED, 0.45),
    ],
)
def test_culprit_holds_the_workers(name: str, culprit: str, least: float) -> None:
    assert truth(name).blame[culprit] >= least
    assert sum(truth(name).blame.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["shared-cores", "saturating-database", "cache-refill", "gil"])
def test_more_workers_do_not_help_where_they_share_a_resource(name: str) -> None:
    assert truth(name).response(Change(workers=2))[1] > 0.9 * truth(name).response()[1]


@pytest.mark.parametrize("name", ["pool-of-4", "streaming-body", "after-one-route", "hidden-load", "priority"])
def test_more_workers_help_where_nothing_is_shared(name: str) -> None:
    assert truth(name).response(Change(workers=2))[0] < 0.8 * truth(name).response()[0]


def test_lock_and_pool_are_waited_for_inside_the_service() -> None:
    assert all(r.inner > 0 for r in truth("inner-pool").served().requests if r.headers - r.begun > r.service + 1e-9)
    assert sum(r.inner for r in truth("lock").served().requests) > 0


def test_limit_leaves_workers_idle() -> None:
    assert truth("limit-in-front").utilisation < 0.5
    assert all(r.got_worker == r.reached for r in truth("limit-in-front").served().requests)


def test_body_elsewhere_holds_no_worker() -> None:
    assert all(r.released == r.headers for r in truth("body-elsewhere").served().requests)


def test_hidden_load_is_half_of_the_load() -> None:
    served = truth("hidden-load").served()
    assert len(served.logged) / len(served.requests) == pytest.approx(0.5, abs=0.03)


def test_copies_and_abandoned_requests_are_logged_with_their_status() -> None:
    storm = [r.status for r in truth("retry-storm").served().requests]
    assert len(storm) > 3050
    assert storm.count(504) > 50
    assert [r.status for r in truth("abandoned").served().requests].count(499) > 20


def test_one_name_stands_for_many_workers() -> None:
    assert {r.worker for r in truth("one-worker-value").served().requests} == {"1001"}
    assert len({r.address for r in truth("two-addresses").served().requests}) == 2


def test_plain_systems_drawn_at_random_are_pools_under_the_load_they_name() -> None:
    for seed in range(4):
        system = plain_system(seed)
        served = system.simulation(Change())
        assert 1 <= served.workers <= 12
        assert 0.35 < Truth(system.simulation, system.facts).utilisation < 1.0
        assert plain_system(seed).facts.words == system.facts.words
