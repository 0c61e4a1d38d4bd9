"""The process runtime: up when entered, gone when left, whatever happens in between."""

from __future__ import annotations

import os
import signal
import socket
import threading
import urllib.request
from pathlib import Path

import msgspec
import pytest
from lab_support import eventually
from sojourn_lab.errors import LabError
from sojourn_lab.runtime.interrupts import Interrupted, Interrupts
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import group_members
from sojourn_lab.runtime.proxy import Upstreams, http_text
from sojourn_lab.runtime.runtime import ProcessRuntime
from sojourn_lab.runtime.servers import start
from sojourn_lab.scenario.topology import Topology


@pytest.fixture(autouse=True)
def _needs_nginx() -> None:
    if (reason := Nginx.why_unavailable()) is not None:
        pytest.skip(reason)


def runtime_in(folder: Path, topology: Topology = Topology()) -> ProcessRuntime:  # noqa: B008 - it is frozen
    logs = folder / "logs"
    logs.mkdir()
    return ProcessRuntime(topology, folder, logs, Interrupts())


def groups(runtime: ProcessRuntime) -> list[int]:
    matches = [backend.process.pid for backend in runtime.backends]
    return [*matches, runtime.nginx.process.pid] if runtime.nginx is not None else matches


def assert_gone(runtime: ProcessRuntime) -> None:
    assert [group_members(group) for group in groups(runtime)] == [[]] * len(groups(runtime))
    for backend in runtime.backends:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", backend.port)) != 0


def test_a_request_goes_through_every_part_and_leaves_its_traces(tmp_path: Path) -> None:
    with runtime_in(tmp_path) as runtime:
        for _ in range(4):
            request = urllib.request.Request(f"{runtime.url}/sleep/0.01", headers={"X-Lab-Case": "c-x"})
            with urllib.request.urlopen(request, timeout=10.0) as answer:
                assert answer.read() == b"slept 0.01 s\n"
                assert answer.headers["X-Queueing-Delay"] is None, "nginx strips it"
                own_id = answer.headers["X-Request-ID"]
        eventually(lambda: runtime.listen_log.read_bytes().count(b"\n") >= 6, 60.0, "two samples of three sockets")
    assert_gone(runtime)
    rows = [msgspec.json.decode(line) for line in runtime.access_log.read_bytes().splitlines()]
    assert {row["service"] for row in rows} == {"c-x"}
    assert {row["route"] for row in rows} == {"/sleep/{seconds}"}
    assert [row["upstream_addr"] for row in rows] == [each.address for each in (*runtime.backends, *runtime.backends)]
    assert rows[-1]["request_id"] == own_id
    assert all(float(row["service_time"]) >= 0.01 for row in rows)
    spans = b"".join(each.spans.read_bytes() for each in runtime.backends if each.spans is not None)
    assert spans.count(b"\n") == 4
    samples = [msgspec.json.decode(line) for line in runtime.listen_log.read_bytes().splitlines()]
    assert {(each["socket"], each["limit"]) for each in samples} == {
        ("nginx", 511),
        ("backend-1", 64),
        ("backend-2", 64),
    }
    assert runtime.spin_up > 0.0
    assert runtime.tear_down > 0.0


def test_an_error_inside_takes_everything_down(tmp_path: Path) -> None:
    runtime = runtime_in(tmp_path)

    def trouble() -> None:
        with runtime:
            helper.append(runtime.started(["sleep", "600"], "helper").pid)
            assert all(group_members(group) for group in [*groups(runtime), *helper])
            raise ZeroDivisionError

    helper: list[int] = []
    with pytest.raises(ZeroDivisionError):
        trouble()
    assert not group_members(helper[0])
    assert_gone(runtime)


def test_an_app_that_does_not_start_takes_the_others_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.py").write_text("raise RuntimeError('no app today')\n")
    monkeypatch.setattr(start, "resource_file", lambda *_: tmp_path)
    runtime = runtime_in(tmp_path)
    with pytest.raises(LabError, match="no app today"), runtime:
        pytest.fail("it must not come up")
    assert len(runtime.backends) == 2
    assert_gone(runtime)


def test_a_backend_that_dies_is_noticed_when_the_queues_are_to_run_empty(tmp_path: Path) -> None:
    with runtime_in(tmp_path) as runtime:
        os.killpg(runtime.backends[1].process.pid, signal.SIGKILL)
        with pytest.raises(LabError, match="backend-2 exited with"):
            runtime.settle(deadline=10.0)
    assert_gone(runtime)


def test_two_runtimes_at_once_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with runtime_in(tmp_path / "a") as one, runtime_in(tmp_path / "b") as other:
        ports = {each.port for each in (*one.backends, *other.backends)}
        assert len(ports) == 4
        assert one.url != other.url
    assert_gone(one)
    assert_gone(other)


@pytest.mark.parametrize(
    ("balancer", "line"), [("round_robin", ""), ("least_conn", "least_conn;"), ("random_two", "random two")]
)
def test_every_balancer_is_one_that_nginx_accepts(tmp_path: Path, balancer: str, line: str) -> None:
    topology = msgspec.convert({"balancer": balancer, "backends": 1}, Topology)
    assert line in http_text(topology, Upstreams(own=["127.0.0.1:9"]))
    with runtime_in(tmp_path, topology) as runtime, urllib.request.urlopen(f"{runtime.url}/sleep/0") as answer:
        assert answer.status == 200


def test_the_read_timeout_is_the_scenario_s(tmp_path: Path) -> None:
    topology = Topology(backends=1, proxy_read_timeout=0.5)
    with runtime_in(tmp_path, topology) as runtime:
        with pytest.raises(urllib.error.HTTPError, match="504"):
            urllib.request.urlopen(f"{runtime.url}/sleep/1.0")
        runtime.settle(deadline=10.0)
        # The abandoned sleep was waited for: this one meets an idle worker.
        with urllib.request.urlopen(f"{runtime.url}/sleep/0.01") as answer:
            assert answer.status == 200


def test_a_signal_waits_for_a_shield_and_counts_once() -> None:
    interrupts = Interrupts()
    reached = False

    def shielded() -> None:
        nonlocal reached
        with interrupts.shielded():
            os.kill(os.getpid(), signal.SIGTERM)
            reached = True

    with interrupts.caught():
        with pytest.raises(Interrupted) as interrupt:
            shielded()
        assert interrupt.value.exit_code == 128 + signal.SIGTERM
        os.kill(os.getpid(), signal.SIGTERM)  # the tear-down is under way: no second one
    assert reached
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_signals_ignored_by_nohup_remain_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts().caught():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    handlers: list[object] = []

    def look() -> None:
        with Interrupts().caught():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [before]
