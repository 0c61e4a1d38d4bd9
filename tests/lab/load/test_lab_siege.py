"""siege in place of our generator: what it can offer, how its words are read, and a real one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lab_support import StubServer, http_server, outcome, plan_for
from sojourn_lab.load.siege import record_of, why_impossible
from sojourn_lab.scenario.load import ClosedLoad, PoissonLoad, Retries

pytestmark = pytest.mark.alone

needs_siege = pytest.mark.skipif(shutil.which("siege") is None, reason="siege is not installed")
LOOP = ClosedLoad(3)


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("HTTP/1.1 200     0.40 secs:      12 bytes ==> GET  /sleep/0.1", (200, 0.40, 12)),
        ("HTTP/1.1 504    60.00 secs:     167 bytes ==> GET  /sleep/0.1", (504, 60.0, 167)),
        ("[error] socket: unable to connect sock.c:282: Connection refused", None),
        ("Transactions:\t\t        4 hits", None),
        ("", None),
    ],
)
def test_parses_lines_of_siege(line: str, parsed: tuple[int, float, int] | None) -> None:
    record = record_of(line, plan_for(Path("."), "http://x", LOOP, 1.0), 7, 100.0)
    if parsed is None:
        assert record is None
        return
    assert record is not None
    status, seconds, size = parsed
    assert (record.status, record.bytes, record.id, record.done) == (status, size, "test-7", 100.0)
    assert record.sent == pytest.approx(100.0 - seconds)


@pytest.mark.parametrize(
    ("load", "more", "words"),
    [
        (PoissonLoad(3.0), {}, "closed loop"),
        (ClosedLoad(3, think_time=1.0), {}, "think time"),
        (LOOP, {"retries": Retries(attempts=2)}, "retries"),
        (LOOP, {"distribution": "exponential"}, "drawn"),
        (ClosedLoad(1000), {}, "255"),
    ],
)
def test_rejects_loads_that_siege_cannot_offer(tmp_path: Path, load: Any, more: dict[str, Any], words: str) -> None:
    plan = plan_for(tmp_path, "http://127.0.0.1:1", load, 1.0, **more)
    assert words in (why_impossible(plan) or "")
    path = tmp_path / "plan.json"
    path.write_bytes(msgspec.json.encode(plan))
    done = subprocess.run(
        [sys.executable, "-m", "sojourn_lab.load.siege", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@needs_siege
def test_a_real_one_keeps_its_users_busy_and_reports_what_they_saw(tmp_path: Path) -> None:
    with http_server(StubServer(before_answer=lambda _: time.sleep(0.1))) as server:
        plan = plan_for(tmp_path, server.url, LOOP, 1.6, warmup=0.4, service_time=0.25)
        path = tmp_path / "plan.json"
        path.write_bytes(msgspec.json.encode(plan))
        subprocess.run([sys.executable, "-m", "sojourn_lab.load.siege", str(path)], check=True, timeout=60)
    summary, records = outcome(plan)
    assert server.most == 3
    assert {(where, case) for where, case, _ in server.requests} == {("/sleep/0.250000", "test")}
    # Those under way when the time is over are not reported, nor is one of each user where the machine stalls.
    assert len(server.requests) - 2 * 3 <= len(records) <= len(server.requests)
    assert summary.statuses.keys() == {"200"}
    assert summary.latency.uncorrected.p50 == pytest.approx(0.1, abs=0.05)
    assert 0 < summary.offered < len(records)
    assert not summary.void
