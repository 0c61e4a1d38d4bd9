"""Services that depend on the load: recognised with the effect, and no promise rests on them."""

from __future__ import annotations

from pathlib import Path

import pytest
import sojourn
import systems.kinds  # noqa: F401 - registers the kinds
from sojourn.timeline.independence import SLOW_TOGETHER, STATE, dependences
from systems.registry import KINDS


@pytest.mark.parametrize("name", ["shared-cores", "saturating-database", "lock", "gil"])
def test_shared_resource_is_recognised_by_the_state_at_the_start(tmp_path: Path, name: str) -> None:
    log, _, _ = KINDS[name].written(tmp_path)
    dependent = dependences(sojourn.visits(log))
    assert dependent
    assert dependent[0].kind == STATE
    assert dependent[0].statistic > dependent[0].limit
    assert dependent[0].ratio is not None
    assert dependent[0].ratio > 1.2


def test_cache_that_all_refill_is_recognised_by_slow_services_together(tmp_path: Path) -> None:
    log, _, _ = KINDS["cache-refill"].written(tmp_path)
    assert [each.kind for each in dependences(sojourn.visits(log))] == [SLOW_TOGETHER]


@pytest.mark.parametrize("name", ["shared-cores", "saturating-database", "lock", "gil", "cache-refill"])
def test_what_if_refuses_and_lists_the_dependence(tmp_path: Path, name: str) -> None:
    log, _, _ = KINDS[name].written(tmp_path)
    result = sojourn.whatif(log, [{"workers": "+2"}, {"service": "x0.5"}])
    assert result.refused is not None
    assert result.variants == []
    assert result.dependence
    assert sojourn.whatif(log, {"workers": "+2"}, force=True).variants


@pytest.mark.parametrize("name", ["shared-cores", "gil"])
def test_laws_do_not_apply(tmp_path: Path, name: str) -> None:
    log, _, _ = KINDS[name].written(tmp_path)
    station = sojourn.laws(log).stations[0]
    assert station.believe is None
    assert all("in service" in str(law.reason) for law in station.predictions if law.law != "closed_loop")


@pytest.mark.parametrize("name", ["noisy-neighbour", "cold-cache", "slow-worker", "daily-drift", "three-backends"])
def test_course_of_time_and_speed_of_workers_are_no_dependence(tmp_path: Path, name: str) -> None:
    log, _, _ = KINDS[name].written(tmp_path)
    assert dependences(sojourn.visits(log)) == ()
