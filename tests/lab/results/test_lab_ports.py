"""A generator that runs out of local ports: refused by the kernel, counted, and void with the cause named."""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lab_support import StubServer, find_scenario, generated, http_server, missed, plan_for, sound_run
from sojourn_lab.errors import ScenarioError
from sojourn_lab.load.generator import local_ports
from sojourn_lab.load.generator.__main__ import main
from sojourn_lab.load.generator.local_ports import (
    SocketFactory,
    bound_sockets,
    bounded_sockets,
    ephemeral_range,
    free_block,
    kernel_bounds_ports,
)
from sojourn_lab.results.analyses.ports import most_at_once
from sojourn_lab.results.criteria import expected_voids
from sojourn_lab.results.run_schema import CaseResult, WindowTimes
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.files import scenario_from_text
from sojourn_lab.scenario.load import ConstantLoad

pytestmark = pytest.mark.alone


def test_block_is_contiguous_in_the_kernel_range_and_avoids_used_ports() -> None:
    low, high = ephemeral_range()
    ports = free_block(8, 3)
    assert len(ports) == 8
    assert low <= ports[0] < ports[-1] <= high
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", ports[5]))
        assert ports[5] not in free_block(8, 3)


MAKERS = [
    pytest.param(
        bounded_sockets,
        marks=pytest.mark.skipif(not kernel_bounds_ports(), reason="the kernel has no IP_LOCAL_PORT_RANGE"),
    ),
    pytest.param(bound_sockets),
]


@pytest.mark.parametrize("maker", MAKERS)
def test_connections_are_limited_to_the_ports_and_ports_are_reused(maker: Any) -> None:
    ports = free_block(6, 11)
    make_socket: SocketFactory = maker(ports)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.bind(("127.0.0.1", 0))
        server.listen(32)
        address = server.getsockname()

        def connected() -> socket.socket:
            client = make_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", address))
            try:
                client.connect(address)
            except OSError:
                client.close()
                raise
            return client

        connections = []
        try:
            connections = [connected() for _ in ports]
            assert sorted(each.getsockname()[1] for each in connections) == list(ports)
            with pytest.raises(OSError, match=os.strerror(errno.EADDRNOTAVAIL)):
                connected()
            # Closed by the client, while the server has not: no TIME_WAIT keeps the port.
            connections.pop().close()
            connections.append(connected())
        finally:
            for each in connections:
                each.close()


def test_requests_without_a_port_are_counted_and_make_the_run_void(tmp_path: Path) -> None:
    server = StubServer(before_answer=lambda _: time.sleep(0.2))
    with http_server(server):
        plan = plan_for(tmp_path, server.url, ConstantLoad(60.0), duration=1.0, local_ports=6)
        summary, records = generated(plan)
    refused = summary.errors["no_local_port"]
    assert set(summary.errors) == {"no_local_port"}
    assert summary.failed == refused == sum(each.error == "no_local_port" for each in records)
    # 6 ports of 0.2 s each carry 30 a second at most.
    assert 15 <= summary.answered <= 36
    assert summary.answered + refused == summary.offered
    reasons = [each for each in summary.void if "ran out of local ports" in each]
    assert [re.findall(r"\d+", each) for each in reasons] == [[str(refused), "6"]]


def test_enough_ports_do_not_make_the_run_void(tmp_path: Path) -> None:
    with http_server(StubServer()) as server:
        summary, _ = generated(plan_for(tmp_path, server.url, ConstantLoad(40.0), duration=0.5, local_ports=64))
    assert summary.errors == {}
    assert not any("port" in each for each in summary.void)


def test_more_ports_than_available_end_the_generator_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_ports, "ephemeral_range", lambda: (40_000, 40_010))
    plan = plan_for(tmp_path, "http://127.0.0.1:9", ConstantLoad(1.0), duration=0.1, local_ports=12)
    (tmp_path / "plan.json").write_bytes(msgspec.json.encode(plan))
    assert main([str(tmp_path / "plan.json")]) == 1
    message = capsys.readouterr().err
    assert message.startswith("generator: ")
    assert re.findall(r"\d+", message) == ["12", "12", "40000", "40010"]


def test_most_at_once_counts_an_end_before_a_beginning() -> None:
    assert most_at_once([]) == 0
    assert most_at_once([(0.0, 1.0), (1.0, 2.0)]) == 1
    assert most_at_once([(0.0, 1.0), (0.5, 2.0), (0.9, 3.0), (2.5, 4.0)]) == 3


def case_result(name: str, void: list[str]) -> CaseResult:
    return CaseResult(
        name=f"{name}.r1", service_time=0.1, load=None, warmup=0.0, duration=1.0, window=WindowTimes("", ""),
        client=None, listen=[], base=name, void=void,
    )  # fmt: skip


def test_case_that_is_expected_void_and_is_not_fails() -> None:
    cases = [case_result("few", ["no ports"]), case_result("many", []), case_result("other", ["late"])]
    judged = expected_voids({"few", "many"}, cases)
    assert [(each.case, each.value, each.passed) for each in judged] == [("few.r1", 1.0, True), ("many.r1", 0.0, False)]


def test_ports_are_at_least_one() -> None:
    text = """
name = "x"
title = "x"
question = "x"
shows = "x"
seed = 1
duration = 1.0
[[cases]]
name = "one"
service_time = 0.1
local_ports = 0
load = {kind = "constant", rate = 1}
"""
    with pytest.raises(ScenarioError, match=r"cases\[0\].local_ports"):
        scenario_from_text(text, "x.toml")


@pytest.mark.scenario
@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_the_rate_is_flat_at_ports_by_response_time(tmp_path: Path) -> None:
    expected = {case.name for case in find_scenario("port-exhaustion").cases if case.expect_void}
    run = sound_run(tmp_path, "port-exhaustion", "--duration", "1.6", "--seed", "5")
    assert missed(run) == []
    assert run["passed"]
    assert {case["base"] for case in run["cases"] if case["void"]} == expected
    for case in run["cases"]:
        if case["base"] in expected:
            assert any("ran out of local ports" in reason for reason in case["void"])
            assert case["figures"]["ports"]["refused"] == case["client"]["errors"]["no_local_port"]
