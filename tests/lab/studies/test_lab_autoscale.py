"""The autoscaler: its decision, its yardstick, its signals, and the whole loop behind nginx."""

from __future__ import annotations

import math
import time
from pathlib import Path
from threading import Thread
from typing import get_args
from urllib.request import urlopen

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_support import eventually, find_scenario, missed, sound_run
from prometheus_client import CollectorRegistry, Gauge, Histogram, start_http_server
from prometheus_client.openmetrics.exposition import generate_latest
from sojourn.queueing.theory import erlang_c
from sojourn_lab.errors import LabError
from sojourn_lab.experiments.runner import experiment_of
from sojourn_lab.load.plan import ClientRecord, Window
from sojourn_lab.load.schedules import poisson_instants
from sojourn_lab.measure.proc import run_times_of
from sojourn_lab.runtime.backends import started_backend
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import group_members
from sojourn_lab.runtime.proxy import Upstreams, http_text, server_text
from sojourn_lab.scenario.experiment_settings import Autoscale, Signal
from sojourn_lab.scenario.run_options import RunOptions, scenario_with_options
from sojourn_lab.scenario.scaling import scenario_with_time_scaled
from sojourn_lab.scenario.topology import Topology
from studies.autoscale.case import exporter_options
from studies.autoscale.controller import Look, desired_workers, recommended_workers
from studies.autoscale.figures import (
    Needed,
    Wait,
    case_figures,
    changes_of,
    counts_between,
    waits_in,
    worker_seconds,
)
from studies.autoscale.loop import Loop, Recorded, Values
from studies.autoscale.measure import SCENARIO_FILE
from studies.autoscale.oracle import (
    Objective,
    started_with,
    waits_of,
    window_edges,
    workers_needed,
)
from studies.autoscale.page import filled, page
from studies.autoscale.pictures import write_pictures
from studies.autoscale.recorded import SETTINGS, measurement_of
from studies.autoscale.signals import (
    STATUS_LOCATION,
    STATUS_PATH,
    fetched,
    quantile_between,
    requests_in_flight,
    scrape_of,
)
from studies.autoscale.workers import CpuTimes, Workers, cores_per_worker, live_workers

OBJECTIVE = Objective(0.1, 0.95)
SCENARIO = find_scenario(str(SCENARIO_FILE))


def settings(signal: Signal, **more: float) -> Autoscale:
    return msgspec.convert({"signal": signal, "stabilisation": 10.0, **more}, Autoscale)


@pytest.mark.parametrize(
    ("signal", "workers", "value", "recommended"),
    [
        # ceil(workers * value / target) with the target 0.7
        ("cpu", 4, 0.35, 2),
        ("cpu", 4, 1.0, 6),
        ("in_flight", 4, 2.1, 12),
        ("cpu_of_busy", 10, 0.63, 10),  # a ratio of 0.9 is within the tolerance
        ("cpu_of_busy", 10, 0.62, 9),
        ("queueing_delay", 8, 0.101, 10),
        ("queueing_delay", 8, 0.25, 12),
        ("queueing_delay", 8, 0.5, 16),
        ("queueing_delay", 1, 0.15, 2),
        ("queueing_delay", 8, 0.05, 8),
        ("queueing_delay", 8, 0.0, 6),
        ("queueing_delay", 2, 0.0, 1),
        ("workers_needed", 2, 7.0, 7),
        ("workers_needed", 2, 6.2, 7),
        ("workers_needed", 2, math.inf, 16),
        ("workers_needed", 5, math.nan, None),
        ("workers_live", 2, 7.0, 7),
        ("workers_live", 5, None, None),
        ("cpu", 5, None, None),
        ("fixed_mean", 5, 3.0, 5),
    ],
)
def test_recommendation_of_one_look(signal: Signal, workers: int, value: float | None, recommended: int | None) -> None:
    assert recommended_workers(settings(signal), 0.7, Look(0.0, workers, value)) == recommended


def test_number_rises_at_once_and_falls_after_the_stabilisation_window() -> None:
    needed = [3, 9, 4, 4, 4, 4, 4, 4]
    looks = [Look(2.0 * number, 3, float(value)) for number, value in enumerate(needed)]
    set_numbers = [desired_workers(settings("workers_needed"), 0.7, looks[:count]) for count in range(1, 9)]
    # The 9 of second 2 holds up to and with second 12.
    assert set_numbers == [3, 9, 9, 9, 9, 9, 9, 4]


@given(st.lists(st.floats(0.0, 100.0) | st.none(), min_size=1, max_size=20), st.sampled_from(["cpu", "in_flight"]))
def test_number_is_never_outside_its_limits(values: list[float | None], signal: Signal) -> None:
    looks = [Look(2.0 * number, 5, value) for number, value in enumerate(values)]
    assert 3 <= desired_workers(settings(signal, minimum=3, maximum=7), 0.7, looks) <= 7


def test_factor_applies_to_the_threshold_of_the_delay() -> None:
    def recommended(factor: float) -> int | None:
        return recommended_workers(settings("queueing_delay", factor=factor), 0.7, Look(0.0, 8, 0.15))

    assert [recommended(factor) for factor in (0.5, 1.0, 2.0)] == [12, 10, 8]


def test_look_without_a_value_recommends_nothing() -> None:
    looks = [Look(0.0, 3, 9.0), Look(2.0, 9, 4.0), *(Look(2.0 * number, 9, None) for number in range(2, 8))]
    numbers = [desired_workers(settings("workers_live"), 0.7, looks[:count]) for count in range(1, 8)]
    # Were the 9 that is set repeated by each lost scrape, it would be held for as long as scrapes are lost.
    assert numbers == [9, 9, 9, 9, 9, 9, 4]


def test_decision_needs_a_look() -> None:
    with pytest.raises(ValueError, match="at least one look"):
        desired_workers(settings("cpu"), 0.7, [])


def test_waits_are_those_of_one_queue_for_all_workers() -> None:
    waits, free = waits_of([0.0, 0.0, 1.0, 1.5], [3.0, 2.0, 1.0, 1.0], [0.0, 0.0])
    assert waits == [0.0, 0.0, 1.0, 1.5]
    assert sorted(free) == [3.0, 4.0]


def test_workers_that_are_free_go_first_and_new_ones_are_free_at_once() -> None:
    assert started_with([5.0, 1.0, 3.0], 2, 4.0) == [3.0, 5.0]
    assert started_with([5.0], 3, 4.0) == [5.0, 4.0, 4.0]


@given(st.integers(0, 2**32), st.floats(5.0, 60.0))
def test_yardstick_is_the_fewest_with_which_each_window_holds(seed: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    arrivals = poisson_instants(rate, 12.0, rng)
    services = rng.exponential(0.1, len(arrivals))
    edges = window_edges(2.0, 12.0, 2.0)
    needed = workers_needed(arrivals, services, edges, OBJECTIVE, 64)
    places = np.searchsorted(arrivals, edges)
    _, free = waits_of(arrivals[: places[0]].tolist(), services[: places[0]].tolist(), [-1.0] * 64)

    def holds(workers: int, number: int) -> bool:
        first, last = places[number], places[number + 1]
        waits, _ = waits_of(
            arrivals[first:last].tolist(), services[first:last].tolist(), started_with(free, workers, edges[number])
        )
        return sum(wait <= 0.1 for wait in waits) >= 0.95 * len(waits) - 1e-9

    for number, workers in enumerate(needed):
        assert holds(workers, number)
        assert workers == 1 or not holds(workers - 1, number)
        first, last = places[number], places[number + 1]
        free = waits_of(
            arrivals[first:last].tolist(), services[first:last].tolist(), started_with(free, workers, edges[number])
        )[1]


def test_yardstick_of_a_long_window_is_that_of_erlang_c() -> None:
    rng = np.random.default_rng(5)
    load, mean = 6.0, 0.1
    arrivals = poisson_instants(load / mean, 2_000.0, rng)
    needed = workers_needed(arrivals, rng.exponential(mean, len(arrivals)), [0.0, 2_000.0], OBJECTIVE, 64)

    def beyond(workers: int) -> float:
        return erlang_c(load, workers) * math.exp(-(workers - load) * OBJECTIVE.threshold / mean)

    assert needed == [min(count for count in range(7, 64) if beyond(count) <= 0.05)]


def test_yardstick_stops_at_its_limit() -> None:
    arrivals = np.arange(100) * 0.01
    assert workers_needed(arrivals, np.full(100, 1.0), [0.0, 1.0], OBJECTIVE, 5) == [5]


def exposition(delays: list[float], needed: float, live: float | None = None) -> str:
    registry = CollectorRegistry()
    buckets = (0.01, 0.1, 1.0, math.inf)
    histogram = Histogram(
        "sojourn_queueing_delay_seconds", "Delay", ["service", "route"], registry=registry, buckets=buckets
    )
    for number, delay in enumerate(delays):
        histogram.labels("mine", f"/{number % 2}").observe(delay)
        histogram.labels("other", "/").observe(5.0)
    gauge = Gauge("sojourn_workers_needed", "Workers", ["service", "objective", "method"], registry=registry)
    gauge.labels("mine", "queueing_delay:p95=0.1", "replay").set(needed)
    gauge.labels("mine", "queueing_delay:p95=0.1", "erlang_c").set(99.0)
    gauge.labels("other", "queueing_delay:p95=0.1", "replay").set(98.0)
    gauge.labels("other", "queueing_delay:p95=0.1", "live").set(97.0)
    refused = Gauge("sojourn_live_refused", "Refused", ["service", "reason"], registry=registry)
    for service in ("mine", "other"):
        for reason in ("no_status", "several_nginx"):
            refused.labels(service, reason).set(service == "mine" and live is None and reason == "several_nginx")
    if live is not None:
        gauge.labels("mine", "queueing_delay:p95=0.1", "live").set(live)
    text: bytes = generate_latest(registry)
    return text.decode()


def test_quantile_is_of_what_was_counted_between_two_scrapes() -> None:
    before = scrape_of(exposition([5.0] * 50, 3.0), "mine")
    after = scrape_of(exposition([5.0] * 50 + [0.05] * 80 + [0.5] * 20, 4.0), "mine")
    assert (before.needed, after.needed) == (3.0, 4.0)
    # Rank 95 of 100: 15 of the 20 in the bucket from 0.1 to 1.
    assert quantile_between(before.delays, after.delays, 0.95) == pytest.approx(0.1 + 0.9 * 15 / 20)
    assert quantile_between(before.delays, after.delays, 0.4) == pytest.approx(0.01 + 0.09 * 40 / 80)
    assert quantile_between({}, before.delays, 0.95) == 1.0  # beyond the last bound
    assert quantile_between(after.delays, after.delays, 0.95) is None
    assert quantile_between({}, scrape_of(exposition([0.002] * 10, 1.0), "mine").delays, 0.5) == pytest.approx(0.005)


def test_live_gauge_is_absent_with_a_reason() -> None:
    assert (scrape_of(exposition([], 3.0, 6.0), "mine").live, scrape_of(exposition([], 3.0), "mine").live) == (
        6.0,
        None,
    )
    assert scrape_of(exposition([], 3.0), "mine").refused == "several_nginx"
    assert scrape_of(exposition([], 3.0, 6.0), "mine").refused == ""
    assert (scrape_of(exposition([], 3.0), "other").live, scrape_of(exposition([], 3.0), "other").refused) == (97.0, "")


def test_only_the_live_signal_reads_the_counters_of_nginx_through_the_exporter() -> None:
    def options(signal: Signal, **more: float) -> str:
        return " ".join(exporter_options(settings(signal, **more), "http://127.0.0.1:80/lab-status", 5.3))

    live = options("workers_live", signal_share=0.9)
    assert "--status http://127.0.0.1:80/lab-status --hold 10 --startup 5.3" in live
    assert "--objective queueing_delay:p90=0.1" in live
    assert "--objective queueing_delay:p95=0.1" in options("workers_live")
    signals = [name for name in get_args(Signal) if name != "workers_live"]
    assert not [name for name in signals if "--status" in options(name)]


def test_service_without_requests_has_no_values() -> None:
    scrape = scrape_of(exposition([0.1], 3.0), "unknown")
    assert (scrape.delays, scrape.needed) == ({}, None)
    assert quantile_between(scrape.delays, scrape.delays, 0.95) is None


def test_rejects_text_that_is_no_exposition() -> None:
    with pytest.raises(LabError, match="the exporter's metrics cannot be read"):
        scrape_of("<html>", "mine")
    with pytest.raises(LabError, match="does not show the requests in flight"):
        requests_in_flight("Active connections: 1")


def test_new_and_ended_workers_do_not_count_in_the_cores() -> None:
    before = CpuTimes(10.0, {1: 1.0, 2: 2.0, 3: 3.0})
    after = CpuTimes(12.0, {2: 2.5, 3: 3.1, 4: 9.0})
    assert cores_per_worker(before, after) == pytest.approx((0.5 + 0.1) / 4.0)
    assert cores_per_worker(before, CpuTimes(12.0, {4: 1.0})) is None
    assert cores_per_worker(before, before) is None


def test_run_time_of_this_process_is_its_processor_time() -> None:
    before, used = run_times_of(_own()), time.process_time()
    while time.process_time() < used + 0.2:
        pass
    assert run_times_of(_own()) - before == pytest.approx(0.2, abs=0.05)


def _own() -> int:
    return int(Path("/proc/self").readlink().name)


def record(identity: str, intended: float, status: int | None = 200, error: str | None = None) -> ClientRecord:
    return ClientRecord(
        case="c", id=identity, user=None, service_time=0.1, intended=intended, sent=intended, status=status,
        error=error, request_id=None if error else identity,
    )  # fmt: skip


def test_requests_without_an_answer_miss_the_objective() -> None:
    records = [
        record("early", 99.0),
        record("a", 100.0),
        record("b", 101.0),
        record("refused", 102.0, 503),
        record("gone", 103.0, None, "timeout"),
        record("lost", 104.0),
        record("late", 110.0),
    ]
    waits, unlogged = waits_in(records, {"early": 0.0, "a": 0.05, "b": 0.2, "refused": 0.0}, Window(100.0, 110.0))
    assert [each.delay for each in waits] == [0.05, 0.2, math.inf, math.inf, math.inf]
    assert unlogged == 1


def test_worker_seconds_are_the_integral_of_the_living_workers() -> None:
    live = [(99.0, 2), (101.0, 4), (104.0, 3)]
    assert worker_seconds(live, 100.0, 110.0) == 1.0 * 2 + 3.0 * 4 + 6.0 * 3
    assert worker_seconds(live, 102.0, 103.0) == 4.0
    assert counts_between(live, 100.0, 110.0) == [2, 4, 3]
    assert counts_between(live, 102.0, 103.0) == [4]
    assert worker_seconds([], 0.0, 1.0) == 0.0


@pytest.mark.parametrize(
    ("numbers", "changes"), [([2, 2, 2], (0, 0)), ([2, 4, 4, 6], (2, 0)), ([2, 6, 3, 3, 5], (3, 2)), ([], (0, 0))]
)
def test_changes_and_reversals(numbers: list[int], changes: tuple[int, int]) -> None:
    assert changes_of(numbers) == changes


def test_figures_of_a_known_case() -> None:
    # Two windows of 5 s: 20 requests each, all within the objective in the first, half of them in the second.
    waits = [Wait(100.0 + number / 4.0, 0.0) for number in range(20)]
    waits += [Wait(105.0 + number / 4.0, 0.0 if number % 2 else math.inf) for number in range(20)]
    recorded = Recorded(
        [Values(98.0, 2, 2, None, None, None, None), Values(104.0, 2, 6, None, None, None, None),
         Values(108.0, 6, 3, None, None, None, None)],
        [(98.0, 2), (104.0, 6), (109.0, 3)],
    )  # fmt: skip
    figures, windows = case_figures(waits, recorded, Needed([100.0, 105.0, 110.0], [2, 4]), OBJECTIVE)
    assert (figures["requests"], figures["within_share"], figures["unanswered"]) == (40, 0.75, 10)
    assert figures["worker_seconds"] == 4 * 2 + 5 * 6 + 1 * 3
    assert figures["oracle"] == {"worker_seconds": 30.0, "mean": 3.0, "most": 4}
    assert figures["overshoot"] == 4
    assert (figures["changes"], figures["reversals"]) == (2, 1)
    assert figures["violation"] == {"seconds": 5.0, "share": 0.5}
    assert figures["workers"] == {"mean": 4.1, "most": 6, "least": 2}
    assert [each["delay"] for each in windows] == [0.0, None]
    assert [each["rate"] for each in windows] == [4.0, 4.0]


def test_scale_applies_to_every_duration_of_the_autoscaler() -> None:
    case = scenario_with_time_scaled(SCENARIO, 0.5).cases[0]
    assert case.autoscale is not None
    one = case.autoscale
    assert (one.period, one.stabilisation, one.threshold, one.window) == (1.0, 5.0, 0.05, 4.0)
    assert (one.target, one.minimum, one.maximum) == (0.7, 2, 16)
    by_name = {case.name: case for case in scenario_with_time_scaled(SCENARIO, 0.5).cases}
    second, slow = by_name["second-workers_live"], by_name["slow_start-workers_live"]
    assert second.autoscale is not None
    assert (second.autoscale.beside, slow.topology.loading) == (800.0, 2.5)


def test_all_signals_of_a_load_get_the_same_requests_and_the_same_limits() -> None:
    for load in ("diurnal", "spiky", "slow_start"):
        cases = [case for case in SCENARIO.cases if case.name.startswith(load)]
        settings_of = [case.autoscale for case in cases if case.autoscale is not None]
        assert all(case.same_draws(cases[0]) for case in cases)
        first = settings_of[0]
        same = {name: getattr(first, name) for name in ("signal", "stabilisation", *SETTINGS)}
        assert all(msgspec.structs.replace(each, **same) == first for each in settings_of)
    spiky, other = (
        next(case for case in SCENARIO.cases if case.name == name) for name in ("spiky-cpu", "second-workers_live")
    )
    assert spiky.same_draws(other)


@pytest.mark.parametrize("load", ["diurnal", "spiky"])
def test_each_autoscaler_has_three_settings_with_the_default_in_the_middle(load: str) -> None:
    every = [case.autoscale for case in SCENARIO.cases if case.name.startswith(load) and case.autoscale]
    settings_of = [each for each in every if each.stabilisation == Autoscale(each.signal).stabilisation]
    assert {each.signal for each in settings_of} == set(get_args(Signal))
    assert {each.stabilisation for each in every} == {4.0, 10.0}
    for signal in get_args(Signal):
        default = Autoscale(signal)
        own = [each for each in settings_of if each.signal == signal]
        if signal in ("cpu", "workers_needed") or signal.startswith("fixed"):
            assert len(own) == 1
            continue
        changed = {name for each in own for name in SETTINGS if getattr(each, name) != getattr(default, name)}
        assert len(changed) == 1
        name = changed.pop()
        values = [getattr(each, name) or each.share for each in own]
        assert sorted(values)[1] == (getattr(default, name) or default.share)
        assert len(set(values)) == 3


def test_short_form_takes_less_than_a_minute() -> None:
    scenario, _ = scenario_with_options(str(SCENARIO_FILE), RunOptions(quick=True))
    assert sum(scenario.warmup + scenario.duration_of(case) for case in scenario.cases) < 40.0


def test_paragraphs_and_lists_are_filled_and_tables_are_not() -> None:
    row = "| " + "x " * 30 + "|"
    text = f"# {'h ' * 30}\n\n{'word ' * 10}\nmore\n\n{row}\n{row}\n\n- {'a ' * 12}\n  b\n- c\n"
    lines = filled(text, 30).split("\n")
    assert lines[0] == f"# {'h ' * 30}"
    assert lines[2:4] == ["word word word word word word", "word word word word more"]
    assert lines[5:7] == [row, row]
    assert lines[8:] == ["- a a a a a a a a a a a a b", "- c", ""]


def test_rejects_folders_without_a_run_of_the_scenario(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"needs run\.json"):
        measurement_of([tmp_path])


def test_the_lab_names_the_command_of_the_study() -> None:
    with pytest.raises(LabError, match=r"python -m studies\.autoscale\.measure"):
        experiment_of("autoscale")


needs_nginx = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")


def test_gunicorn_follows_the_number_that_is_wanted(tmp_path: Path) -> None:
    backend = started_backend("backend-1", Topology(backends=1, workers=2, server="gunicorn"), tmp_path)
    try:
        backend.wait_until_ready()
        workers = Workers(backend.process, 2)

        def follows(number: int) -> bool:
            workers.step()
            live = set(workers.live())
            return len(live) == number and live == set(group_members(backend.process.pid)) - {backend.process.pid}

        for number in (6, 3, 1, 4):
            workers.desired = number
            # More steps than signals: none may be sent beyond the number.
            eventually(lambda number=number: follows(number), 60.0, f"{number} workers")  # type: ignore[misc]
        assert [workers.step() for _ in range(3)] == [4, 4, 4]
        eventually(lambda: len(workers.ready()) == 4, 60.0, "the time that a worker needs to start")
        workers.desired = 5
        eventually(lambda: workers.step() == 5, 60.0, "one worker more")
        assert set(workers.ready()) < set(workers.live())
        assert backend.answers()
    finally:
        backend.process.stop()
    assert live_workers(backend.process.pid) == []


@needs_nginx
def test_requests_in_flight_are_those_that_nginx_has_and_not_the_one_that_counts_them(tmp_path: Path) -> None:
    topology = Topology(backends=1, workers=1, server="gunicorn")
    backend = started_backend("backend-1", topology, tmp_path)
    upstreams = Upstreams(own=[backend.address])
    try:
        backend.wait_until_ready()
        server, log = server_text(topology, upstreams) + STATUS_LOCATION, tmp_path / "access.jsonl"
        with Nginx(tmp_path, server, access_log=log, http=http_text(topology, upstreams)) as nginx:

            def in_flight() -> int:
                status = fetched(nginx.url + STATUS_PATH)
                assert status is not None
                return requests_in_flight(status)

            # The connection of the start may not be closed yet.
            eventually(lambda: in_flight() == 0, 60.0, "no request in flight")
            clients = [Thread(target=lambda: urlopen(f"{nginx.url}/sleep/0.5", timeout=20.0).close()) for _ in range(3)]
            for client in clients:
                client.start()
            # One in service, two that wait: nginx has them all.
            eventually(lambda: in_flight() == 3, 60.0, "three requests in flight")
            for client in clients:
                client.join()
            eventually(lambda: in_flight() == 0, 60.0, "nginx to close the connections")
            assert nginx.alerts() == []
        assert len(log.read_text().splitlines()) == 3
    finally:
        backend.process.stop()
    assert fetched(nginx.url + STATUS_PATH) is None


@needs_nginx
def test_loop_of_the_live_signal_sets_the_gauge_and_leaves_nginx_alone(tmp_path: Path) -> None:
    topology = Topology(backends=1, workers=2, server="gunicorn")
    registry = CollectorRegistry()
    gauge = Gauge("sojourn_workers_needed", "Workers", ["service", "objective", "method"], registry=registry)
    gauge.labels("mine", "queueing_delay:p95=0.1", "replay").set(8.0)
    live = gauge.labels("mine", "queueing_delay:p95=0.1", "live")
    live.set(4.0)
    backend = started_backend("backend-1", topology, tmp_path)
    upstreams = Upstreams(own=[backend.address])
    exporter, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        backend.wait_until_ready()
        server, log = server_text(topology, upstreams) + STATUS_LOCATION, tmp_path / "access.jsonl"
        with Nginx(tmp_path, server, access_log=log, http=http_text(topology, upstreams)) as nginx:

            def requests() -> int:
                status = fetched(nginx.url + STATUS_PATH)
                assert status is not None
                return int(status.split()[9])

            before = requests()
            workers = Workers(backend.process, 2)
            loop = Loop(
                settings("workers_live", period=0.2, stabilisation=0.5), 0.7, workers, nginx=nginx.url,
                exporter=f"http://127.0.0.1:{exporter.server_port}/metrics", service="mine",
            )  # fmt: skip
            with loop:
                eventually(lambda: len(workers.live()) == 4, 60.0, "four workers")
                live.set(3.0)
                eventually(lambda: workers.desired == 3, 60.0, "the lower number, after the stabilisation")
                exporter.shutdown()
                exporter.server_close()
                missed_before = loop.recorded.missed
                eventually(lambda: loop.recorded.missed > missed_before + 3, 60.0, "lost scrapes")
                assert workers.desired == 3
            loop.check()
            assert loop.recorded.without_value
            assert {each.workers_needed for each in loop.recorded.values} == {8.0, None}
            assert requests() == before + 1
    finally:
        exporter.shutdown()
        exporter.server_close()
        thread.join()
        backend.process.stop()


@needs_nginx
@pytest.mark.alone
@pytest.mark.scenario
def test_autoscaling_in_its_short_form(tmp_path: Path) -> None:
    record = sound_run(tmp_path, "--quick", program=("studies.autoscale.measure",))
    assert missed(record) == []
    folder = max(tmp_path.glob("run-*"))
    measurement = measurement_of([folder])
    assert list(measurement.cases) == ["spiky"]
    assert list(measurement.cases["spiky"]) == ["cpu", "workers_live"]
    text = page(measurement)
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows] == ["`cpu`", "`workers_live`"]
    idle, scaled = (each.first.figures for each in measurement.cases["spiky"].values())
    assert idle["worker_seconds"] == pytest.approx(2 * 12.0, rel=0.02)
    assert scaled["worker_seconds"] > 1.5 * idle["worker_seconds"]
    assert scaled["within_share"] > idle["within_share"]
    (picture,) = write_pictures(measurement, tmp_path)
    assert picture.name == "autoscale-spiky.svg"
    assert picture.read_text().startswith("<svg")
