"""What held the workers by the servers' own logs: small systems whose answer is worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from lab_support import sound_run
from sojourn_lab.results.analyses.held import LimitLine, WorkerLine, logged_requests
from sojourn_lab.results.waits_by_cause import accounts_of, largest_difference
from sojourn_lab.runtime.nginx import Nginx

BEGIN = 1_700_000_000.0
CUT = 0.0005  # s: half of the millisecond to which nginx cuts its stamps


def rows(*arrivals: float, upstream: str = "a:1") -> pl.DataFrame:
    """Return split rows of requests 0, 1, … that nginx turned to the app at these seconds."""
    return pl.DataFrame(
        {
            "request_id": [str(number) for number in range(len(arrivals))],
            "upstream": [upstream] * len(arrivals),
            "status": [200] * len(arrivals),
            "start": [datetime.fromtimestamp(BEGIN + instant - CUT, UTC) for instant in arrivals],
            "upload": [0.0] * len(arrivals),
            "retries": [0.0] * len(arrivals),
        }
    )


def line(number: int, worker: str, instants: tuple[float, float, float, float], **more: str) -> WorkerLine:
    begin, headers, answered, released = (BEGIN + instant for instant in instants)
    return WorkerLine(
        worker,
        id=str(number),
        route="/page",
        begin=begin,
        headers=headers,
        answered=answered,
        released=released,
        **more,
    )


def shares(*arguments: object, queues: str = "", limits: dict[str, LimitLine] | None = None) -> dict[str, float]:
    logged, lines = arguments
    return accounts_of(*logged_requests(logged, lines, limits or {}, queues))  # type: ignore[arg-type]


def test_a_wait_is_charged_to_the_phases_that_held_the_worker() -> None:
    lines = [line(0, "7", (0.0, 1.0, 3.0, 4.0)), line(1, "7", (4.001, 5.0, 5.0, 5.002))]
    accounts = shares(rows(0.0, 0.5), lines)
    # From 0.5 to 4 s: half a second of the service, 2 s of the body, 1 s of the work after the answer, 1 ms in between.
    expected = {"/page service": 0.5, "/page body": 2.0, "/page after": 1.001}
    assert accounts == pytest.approx({name: part / 3.501 for name, part in expected.items()}, abs=1e-6)


def test_work_of_the_server_between_two_steps_is_no_phase() -> None:
    lines = [line(0, "7", (0.0, 1.0, 1.002, 1.005)), line(1, "7", (1.01, 2.0, 2.0, 2.0))]
    assert shares(rows(0.0, 0.5), lines) == pytest.approx({"/page service": 1.0})


@pytest.mark.parametrize(("queues", "account"), [("", "dispatch"), ("worker", "bound"), ("master", "bound")])
def test_a_free_worker_of_another_process_is_out_of_reach(queues: str, account: str) -> None:
    lines = [
        line(0, "7", (0.0, 2.0, 2.0, 2.0), master="1"),
        line(1, "8", (0.1, 0.5, 0.5, 0.5), master="2"),
        line(2, "7", (2.0, 3.0, 3.0, 3.0), master="1"),
        line(3, "8", (2.1, 3.0, 3.0, 3.0), master="2"),
    ]
    accounts = shares(rows(0.0, 0.1, 1.0, 2.1), lines, queues=queues)
    assert accounts == pytest.approx({account: 1.0})


def test_waiting_behind_a_limit_beside_a_free_worker() -> None:
    lines = [line(0, "7", (0.0, 2.0, 2.0, 2.0)), line(1, "8", (2.0, 3.0, 3.0, 3.0)), line(2, "8", (3.5, 4.0, 4.0, 4.0))]
    # The worker 8 is there before its first request: it was loaded at the begin.
    lines.append(WorkerLine("8", loaded=BEGIN - 1.0))
    limits = {"1": LimitLine("1", BEGIN + 0.5, 0.0, 1_499.5)}
    accounts = shares(rows(0.0, 0.5, 3.5), lines, limits=limits)
    assert accounts == pytest.approx({"limit": 1.0}, abs=1e-3)


def test_an_absent_worker_shares_the_blame() -> None:
    lines = [
        line(0, "7", (0.0, 1.0, 1.0, 1.0)),
        line(1, "8", (0.0, 4.0, 4.0, 4.0)),
        WorkerLine("7", ended=BEGIN + 1.0),
        WorkerLine("9", loaded=BEGIN + 3.0),
        line(2, "9", (3.0, 4.0, 4.0, 4.0)),
        line(3, "9", (4.0, 5.0, 5.0, 5.0)),
        line(4, "8", (5.0, 6.0, 6.0, 6.0)),
    ]
    accounts = shares(rows(0.0, 0.0, 1.0, 4.0, 5.0), lines)
    assert accounts == pytest.approx({"absent": 0.5, "/page service": 0.5})


def test_requests_without_a_line_of_the_app_are_missing() -> None:
    requests, present = logged_requests(rows(0.0, 0.5), [line(0, "7", (0.0, 1.0, 1.0, 1.0))], {}, "")
    assert len(requests) == len(present) == 1


def test_the_largest_difference_counts_accounts_that_one_side_lacks() -> None:
    name, off = largest_difference({"bound": 0.6, "dispatch": 0.4}, {"bound": 0.5, "dispatch": 0.3, "absent": 0.2})
    assert (name, off) == ("absent", -0.2)


@pytest.mark.alone
@pytest.mark.scenario
@pytest.mark.timeout(1_300)
@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=str(Nginx.why_unavailable()))
@pytest.mark.parametrize("name", ["streaming", "after-answer", "bound-processes", "restarts", "limit-in-front"])
def test_what_is_stated_of_real_servers_is_what_their_logs_say(tmp_path: Path, name: str) -> None:
    run = sound_run(tmp_path, name, "--quick", deadline=400.0)
    assert [each for each in run["criteria"] if not each["passed"]] == []
    predicted = [each for each in run["predictions"] if each["refused"] is None]
    assert len(predicted) == len(run["predictions"]) > 0
