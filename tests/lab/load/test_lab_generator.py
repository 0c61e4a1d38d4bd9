"""The generator against a real server: what it sends, when it meant to, and when it is the bottleneck."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from lab_support import StubServer, eventually, generated, generator, http_server, outcome, plan_for, stop_for
from sojourn_lab.load.generator.client import kind_of_failure
from sojourn_lab.load.generator.loops import drawn_requests
from sojourn_lab.load.plan import ClientRecord, Plan, Summary
from sojourn_lab.scenario.load import ClosedLoad, ConstantLoad, InstantsLoad, PoissonLoad, RampLoad, Route


@pytest.mark.alone
def test_a_closed_loop_never_has_more_under_way_than_users(tmp_path: Path) -> None:
    with http_server(StubServer(before_answer=lambda _: time.sleep(0.02))) as server:
        summary, records = generated(plan_for(tmp_path, server.url, ClosedLoad(3), duration=1.0))
    assert server.most == 3
    assert {record.user for record in records} == {0, 1, 2}
    assert len(server.requests) == len(records) == summary.requests > 9
    # Each user by itself: a request is intended at the instant the answer before it was there.
    for user in range(3):
        own = [record for record in records if record.user == user]
        for before, after in itertools.pairwise(own):
            assert before.done is not None
            assert 0.0 <= after.intended - before.done < 2.0
            assert after.sent >= after.intended


@pytest.mark.alone
def test_think_time_comes_between_an_answer_and_the_next_request(tmp_path: Path) -> None:
    with http_server(StubServer()) as server:
        _, records = generated(plan_for(tmp_path, server.url, ClosedLoad(1, think_time=0.1), duration=1.0))
    assert 2 <= len(records) <= 10
    for before, after in itertools.pairwise(records):
        assert before.done is not None
        assert 0.0999 <= after.intended - before.done < 1.0


def test_every_record_says_what_was_meant_sent_and_got(tmp_path: Path) -> None:
    with http_server(StubServer(before_answer=lambda _: time.sleep(0.01))) as server:
        plan = plan_for(tmp_path, server.url, ConstantLoad(20.0), duration=1.0, service_time=0.25, case="c-x")
        summary, records = generated(plan)
    assert sorted(record.id for record in records) == sorted(f"c-x-{number}" for number in range(20))
    assert {(path, case) for path, case, _ in server.requests} == {("/sleep/0.250000", "c-x")}
    assert {lab_id for _, _, lab_id in server.requests} == {record.id for record in records}
    for record in records:
        assert record.first_byte is not None
        assert record.done is not None
        assert record.intended <= record.sent < record.sent + 0.01 <= record.first_byte <= record.done
        assert (record.status, record.bytes, record.error, record.user) == (200, len(b"served\n"), None, None)
        assert record.request_id is not None
        assert abs(record.intended - time.time()) < 120.0
    assert summary.statuses == {"200": 20}
    assert (summary.offered, summary.answered, summary.failed) == (20, 20, 0)
    line = (tmp_path / "client.jsonl").read_text().splitlines()[0]
    assert all(f'"{key}":' in line for key in ("case", "user", "id", "intended", "sent", "first_byte", "done"))


def test_the_warm_up_is_logged_and_not_counted(tmp_path: Path) -> None:
    with http_server(StubServer()) as server:
        summary, records = generated(plan_for(tmp_path, server.url, ConstantLoad(20.0), duration=1.0, warmup=0.5))
    assert len(records) == summary.requests == 30
    assert summary.offered == 20
    assert summary.offered_rate == pytest.approx(20.0)
    assert summary.window.until - summary.window.since == pytest.approx(1.0, abs=1e-5)


@pytest.mark.alone
def test_an_open_loop_keeps_its_schedule_while_the_server_stalls(tmp_path: Path) -> None:
    """One request after the other, the tenth takes half a second: all requests behind it wait."""

    def stall_once(number: int) -> None:
        if number == 10:
            time.sleep(0.5)

    with http_server(StubServer(before_answer=stall_once), threads=False) as server:
        summary, records = generated(plan_for(tmp_path, server.url, ConstantLoad(50.0), duration=1.5))
    waited = [record for record in records if record.done is not None and record.done - record.intended > 0.1]
    # 50 a second for 0.4 of the 0.5 s: a client that waits for its answer would have one such request.
    assert len(waited) >= 15
    assert summary.latency.corrected.max is not None
    assert summary.latency.corrected.max >= 0.49
    assert summary.offered == len(records) == 75


def stopped_for_a_while(plan: Plan, server: StubServer) -> tuple[Summary, list[ClientRecord]]:
    """What a generator wrote that was stopped for half a second in the middle."""
    with generator(plan) as process:
        eventually(lambda: len(server.requests) > 20, 60.0, "twenty requests")
        stop_for(process, 0.5)
        assert process.wait(60.0) == 0
    return outcome(plan)


@pytest.mark.alone
def test_a_generator_that_was_held_up_says_so_and_corrects_for_it(tmp_path: Path) -> None:
    with http_server(StubServer()) as server:
        summary, records = stopped_for_a_while(plan_for(tmp_path, server.url, ConstantLoad(50.0), duration=2.0), server)
    assert len(records) == 100, "what was missed is sent late, not forgotten"
    assert summary.schedule_lag.max is not None
    assert summary.schedule_lag.max >= 0.4
    corrected, uncorrected = summary.latency.corrected.p99, summary.latency.uncorrected.p99
    assert corrected is not None
    assert uncorrected is not None
    assert corrected > uncorrected + 0.2, "measured from the sending, the stall would be hidden"
    assert any("the generator was late: requests left" in reason for reason in summary.void)


@pytest.mark.alone
def test_a_closed_loop_that_was_held_up_is_void_although_every_user_sent_at_once(tmp_path: Path) -> None:
    with http_server(StubServer(before_answer=lambda _: time.sleep(0.01))) as server:
        summary, _ = stopped_for_a_while(plan_for(tmp_path, server.url, ClosedLoad(1), duration=1.5), server)
    assert any("the event loop was" in reason for reason in summary.void)


def test_more_than_a_generator_can_offer_is_void(tmp_path: Path) -> None:
    with http_server(StubServer()) as server:
        summary, _ = generated(plan_for(tmp_path, server.url, ConstantLoad(20_000.0), duration=0.2, timeout=30.0))
    assert summary.void
    assert summary.sent < summary.offered == 4000


def test_a_full_generator_drops_counts_and_is_void(tmp_path: Path) -> None:
    with http_server(StubServer(before_answer=lambda _: time.sleep(0.5))) as server:
        plan = plan_for(tmp_path, server.url, ConstantLoad(40.0), duration=0.5, max_in_flight=5)
        summary, records = generated(plan)
    assert server.most <= 5
    assert summary.dropped == 20 - len(records) > 0
    assert summary.offered == 20
    assert any("dropped" in reason for reason in summary.void)


def test_instants_are_kept_with_their_own_service_times(tmp_path: Path) -> None:
    load = InstantsLoad([0.0, 0.2, 0.25, 9.0], [0.5, 0.25, 0.125, 1.0])
    with http_server(StubServer()) as server:
        summary, records = generated(plan_for(tmp_path, server.url, load, duration=0.5, warmup=0.1))
    records.sort(key=lambda record: record.intended)
    offsets = [record.intended - summary.window.since for record in records]
    assert offsets == pytest.approx([0.0, 0.2, 0.25], abs=1e-5), "what lies after the window is not sent"
    assert [record.service_time for record in records] == [0.5, 0.25, 0.125]
    assert {path for path, _, _ in server.requests} == {f"/sleep/{s:.6f}" for s in (0.5, 0.25, 0.125)}


def test_the_same_seed_offers_the_same_poisson_arrivals_and_service_times(tmp_path: Path) -> None:
    offered = []
    with http_server(StubServer()) as server:
        for number, seed in enumerate(([1, 0], [1, 0], [1, 1])):
            folder = tmp_path / str(number)
            folder.mkdir()
            load = PoissonLoad(60.0)
            more = {"seed": seed, "service_time": 0.001, "distribution": "exponential"}
            summary, records = generated(plan_for(folder, server.url, load, duration=0.5, **more))
            records.sort(key=lambda record: record.intended)
            offered.append([(round(r.intended - summary.window.since, 4), r.service_time) for r in records])
    assert [s for _, s in offered[0]] == [s for _, s in offered[1]]
    assert [t for t, _ in offered[0]] == pytest.approx([t for t, _ in offered[1]], abs=2e-4)
    assert [s for _, s in offered[0]] != [s for _, s in offered[2]]


def test_a_ramp_holds_its_first_rate_in_the_warm_up(tmp_path: Path) -> None:
    with http_server(StubServer()) as server:
        plan = plan_for(tmp_path, server.url, RampLoad(10.0, 50.0), duration=1.0, warmup=0.5)
        summary, records = generated(plan)
    assert len(records) == 5 + 30
    assert summary.offered == 30


def test_failures_are_counted_by_kind(tmp_path: Path) -> None:
    with socket.socket() as none_waiting:
        none_waiting.bind(("127.0.0.1", 0))  # bound and not listening: refused, and no other program can take the port
        url = f"http://127.0.0.1:{none_waiting.getsockname()[1]}"
        summary, records = generated(plan_for(tmp_path, url, ConstantLoad(20.0), duration=0.5))
    assert summary.errors == {"refused": 10}
    assert (summary.answered, summary.failed) == (0, 10)
    assert summary.latency.corrected.mean is None
    assert all(record.status is None and record.done is not None for record in records)


@pytest.mark.alone
def test_a_timeout_is_the_client_s_and_a_bad_status_is_a_failure_with_an_answer(tmp_path: Path) -> None:
    ended = threading.Event()

    def hold_first(number: int) -> None:
        if number == 0:
            ended.wait(60.0)

    with http_server(StubServer(before_answer=hold_first, status=503)) as server:
        plan = plan_for(tmp_path, server.url, ConstantLoad(10.0), duration=0.5, timeout=1.0)
        summary, records = generated(plan)
        ended.set()
    assert summary.errors == {"timeout": 1}
    assert summary.statuses == {"503": 4}
    assert (summary.answered, summary.failed) == (4, 5)
    late = next(record for record in records if record.error == "timeout")
    assert late.done is not None
    assert 0.99 <= late.done - late.sent < 10.0


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", "disconnected"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", "truncated"),
        (b"this is not HTTP\r\n\r\n", "malformed"),
    ],
)
def test_a_broken_answer_has_a_name(tmp_path: Path, answer: bytes, kind: str) -> None:
    command = [sys.executable, "-c", BROKEN_SERVER, repr(answer)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            plan = plan_for(tmp_path, f"http://127.0.0.1:{port}", ConstantLoad(10.0), duration=0.3)
            summary, _ = generated(plan)
        finally:
            server.kill()
    assert summary.errors == {kind: 3}


BROKEN_SERVER = """
import ast, socket, sys
answer = ast.literal_eval(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    peer, _ = listener.accept()
    peer.recv(65536)
    peer.sendall(answer)
    peer.close()
"""


def test_an_unknown_failure_is_called_by_its_type() -> None:
    assert kind_of_failure(RuntimeError("x")) == "RuntimeError"


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "truncated"), ("{}", "missing required field"), (None, "No such file")],
)
def test_a_plan_that_cannot_be_used_is_refused(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "plan.json"
    if content is not None:
        path.write_text(content)
    command = [sys.executable, "-m", "sojourn_lab.load.generator", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def routed(seed: int, count: int = 20_000) -> tuple[list[float], list[str | None]]:
    plan = plan_for(
        Path("."),
        "http://x",
        PoissonLoad(100.0),
        duration=1.0,
        seed=[seed, 1],
        routes=[Route("/fast", 9.0, 0.01, "exponential"), Route("/export", 1.0, 0.5)],
    )
    requests = drawn_requests(plan, np.zeros(count), np.random.default_rng(plan.seed))
    return [each.service_time for each in requests], [each.route for each in requests]


def test_routes_come_in_their_shares_with_their_own_service_times() -> None:
    services, routes = routed(1)
    fast = [service for service, route in zip(services, routes, strict=True) if route == "/fast"]
    export = [service for service, route in zip(services, routes, strict=True) if route == "/export"]
    # Ten standard deviations of a share, five of a mean.
    assert len(export) / len(routes) == pytest.approx(0.1, abs=10 * (0.09 / 20_000) ** 0.5)
    assert set(export) == {0.5}
    assert sum(fast) / len(fast) == pytest.approx(0.01, rel=5 / len(fast) ** 0.5)
    assert routed(1) == (services, routes), "a seed gives the same requests again: before and after a change"
    assert routed(2) != (services, routes)


def test_a_request_names_its_route_to_the_app_and_in_its_record(tmp_path: Path) -> None:
    routes = [Route("/fast", 1.0, 0.001), Route("/export", 1.0, 0.002)]
    with http_server(StubServer()) as server:
        for load in (ConstantLoad(40.0), ClosedLoad(2, think_time=0.02)):
            server.requests.clear()
            _, records = generated(plan_for(tmp_path, server.url, load, duration=0.5, routes=routes))
            assert {record.route for record in records} == {"/fast", "/export"}
            assert sorted(path for path, _, _ in server.requests) == sorted(
                f"/sleep/{record.service_time:.6f}?route={record.route}" for record in records
            )
            assert {record.service_time for record in records if record.route == "/export"} == {0.002}


def test_a_request_names_the_work_of_its_route() -> None:
    routes = [Route("/page", 1.0, 0.04, dependency=0.02, body=0.3, after=0.5, cpu=True)]
    plan = plan_for(Path(), "http://localhost", ConstantLoad(1.0), duration=1.0, routes=routes)
    (request,) = drawn_requests(plan, np.zeros(1), np.random.default_rng(1))
    query = "route=/page&dependency=0.020000&bytes=4096&stream=0.300000&after=0.500000&cpu=1"
    assert request.query == f"?{query}"
