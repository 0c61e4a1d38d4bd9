"""A store tells of clocks that drift and of clocks that were set what the log tells."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import sojourn

# The path to it comes with split_support.
from clock_support import EPOCH, Seen, Skew, lines_of, requests_through
from one_worker_log import event_loop, serial
from sojourn.store import connect, load
from split_support import BASE, assert_same_split, export, line

SKEWS: dict[str, Skew] = {
    "set forward": lambda t: 0.02 + (0.08 if t > 70 else 0.0),
    "set back": lambda t: 0.02 - (0.08 if t > 70 else 0.0),
    "drifts and is set": lambda t: 100e-6 * t - (1.5 if t > 90 else 0.0),
    "runs unevenly": lambda t: 0.03 * math.sin(t / 120),
}


def log_of(path: Path, *skews: Skew, requests: int = 1500) -> list[Seen]:
    seen = [
        one
        for number, skew in enumerate(skews)
        for one in requests_through(skew, requests=requests, rate=12, upstream=f"10.0.0.{number}:80", seed=number)
    ]
    path.write_bytes(lines_of(seen))
    return seen


@pytest.mark.parametrize(
    "skew",
    [
        pytest.param(skew, id=name, marks=() if name == "drifts and is set" else pytest.mark.thorough)
        for name, skew in SKEWS.items()
    ],
)
def test_as_the_log(store_dsn: str, tmp_path: Path, skew: Skew) -> None:
    log = tmp_path / "access.jsonl"
    log_of(log, skew, lambda _: 0.137)
    load(store_dsn, log)
    (one, other) = sojourn.split(log).to_dict()["clock"]
    assert len(one["segments"]) > 1 or one["drift"]
    assert len(other["segments"]) == 1
    assert_same_split(log, store_dsn)
    assert_same_split(log, store_dsn, records=False, since=EPOCH + 40, until=EPOCH + 80)


def test_an_offset_within_its_uncertainty_is_not_subtracted(store_dsn: str, tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log_of(log, lambda _: 0.0004, lambda _: 0.137)
    load(store_dsn, log)
    assert_same_split(log, store_dsn)
    assert "queue" not in sojourn.split(log).audit.negative
    ask = "SELECT DISTINCT upstream, clock_offset FROM requests_split ORDER BY upstream"
    with connect(store_dsn) as store:
        offsets = dict(store.client.query(ask).result_rows)
        assert store.client.query("SELECT sum(negative) FROM rollup_minute FINAL").result_rows == [(0,)]
    assert offsets == {"10.0.0.0:80": 0.0, "10.0.0.1:80": pytest.approx(0.137, abs=1e-3)}


def test_abandoned_requests_are_split_by_the_clock_of_their_time(store_dsn: str, tmp_path: Path) -> None:
    """The span of a request that was given up on tells the app's clock alone: an hour ahead in the second half."""
    log, reported = tmp_path / "access.jsonl", tmp_path / "spans.jsonl"
    seen = log_of(log, lambda t: 3600.0 if t > 70 else 0.0)
    lost, exports = [], []
    for number, begun in enumerate((30.0, 100.0)):
        lost.append(
            line(
                time=f"{BASE + begun + 10:.3f}", request_time="10.000", status="504", request_id=f"lost-{number}",
                request_start=f"{BASE + begun:.3f}", upstream_addr="10.0.0.0:80", upstream_status="504",
                upstream_connect_time="0.000", upstream_header_time="-", upstream_response_time="10.000",
                proxy="edge-1",
            )
        )  # fmt: skip
        exports.append(export(f"lost-{number}", begun + 4 + 3600 * number, 20.0))
    log.write_bytes(lines_of(seen) + b"".join(lost))
    reported.write_bytes(b"".join(exports))
    load(store_dsn, log, spans=[reported])
    rows = sojourn.split(log, spans=[reported]).rows.filter(status=504).sort("start").collect()
    assert rows["queueing_delay"].to_list() == pytest.approx([4.0, 4.0], abs=0.003)
    assert_same_split(log, store_dsn, spans=reported)


@pytest.mark.thorough
def test_impossible_delays_are_set_aside_as_in_the_log(store_dsn: str, tmp_path: Path) -> None:
    """Forged stamps, with and without a service time beside them, and a proxy in front that queued for a minute."""
    log = tmp_path / "access.jsonl"
    seen = log_of(log, lambda t: 0.02 + (0.08 if t > 70 else 0.0))
    for number, one in enumerate(seen):
        if number % 50 == 7:
            one.record["queueing_delay"] = "500.046797"
        if number % 100 == 7:
            one.record["service_time"] = "-"
        if number % 50 == 8:
            stamp, delay = float(one.record["request_start"]), float(one.record["queueing_delay"])
            one.record.update(
                stamp="inbound", proxy_start=f"{stamp:.6f}" if number % 100 == 8 else "",
                request_start=f"{stamp - 60:.6f}", queueing_delay=f"{delay + 60:.6f}",
            )  # fmt: skip
    log.write_bytes(lines_of(seen))
    load(store_dsn, log)
    assert sojourn.split(log).audit.known.total.impossible == 30
    assert_same_split(log, store_dsn)


@pytest.mark.thorough
def test_late_stamps_are_set_aside_as_in_the_log(store_dsn: str, tmp_path: Path) -> None:
    """Stamps that are the end of the request, with and without a service time, and some just within rounding."""
    log = tmp_path / "access.jsonl"
    seen = log_of(log, lambda t: 0.02 + (0.08 if t > 70 else 0.0))
    for number, one in enumerate(seen):
        begun = float(one.record["time"]) - float(one.record["upstream_response_time"])
        if number % 3 == 0:
            one.record["request_start"] = one.record["proxy_start"] = one.record["time"]
        elif number % 3 == 1:
            one.record["request_start"] = one.record["proxy_start"] = f"{begun + 0.001 * (number % 5):.3f}"
        if number % 30 == 0:
            one.record["service_time"] = "-"
    log.write_bytes(lines_of(seen))
    load(store_dsn, log)
    assert sojourn.split(log).audit.known.total.late_stamps >= 600
    assert_same_split(log, store_dsn)


def test_workers_that_serve_several_requests_at_a_time_are_those_of_the_log(store_dsn: str, tmp_path: Path) -> None:
    """An event loop and a serial process, both with a clock of milliseconds, in one store."""
    log = tmp_path / "access.jsonl"
    several = event_loop(600, 40.0, lambda rng: rng.expovariate(10.0)).replace(b":8000", b":8001")
    log.write_bytes(several + serial(400, 0.01).replace(b'"request_id": "0', b'"request_id": "1'))
    load(store_dsn, log)
    at_once = {row["upstream"]: row["in_one_worker"] for row in sojourn.split(log).audit.utilisation}
    assert at_once["127.0.0.1:8000"] == 1 < at_once["127.0.0.1:8001"]
    assert_same_split(log, store_dsn)
