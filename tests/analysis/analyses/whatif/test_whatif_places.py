"""What keeps requests from free workers, replayed: processes with queues of their own, limits, absent workers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sojourn
from sojourn.analyses.whatif.binding import AGES, BY_CLIENT, IN_TURN, LEAST_LOADED, RANDOM, Binding, binding_of, bound
from sojourn.analyses.whatif.section import whatif_section
from sojourn.analyses.whatif.workload import workload_of
from sojourn.model.errors import SojournError
from sojourn.queueing.replay import replay
from sojourn.queueing.system import System
from worker_log import WorkerSystem, worker_log

BOUND = WorkerSystem(load=0.7, groups=4)
THREADS = WorkerSystem(workers=8, load=0.75, groups=4)
LIMITED = WorkerSystem(workers=8, load=0.42, limit=4)
ABSENT = WorkerSystem(load=0.7, restart=(100, 1.0))


def _predicted(log: Path, setting: dict[str, str]) -> dict[str, float | None]:
    result = sojourn.whatif(log, setting)
    assert result.refused is None
    assert not result.withheld
    return result.variants[0].response_time


@pytest.mark.parametrize("seed", [1, 2])
def test_one_queue_for_all_processes(tmp_path: Path, seed: int) -> None:
    worker_log(tmp_path / "a.jsonl", replace(BOUND, seed=seed))
    one = worker_log(tmp_path / "b.jsonl", replace(BOUND, groups=1, seed=seed))
    predicted = _predicted(tmp_path / "a.jsonl", {"processes": "one_queue"})
    assert predicted["mean"] == pytest.approx(np.mean(one.responses), rel=0.1)
    assert predicted["p99"] == pytest.approx(np.quantile(one.responses, 0.99), rel=0.1)


@pytest.mark.parametrize("seed", [1, 2])
def test_one_process_more(tmp_path: Path, seed: int) -> None:
    worker_log(tmp_path / "a.jsonl", replace(BOUND, seed=seed))
    more = [
        worker_log(tmp_path / "b.jsonl", replace(BOUND, workers=5, groups=5, load=0.7 * 4 / 5, seed=number))
        for number in range(5)
    ]
    predicted = _predicted(tmp_path / "a.jsonl", {"workers": "+1"})
    assert predicted["mean"] == pytest.approx(np.mean([np.mean(each.responses) for each in more]), rel=0.2)


def test_threads_of_a_process_share_its_queue(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    worker_log(log, THREADS)
    # Workers 0 and 1 belong to the first process, and so on.
    text = log.read_text()
    for worker in range(8):
        text = text.replace(f'"worker": "{worker}.0"', f'"worker": "{100 + worker // 2}.{worker}"')
    log.write_text(text)
    workload = workload_of(sojourn.split(log).rows)
    assert workload.visits.places.workers.tolist() == [2, 2, 2, 2]
    result = sojourn.whatif(log, {"workers": "+1"})
    assert "queues of their own" in result.withheld[0].reason
    assert "queues of their own" in whatif_section(result).sentence
    predicted = _predicted(log, {"service": "x0.8"})
    assert predicted["mean"] is not None


def test_other_balancer_is_withheld_with_the_reason(tmp_path: Path) -> None:
    worker_log(tmp_path / "a.jsonl", BOUND)
    result = sojourn.whatif(tmp_path / "a.jsonl", [{"balancer": "shared_queue"}, {"processes": "one_queue"}])
    assert [change.settings for change in result.withheld] == [{"balancer": "shared_queue"}]
    assert [variant.settings for variant in result.variants] == [{"processes": "one_queue"}]
    assert result.to_dict()["withheld"][0]["set"] == {"balancer": "shared_queue"}
    assert any("is not predicted" in note for note in whatif_section(result).notes)


def test_usual_changes_include_what_can_be_changed(tmp_path: Path) -> None:
    for system, change in ((BOUND, {"processes": "one_queue"}), (LIMITED, {"limit": "+1"})):
        worker_log(tmp_path / "a.jsonl", system)
        assert change in [variant.settings for variant in sojourn.whatif(tmp_path / "a.jsonl").variants]


def test_limit_in_front(tmp_path: Path) -> None:
    worker_log(tmp_path / "a.jsonl", LIMITED)
    result = sojourn.whatif(tmp_path / "a.jsonl", {"workers": "+2"})
    assert result.refused is None
    assert abs(result.variants[0].change["mean"]) < 1e-9
    assert any("a limit is in front of them" in note for note in result.notes)
    raised = worker_log(tmp_path / "b.jsonl", replace(LIMITED, limit=5))
    predicted = _predicted(tmp_path / "a.jsonl", {"limit": "+1"})
    assert predicted["mean"] == pytest.approx(np.mean(raised.responses), rel=0.05)


@pytest.mark.parametrize(("setting", "text"), [({"limit": "+1"}, "no limit"), ({"limit": "0"}, "no place")])
def test_limit_that_is_not_there(tmp_path: Path, setting: dict[str, str], text: str) -> None:
    worker_log(tmp_path / "a.jsonl", WorkerSystem())
    if text == "no limit":
        assert text in sojourn.whatif(tmp_path / "a.jsonl", setting).withheld[0].reason
    else:
        with pytest.raises(SojournError, match=text):
            sojourn.whatif(tmp_path / "a.jsonl", setting)


def test_new_limit_lets_fewer_pass(tmp_path: Path) -> None:
    worker_log(tmp_path / "a.jsonl", WorkerSystem(load=0.5))
    limited = worker_log(tmp_path / "b.jsonl", WorkerSystem(load=0.5, limit=3))
    predicted = _predicted(tmp_path / "a.jsonl", {"limit": "3"})
    assert predicted["mean"] == pytest.approx(np.mean(limited.responses), rel=0.05)


@pytest.mark.parametrize("seed", [1, 2])
def test_workers_that_are_never_absent(tmp_path: Path, seed: int) -> None:
    worker_log(tmp_path / "a.jsonl", replace(ABSENT, seed=seed))
    result = sojourn.whatif(tmp_path / "a.jsonl", [{"workers": "+1"}, {"service": "x0.8"}, {"absent": "none"}])
    assert [change.settings for change in result.withheld] == [{"workers": "+1"}, {"service": "x0.8"}]
    assert all("absent" in change.reason for change in result.withheld)
    assert abs(result.error["mean"]) < 0.05
    present = worker_log(tmp_path / "b.jsonl", replace(ABSENT, restart=None, seed=seed))
    predicted = result.variants[0].response_time
    assert predicted["mean"] == pytest.approx(np.mean(present.responses), rel=0.03)
    assert predicted["p99"] == pytest.approx(np.quantile(present.responses, 0.99), rel=0.05)


@pytest.mark.parametrize(
    ("rule", "age"), [(RANDOM, 0.0), (IN_TURN, 0.0), (LEAST_LOADED, 0.0), (LEAST_LOADED, 0.2), (BY_CLIENT, 0.0)]
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rule_is_recognised(rule: str, age: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 5_000
    arrival, services = np.cumsum(rng.exponential(1 / 60, count)), rng.exponential(0.05, count)
    client = rng.integers(0, 40, count)
    process = (
        client % 4 if rule == BY_CLIENT else bound(Binding(rule, np.full(4, 0.25), age), arrival, services, 4, seed)
    )
    outcome = replay(arrival, services, System((1,) * 4, balancer="given"), backend=process)
    inferred = binding_of(arrival, arrival + outcome.sojourn, process, client)
    assert inferred.rule == rule
    assert abs(AGES.index(inferred.age) - AGES.index(age)) <= 1


def test_least_loaded_with_no_age_is_the_least() -> None:
    arrival, services = np.array([0.0, 0.1, 0.2, 0.3]), np.array([1.0, 1.0, 0.05, 1.0])
    process = bound(Binding(LEAST_LOADED, np.full(3, 1 / 3)), arrival, services, 3, 1)
    assert len(set(process[:3].tolist())) == 3
    assert process[3] == process[2]
