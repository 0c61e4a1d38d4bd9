"""A log as a scenario: what is kept of it, what is not, and that the same requests make the same queue again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from sojourn_lab.cli import app
from sojourn_lab.errors import LabError
from sojourn_lab.experiments.replay.scenario import replay_toml
from sojourn_lab.experiments.replay.workload import COLUMNS, Replay, replay_of
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.files import scenario_from_text
from sojourn_lab.scenario.load import InstantsLoad
from sojourn_lab.scenario.run_options import RunOptions, scenario_with_options
from sojourn_lab.scenario.schema import Scenario
from typer.testing import CliRunner

needs_nginx = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
BEGUN = 1_795_000_000.0
SECRETS = ("198.51.100.7", "secret", "10.0.0.", "edge-1", "cafe", "2026", "1795", "shop", "/checkout", "4711")


def record(after: float, service: float | None, wait: float = 0.0, **more: str) -> dict[str, str]:
    """Return the log record of a request that came `after` seconds; its numbers are whole milliseconds."""
    answered = service is not None
    took = (service or 0.0) + wait
    start = f"{BEGUN + after:.3f}"
    own = {"queueing_delay": f"{wait:.6f}", "service_time": f"{service:.6f}", "worker": "4711"} if answered else {}
    return {
        "time": f"{BEGUN + after + took:.3f}",
        "request_id": f"cafe{round(after * 1e6):028x}",
        "service": "shop",
        "route": "/checkout/{id}",
        "uri": "/checkout/secret?token=secret",
        "status": "200" if answered else "504",
        "remote_addr": "198.51.100.7",
        "request_time": f"{took:.3f}",
        "request_start": start,
        "proxy_start": start,
        "upstream_addr": "10.0.0.1:80",
        "upstream_status": "200" if answered else "504",
        "upstream_connect_time": "0.000",
        "upstream_header_time": f"{took:.3f}" if answered else "-",
        "upstream_response_time": f"{took:.3f}",
        "proxy": "edge-1",
        "stamp": "own",
        **own,
        **more,
    }


def log_of(folder: Path, records: list[dict[str, str]]) -> Path:
    path = folder / "access.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


def replayed(log: Path, **more: Any) -> Replay:
    return replay_of(sojourn.split([log], columns=COLUMNS).rows, **more)


def scenario_of(replay: Replay) -> Scenario:
    return scenario_from_text(replay_toml(replay), "replay")


def load_of(scenario: Scenario) -> InstantsLoad:
    load = scenario.cases[0].load
    assert isinstance(load, InstantsLoad)
    return load


PLAIN = [record(0.1 * number, 0.01 + 0.001 * (number % 5)) for number in range(100)]


def test_arrivals_and_service_times_are_kept_to_the_microsecond(tmp_path: Path) -> None:
    result = replayed(log_of(tmp_path, PLAIN))
    load = load_of(scenario_of(result))
    assert load.at == pytest.approx([0.1 * number for number in range(100)], abs=1e-9)
    assert load.service_times == pytest.approx([0.01 + 0.001 * (number % 5) for number in range(100)], abs=1e-9)
    assert result.original.service_mean == pytest.approx(0.012)
    assert result.original.response_mean == pytest.approx(0.012, abs=0.001)
    assert result.original.queueing_mean < 0.001


def test_nothing_else_of_the_log_is_kept(tmp_path: Path) -> None:
    text = replay_toml(replayed(log_of(tmp_path, PLAIN)))
    assert [secret for secret in SECRETS if secret in text] == []
    assert str(tmp_path) not in text
    assert set(load_of(scenario_from_text(text, "")).routes or []) == {"/r1"}


def test_routes_are_distinguished_and_named_only_on_request(tmp_path: Path) -> None:
    names = ["/b", "/a", "/b", "/A b;'\"\n", "/a"]
    log = log_of(tmp_path, [record(0.1 * n, 0.01, route=name) for n, name in enumerate(names)])
    assert replayed(log).routes == ["/r1", "/r2", "/r1", "/r3", "/r2"]
    workload = replayed(log, keep_routes=True)
    assert workload.routes == ["/b", "/a", "/b", "/a-b", "/a"]
    assert load_of(scenario_of(workload)).routes == workload.routes


def test_request_without_service_time_holds_a_worker(tmp_path: Path) -> None:
    records = [*PLAIN, *(record(20.0 + n, None, 2.0) for n in range(3))]
    result = replayed(log_of(tmp_path, records))
    assert (result.read, result.drawn, len(result.at)) == (103, 3, 103)
    assert {round(each, 6) for each in result.services[-3:]} <= {0.010, 0.011, 0.012, 0.013, 0.014}
    assert result.patience == pytest.approx(2.0, abs=0.01)
    scenario = scenario_of(result)
    assert scenario.topology.proxy_read_timeout == pytest.approx(2.0, abs=0.01)
    assert not any(each.metric.endswith("service_time.mean") for each in scenario.criteria)
    assert "3 had no service time of their own" in replay_toml(result)


def test_requests_without_worker_are_left_out_and_counted(tmp_path: Path) -> None:
    nothing = dict.fromkeys(("upstream_status", "upstream_connect_time", "upstream_header_time"), "")
    static = record(3.05, None, upstream_addr="", upstream_response_time="", status="200", **nothing)
    refused = record(3.06, None, status="502", upstream_status="502", upstream_connect_time="-")
    result = replayed(log_of(tmp_path, [*PLAIN, static, refused]))
    assert (result.read, result.not_proxied, result.refused, len(result.at)) == (102, 1, 1, 100)


def test_topology_is_derived_from_the_log_or_given(tmp_path: Path) -> None:
    records = [record(0.1 * n, 0.15, upstream_addr=f"10.0.0.{n % 2 + 1}:80", worker=str(n % 6)) for n in range(60)]
    (tier,) = replayed(log_of(tmp_path, records)).tiers
    assert (tier.backends, tier.workers, tier.source) == (2, 3, "worker values")
    (reported,) = replayed(tmp_path / "access.jsonl", workers=5).tiers
    assert (reported.workers, reported.source) == (5, "told")
    uneven = replayed(tmp_path / "access.jsonl", workers={"10.0.0.1:80": 1, "10.0.0.2:80": 3})
    assert (uneven.tiers[0].workers, uneven.tiers[0].uneven) == (2, True)
    assert "each has their mean here" in replay_toml(uneven)


def test_two_upstreams_are_two_pools(tmp_path: Path) -> None:
    records = [record(0.1 * n, 0.01) for n in range(20)]
    records += [record(0.1 * n + 0.05, 0.02, upstream_addr="10.0.0.9:80", route="/export") for n in range(10)]
    result = replayed(log_of(tmp_path, records))
    scenario = scenario_of(result)
    assert [(each.backends, each.routes) for each in result.tiers] == [(1, ("/r1",)), (1, ("/r2",))]
    assert scenario.topology.backends == 1
    assert [(each.name, each.routes) for each in scenario.topology.pools] == [("pool-2", ["/r2"])]


def test_another_speed_moves_the_arrivals_only_and_is_held_against_nothing(tmp_path: Path) -> None:
    log = log_of(tmp_path, PLAIN)
    slow, fast = replayed(log), replayed(log, speed=2.0)
    assert fast.at == pytest.approx([each / 2.0 for each in slow.at], abs=1e-6)
    assert fast.services == slow.services
    assert not any("original" in each.name for each in scenario_of(fast).criteria)
    assert any("original" in each.name for each in scenario_of(slow).criteria)


def test_a_limit_takes_the_earliest(tmp_path: Path) -> None:
    result = replayed(log_of(tmp_path, PLAIN[::-1]), limit=10)
    assert result.at == pytest.approx([0.1 * number for number in range(10)], abs=1e-9)


def test_the_criteria_move_with_the_scale(tmp_path: Path) -> None:
    records = [record(0.1 * n, 0.02, wait=0.04 if n % 2 else 0.06) for n in range(100)]
    path = tmp_path / "replay.toml"
    path.write_text(replay_toml(replayed(log_of(tmp_path, records))))
    scenario, _ = scenario_with_options(str(path), RunOptions(scale=0.5))
    (reference,) = scenario.reference
    assert reference.response_time == pytest.approx(0.035, abs=0.001)
    (p99,) = [each for each in scenario.criteria if each.metric == "split.response_time.p99"]
    assert p99.of == "reference.response_time"
    assert p99.times * reference.response_time == pytest.approx(0.04, abs=0.001)  # type: ignore[operator]


def test_rejects_logs_that_the_lab_cannot_offer(tmp_path: Path) -> None:
    for records, words in (
        ([record(0.0, 0.01), record(90_000.0, 0.01)], "longer than a scenario's day"),
        ([record(0.01 * n, 0.01, upstream_addr=f"10.0.0.{n}:80") for n in range(70)], "70 backends"),
        ([record(0.1, None), record(0.2, None)], "no request has a service time"),
    ):
        with pytest.raises(LabError, match=words):
            replayed(log_of(tmp_path, records))
    with pytest.raises(LabError, match="no request to replay"):
        replay_of(sojourn.split([log_of(tmp_path, PLAIN)], columns=COLUMNS).rows.filter(pl.lit(False)))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "--scenario-out FILE"),
        (["--scenario-out", "{there}"], 1, "already exists"),
        (["--scenario-out", "new.toml", "--where", "status=200"], 2, "--where status"),
        (["--scenario-out", "new.toml", "--workers", "none"], 2, "--workers"),
        (["--scenario-out", "new.toml", "--since", "2030-01-01T00:00Z"], 1, "no request is left"),
    ],
)
def test_the_command_refuses_in_words(tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    log = log_of(tmp_path, PLAIN)
    there = tmp_path / "there.toml"
    there.write_text("mine")
    done = CliRunner().invoke(app, ["replay", str(log), *(each.format(there=there) for each in arguments)])
    assert (done.exit_code, there.read_text()) == (code, "mine")
    assert words in done.stderr


def test_the_command_writes_a_scenario(tmp_path: Path) -> None:
    out = tmp_path / "replay.toml"
    done = CliRunner().invoke(app, ["replay", str(log_of(tmp_path, PLAIN)), "--scenario-out", str(out), "--json"])
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert (document["requests"], document["tiers"][0]["workers"], document["left_out"]["refused"]) == (100, 1, 0)
    assert len(load_of(scenario_from_text(out.read_text(), "")).at) == 100


ORIGINAL = """
name = "original"
title = "Short and long"
question = "?"
shows = "."
seed = 11
duration = 6.0
[topology]
workers = 2
[[cases]]
name = "original"
load = {kind = "poisson", rate = 40}
routes = [
    {name = "/product", share = 0.9, service_time = 0.04, distribution = "exponential"},
    {name = "/export", share = 0.1, service_time = 0.3},
]
"""


@pytest.mark.scenario
@needs_nginx
def test_a_run_replayed_from_its_own_log_has_the_same_distribution(tmp_path: Path) -> None:
    (tmp_path / "original.toml").write_text(ORIGINAL)

    def lab(*arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "sojourn_lab", *arguments, "--json", "--quiet"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
        assert "Traceback" not in done.stderr
        record: dict[str, Any] = json.loads(done.stdout)
        return record

    for attempt in range(3):
        first = lab("run", "original.toml", "--once", "--out", f"first-{attempt}")
        again = lab("replay", f"first-{attempt}", "--run", "--out", f"again-{attempt}")
        if not first["void"] and not again["void"]:
            break
    else:
        pytest.fail("every run was void")
    one, other = first["cases"][0], again["cases"][0]
    assert one["client"]["offered"] == other["client"]["offered"] > 150
    assert again["scenario"]["topology"]["backends"] == 2
    assert again["scenario"]["topology"]["workers"] == 2
    services = [case["split"]["components"]["service_time"]["mean"] for case in (one, other)]
    assert services[1] == pytest.approx(services[0], rel=0.1)
    for figure in ("p50", "p99"):
        values = [case["split"]["response_time"][figure] for case in (one, other)]
        assert values[1] == pytest.approx(values[0], rel=0.3)
    judged = {each["name"].split(" within")[0]: each for each in again["criteria"]}
    assert judged["mean service time"]["passed"]
    assert judged["every request was sent"]["passed"]
