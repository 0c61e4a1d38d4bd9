"""What tells the causes of a phase apart: the way to a backend, and the sizes of messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sojourn
from sojourn.sources.log_files import with_log_format
from worker_log import WorkerSystem, worker_log


def split_of(path: Path, system: WorkerSystem) -> sojourn.SplitResult:
    worker_log(path, system)
    return sojourn.split(path)


@pytest.mark.parametrize("seed", [1, 2])
def test_way_to_a_backend_far_away_is_network(tmp_path: Path, seed: int) -> None:
    result = split_of(tmp_path / "a.jsonl", WorkerSystem(load=0.1, way=0.025, seed=seed))
    assert result.means["queue"] > 0.02
    assert result.evidence.way == pytest.approx(result.means["queue"], rel=0.1)
    assert result.verdict.cause != "queueing"
    assert "waiting for a worker was 0 %" in result.verdict.sentence or "under 1 %" in result.verdict.sentence
    assert any("is the way to the backends" in note for note in result.notes)


@pytest.mark.parametrize(
    "system",
    [
        WorkerSystem(load=0.5),
        WorkerSystem(load=0.95),
        WorkerSystem(load=1.5),
        WorkerSystem(load=3.0, requests=2_000),
        WorkerSystem(workers=1, load=0.9, burst=8),
    ],
    ids=["half", "nearly full", "overload", "never idle", "bursts"],
)
def test_waits_for_workers_are_not_called_a_way(tmp_path: Path, system: WorkerSystem) -> None:
    result = split_of(tmp_path / "a.jsonl", system)
    assert result.evidence.way == 0.0
    if system.load > 1:
        assert result.verdict.cause == "queueing"


@pytest.mark.parametrize("seed", [1, 2])
def test_way_to_a_busy_backend_far_away_is_in_doubt(tmp_path: Path, seed: int) -> None:
    result = split_of(tmp_path / "a.jsonl", WorkerSystem(load=0.93, workers=6, way=0.04, seed=seed))
    assert result.evidence.way == 0.0
    assert 0.04 <= result.evidence.way_in_doubt <= result.clock["uncertainty"].max()
    assert result.verdict.cause != "queueing"
    assert any("may be the way to the backends" in note for note in result.notes)


def test_sizes_of_messages_divide_a_phase(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    record = {
        "time": "1767225601.000", "status": "200", "request_time": "1.000", "request_start": "1767225600.800",
        "proxy_start": "1767225600.800", "upstream_addr": "10.0.0.1:80", "upstream_connect_time": "0.000",
        "upstream_header_time": "0.100", "upstream_response_time": "0.100", "queueing_delay": "0.001",
        "service_time": "0.099",
    }  # fmt: skip
    sizes = [("8192", "8191"), ("8191", "8192"), ("", ""), ("100000", "100000")]
    lines = (json.dumps({**record, "request_length": up, "bytes_sent": down}) for up, down in sizes)
    log.write_text("\n".join(lines) + "\n")
    result = sojourn.split(log)
    assert result.means["upload"] == pytest.approx(0.8)
    assert result.evidence.large["before"] == pytest.approx(0.4)
    assert result.evidence.large["after"] == pytest.approx(2 / 4 * result.means["send"])
    assert result.evidence.large["service"] == pytest.approx(0.099 / 2)
    assert result.to_dict()["evidence"]["redirects"] == 0.0


HIT = {
    "time": "1767225601.000", "status": "200", "upstream_addr": "", "upstream_response_time": "", "bytes_sent": "900",
    "request_length": "300", "upstream_cache_status": "HIT",
}  # fmt: skip


@pytest.mark.parametrize(
    ("took", "changes", "locked"),
    [
        ("0.501", {}, 0.5),
        ("1.499", {}, 1.5),  # nginx counts a millisecond less now and then
        ("5.020", {}, 5.0),
        ("0.508", {}, 0.5),
        ("0.509", {}, 0.0),
        ("0.498", {}, 0.0),
        ("0.250", {}, 0.0),
        ("0.502", {"upstream_cache_status": "BYPASS"}, 0.0),
        ("0.502", {"upstream_cache_status": "-"}, 0.0),
        ("0.502", {"limit_req_status": "DELAYED"}, 0.0),
        ("0.502", {"limit_req_status": "PASSED"}, 0.5),
        ("0.502", {"bytes_sent": "900000"}, 0.5),
    ],
)
def test_cache_lock_is_recognised_by_its_steps(
    tmp_path: Path, took: str, changes: dict[str, str], locked: float
) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text(json.dumps({**HIT, "request_time": took, **changes}) + "\n")
    evidence = sojourn.split(log).evidence
    assert evidence.locked == {"before": 0.0, "after": pytest.approx(locked)}
    delayed = changes.get("limit_req_status") == "DELAYED"
    assert evidence.limited == {"before": 0.0, "after": pytest.approx(float(took) if delayed else 0.0)}
    assert evidence.large["after"] == 0.0


def test_cache_and_limit_of_a_text_log(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    text = '10.0.0.1 - - [31/Dec/2025:12:00:{:02} +0000] "GET /a HTTP/1.1" 200 900 0.{} - - "{}" "{}"\n'
    values = [("502", "HIT", "-"), ("250", "HIT", "-"), ("502", "HIT", "DELAYED"), ("502", "-", "-")]
    log.write_text("".join(text.format(n, *value) for n, value in enumerate(values)))
    form = (
        '$remote_addr - $remote_user [$time_local] "$request" $status $bytes_sent $request_time $upstream_addr '
        '$upstream_response_time "$upstream_cache_status" "$limit_req_status"'
    )
    result = sojourn.split(with_log_format([log], form))
    assert result.evidence.locked["after"] == pytest.approx(0.5 / 4)
    assert result.evidence.limited["after"] == pytest.approx(0.502 / 4)
    assert result.rows.collect()["upstream_cache_status"].to_list() == ["HIT", "HIT", "HIT", None]
