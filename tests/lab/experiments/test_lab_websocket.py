"""The WebSocket scenario: its parts with known truths, and a short run of the whole."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from lab_support import find_scenario, sound_run
from sojourn_lab.errors import LabError, ScenarioError
from sojourn_lab.experiments.websocket.figures import cost_of, log_figures, void_reasons
from sojourn_lab.experiments.websocket.front import check_room, started_app
from sojourn_lab.experiments.websocket.generator import poisson_ramp
from sojourn_lab.experiments.websocket.k6 import connections_of, k6_command, k6_hold, why_k6_unavailable
from sojourn_lab.experiments.websocket.plan import Connection, ConnectionPlan, ConnectionSummary, ServerTimes
from sojourn_lab.experiments.websocket.stations import described, onset_of, slices_of, stations_of, waited
from sojourn_lab.experiments.websocket.usage import Sample, sample_of, shares_of_a_core, usage_between
from sojourn_lab.load.generator.summary import quantiles_of
from sojourn_lab.load.plan import Window
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.backends import listening_socket
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.experiment_settings import Websocket
from sojourn_lab.scenario.files import scenario_from_text
from sojourn_lab.scenario.scaling import scenario_with_time_scaled
from sojourn_lab.scenario.topology import Topology

pytestmark = pytest.mark.alone

needs_nginx = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=str(Nginx.why_unavailable()))


def connection(number: int, at: float, *, wait: float = 0.0, cpu: float = 0.0) -> Connection:
    """A connection that meets no delay but `wait` seconds before its evaluation, which takes 10 ms."""
    started = at + 0.004 + wait
    times = ServerTimes(at + 0.002, at + 0.002, at + 0.003, started, started + 0.010, cpu, 1, f"id-{number}")
    return Connection("c", number, at, at, at + 0.001, at + 0.004, at + 0.004, started + 0.011, server=times)


def plan_for(folder: Path, **more: Any) -> ConnectionPlan:
    settings: dict[str, Any] = {"case": "c", "url": "http://127.0.0.1:1/sync", "seed": [1], "timeout": 5.0}
    return ConnectionPlan(
        client_log=str(folder / "client.jsonl"), summary=str(folder / "summary.json"), **{**settings, **more}
    )


def summary_for(count: int, late: float = 0.0, dropped: int = 0) -> ConnectionSummary:
    return ConnectionSummary(Window(0.0, 10.0), 10.0, 12.0, count, quantiles_of([late]), dropped=dropped)


def test_a_poisson_ramp_grows_linearly_and_has_half_its_final_rate_on_average() -> None:
    instants = poisson_ramp(1000.0, 100.0, np.random.default_rng(1))
    assert len(instants) == pytest.approx(50_000, rel=0.02)
    assert np.all(np.diff(instants) >= 0.0)
    assert instants[-1] < 100.0
    # N(t) goes with the square of t: a quarter of them in the first half.
    assert np.mean(instants < 50.0) == pytest.approx(0.25, abs=0.01)
    # Of one seed it is the same pattern, only faster.
    slow, fast = (poisson_ramp(rate, 10.0, np.random.default_rng(2)) for rate in (20.0, 80.0))
    assert fast[:50] * 2.0 == pytest.approx(slow[:50])


def test_the_stations_of_a_connection_add_up_to_the_whole() -> None:
    result = stations_of(connection(0, 100.0, wait=0.5))
    assert result is not None
    whole = result.pop("whole")
    assert sum(result.values()) == pytest.approx(whole)
    assert whole == pytest.approx(0.515)
    assert result["message"] == pytest.approx(0.5)
    assert waited(result | {"whole": whole}) == pytest.approx(0.502)
    assert stations_of(Connection("c", 0, 1.0, 1.0, error="refused")) is None


def test_onset_is_the_first_slice_after_which_every_user_waits() -> None:
    # A ramp from 0 to 10 a second in 10 s: no user waits before 6 a second, except for one stall at 3 a second.
    items = [
        connection(number, at, wait=1.0 if at > 6.0 or 3.0 < at < 3.2 else 0.0)
        for number, at in enumerate(10.0 * np.sqrt(np.linspace(0.0, 0.999, 600)))
    ]
    slices = slices_of(items, 0.0, 1.0)
    assert sum(each["connections"] for each in slices) == 600
    assert {each["connections"] for each in slices} == {50}
    onset = onset_of(slices, 0.1, capacity=5.0)
    assert onset["found"] == 1
    assert 5.5 < onset["rate"] < 6.9
    assert onset["offered_load"] == pytest.approx(onset["rate"] / 5.0)
    assert onset["station"] == "message"
    none_waiting = slices_of([connection(number, 0.1 * number) for number in range(60)], 0.0, 1.0)
    assert onset_of(none_waiting, 0.1, 5.0) == {
        "found": 0, "threshold": 0.1, "rate": None, "offered_load": None, "station": None
    }  # fmt: skip
    assert described([]) == dict.fromkeys(("mean", "p50", "p95", "p99", "max"))


def test_the_cost_of_a_connection_is_what_the_process_used_from_one_answer_to_the_next() -> None:
    items = [connection(number, float(number), cpu=1.0 + 0.02 * number) for number in range(10)]
    assert cost_of(items, 2) == pytest.approx(0.02)
    assert cost_of(items[:3], 2) is None
    assert cost_of([Connection("c", 0, 0.0, 0.0, error="refused")] * 9, 0) is None


def test_the_peak_is_the_busiest_whole_second() -> None:
    # Idle for 2 s, then all of a core for 0.5 s, then a fifth of it: the busiest second has the half and a tenth.
    rates = [0.0] * 8 + [1.0] * 2 + [0.2] * 8
    samples = [Sample(0.0, 5.0, 1000)]
    for rate in rates:
        last = samples[-1]
        samples.append(Sample(last.time + 0.25, last.cpu + 0.25 * rate, last.memory + 1))
    assert max(shares_of_a_core(samples, 0.0, 4.5)) == pytest.approx(0.6)
    usage = usage_between(samples, 0.0, 4.5)
    assert usage["cpu_peak"] == pytest.approx(0.6)
    assert usage["cpu_mean"] == pytest.approx(0.9 / 4.5)
    assert usage["memory_peak"] == 1018
    assert usage_between(samples, 0.0, 0.5)["cpu_peak"] == 0.0, "shorter than a second: over what there is"
    assert usage_between([], 0.0, 1.0) == {"cpu_peak": None, "cpu_mean": None, "memory_peak": None}


def test_a_process_that_is_gone_has_no_sample() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    assert sample_of([gone.pid]) is None


def test_a_late_generator_makes_a_run_void() -> None:
    items = [connection(number, 0.1 * number) for number in range(100)]
    assert void_reasons(summary_for(100, late=0.005), items, 0.02) == []
    assert "20.0 ms late at p99" in void_reasons(summary_for(100, late=0.02), items, 0.02)[0]
    assert void_reasons(summary_for(100, late=0.02), items, 1.0) == [], "5 % of the median is allowed"
    assert "dropped 3" in void_reasons(summary_for(100, dropped=3), items, 0.02)[0]
    assert "began 100 of 110" in void_reasons(summary_for(110), items, 0.02)[0]


def test_log_has_every_connection(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    rows = [("c", "101", "id-0"), ("c", "101", "id-1"), ("c", "502", "id-2"), ("other", "101", "id-3")]
    log.write_bytes(
        b"".join(
            json.dumps(dict(zip(("service", "status", "request_id"), row, strict=True))).encode() + b"\n"
            for row in rows
        )
    )
    items = [connection(number, float(number)) for number in (0, 1, 3)]
    assert log_figures(log, "c", items) == {"upgraded": 2, "other": 1, "missing": 1}


def test_settings_move_with_time_and_ask_for_one_rate() -> None:
    scaled = Websocket(rate=40.0, flags=1000, hold=4.0).with_time_scaled(0.5)
    assert (scaled.rate, scaled.flags, scaled.hold, scaled.limit) == (80.0, 500, 2.0, 0.1)
    assert Websocket(offered_load=0.5).with_time_scaled(0.5).offered_load == 0.5
    with pytest.raises(ValueError, match="either `rate` or `offered_load`"):
        Websocket()
    text = resource_file("scenarios", "websocket.toml").read_text()
    with pytest.raises(ScenarioError, match="either `rate` or `offered_load`"):
        scenario_from_text(text.replace("offered_load = 0.5", "offered_load = 0.5, rate = 3.0"), "here")
    half = scenario_with_time_scaled(find_scenario("websocket"), 0.5)
    assert half.duration == tomllib.loads(text)["duration"] / 2.0


def test_more_connections_than_files_are_refused_beforehand() -> None:
    check_room(100.0, 1)
    with pytest.raises(LabError, match=r"connections, and \d+ can be held here"):
        check_room(1e6, 1)


def test_k6_holds_until_the_queue_is_empty_and_gets_all_settings(tmp_path: Path) -> None:
    plan = plan_for(tmp_path, rate=40.0, ramp=10.0, hold=2.0)
    assert k6_hold(plan, 50.0) == 3.0
    # 20 a second beyond 20 at the end: 50 connections too many, 2.5 s of work.
    assert k6_hold(plan, 20.0) == pytest.approx(3.0 + 1.5 * 2.5)
    command = k6_command(plan, 3.0, tmp_path / "lines", tmp_path / "summary")
    assert {"RATE=40.0", "RAMP=10.0", "HOLD=3.0", "CONNECTIONS=210"} <= set(command)
    assert Path(command[-1]).is_file()


def test_parses_connections_of_k6(tmp_path: Path) -> None:
    server = msgspec.to_builtins(connection(0, 1.0).server)
    answered = {"number": 1, "due": 1000.5, "began": 1001, "upgraded": 1003, "sent": 1003, "answered": 1014}
    lines = [{**answered, "server": server}, {"number": 0, "due": 900.0, "began": 901, "error": "refused"}]
    console = tmp_path / "lines"
    console.write_text("some words\n" + "".join(json.dumps(line) + "\n" for line in lines))
    first, second = connections_of(console, "c")
    assert (first.error, first.made, first.began) == ("refused", False, 0.901)
    assert second.made
    result = stations_of(second)
    assert result is not None
    assert result["whole"] == pytest.approx(0.0135)
    console.write_text('{"number": "x"}\n')
    with pytest.raises(LabError, match="k6 did not write what it should"):
        connections_of(console, "c")


def test_the_app_answers_a_data_sync_holds_the_connection_and_pings_it(tmp_path: Path) -> None:
    import aiohttp  # noqa: PLC0415

    async def answer_of(address: str) -> dict[str, Any]:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"http://{address}/sync", autoping=False) as connection,
        ):
            await connection.send_str("nonsense")
            assert (await connection.receive_json(timeout=5))["type"] == "error"
            await connection.send_json({"type": "data-sync", "user": "u1"})
            answer: dict[str, Any] = await connection.receive_json(timeout=5)
            assert (await connection.receive(timeout=5)).type == aiohttp.WSMsgType.PING
            async with session.get(f"http://{address}/ready") as ready:
                assert await ready.json() == {"open": 1, "most": 1, "syncs": 1}
            return answer

    app = started_app("app", Websocket(offered_load=1.0, flags=2000, heartbeat=0.2), Topology(), tmp_path)
    try:
        app.wait_until_ready()
        answer = asyncio.run(answer_of(app.address))
    finally:
        app.process.stop()
    assert answer["type"] == "data-sync"
    assert 5 <= len(answer["variations"]) <= 50, "about one flag in a hundred"
    times = answer["server"]
    assert times["accepted"] <= times["entered"] <= times["started"] < times["ended"]
    assert app.process.last_lines() == ""


def test_generator_without_a_server_reports_it(tmp_path: Path) -> None:
    with listening_socket(1) as unused:
        port = unused.getsockname()[1]
    plan = plan_for(tmp_path, url=f"http://127.0.0.1:{port}/sync", rate=40.0, ramp=0.5)
    path = tmp_path / "plan.json"
    path.write_bytes(msgspec.json.encode(plan))
    command = [sys.executable, "-m", "sojourn_lab.experiments.websocket.generator", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    records = [json.loads(line) for line in Path(plan.client_log).read_bytes().splitlines()]
    assert records
    assert {each["error"] for each in records} == {"refused"}
    wrong = subprocess.run([*command[:-1], str(tmp_path)], capture_output=True, text=True, timeout=30, check=False)
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


SMALL = """
name = "small"
title = "A small one"
question = "Does the experiment hold?"
shows = "That it does."
seed = 5
duration = 3.0
timeout = 20.0
topology = {backends = 1, backlog = 1024}
[[cases]]
name = "calm"
websocket = {offered_load = 0.4, flags = 20_000, hold = 1.5, heartbeat = 1.0, probe = 1.0, generator = "GENERATOR"}
[[cases]]
name = "flooded"
websocket = {offered_load = 2.5, flags = 20_000, hold = 1.5, heartbeat = 1.0, probe = 1.0, generator = "GENERATOR"}
[[criteria]]
name = "all held"
metric = "figures.held"
equals = "figures.connections.made"
"""


def record_of(folder: Path, generator: str) -> dict[str, Any]:
    """The record of a small run."""
    file = folder / "small.toml"
    file.write_text(SMALL.replace("GENERATOR", generator))
    return sound_run(folder, str(file))


def check(record: dict[str, Any]) -> None:
    """Properties with every generator."""
    assert record["passed"]
    calm, flooded = (case["figures"] for case in record["cases"])
    for figures in (calm, flooded):
        assert figures["connections"]["failed"] == figures["connections"]["lost"] == 0
        assert figures["held"] == figures["connections"]["made"] > 20
        assert figures["log"]["missing"] == figures["log"]["other"] == 0
        assert figures["stable"]["app"]["cpu_peak"] < figures["ramp"]["app"]["cpu_peak"]
    assert flooded["response"]["p99"] > 3.0 * calm["response"]["p99"]
    assert flooded["onset"]["found"] == 1
    assert flooded["whole"]["mean"] > flooded["response"]["mean"]
    # 101 rows are counted, and left out of every distribution.
    assert flooded["log"]["upgraded"] >= flooded["connections"]["made"]
    # The split holds what reached nginx within the ramp; of the last begun, some come after it on a busy machine.
    split = record["cases"][1]["split"]
    assert split["requests"] == split["audit"]["upgraded"] >= 0.9 * flooded["connections"]["made"]
    rows = [json.loads(line) for line in (Path(record["run"]) / "client.jsonl").read_bytes().splitlines()]
    assert len(rows) == calm["connections"]["offered"] + flooded["connections"]["offered"]


@pytest.mark.scenario
@needs_nginx
def test_beyond_capacity_connections_wait_for_the_event_loop_and_for_nothing_before_it(tmp_path: Path) -> None:
    record = record_of(tmp_path, "own")
    check(record)
    flooded = record["cases"][1]["figures"]
    assert flooded["stations"]["connect"]["p50"] < 0.1 * flooded["wait"]["p50"]
    assert sum(flooded["shares"].values()) == pytest.approx(1.0)


@pytest.mark.scenario
@needs_nginx
@pytest.mark.skipif(why_k6_unavailable() is not None, reason=str(why_k6_unavailable()))
def test_k6_makes_the_same_connections(tmp_path: Path) -> None:
    check(record_of(tmp_path, "k6"))


@needs_nginx
@pytest.mark.skipif(why_k6_unavailable() is None, reason="k6 is installed")
def test_without_k6_a_scenario_that_asks_for_it_says_so(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL.replace("GENERATOR", "k6"))
    command = [sys.executable, "-m", "sojourn_lab", "run", str(file), "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "k6 is not installed" in done.stderr
