"""What services share, on systems whose truth is known: the capacity, the predictions, and the verdict."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import sojourn
import systems.kinds  # noqa: F401 - registers the kinds
from sojourn.export.memory import Memory
from sojourn.export.state import ServiceState
from sojourn.model.errors import SojournError
from sojourn.model.objective import objective_of
from sojourn.queueing.speed_laws import Places
from sojourn.timeline import sample
from sojourn.timeline.contention.load_dependence import LoadDependence
from sojourn.timeline.visits import visits
from systems.contended_study import contended_outcome, table
from systems.plain_systems import plain_system
from systems.registry import KINDS
from systems.requests import Change
from systems.truth import Truth, charge

MEAN, P99 = 0.05, 0.10


def written(folder: Path, name: str) -> tuple[Path, Truth]:
    log, _, truth = KINDS[name].written(folder)
    return log, truth


def state_of(log: Path) -> ServiceState:
    """The state of a service at the end of its log."""
    rows = sojourn.split(log, columns=("remote_addr", "connection", "method", "uri")).rows
    table_of = rows.collect()
    first, last = table_of["start"].min(), table_of["time"].max()
    return ServiceState("shop", rows, last, first, (last - first).total_seconds(), Memory())  # type: ignore[arg-type, operator]


@pytest.mark.parametrize(
    ("seeds", "least"), [((2, 9), 10), pytest.param((2, 3, 9, 14, 19, 24, 39), 20, marks=pytest.mark.thorough)]
)
def test_systems_drawn_at_random_are_predicted_or_refused(seeds: tuple[int, ...], least: int) -> None:
    outcomes = [contended_outcome(seed) for seed in seeds]
    inside = [low <= each.capacity <= high for each in outcomes for low, high in each.intervals]
    assert sum(inside) >= len(inside) - len(seeds) // 7
    errors = [pair for each in outcomes for pair in each.errors.values() if pair is not None]
    assert len(errors) > least
    assert max(abs(mean) for mean, _ in errors) <= MEAN
    assert max(abs(p99) for _, p99 in errors) <= P99
    assert f"{len(seeds)} systems drawn at random" in table(outcomes)


@pytest.mark.parametrize(
    ("name", "scope", "capacity", "changes"),
    [
        ("shared-cores", "backend", 2.0, {"workers=+1": Change(workers=1), "workers=+2": Change(workers=2)}),
        ("cores-of-a-host", "host", 3.0, {"workers=+1": Change(workers=1), "workers=+2": Change(workers=2)}),
        ("saturating-database", "all", 4.0, {"workers=+2": Change(workers=2), "workers=-1": Change(workers=-1)}),
        ("one-worker-each", "backend", 2.0, {"workers=+1": Change(workers=1), "cores=+1": Change(cores=1)}),
    ],
)
def test_more_workers_on_the_same_cores(
    tmp_path: Path, name: str, scope: str, capacity: float, changes: dict[str, Change]
) -> None:
    log, truth = written(tmp_path, name)
    result = sojourn.whatif(log, [dict([change.split("=", 1)]) for change in changes])
    assert result.refused is None
    assert result.contention is not None
    assert result.contention["scope"] == scope
    resource = result.contention["resources"][0]
    assert resource["low"] <= capacity <= resource["high"]
    assert resource["scarcest"]
    predicted = {"=".join(*variant.settings.items()): variant.response_time for variant in result.variants}
    for change, real in changes.items():
        if change not in predicted:
            assert change in {"=".join(*each.settings.items()) for each in result.withheld}
            continue
        mean, p99 = truth.response(real)
        assert predicted[change]["mean"] == pytest.approx(mean, rel=MEAN)
        assert predicted[change]["p99"] == pytest.approx(p99, rel=P99)
    assert predicted


def test_a_pool_inside_the_app_is_inferred_and_one_place_more_is_predicted(tmp_path: Path) -> None:
    log, truth = written(tmp_path, "inner-pool")
    result = sojourn.whatif(log, [{"pool": "+1"}, {"workers": "+1"}, {"pool": "7"}])
    assert result.contention is not None
    queue = result.contention["inner_queues"][0]
    inner = [request.inner for request in truth.served().logged]
    assert (queue["places"], queue["low"], queue["high"]) == (5, 5, 5)
    assert queue["wait"] == pytest.approx(sum(inner) / len(inner), rel=0.02)
    assert [each.settings for each in result.withheld] == [{"workers": "+1"}]
    figures = {variant.settings["pool"]: variant.response_time["mean"] or 0.0 for variant in result.variants}
    assert figures["7"] < figures["+1"] < (result.measured["response_time"]["mean"] or 0.0)


@pytest.mark.parametrize("name", ["inner-pool", "goroutines"])
def test_blame_inside_the_app_is_charged_to_those_who_use_what_others_wait_for(tmp_path: Path, name: str) -> None:
    log, truth = written(tmp_path, name)
    requests = truth.served().logged
    inner = sum(request.inner for request in requests)
    if name == "inner-pool":
        seconds: dict[str, float] = defaultdict(float)
        waits = [(request.begun, request.begun + request.inner) for request in requests]
        holds = [(request.begun + request.inner, request.headers, request.route) for request in requests]
        charge(waits, holds, seconds)
    else:  # Each service in progress is slowed as much as the others, and slows them as much.
        seconds = {"/page": 0.0, "/search": 0.0}
        for request in requests:
            seconds[request.route] += request.inner
    result = sojourn.blame(log)
    assert result.inner is not None
    assert result.inner.waited == pytest.approx(inner, rel=0.05)
    shares = {row["culprit"]: row["share"] for row in result.inner.culprits.to_dicts()}
    assert shares == pytest.approx({route: part / inner for route, part in seconds.items()}, abs=0.02)
    assert result.to_dict()["inner"]["inferred"] is True


def test_blame_of_a_plain_system_has_nothing_inside(tmp_path: Path) -> None:
    assert sojourn.blame(written(tmp_path, "pool-of-4")[0]).inner is None


def test_the_verdict_distinguishes_waiting_inside_the_app_from_work(tmp_path: Path) -> None:
    log, truth = written(tmp_path, "goroutines")
    result = sojourn.split(log)
    assert result.verdict.cause == "inside"
    assert result.inner is not None
    assert result.inner.share == pytest.approx(truth.causes["inside"], abs=0.05)
    answer = result.to_dict()["inner_queue"]
    assert answer["inferred"] is True
    assert answer["mean"] == pytest.approx(result.inner.mean)
    assert sojourn.split(written(tmp_path, "pool-of-4")[0]).inner is None


def test_of_a_long_log_a_stretch_is_looked_at_before_all_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, truth = written(tmp_path, "goroutines")
    monkeypatch.setattr(sample, "STRETCH", 1000)
    monkeypatch.setattr(sample, "FEW", 2000)
    inner = sojourn.split(log).inner
    assert inner is not None
    assert len(inner.contention.visits) == len(truth.served().logged)
    assert inner.share == pytest.approx(truth.causes["inside"], abs=0.05)
    assert sojourn.split(written(tmp_path, "pool-of-4")[0]).inner is None


def test_where_no_law_fits_the_split_says_that_it_cannot_tell(tmp_path: Path) -> None:
    log, _ = written(tmp_path, "event-loop")
    result = sojourn.split(log)
    assert result.inner is not None
    assert result.inner.share is None
    assert any("cannot tell waiting from work" in note for note in result.notes)
    refused = sojourn.whatif(log, {"workers": "+1"}).refused
    assert refused is not None
    assert "cannot tell waiting from work" in refused
    assert "--workers" not in refused


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("shared-cores", "cores"),
        ("saturating-database", "dependency"),
        ("inner-pool", "places"),
        ("pool-of-4", "workers"),
    ],
)
def test_the_gauge_names_the_resource_that_is_short(tmp_path: Path, name: str, short: str) -> None:
    log, _ = written(tmp_path, name)
    state = state_of(log)
    samples = list(state.signals([objective_of("queueing_delay:p95=0.1")]))
    values = {sample.labels[1]: sample.value for sample in samples if sample.name == "sojourn_bottleneck"}
    assert values == {each: float(each == short) for each in ("workers", "cores", "dependency", "places")}
    needed = [sample for sample in samples if sample.name == "sojourn_workers_needed"]
    assert bool(needed) == (short == "workers")


@pytest.mark.parametrize("name", ["shared-cores", "saturating-database"])
def test_live_signal_has_no_more_workers_than_help(tmp_path: Path, name: str) -> None:
    """Its service times are those of a request alone, and of more workers the truth says that they do not help."""
    log, truth = written(tmp_path, name)
    state = state_of(log)
    list(state.signals([objective_of("queueing_delay:p95=0.1")]))
    demand = state.demand(None)
    assert demand is not None
    assert (demand.refused, demand.factor) == (None, 1.0)
    assert demand.times is not None
    last = sorted(truth.served().requests, key=lambda request: request.headers)[-500:]
    alone = sum(request.headers - request.begun - request.inner for request in last) / len(last)
    assert demand.times.mean == pytest.approx(alone, rel=0.1)
    assert demand.useful <= truth.served().workers
    assert truth.response(Change(workers=4))[0] >= truth.response(Change())[0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cores-of-a-host", "service_depends_on_load"),
        ("inner-pool", "several_in_one_worker"),
        ("pool-behind-workers", "service_depends_on_load"),
        ("pool-of-4", None),
    ],
)
def test_live_signal_is_refused_where_more_workers_may_not_help(tmp_path: Path, name: str, reason: str | None) -> None:
    state = state_of(written(tmp_path, name)[0])
    list(state.signals([objective_of("queueing_delay:p95=0.1")]))
    demand = state.demand(None)
    assert demand is not None
    assert demand.refused == reason
    assert demand.useful == float("inf")


def test_a_pool_of_threads_inside_an_async_app_has_its_places(tmp_path: Path) -> None:
    log, _ = written(tmp_path, "thread-pool")
    result = sojourn.whatif(log, {"pool": "+1"})
    assert result.contention is not None
    assert result.contention["inner_queues"][0]["places"] == 8


def test_slow_times_and_workers_are_named_and_are_no_load(tmp_path: Path) -> None:
    courses = sojourn.whatif(written(tmp_path, "noisy-neighbour")[0], {"workers": "+1"}).courses
    assert [course["kind"] for course in courses] == ["time"] * 3
    begins = [datetime.fromisoformat(course["begin"]).second % 30 for course in courses]
    assert begins == pytest.approx([20, 20, 20], abs=3)
    assert max(course["factor"] for course in courses) == pytest.approx(1.8, abs=0.2)
    cold = sojourn.whatif(written(tmp_path, "cold-cache")[0], {"workers": "+1"}).courses
    assert [course["kind"] for course in cold] == ["start"]
    slow = sojourn.whatif(written(tmp_path, "slow-worker")[0], {"workers": "+1"}).courses
    assert [(course["kind"], course["worker"]) for course in slow] == [("worker", "1001")]
    assert sojourn.whatif(written(tmp_path, "pool-of-4")[0], {"workers": "+1"}).courses == []
    assert sojourn.whatif(written(tmp_path, "goroutines")[0], {"cores": "+1"}).courses == []


def test_capacity_names_the_rate_at_which_a_shared_resource_saturates(tmp_path: Path) -> None:
    log, truth = written(tmp_path, "saturating-database")
    result = sojourn.capacity(log, slo="p99=2", target_rate=200.0)
    assert result.contention is not None
    resource = result.contention["resources"][0]
    requests = truth.served().requests
    demand = sum(request.headers - request.begun - request.inner for request in requests) / len(requests)
    assert resource["saturates_at"] == pytest.approx(4 / demand, rel=0.1)


def test_hosts_are_taken_from_the_option_and_from_the_addresses(tmp_path: Path) -> None:
    log, _ = written(tmp_path, "saturating-database")
    hosts = {f"10.0.0.{number}:8080": "one" for number in (1, 2, 3)}
    result = sojourn.whatif(log, {"workers": "+1"}, host=hosts)
    assert result.contention is not None
    assert result.contention["resources"][0]["name"] == "host one"


@pytest.mark.parametrize("name", ["pool-behind-workers", "slots-behind-backends"])
def test_requests_wait_for_a_worker_and_in_it_for_a_place(tmp_path: Path, name: str) -> None:
    log, truth = written(tmp_path, name)
    changes = {
        "pool=+1": Change(cores=1),
        "pool=-1": Change(cores=-1),
        "workers=+1": Change(workers=1),
        "workers=-1": Change(workers=-1),
    }
    result = sojourn.whatif(log, [dict([change.split("=", 1)]) for change in changes])
    assert result.refused is None
    assert result.contention is not None
    (queue,) = result.contention["inner_queues"]
    assert queue["low"] <= 3 <= queue["high"]
    assert queue["scarcest"]
    assert queue["busy"] > queue["workers_busy"]
    for variant in result.variants:
        mean, p99 = truth.response(changes["=".join(*variant.settings.items())])
        assert variant.response_time["mean"] == pytest.approx(mean, rel=MEAN)
        assert variant.response_time["p99"] == pytest.approx(p99, rel=P99)
    assert not result.withheld
    both = sojourn.whatif(log, [{"cores": "+1"}, {"dependency": 0.5}])
    assert {withheld.reason for withheld in both.withheld} == {
        "requests wait for places inside the app, and what they do there does not show"
    }
    with pytest.raises(SojournError, match="no place would be left"):
        sojourn.whatif(log, {"pool": "-3"})


def test_more_workers_are_withheld_where_services_may_compute(tmp_path: Path) -> None:
    # Two workers on two cores never slow each other: the log is the same if they wait.
    cores = plain_system(3)
    log, _, _ = cores.written(tmp_path)
    workers = sojourn.whatif(log, {"workers": "+1"}).workers[0]["workers"]
    changes = [{"workers": "+2"}, {"balancer": "shared_queue"}]
    withheld = sojourn.whatif(log, changes, cores=workers)
    assert [each.settings for each in withheld.withheld] == [{"workers": "+2"}]
    assert "wait or compute" in withheld.withheld[0].reason
    assert [variant.settings for variant in withheld.variants] == [{"balancer": "shared_queue"}]
    # More cores than the changed workers: nothing depends on it. Fewer than the log has in progress: the log shows that
    # services wait.
    for number in (workers + 2, max(workers // 3, 1)):
        assert not sojourn.whatif(log, changes, cores=number).withheld
    assert any("--cores" in note for note in sojourn.whatif(log, changes).notes)
    assert not any("--cores" in note for note in sojourn.whatif(log, changes, cores=workers + 2).notes)
    with pytest.raises(SojournError, match="cores: 0"):
        sojourn.whatif(log, changes, cores=0)


def test_other_numbers_of_places_that_fit_must_agree(tmp_path: Path) -> None:
    log, _ = written(tmp_path, "pool-behind-workers")
    contention = LoadDependence.of(visits(sojourn.split(log).rows)).contention
    assert contention is not None
    (queue,) = contention.inner
    assert contention.choices() == [(Places(3),)]
    doubtful = replace(contention, inner=(replace(queue, others={4: queue.waits / 2}),))
    assert doubtful.choices() == [(Places(3),), (Places(4),)]
    three, four = (doubtful.demands(laws)[queue.rows] for laws in doubtful.choices())
    assert four - three == pytest.approx(queue.waits / 2)
    assert (three >= -1e-9).all()
