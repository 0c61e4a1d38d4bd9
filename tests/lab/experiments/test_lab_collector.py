"""The collector with a bounded channel: its law and figures, its parts alone, and the whole behind nginx."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lab_support import find_scenario, sound_run
from sojourn_lab.experiments.collector.figures import (
    Acknowledged,
    Sample,
    capacity_of,
    case_figures,
    channel_of,
    consumers_of,
    cpu_of,
    law_of,
    rows_in,
    throughput_of,
    write_latencies,
)
from sojourn_lab.load.plan import ClientRecord, Latency, Quantiles, Summary, Window
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.backends import listening_socket
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import Process
from sojourn_lab.scenario.experiment_settings import Collector
from sojourn_lab.scenario.scaling import scenario_with_time_scaled

pytestmark = pytest.mark.alone

WINDOW = Window(100.0, 110.0)


def beat(name: str, intended: float, status: int | None = 202, route: str = "/heartbeat") -> ClientRecord:
    return ClientRecord(
        case="c", id=name, user=1, service_time=0.0, intended=intended, sent=intended, done=intended + 0.01,
        status=status, route=route,
    )  # fmt: skip


def summary(failed: int = 0) -> Summary:
    none = Quantiles()
    return Summary(
        case="c", window=WINDOW, requests=0, offered=0, sent=0, dropped=0, answered=7, failed=failed, errors={},
        statuses={}, offered_rate=0.0, achieved_rate=0.0, latency=Latency(Quantiles(p90=0.2), none), schedule_lag=none,
        loop_lag=none, cpu=0.1, void=[],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("more", "capacity"),
    [
        ({"consumers": 1, "ack": 0.04}, 25.0),
        ({"consumers": 4, "ack": 0.04}, 100.0),
        ({"consumers": 1, "ack": 0.04, "cores": 8}, 25.0),
        ({"consumers": 1, "ack": 0.04, "batch": 8}, 200.0),
        ({"consumers": 2, "ack": 0.03, "event_cpu": 0.01}, 50.0),
        # Two cores can do no more, however many consumers there are.
        ({"consumers": 50, "ack": 0.03, "event_cpu": 0.01, "cores": 2}, 200.0),
        ({"consumers": 8, "ack": 0.0, "event_cpu": 0.02}, 50.0),
    ],
)
def test_the_capacity_is_the_consumers_or_the_cores(more: dict[str, Any], capacity: float) -> None:
    assert capacity_of(Collector(rate=140.0, **more)) == pytest.approx(capacity)


def test_the_law_takes_what_is_offered_or_what_can_be_done() -> None:
    settings = Collector(rate=140.0, consumers=2, ack=0.04)
    assert law_of(settings, 140.0) == {"capacity": pytest.approx(50.0), "throughput": pytest.approx(50.0)}
    assert law_of(settings, 30.0)["throughput"] == 30.0
    assert law_of(Collector(rate=140.0, ack=0.0), 140.0) == {"capacity": None, "throughput": 140.0}


def test_scaling_moves_every_duration_and_rate_but_not_the_channel() -> None:
    scaled = scenario_with_time_scaled(find_scenario("collector"), 0.5).cases
    waits, works = scaled[0].collector, scaled[-1].collector
    assert waits is not None
    assert works is not None
    assert (waits.rate, waits.read_rate, waits.ack, waits.channel) == (280.0, 10.0, 0.02, 25)
    assert works.event_cpu == 0.01
    assert capacity_of(waits) == pytest.approx(50.0)


def test_throughput_counts_what_was_acknowledged_in_the_window() -> None:
    batches = [
        Acknowledged(1, 99.0, 99.9, ["before"]),
        Acknowledged(1, 99.9, 100.0, ["a"]),
        Acknowledged(1, 105.0, 106.0, ["b", "c", "d"]),
        Acknowledged(1, 109.5, 110.0, ["after"]),
    ]
    assert throughput_of(batches, WINDOW) == pytest.approx(0.4)
    result = consumers_of(batches, 1, WINDOW)
    # Held: 0 s of the second, 1 s of the third, 0.5 s of the last.
    assert result == {"busy": pytest.approx(0.15), "cost": pytest.approx(1.1 / 4), "batch": 2.0}


def test_latency_is_from_the_intended_instant_and_by_the_window_of_the_intention() -> None:
    clients = [beat("early", 99.0), beat("a", 101.0), beat("late", 109.9), beat("never", 105.0, 503)]
    batches = [Acknowledged(1, 0.0, 101.5, ["early", "a"]), Acknowledged(1, 0.0, 139.9, ["late"])]
    assert write_latencies(clients, batches, WINDOW) == [pytest.approx(0.5), pytest.approx(30.0)]


def test_cores_used_are_processor_time_by_the_clock() -> None:
    samples = [Sample(99.0, 0.0, 9), Sample(100.0, 1.0, 5), Sample(104.0, 3.0, 10), Sample(108.0, 5.0, 9)]
    assert cpu_of(samples, 2, WINDOW) == {"cores": pytest.approx(0.5), "share": pytest.approx(0.25)}
    assert cpu_of(samples[:2], 2, WINDOW) == {"cores": None, "share": None}
    assert channel_of(samples, 10, WINDOW) == {"mean": 8.0, "max": 10.0, "full": pytest.approx(1 / 3)}


def test_reports_lost_and_duplicate_events() -> None:
    clients = [beat("a", 101.0), beat("b", 102.0), beat("refused", 103.0, 503), beat("read", 104.0, 200, "/viewers")]
    batches = [Acknowledged(1, 101.0, 101.2, ["a"])]
    settings = Collector(rate=0.3)
    result = case_figures(settings, WINDOW, clients, batches, [], ["a", "a"], summary(failed=1), summary())
    assert (result["lost"], result["twice"]) == (1, 1)
    assert (result["offered"], result["errors_per_s"]) == (pytest.approx(0.3), pytest.approx(0.1))
    assert (result["refused"], result["other_failures"]) == (pytest.approx(1 / 3), 0)
    assert result["read_latency"]["p90"] == 0.2
    whole = case_figures(settings, WINDOW, clients, batches, [], ["b", "a"], summary(), None)
    assert (whole["lost"], whole["twice"], whole["reads"]) == (0, 0, 0)


def test_half_a_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_bytes(b'{"time": 1.0, "cpu": 0.5, "depth": 3}\n{"time": 2.0, "cp')
    assert rows_in(path, Sample) == [Sample(1.0, 0.5, 3)]
    assert rows_in(tmp_path / "none", Sample) == []


@contextlib.contextmanager
def broker(folder: Path, ack: float) -> Iterator[int]:
    with listening_socket(16) as listener:
        port: int = listener.getsockname()[1]
        fd = listener.fileno()
        program = str(resource_file("backend", "collector_broker.py"))
        command = [sys.executable, program, "--fd", str(fd), "--ack", str(ack), "--log", str(folder / "kept")]
        with Process(command, name="broker", folder=folder, pass_fds=[fd]):
            yield port


def test_the_broker_keeps_what_it_acknowledges_and_only_producers_of_one_connection_wait_in_turn(
    tmp_path: Path,
) -> None:
    batch = b'{"id": "a"}\n'
    framed = len(batch).to_bytes(4, "big") + batch
    with broker(tmp_path, 0.2) as port, socket.create_connection(("127.0.0.1", port), timeout=20.0) as first:
        first.sendall(framed)
        assert first.recv(1) == b"\x01"  # it is up
        with socket.create_connection(("127.0.0.1", port), timeout=20.0) as second:
            begun = time.monotonic()
            first.sendall(framed + framed)
            second.sendall(framed)
            assert second.recv(1) == b"\x01"
            alone = time.monotonic() - begun
            assert first.recv(1) + first.recv(1) == b"\x01\x01"
            in_turn = time.monotonic() - begun
    assert alone >= 0.2
    assert in_turn >= 0.4
    assert (tmp_path / "kept").read_bytes() == batch * 4


class Threads:
    """Runs the same thing in several threads, and waits."""

    def __init__(self, count: int, what: Any) -> None:
        self.threads = [threading.Thread(target=what) for _ in range(count)]

    def run(self) -> None:
        for each in self.threads:
            each.start()
        for each in self.threads:
            each.join()


def test_a_full_channel_refuses_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(resource_file("backend")))
    import collector_server as server  # noqa: PLC0415 - importable by the path above

    collector = server.Collector(2, 1, 0.0, tmp_path / "log")
    offered = [collector.offer(server.Event(str(number), number, 0.0)) for number in range(4)]
    assert offered == [True, True, False, False]
    assert collector.stats() == {"accepted": 2, "refused": 2, "processed": 0, "held": 2}
    heard = server.Recent(60.0)
    heard.add([server.Event("a", 1, 0.0), server.Event("b", 1, 0.0), server.Event("c", 2, 0.0)])
    assert heard.viewers() == 2
    assert server.Recent(0.0).viewers() == 0


def test_work_uses_the_processor_for_the_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(resource_file("backend")))
    import collector_server as server  # noqa: PLC0415

    before = time.process_time()
    Threads(2, lambda: server.work(0.05)).run()
    assert 0.1 <= time.process_time() - before < 0.4


SMALL = """
name = "small"
title = "A small one"
question = "Is it the consumer?"
shows = "It is."
seed = 77
duration = 1.6
warmup = 0.4
timeout = 10.0
{cases}
"""
CASE = '[[cases]]\nname = "{name}"\nseed = 1\ncollector = {{rate = 110, channel = 10, ack = 0.05, {more}}}\n'


@pytest.mark.scenario
@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_more_consumers_lift_the_ceiling_and_nothing_accepted_is_lost(tmp_path: Path) -> None:
    cases = [("one", "consumers = 1"), ("three", "consumers = 3"), ("batches", "consumers = 1, batch = 20")]
    scenario = tmp_path / "small.toml"
    scenario.write_text(SMALL.format(cases="".join(CASE.format(name=name, more=more) for name, more in cases)))
    run = sound_run(tmp_path, str(scenario))
    one, three, batches = (case["figures"] for case in run["cases"])
    for figures in (one, three):
        assert figures["throughput"] == pytest.approx(figures["law"]["throughput"], rel=0.2)
        assert figures["errors_per_s"] > 10.0
        assert figures["cpu"]["cores"] < 0.6
    assert three["throughput"] / one["throughput"] == pytest.approx(3.0, rel=0.2)
    # The same single consumer, twenty at a time: all is taken.
    assert batches["throughput"] > 2.0 * one["throughput"]
    assert one["write_latency"]["p50"] > batches["write_latency"]["p50"]
    for case in run["cases"]:
        figures = case["figures"]
        assert (figures["lost"], figures["twice"], figures["other_failures"], figures["read_failures"]) == (0, 0, 0, 0)
        lines = (Path(run["run"]) / "logs" / case["name"] / "broker.jsonl").read_bytes().splitlines()
        rows = rows_in(Path(run["run"]) / "logs" / case["name"] / "client.jsonl", ClientRecord)
        assert {msgspec.json.decode(line)["id"] for line in lines} == {row.id for row in rows if row.status == 202}
    assert run["rows"]["client"] == run["rows"]["access"] > 400


def test_cores_that_are_not_there_are_refused_in_a_sentence(tmp_path: Path) -> None:
    if Nginx.why_unavailable() is not None:
        pytest.skip("nginx is not installed")
    scenario = tmp_path / "small.toml"
    requested = len(os.sched_getaffinity(0)) + 1
    scenario.write_text(SMALL.format(cases=CASE.format(name="many", more=f"cores = {requested}")))
    command = [sys.executable, "-m", "sojourn_lab", "run", str(scenario), "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"needs {requested} cores, this machine has {requested - 1}" in " ".join(done.stderr.split())


def test_the_goal_of_the_article_is_written_down_for_the_last_configuration() -> None:
    scenario = find_scenario("collector")
    goals = {each.metric: each.below for each in scenario.criteria if each.name.startswith("goal:")}
    assert goals == {
        "figures.write_latency.max": 30.0,
        "figures.errors_per_s": 0.05,
        "figures.read_latency.p90": 0.75,
    }
