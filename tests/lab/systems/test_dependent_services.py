"""Services that depend on the load: recognised with the effect, and no promise rests on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import sojourn
import systems.kinds  # noqa: F401 - registers the kinds
from sojourn.timeline.contention.independence import SLOW_TOGETHER, STATE, independence_of
from systems.kernel import Cores, Process
from systems.log import write_log
from systems.registry import KINDS
from systems.requests import Request, drawn
from systems.site import Setup, Site, serve


@pytest.mark.parametrize("name", ["shared-cores", "saturating-database", "lock", "gil"])
def test_shared_resource_is_recognised_by_the_state_at_the_start(tmp_path: Path, name: str) -> None:
    log, _, _ = KINDS[name].written(tmp_path)
    dependent = independence_of(sojourn.visits(log)).dependences
    assert dependent
    assert dependent[0].kind == STATE
    assert dependent[0].statistic > dependent[0].limit
    assert dependent[0].ratio is not None
    assert dependent[0].ratio > 1.2


def test_cache_that_all_refill_is_recognised_by_slow_services_together(tmp_path: Path) -> None:
    log, _, _ = KINDS["cache-refill"].written(tmp_path)
    assert [each.kind for each in independence_of(sojourn.visits(log)).dependences] == [SLOW_TOGETHER]


@pytest.mark.parametrize("name", ["lock", "cache-refill"])
def test_what_if_refuses_and_lists_the_dependence_where_no_law_fits(tmp_path: Path, name: str) -> None:
    log, _, _ = KINDS[name].written(tmp_path)
    result = sojourn.whatif(log, [{"workers": "+2"}, {"service": "x0.5"}])
    assert result.refused is not None
    assert result.variants == []
    assert result.dependence
    assert result.contention is None
    assert sojourn.whatif(log, {"workers": "+2"}, force=True).variants


@pytest.mark.parametrize("name", ["shared-cores", "gil"])
def test_laws_do_not_apply(tmp_path: Path, name: str) -> None:
    log, _, _ = KINDS[name].written(tmp_path)
    station = sojourn.laws(log).stations[0]
    assert station.believe is None
    assert all("share" in str(law.reason) for law in station.predictions if law.law != "closed_loop")


@pytest.mark.parametrize("name", ["noisy-neighbour", "cold-cache", "slow-worker", "daily-drift", "three-backends"])
def test_course_of_time_and_speed_of_workers_are_no_dependence(tmp_path: Path, name: str) -> None:
    log, _, _ = KINDS[name].written(tmp_path)
    assert independence_of(sojourn.visits(log)).dependences == ()


RAMP = 100.0  # s
Work = Callable[[Request, Site], Process]


def ramp(path: Path, work: Work, seed: int, backends: int = 3, most_rate: float = 64.0, seconds: float = RAMP) -> Path:
    """Write the log of backends of 4 workers, under a rate of arrivals that rises in a straight line."""
    count = int(most_rate * seconds / 2)
    requests = drawn(count, lambda t: most_rate * min(t / seconds, 1.0), seed=seed, most_rate=most_rate)
    write_log(path, serve(requests, Setup(workers=4, backends=backends, work=work)).requests)
    return path


def alone(request: Request, _site: Site) -> Process:
    """Serve a request with nothing shared."""
    yield request.service


def on_own_cores() -> Work:
    """Return services that compute on one of 2 cores of their backend."""
    cores: dict[tuple[Site, int], Cores] = {}

    def work(request: Request, site: Site) -> Process:
        yield cores.setdefault((site, request.backend), Cores(site.kernel, 2)).burn(request.service)

    return work


def on_a_database(connections: int) -> Work:
    """Return services that wait for one database, which serves so many of them at full speed."""
    shared: dict[Site, Cores] = {}

    def work(request: Request, site: Site) -> Process:
        yield shared.setdefault(site, Cores(site.kernel, connections)).burn(request.service)

    return work


@pytest.mark.parametrize("seed", range(5))
def test_capacity_sizes_backends_that_share_nothing(tmp_path: Path, seed: int) -> None:
    log = ramp(tmp_path / "a.jsonl", alone, seed, most_rate=200.0)
    result = sojourn.capacity(log, slo="p90=0.4", target_rate=600, instance="upstream")
    assert result.sizing is not None
    assert result.sizing.instances is not None
    assert result.notes == []


@pytest.mark.parametrize("seed", range(5))
def test_capacity_refuses_a_number_of_backends_that_share_a_database(tmp_path: Path, seed: int) -> None:
    log = ramp(tmp_path / "a.jsonl", on_a_database(4), seed)
    result = sojourn.capacity(log, slo="p90=0.3", target_rate=200, instance="upstream")
    assert result.sizing is not None
    assert result.sizing.instances is None
    assert "a dependency that serves" in str(result.sizing.reason)


@pytest.mark.parametrize("seed", range(5))
def test_capacity_sizes_backends_with_cores_of_their_own(tmp_path: Path, seed: int) -> None:
    log = ramp(tmp_path / "a.jsonl", on_own_cores(), seed, most_rate=110.0)
    result = sojourn.capacity(log, slo="p90=0.4", target_rate=600, instance="upstream")
    assert result.sizing is not None
    assert result.sizing.instances is not None
    assert any("share" in note for note in result.notes)
    assert not any("If all instances share it" in note for note in result.notes)


def test_capacity_of_a_whole_system_says_what_its_instances_must_not_share(tmp_path: Path) -> None:
    log = ramp(tmp_path / "a.jsonl", on_a_database(4), 1)
    result = sojourn.capacity(log, slo="p90=0.3", target_rate=200)
    assert result.sizing is not None
    assert result.sizing.instances is not None
    assert any("If all instances share it" in note for note in result.notes)


def test_capacity_says_that_a_log_without_waits_was_not_tested(tmp_path: Path) -> None:
    log = ramp(tmp_path / "a.jsonl", alone, 1, most_rate=200.0)
    hidden = ("queueing_delay", "service_time", "worker")
    lines = [{key: value for key, value in json.loads(line).items() if key not in hidden} for line in log.open()]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    sized = sojourn.capacity(log, slo="p90=0.4", target_rate=600, instance="upstream")
    assert any("they share nothing" in note for note in sized.notes)
    configured = sojourn.capacity(log, slo="p90=0.4", target_rate=600, instance="upstream", per_instance=20)
    assert configured.notes == []
