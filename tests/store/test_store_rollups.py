"""Rollups equal aggregates over the rows, also for duplicates, late rows and rows before the first refresh."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from sojourn.components.clock_offsets.offsets import clock_offsets
from sojourn.components.expressions import with_app_facts, with_spans
from sojourn.model.errors import SojournError
from sojourn.sources.requests import read
from sojourn.store import connect, init, load, refresh_rollups
from store_support import ask, one, record, tell, write_log

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))
from simulator import Settings, as_lines, simulated_log

# A text of the rollup that was applied now makes every minute due.
FORGOTTEN = "DELETE FROM schema_state WHERE name = 'views/rollup_due'"
ROWS = """
    SELECT toStartOfMinute(time) AS minute, service, route, proxy, upstream,
        countIf(status != 101) AS n, countIf(status = 101), countIf(status >= 500 OR status = 499),
        countIf(status = 499),
        countIf(queueing_delay < -half_tick - clock_tolerance - 1e-7 AND status != 101),
        sum(if(status = 101, 0, toFloat64(request_time))), sum(if(status = 101, 0, service_time)),
        sum(if(status = 101, 0, ifNull(queueing_delay, ifNull(connect, 0)))), sum(if(status = 101, 0, upload)),
        sum(if(status = 101, 0, retries)), sum(if(status = 101, 0, transfer)), sum(if(status = 101, 0, send)),
        uniqExactIf(worker, worker != '' AND status != 101)
    FROM requests_split GROUP BY minute, service, route, proxy, upstream ORDER BY ALL"""
ROLLED = """
    SELECT minute, service, route, proxy, upstream, sum(requests), sum(upgraded), sum(failed), sum(abandoned),
        sum(negative), sum(response_seconds), sum(service_seconds), sum(queueing_seconds), sum(upload_seconds),
        sum(retries_seconds), sum(transfer_seconds), sum(send_seconds), uniqExactMerge(workers)
    FROM rollup_minute FINAL GROUP BY minute, service, route, proxy, upstream ORDER BY ALL"""


def assert_equal(dsn: str) -> None:
    rows, rolled = ask(dsn, ROWS), ask(dsn, ROLLED)
    assert len(rows) == len(rolled)
    for row, other in zip(rows, rolled, strict=True):
        assert row[:10] == other[:10]
        assert row[17] == other[17]
        assert other[10:17] == pytest.approx([x or 0 for x in row[10:17]], abs=1e-9)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records, _ = simulated_log(Settings(requests=4000, retry_share=0.1))
    for n, changed in enumerate(records[::50]):
        changed.update(
            status=("101", "499", "504", "503")[n % 4], upstream_header_time="-", queueing_delay="", service_time=""
        )
    log = tmp_path_factory.mktemp("log") / "a.jsonl"
    log.write_bytes(b"".join(as_lines(records)))
    return log


def test_equal_to_the_rows_twice_late_and_overlapping(store_dsn: str, simulated: Path, tmp_path: Path) -> None:
    lines = simulated.read_bytes().splitlines(keepends=True)
    load(store_dsn, write_log(tmp_path / "most.jsonl", *lines[1::3], *lines[2::3]))
    assert_equal(store_dsn)
    load(store_dsn, write_log(tmp_path / "late.jsonl", *lines[::3], *lines[:200]))
    assert_equal(store_dsn)
    assert one(store_dsn, "SELECT sum(requests + upgraded) FROM rollup_minute FINAL") == len(lines)
    load(store_dsn, simulated)
    assert_equal(store_dsn)


def test_seconds_add_up_and_histograms_count_everything(store_dsn: str, simulated: Path) -> None:
    load(store_dsn, simulated)
    parts = ["queueing", "service", "network", "upload", "retries", "transfer", "send", "unattributed"]
    ((response, *seconds),) = ask(
        store_dsn,
        f"SELECT sum(response_seconds), {', '.join(f'sum({p}_seconds)' for p in parts)} FROM rollup_minute FINAL",
    )
    assert math.fsum(seconds) == pytest.approx(response, abs=1e-6)
    ((n, known, histogram, queueing, *tails),) = ask(
        store_dsn,
        "SELECT sum(requests), (SELECT countIf(queueing_delay IS NOT NULL AND status != 101) FROM requests_split), "
        "sumMap(response_histogram), sumMap(queueing_histogram), "
        + ", ".join(f"sumMap({p}_by_response)" for p in parts) + " FROM rollup_minute FINAL",
    )  # fmt: skip
    assert sum(histogram.values()) == n
    assert sum(queueing.values()) == known
    for tail, total in zip(tails, seconds, strict=True):
        assert sum(tail.values()) == pytest.approx(total, abs=1e-6)
    rows = ask(
        store_dsn,
        "SELECT toInt16(floor(log10(toFloat64(request_time)) * 20)) AS b, count() FROM requests FINAL "
        "WHERE status != 101 AND request_time >= 0.0001 GROUP BY b",
    )
    assert {b: c for b, c in histogram.items() if b != -80} == dict(rows)


def test_a_negative_or_tiny_delay_is_in_the_lowest_bucket(store_dsn: str, tmp_path: Path) -> None:
    log = write_log(
        tmp_path / "a.jsonl",
        *(record(n, queueing_delay="", service_time=service) for n, service in enumerate(("0.5", "0.49795", "0.2"))),
    )
    load(store_dsn, log)
    ((buckets, negative),) = ask(store_dsn, "SELECT sumMap(queueing_histogram), sum(negative) FROM rollup_minute FINAL")
    assert (buckets, negative) == ({-80: 2, -11: 1}, 1)


@pytest.mark.parametrize(
    ("column", "state"),
    [("toFloat64(request_time)", "response"), ("service_time", "service"), ("queueing_delay", "queueing")],
)
def test_quantiles_are_within_one_per_cent(store_dsn: str, simulated: Path, column: str, state: str) -> None:
    """Of the value at that rank (next to it, where the rank is no whole number), merged over all minutes and routes."""
    load(store_dsn, simulated)
    merge = f"quantilesDDMerge(0.01, 0.5, 0.9, 0.99, 0.999)({state}_quantiles)"
    sketched = one(store_dsn, f"SELECT arrayMap(us -> us / 1e6, {merge}) FROM rollup_minute FINAL")
    condition = f"status != 101 AND {column} IS NOT NULL"
    exact = [x for (x,) in ask(store_dsn, f"SELECT {column} AS x FROM requests_split WHERE {condition} ORDER BY x")]
    for quantile, got in zip((0.5, 0.9, 0.99, 0.999), sketched, strict=True):
        rank = quantile * (len(exact) - 1)
        low, high = exact[math.floor(rank)], exact[math.ceil(rank)]
        assert low - 0.01 * abs(low) - 1e-9 <= got <= high + 0.01 * abs(high) + 1e-9, (quantile, got, low, high)


def test_minutes_are_computed_again_when_the_text_of_the_rollup_changes(store_dsn: str, simulated: Path) -> None:
    load(store_dsn, simulated)
    tell(store_dsn, "ALTER TABLE rollup_minute UPDATE send_seconds = -1 WHERE 1 SETTINGS mutations_sync = 1")
    tell(store_dsn, "TRUNCATE TABLE touched_minutes")  # as minutes that were touched and computed long ago
    tell(
        store_dsn,
        "INSERT INTO touched_minutes SELECT toStartOfMinute(time), now64(3) - 3600, now64(3) - 1800, 1 FROM requests",
        FORGOTTEN,
    )
    assert one(store_dsn, "SELECT count() FROM minutes_due") == 0
    assert init(store_dsn) == ["views/rollup_due"]
    assert one(store_dsn, "SELECT count() FROM minutes_due") > 1
    with connect(store_dsn) as store:
        assert refresh_rollups(store) > 1
    assert_equal(store_dsn)


def test_a_time_after_2106_has_no_rollup_and_breaks_no_other(store_dsn: str, tmp_path: Path) -> None:
    """A DateTime ends there; a clock that is wrong may write it."""
    load(store_dsn, write_log(tmp_path / "a.jsonl", record(1), record(2, time="9999999999.000", request_start="")))
    assert one(store_dsn, "SELECT count() FROM requests_split") == 2
    assert one(store_dsn, "SELECT sum(requests) FROM rollup_minute FINAL") == 1


def test_the_store_does_it_by_itself(store_dsn: str, tmp_path: Path) -> None:
    """Every 15 s, in the background; what a plain INSERT brought."""
    tell(store_dsn, "INSERT INTO incoming_rows (time, request_time, status) VALUES ('2026-01-01 00:00:01', 0.5, 200)")
    deadline = time.monotonic() + 60
    while not (result := ask(store_dsn, "SELECT sum(requests) FROM rollup_minute FINAL WHERE requests > 0"))[0][0]:
        assert time.monotonic() < deadline, ask(store_dsn, "SELECT status, exception FROM system.view_refreshes")
        time.sleep(0.25)
    assert result == [(1,)]


@pytest.mark.parametrize(
    ("touched", "computed", "due"),
    [
        ("12:00:30", None, True),
        ("12:00:30", "12:00:31", True),
        ("12:00:30", "12:01:29", True),
        ("12:00:30", "12:01:31", False),
    ],
)
def test_a_minute_is_due_until_a_minute_after_its_last_row(
    store_dsn: str, touched: str, computed: str | None, due: bool
) -> None:
    tell(
        store_dsn,
        "SYSTEM STOP VIEW rollup_refresh",
        FORGOTTEN,
        "INSERT INTO touched_minutes (minute, touched, arrived) "
        f"VALUES ('2026-01-01 12:00:00', '2026-01-01 {touched}', 5)",
    )
    if computed:
        tell(
            store_dsn,
            f"INSERT INTO touched_minutes (minute, computed) VALUES ('2026-01-01 12:00:00', '2026-01-01 {computed}')",
        )
    assert one(store_dsn, "SELECT count() FROM minutes_due") == int(due)


def test_much_at_once_is_done_in_parts_and_a_minute_without_rows_is_done_with(store_dsn: str, tmp_path: Path) -> None:
    """Also what keeps expired minutes from being due for ever, and from standing in the way of the others."""
    tell(
        store_dsn,
        "SYSTEM STOP VIEW rollup_refresh",
        FORGOTTEN,
        "INSERT INTO touched_minutes (minute, touched, arrived) "
        "SELECT toDateTime('2025-01-01 00:00:00') + number * 60, now64(3) - 3600, 900000 FROM numbers(9)",
    )
    assert one(store_dsn, "SELECT count() FROM minutes_due") == 3
    load(store_dsn, write_log(tmp_path / "a.jsonl", record(1)))
    assert one(store_dsn, "SELECT sum(requests) FROM rollup_minute FINAL") == 1
    assert one(store_dsn, "SELECT count() FROM minutes_due WHERE minute < '2026-01-01'") == 0
    assert one(store_dsn, "SELECT count() FROM rollup_minute") == 1  # and no empty rows


def test_a_refresh_that_gets_nowhere_says_so(store_dsn: str, tmp_path: Path) -> None:
    tell(store_dsn, "SYSTEM STOP VIEW rollup_refresh", "DROP VIEW rollup_results_to_touched_minutes SYNC")
    with pytest.raises(SojournError, match="rollups"):
        load(store_dsn, write_log(tmp_path / "a.jsonl", record(1)))


def test_clock_offsets_are_those_of_the_analysis(store_dsn: str, simulated: Path) -> None:
    load(store_dsn, simulated)
    rows = read(simulated).rows.filter(pl.col("status") != 101)
    expected = clock_offsets(with_app_facts(with_spans(rows, None)))
    ((first, last),) = ask(
        store_dsn, "SELECT min(toStartOfHour(minute)), max(toStartOfHour(minute)) FROM rollup_minute"
    )
    assert first == last
    columns = ("upstream", "offset", "uncertainty", "correction", "tolerance", "lower", "upper", "requests")
    result = ask(store_dsn, f"SELECT {', '.join(columns)} FROM clock_offsets ORDER BY upstream")
    rows = expected.sort("upstream").select(columns).rows()
    assert len(result) == len(rows) == 2
    for row, other in zip(result, rows, strict=True):
        assert row[0] == other[0]
        assert row[1:] == pytest.approx(other[1:], abs=1e-9)


def test_the_last_rows_of_a_long_insert_touch_their_minute_when_they_arrive(store_dsn: str) -> None:
    """Their own stamp, ``ingested``, is that of the beginning of the INSERT."""
    tell(
        store_dsn,
        "SYSTEM STOP VIEW rollup_refresh",
        "INSERT INTO incoming_rows (time, request_time, status, request_id) "
        "SELECT toDateTime64('2026-01-01', 6, 'UTC'), sleepEachRow(0.5), 200, toString(number) FROM numbers(4) "
        "SETTINGS max_block_size = 1, min_insert_block_size_rows = 1, min_insert_block_size_bytes = 1, max_threads = 1",
    )
    late = one(store_dsn, "SELECT (SELECT max(touched) FROM minutes_known) - (SELECT max(ingested) FROM requests)")
    assert late >= 1
