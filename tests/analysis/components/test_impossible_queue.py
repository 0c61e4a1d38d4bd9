"""A queueing delay longer than the response that contains it cannot have happened: it is counted and not used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from analysis_support import audit_check, frame, split_of_log
from clock_support import Seen, lines_of, requests_through
from sojourn.analyses.blame.run import blame
from sojourn.analyses.split.result import SplitResult
from sojourn.analyses.whatif.analysis import whatif
from sojourn.components.split import split_rows
from sojourn.doctor.split_findings import split_findings

FORGED = "500.046797"  # s: a client sent a stamp 500 s old


def measured(folder: Path, seen: list[Seen]) -> SplitResult:
    return split_of_log(folder, lines_of(seen))


def steady(requests: int = 2002) -> list[Seen]:
    """Two thirds of the response time is service."""
    return list(requests_through(lambda _: 0.02, requests=requests, rate=7.0))


def forge(seen: list[Seen], numbers: range) -> list[Seen]:
    for number in numbers:
        seen[number].record["queueing_delay"] = FORGED
    return seen


def check_of(result: SplitResult) -> dict[str, Any]:
    return audit_check(result, "impossible")


def test_one_forged_stamp_turns_no_figure(tmp_path: Path) -> None:
    honest = measured(tmp_path, steady())
    forged = measured(tmp_path, forge(steady(), range(1000, 1001)))
    assert forged.verdict.cause == honest.verdict.cause == "service"
    assert forged.queueing_share == pytest.approx(honest.queueing_share, abs=1e-3)
    for figure in ("mean", "p50", "p99", "p999", "max"):
        assert forged.components["queueing_delay"][figure] == pytest.approx(
            honest.components["queueing_delay"][figure], abs=2e-3
        )
    check = check_of(forged)
    assert (check["value"], check["verdict"]) == (1, "pass")
    assert check["sentence"].startswith("1 of 2,002 queueing delays is longer")
    assert forged.audit.identity_max_error < 1e-6
    assert check_of(honest)["value"] == 0


def test_the_raw_value_is_kept_and_durations_are_used(tmp_path: Path) -> None:
    row = (
        measured(tmp_path, forge(steady(300), range(100, 101)))
        .rows.filter(pl.col("impossible"))
        .collect()
        .row(0, named=True)
    )
    assert row["app_queueing_delay"] == pytest.approx(float(FORGED))
    assert row["queue_source"] == "duration"
    assert row["queue"] == pytest.approx(row["header"] - row["connect"] - row["service_time"])


def test_the_time_of_an_impossible_queue_is_unattributed_without_a_service_time(tmp_path: Path) -> None:
    seen = forge(steady(300), range(100, 101))
    seen[100].record["service_time"] = "-"
    row = measured(tmp_path, seen).rows.filter(pl.col("impossible")).collect().row(0, named=True)
    assert (row["queue_source"], row["queue"]) == ("none", None)
    assert row["unattributed"] == pytest.approx(row["header"] - row["connect"])


def test_many_forged_stamps_fail_the_audit_and_leave_the_verdict_unknown(tmp_path: Path) -> None:
    result = measured(tmp_path, forge(steady(), range(0, 1800, 3)))
    check = check_of(result)
    assert (check["value"], check["verdict"]) == (600, "fail")
    assert check["sentence"] in result.audit.failures()
    assert result.verdict.cause == "unknown"
    assert "600 of 2,002" in result.verdict.sentence


@pytest.mark.parametrize(
    "skew",
    [
        pytest.param(lambda _: 7200.0, id="two hours ahead"),
        pytest.param(lambda _: -7200.0, id="two hours behind"),
        pytest.param(lambda t: 3.0 + 200e-6 * t, id="drift"),
        pytest.param(lambda t: 0.1 + (30.0 if t > 100 else 0.0), id="set forward"),
        pytest.param(lambda t: 0.1 - (30.0 if t > 100 else 0.0), id="set back"),
    ],
)
def test_a_clock_that_is_off_makes_no_queue_impossible(tmp_path: Path, skew: Callable[[float], float]) -> None:
    result = measured(tmp_path, list(requests_through(skew, requests=2000, rate=9.0)))
    assert check_of(result)["value"] == 0
    assert result.sources == {"stamp": 2000}


def impossible_of(**row: object) -> bool:
    # A clock that the other requests fix.
    others = [
        {"start": float(n), "request_start": float(n), "app_queueing_delay": 0.1, "app_service_time": 0.3}
        for n in range(1, 20)
    ]
    split_lazily = split_rows(frame({"request_start": 0.0, "app_service_time": 0.1, **row}, *others)).rows
    return bool(split_lazily.collect()["impossible"][0])


def test_a_failed_attempt_before_is_no_part_of_the_queue() -> None:
    retried = {"attempts": 2, "retries": 5.0, "request_time": 5.5, "app_service_time": 0.1}
    assert not impossible_of(**retried, app_queueing_delay=5.3)
    assert impossible_of(**retried, app_queueing_delay=5.9)


def test_a_wait_before_nginx_is_possible() -> None:
    """The stamp of a proxy in front: nginx's own instant is in the log, or it is not."""
    inbound = {"stamp": "inbound", "request_start": -60.0, "app_queueing_delay": 60.2}
    assert not impossible_of(**inbound, proxy_start=0.0)
    assert not impossible_of(**inbound, proxy_start=-60.0)
    assert impossible_of(**inbound | {"stamp": "own"}, proxy_start=-60.0)
    assert impossible_of(**inbound | {"app_queueing_delay": 560.2}, proxy_start=0.0)


def test_blame_and_what_if_do_not_see_it(tmp_path: Path) -> None:
    honest = measured(tmp_path, steady()).rows
    waited = blame(honest, by="route").to_dict()["waited"]
    rows = measured(tmp_path, forge(steady(), range(1000, 1001))).rows
    assert blame(rows, by="route").to_dict()["waited"] == pytest.approx(waited, rel=0.01)
    assert whatif(rows, [{"workers": "+1"}]).refused is None


@pytest.mark.parametrize(("forged", "severity"), [(range(1000, 1001), "info"), (range(0, 1800, 3), "warning")])
def test_the_doctor_and_the_notes_name_it(tmp_path: Path, forged: range, severity: str) -> None:
    result = measured(tmp_path, forge(steady(), forged))
    findings = {finding.code: finding for finding in split_findings(result, "a.jsonl")}
    assert findings["queue-impossible"].severity == severity
    assert any(note.startswith("Not used:") for note in result.notes)


def test_the_command_prints_valid_json(tmp_path: Path) -> None:
    result = measured(tmp_path, forge(steady(), range(0, 1800, 3)))
    assert json.loads(json.dumps(result.to_dict()))["audit"]["impossible"] == 600
