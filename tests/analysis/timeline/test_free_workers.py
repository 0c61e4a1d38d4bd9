"""Workers that look free while requests wait: what is said of systems whose truth is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import sojourn
from sojourn.analyses.blame.section import blame_section
from sojourn.timeline.visits import visits
from wide_tables import one_of
from worker_log import WorkerSystem, constant, of_route, worker_log

EXPORT = (("/page", 0.97), ("/export", 0.03))

PLAIN = {
    "one worker": WorkerSystem(workers=1, load=0.7),
    "four": WorkerSystem(),
    "twelve, nearly full": WorkerSystem(workers=12, load=0.92),
    "little load": WorkerSystem(load=0.4),
    "bursts": WorkerSystem(load=0.6, burst=8),
    "work between two requests": WorkerSystem(workers=32, load=0.88, between=(0.0005, 0.0025)),
    "the same without names": WorkerSystem(workers=32, load=0.88, between=(0.0005, 0.0025), named=False),
    "constant services": WorkerSystem(load=0.9, service=constant(0.05)),
    "bodies that hold no worker": WorkerSystem(
        load=0.8, routes=EXPORT, body=of_route("/export", 2.0), body_holds=False
    ),
}
HELD = {
    "bound": WorkerSystem(load=0.8, groups=4),
    "pause": WorkerSystem(load=0.5, pauses=tuple((5.0 * k + 3, 5.0 * k + 3.8) for k in range(40))),
    "limit": WorkerSystem(workers=8, load=0.42, limit=4),
    "load_not_in_the_log": WorkerSystem(load=0.9, hidden=0.5),
    "absent": WorkerSystem(load=0.7, restart=(100, 1.0)),
}


TEXTS = {
    "bound": "bound to busy processes",
    "pause": "pauses",
    "limit": "limit",
    "load_not_in_the_log": "held by something else",
}


@pytest.mark.parametrize(("name", "seed"), one_of(3, PLAIN, [1, 2, 3]))
def test_plain_systems_have_no_unexplained_waiting(tmp_path: Path, name: str, seed: int) -> None:
    truth = worker_log(tmp_path / "a.jsonl", replace(PLAIN[name], seed=seed))
    result = sojourn.blame(tmp_path / "a.jsonl")
    assert result.looked_free < 0.05 * result.waited
    assert result.waited / result.requests == pytest.approx(truth.wait, abs=0.0007)
    assert not [failure for failure in blame_section(result).failures if "looked free" in failure]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", HELD)
def test_waiting_has_the_account_of_its_cause(tmp_path: Path, kind: str, seed: int) -> None:
    worker_log(tmp_path / "a.jsonl", replace(HELD[kind], seed=seed))
    result = sojourn.blame(tmp_path / "a.jsonl")
    assert result.looked_free < 0.1 * result.waited
    assert result.accounts[kind] > 0.1 * result.waited
    assert result.blamed + sum(result.accounts.values()) == pytest.approx(result.waited, abs=1e-6)
    assert not [name for name in result.accounts if name not in (kind, "dispatch", "imbalance")]
    assert result.victims["waited"].sum() == pytest.approx(result.waited)
    assert result.victims[kind].sum() == pytest.approx(result.accounts[kind])
    if kind != "absent":
        assert TEXTS[kind] in blame_section(result).sentence


def test_limits_and_shares_are_named(tmp_path: Path) -> None:
    suspects = {}
    for kind, system in HELD.items():
        worker_log(tmp_path / "a.jsonl", system)
        read = visits(sojourn.split(tmp_path / "a.jsonl").rows)
        assert read.phases is not None
        suspects[kind] = read.phases.backends[0].suspects
    assert suspects["limit"][0].number == 4
    assert suspects["load_not_in_the_log"][0].share == pytest.approx(0.5, abs=0.07)
    assert suspects["bound"] == ()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_slot_of_a_limit_needs_a_moment(tmp_path: Path, seed: int) -> None:
    system = WorkerSystem(workers=6, load=0.4, mean=0.02, limit=3, slot=(0.001, 0.003), seed=seed)
    worker_log(tmp_path / "a.jsonl", system)
    result = sojourn.blame(tmp_path / "a.jsonl")
    assert result.accounts["limit"] > 0.9 * result.waited
    read = visits(sojourn.split(tmp_path / "a.jsonl").rows)
    assert read.phases is not None
    assert [(each.kind, each.number) for each in read.phases.backends[0].suspects] == [("limit", 3)]


def test_a_limit_that_is_not_always_reached_is_not_load_outside_the_log(tmp_path: Path) -> None:
    """The limit's slots are so slow that requests wait beside free ones: no account of its own is certain."""
    system = WorkerSystem(workers=6, load=0.4, mean=0.02, limit=4, slot=(0.0, 0.01))
    worker_log(tmp_path / "a.jsonl", system)
    result = sojourn.blame(tmp_path / "a.jsonl")
    assert "load_not_in_the_log" not in result.accounts
    assert "limit" not in result.accounts
    section = blame_section(result)
    assert "looked free" in " ".join([section.sentence, *section.failures])


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_few_waits_beside_work_after_answers_are_not_load_outside_the_log(tmp_path: Path, seed: int) -> None:
    """One worker in 12 answers works on, and hardly any request waits: the route is named, or nothing is."""
    routes = (("/page", 0.92), ("/order", 0.08))
    system = WorkerSystem(
        requests=1_760, load=0.18, service=constant(0.025), mean=0.025, routes=routes, after=of_route("/order", 0.4),
        way=0.0008, seed=seed,
    )  # fmt: skip
    truth = worker_log(tmp_path / "a.jsonl", system)
    result = sojourn.blame(tmp_path / "a.jsonl")
    assert truth.wait < 0.006
    assert "load_not_in_the_log" not in result.accounts
    if result.phases.height:
        assert result.phases.row(0, named=True)["culprit"] == "/order"
        assert result.phases.row(0, named=True)["phase"] == "after"
    else:
        assert result.looked_free > 0.1 * result.waited


def test_unknown_requests_leave_the_cause_unknown(tmp_path: Path) -> None:
    """What requests without a known wait did to the workers is not known: no account of its own is derived."""
    log = tmp_path / "a.jsonl"
    worker_log(log, HELD["pause"])
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for number, line in enumerate(lines):
        if number % 50 == 0:
            line |= {"status": "504", "upstream_status": "504", "upstream_header_time": "-"}
            line |= {"queueing_delay": "", "service_time": "", "worker": ""}
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = sojourn.blame(log)
    assert set(result.accounts) == {"dispatch", "imbalance"}
    assert result.free_workers[0].suspects[0].kind == "abandoned_work"
    section = blame_section(result)
    assert "looked free" in " ".join([section.sentence, *section.failures])


def test_time_to_a_far_backend_is_the_way(tmp_path: Path) -> None:
    worker_log(tmp_path / "a.jsonl", WorkerSystem(load=0.09, way=0.05))
    result = sojourn.blame(tmp_path / "a.jsonl")
    assert result.looked_free < 0.02 * result.waited
    assert result.free_workers[0].way > 0.04
    assert "Mostly the way to a free worker" in blame_section(result).sentence


@pytest.mark.parametrize("kind", ["load_not_in_the_log", "absent"])
def test_utilisation_is_marked_as_a_lower_bound(tmp_path: Path, kind: str) -> None:
    truth = worker_log(tmp_path / "a.jsonl", HELD[kind])
    overall = sojourn.depth(tmp_path / "a.jsonl").overall
    assert overall["lower_bound"]
    assert overall["utilisation"] < truth.utilisation + 0.02


@pytest.mark.parametrize("kind", ["bound", "limit", "pause"])
def test_idle_workers_do_not_make_utilisation_a_lower_bound(tmp_path: Path, kind: str) -> None:
    truth = worker_log(tmp_path / "a.jsonl", HELD[kind])
    overall = sojourn.depth(tmp_path / "a.jsonl").overall
    assert not overall["lower_bound"]
    assert overall["utilisation"] == pytest.approx(truth.utilisation, abs=0.03)


@pytest.mark.parametrize("name", list(PLAIN)[:-1])
def test_utilisation_of_plain_systems_is_exact(tmp_path: Path, name: str) -> None:
    truth = worker_log(tmp_path / "a.jsonl", PLAIN[name])
    overall = sojourn.depth(tmp_path / "a.jsonl").overall
    assert not overall["lower_bound"]
    assert overall["utilisation"] == pytest.approx(truth.utilisation, abs=0.04)


@pytest.mark.parametrize("kind", ["pause", "load_not_in_the_log"])
def test_what_if_refuses_with_the_cause(tmp_path: Path, kind: str) -> None:
    worker_log(tmp_path / "a.jsonl", HELD[kind])
    result = sojourn.whatif(tmp_path / "a.jsonl", {"workers": "+1"})
    assert result.refused is not None
    assert TEXTS[kind] in result.refused
    assert "--workers" not in result.refused


@pytest.mark.parametrize("name", ["four", "twelve, nearly full", "work between two requests"])
def test_replay_includes_the_work_between_two_requests(tmp_path: Path, name: str) -> None:
    worker_log(tmp_path / "a.jsonl", PLAIN[name])
    result = sojourn.whatif(tmp_path / "a.jsonl", {"workers": "+1"})
    assert abs(result.error["mean"]) < 0.015
