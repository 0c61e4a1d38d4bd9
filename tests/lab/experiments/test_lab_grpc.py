"""gRPC calls over long-lived connections: the server, the figures by hand, then the experiment itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from lab_support import first_round, plan_for, sound_run
from sojourn_lab.errors import ScenarioError
from sojourn_lab.experiments.grpc.client import METHOD, OPTIONS
from sojourn_lab.experiments.grpc.figures import case_figures
from sojourn_lab.experiments.grpc.plan import GrpcPlan, addresses_of_channels
from sojourn_lab.experiments.grpc.servers import Call, GrpcServer, started_server
from sojourn_lab.load.generator.summary import quantiles_of, summary_of
from sojourn_lab.load.plan import ClientRecord, Summary, Window
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.experiment_settings import Grpc
from sojourn_lab.scenario.files import scenario_from_text
from sojourn_lab.scenario.load import PoissonLoad

pytestmark = pytest.mark.alone

TEXT = """
name = "x"
title = "x"
question = "x"
shows = "x"
seed = 1
duration = 1.0
[[cases]]
name = "one"
{more}
grpc = {{balanced = "{balanced}", rate = 10, service_time = 0.1}}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GrpcServer]:
    result = started_server("backend-1", 1, 2.0, tmp_path)
    try:
        yield result
    finally:
        result.process.stop()


def test_server_works_for_the_given_time_and_reports_the_wait(server: GrpcServer) -> None:
    with grpc.insecure_channel(server.ready_address(), options=OPTIONS) as channel:
        ask = channel.unary_unary(METHOD)
        metadata = (("x-lab-id", "one-1"), ("x-lab-case", "one"), ("x-request-start", "t=1000000000.000"))
        # Two at once on one worker: the second waits for the first.
        calls = [ask.future(b"0.05", timeout=10.0, metadata=metadata) for _ in range(2)]
        assert [each.result() for each in calls] == [b"", b""]
        headers = dict(calls[0].initial_metadata())
        with pytest.raises(grpc.RpcError) as refused:
            ask(b"soon", timeout=10.0)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    # LAB_SLOWDOWN doubles the service time that was requested.
    assert float(headers["x-service-time"]) == pytest.approx(0.1, abs=0.05)
    assert headers["x-route"] == METHOD
    # Older than an hour: no stamp is better than one of that kind.
    assert "x-queueing-delay" not in headers
    first, second = sorted(server.calls(), key=lambda call: call.start)
    assert {first.id, second.id} == {"one-1"}
    assert first.end - first.start >= 0.1
    assert second.start >= first.end - 0.02


def test_channels_are_connected_by_turns() -> None:
    plan = plan_for(Path("unused"), "", PoissonLoad(1.0), duration=1.0)
    assert addresses_of_channels(GrpcPlan(plan, ["a:1", "b:2"], 5)) == ["a:1", "b:2", "a:1", "b:2", "a:1"]


def case_of(rows: list[tuple[float, float, float, str]], window: tuple[float, float]) -> tuple[Any, Any, Summary]:
    """Records, calls and summary of (sent, start, end, server), unix s."""
    records, calls = [], {"a": [], "b": []}
    for number, (sent, start, end, server) in enumerate(rows):
        records.append(ClientRecord("one", f"one-{number}", 0, 0.1, sent, sent, end, end, 200))
        calls[server].append(Call(f"one-{number}", "0", start, end))
    plan = plan_for(Path("unused"), "", PoissonLoad(1.0), duration=window[1] - window[0])
    result = summary_of(plan, Window(*window), records=records, dropped=[], loop_lag=[0.0], cpu=0.1)
    return records, calls, result


def test_a_pinned_case_by_hand() -> None:
    # All at a, which has one worker; b joins at 110.
    rows = [
        (100.0, 100.0, 105.0, "a"),
        (101.0, 105.0, 109.0, "a"),
        (111.0, 111.0, 115.0, "a"),
        (112.0, 115.0, 116.0, "a"),
    ]
    records, calls, summary = case_of(rows, (100.0, 120.0))
    result = case_figures(records, calls, summary, workers=1, at=110.0)
    assert result["joined"]["requests"] == 0
    assert result["before"]["backends"]["a"]["share"] == 1.0
    assert result["before"]["queueing_delay"]["mean"] == pytest.approx(2.0)
    assert result["after"]["waited"] == pytest.approx(3.0)
    assert result["after"]["imbalance_share"] == pytest.approx(1.0)
    assert result["client"]["response_time"]["max"] == pytest.approx(8.0)
    assert result["client"]["after"]["response_time"]["mean"] == pytest.approx(4.0)
    assert result["client"]["unmatched"] == 0
    assert result["client"]["failed"] == 0


def test_a_case_without_an_addition_and_a_call_that_no_server_knows() -> None:
    records, calls, summary = case_of([(100.0, 100.0, 101.0, "a"), (102.0, 102.0, 103.0, "b")], (100.0, 110.0))
    calls["b"].clear()
    result = case_figures(records, calls, summary, workers=1, at=None)
    assert (result["requests"], result["client"]["unmatched"]) == (1, 1)
    assert result["client"]["answered"] == 2


def test_quantiles_have_p95() -> None:
    assert quantiles_of(number / 100 for number in range(101)).p95 == pytest.approx(0.95)


def test_settings_move_with_the_scale_and_nothing_else_is_taken() -> None:
    settings = Grpc("call", 10.0, 0.1, channels=3).with_time_scaled(0.5)
    assert (settings.rate, settings.service_time, settings.channels) == (20.0, 0.05, 3)
    with pytest.raises(ScenarioError, match=r"cases\[0\].grpc.balanced"):
        scenario_from_text(TEXT.format(balanced="never", more=""), "x.toml")
    assert scenario_from_text(TEXT.format(balanced="call", more=""), "x.toml").cases[0].kind == "grpc"


@pytest.mark.scenario
@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_pinned_connections_leave_the_newcomer_idle_and_balanced_calls_do_not(tmp_path: Path) -> None:
    run = sound_run(tmp_path, "grpc-pinning", "--duration", "4", "--seed", "6")
    out = Path(run["run"])
    cases = first_round(run)
    shares = {name: case["figures"]["joined"]["share"] for name, case in cases.items()}
    assert shares["pinned"] == 0.0
    assert min(shares["round-robin"], shares["least-conn"]) > 0.2
    waits = {name: case["figures"]["after"]["queueing_delay"]["mean"] for name, case in cases.items()}
    assert waits["pinned"] > 1.5 * max(waits["round-robin"], waits["least-conn"])
    # A call on its way while nginx reloads may be lost, one at most here.
    assert all(case["figures"]["client"]["failed"] <= 1 for case in run["cases"])
    # What nginx balanced is in its log, with what the servers answered; what it never saw is not.
    rows = [json.loads(line) for line in (out / "access.jsonl").read_bytes().splitlines()]
    assert {row["service"].partition(".r")[0] for row in rows} == {"round-robin", "least-conn"}
    assert {(row["route"], row["status"], row["protocol"]) for row in rows} == {(METHOD, "200", "HTTP/2.0")}
    splits = {name: case["split"] for name, case in cases.items()}
    assert splits["pinned"] is None
    assert splits["round-robin"]["components"]["service_time"]["mean"] == pytest.approx(0.05, rel=0.2)
    ids = {json.loads(line)["request_id"] for line in (out / "client.jsonl").read_bytes().splitlines()}
    assert {row["request_id"] for row in rows} <= ids
