"""Blame by the minute in the store, saturation and wasted work by the minute: against what the frames give."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from sojourn.analyses.blame.by_minute import blame_by_minute
from sojourn.analyses.blame.store import KEYS, TABLES, Explained, explain_store
from sojourn.analyses.split.run import split
from sojourn.analyses.tiers.analysis import tiers
from sojourn.model.errors import SojournError
from sojourn.sources.traces import read_traces
from sojourn.store import load
from sojourn.timeline.visits import visits
from store_support import BASE, ask, one, record, tell, write_log

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
BEGIN = datetime.fromtimestamp(BASE, UTC)
LOG, SPANS = EXAMPLES / "shop.jsonl.gz", EXAMPLES / "shop-spans.jsonl.gz"


@pytest.fixture(scope="module")
def truth() -> pl.DataFrame:
    """Blame by the minute of the log as a whole, in one piece and without a store."""
    return blame_of(LOG, SPANS)


def blame_of(log: Path, *spans: Path) -> pl.DataFrame:
    rows = split(log, spans=spans, columns=("request_id",)).rows
    table = blame_by_minute(visits(rows, workers=2), "route")
    named = table.with_columns(pl.col("service", "upstream", "victim", "culprit").fill_null(""))
    return named.group_by(KEYS).agg(pl.col("seconds").sum()).sort(KEYS)


@pytest.fixture
def loaded(store_dsn: str) -> str:
    load(store_dsn, LOG, spans=[SPANS])
    return store_dsn


def stored(dsn: str, where: str = "seconds != 0") -> pl.DataFrame:
    result = ask(dsn, f"SELECT {', '.join(KEYS)}, seconds FROM blame_minute FINAL WHERE {where}")
    names = [*KEYS, "seconds"]
    table = pl.DataFrame(result, schema=names, orient="row", infer_schema_length=None)
    return table.with_columns(pl.col("minute").cast(pl.Datetime("us")).dt.replace_time_zone("UTC")).sort(KEYS)


def assert_equal(table: pl.DataFrame, expected: pl.DataFrame) -> None:
    joined = expected.join(table, on=KEYS, how="full", suffix="_stored", coalesce=True).fill_null(0.0)
    far = joined.filter((pl.col("seconds") - pl.col("seconds_stored")).abs() > 1e-6)
    assert not len(far), far


def explained(dsn: str, **more: object) -> Explained:
    return explain_store(dsn, workers=2, **more)  # type: ignore[arg-type]


def test_slices_look_back_as_far_as_their_waits_reach(store_dsn: str, tmp_path: Path) -> None:
    """To the microsecond, a minute at a time, where durations tell the wait and no clock's offset is estimated."""
    with gzip.open(LOG, "rb") as lines:
        rows = [{**json.loads(line), "request_start": "", "queueing_delay": ""} for line in lines]
    log = write_log(tmp_path / "durations.jsonl", *rows)
    load(store_dsn, log)
    assert explained(store_dsn, slice_rows=400).minutes >= 3
    assert_equal(stored(store_dsn), blame_of(log))


@pytest.mark.thorough
def test_slices_differ_by_the_clock_s_offset_only(loaded: str, truth: pl.DataFrame) -> None:
    explained(loaded, slice_rows=400)
    assert stored(loaded)["seconds"].sum() == pytest.approx(truth["seconds"].sum(), rel=0.001)


def test_the_store_s_blame_is_that_of_the_log(loaded: str, truth: pl.DataFrame) -> None:
    done = explained(loaded)
    result = stored(loaded)
    assert_equal(result, truth)
    assert result["seconds"].sum() == pytest.approx(truth["seconds"].sum(), abs=1e-6)
    assert done.rows == len(truth)
    assert done.seconds == pytest.approx(truth["seconds"].sum(), abs=1e-6)
    assert done.gone == 0


def test_again_changes_nothing_and_counts_nothing_twice(loaded: str, truth: pl.DataFrame) -> None:
    first = explained(loaded)
    tell(loaded, "INSERT INTO explained_minutes SELECT minute, now64(3) + INTERVAL 1 HOUR FROM explained_minutes")
    assert explained(loaded) == Explained()
    window = {"since": datetime(2020, 1, 1, tzinfo=UTC), "until": datetime(2030, 1, 1, tzinfo=UTC)}
    again = explained(loaded, **window)
    assert (again.rows, again.minutes) == (first.rows, first.minutes)
    assert_equal(stored(loaded), truth)


def test_minutes_something_arrived_for_are_due_again_and_what_vanished_is_gone(
    loaded: str, truth: pl.DataFrame
) -> None:
    minute = truth["minute"][-1]
    stale = f"('{minute:%Y-%m-%d %H:%M:%S}', 'shop', 'gone:80', '/a', '/b', 'blamed', 7, now64(3) - INTERVAL 1 DAY)"
    tell(
        loaded,
        "INSERT INTO blame_minute (minute, service, upstream, victim, culprit, account, seconds, version) VALUES "
        + stale,
        "INSERT INTO explained_minutes SELECT minute, now64(3) + INTERVAL 1 HOUR FROM touched_minutes GROUP BY minute",
    )
    last = f"toDateTime('{minute:%Y-%m-%d %H:%M:%S}')"
    tell(loaded, f"INSERT INTO touched_minutes SELECT {last}, now64(3) + INTERVAL 2 HOUR, toDateTime64(0, 3), 1")
    done = explained(loaded)
    assert done.minutes >= 1
    assert done.gone == 1
    assert one(loaded, "SELECT seconds FROM blame_minute FINAL WHERE upstream = 'gone:80'") == 0
    result = stored(loaded)
    assert_equal(result.filter(pl.col("minute") == minute), truth.filter(pl.col("minute") == minute))
    assert set(result["minute"]) < set(truth["minute"])  # the others were not due


def test_recent_minutes_are_not_computed_yet(store_dsn: str, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    rows = [
        record(
            number, time=f"{(now - timedelta(seconds=30)).timestamp():.3f}", request_start="", request_id=f"n{number}"
        )
        for number in range(3)
    ]
    load(store_dsn, write_log(tmp_path / "now.jsonl", *rows))
    assert explain_store(store_dsn).minutes == 0


def test_an_empty_store_has_nothing_to_explain(store_dsn: str) -> None:
    assert explain_store(store_dsn) == Explained()


@pytest.mark.parametrize("table", TABLES)
def test_a_store_of_before_says_what_to_do(store_dsn: str, table: str) -> None:
    tell(store_dsn, f"DROP TABLE {table}")
    with pytest.raises(SojournError, match=f"has no table {table}; `sojourn store init"):
        explain_store(store_dsn)


# --- views


def test_saturation_is_what_the_rows_give(loaded: str) -> None:
    rows = split(LOG, columns=("request_id",)).rows.filter(pl.col("upstream").is_not_null()).collect()
    expected = {
        (key[0], key[1]): part
        for key, part in rows.with_columns(minute=pl.col("time").dt.truncate("1m"))
        .partition_by("minute", "upstream", as_dict=True)
        .items()
    }
    result = ask(
        loaded,
        "SELECT minute, upstream, throughput, workers, busy, utilisation, concurrency, p99 FROM saturation_minute",
    )
    assert len(result) == len(expected) > 4
    for minute, upstream, throughput, workers, busy, utilisation, concurrency, p99 in result:
        part = expected[minute.replace(tzinfo=UTC), upstream]
        work = part.filter("answered")["service_time"].sum()
        assert throughput == pytest.approx(len(part) / 60)
        assert workers == part["worker"].drop_nulls().n_unique() == 2
        assert busy == pytest.approx(work / 60, abs=1e-6)
        assert utilisation == pytest.approx(work / 120, abs=1e-6)
        assert concurrency == pytest.approx(part["request_time"].sum() / 60, abs=1e-6)
        ordered = part["request_time"].sort()
        rank = 0.99 * (len(ordered) - 1)
        low, high = ordered[max(int(rank) - 1, 0)], ordered[min(int(rank) + 2, len(ordered) - 1)]
        assert low * 0.98 <= p99 <= high * 1.02


def test_wasted_work_by_the_minute(loaded: str) -> None:
    result = split(LOG, spans=[SPANS], columns=("request_id",))
    rows = result.rows.collect()
    outcome = ask(
        loaded, "SELECT minute, service, wasted, worked, share, gone, unknown FROM wasted_minute ORDER BY minute"
    )
    assert sum(row[2] for row in outcome) == pytest.approx(result.wasted, abs=1e-5)
    assert result.wasted > 1
    assert sum(row[5] for row in outcome) == rows["status"].is_in([499, 504]).sum()
    for minute, _, wasted, worked, share, _, unknown in outcome:
        part = rows.filter(pl.col("time").dt.truncate("1m") == minute.replace(tzinfo=UTC))
        assert wasted == pytest.approx(part["wasted"].sum(), abs=1e-5)
        assert worked == pytest.approx(part.filter("answered")["service_time"].sum(), abs=1e-5)
        assert share == pytest.approx(wasted / (wasted + worked) if wasted + worked else 0)
        gone = part.filter(pl.col("status").is_in([499, 504]))
        assert unknown == len(gone) - (gone["wasted"] > 0).sum()


def test_a_capacity_is_the_one_set_last(store_dsn: str, make_store: Callable[[], str]) -> None:
    from sojourn.cli import app  # noqa: PLC0415
    from typer.testing import CliRunner  # noqa: PLC0415

    for rate in ("900", "1200.5"):
        assert CliRunner().invoke(app, ["store", "capacity", store_dsn, "shop", rate]).exit_code == 0
    assert ask(store_dsn, "SELECT service, rate FROM capacity FINAL") == [("shop", 1200.5)]
    refused = CliRunner().invoke(app, ["store", "capacity", store_dsn, "shop", "-1"])
    assert refused.exit_code == 2


def test_the_command(loaded: str, truth: pl.DataFrame) -> None:
    from sojourn.cli import app  # noqa: PLC0415
    from typer.testing import CliRunner  # noqa: PLC0415

    result = CliRunner().invoke(app, ["store", "explain", loaded, "--workers", "2", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["seconds"] == pytest.approx(truth["seconds"].sum(), abs=1e-5)
    window = ["--since", "2020-01-01T00:00Z", "--until", "2020-01-02T00:00Z"]
    again = CliRunner().invoke(app, ["store", "explain", loaded, *window])
    assert again.exit_code == 0
    assert "no minutes are due" in again.stdout
    assert one(loaded, "SELECT count() FROM blame_minute FINAL") == len(truth)


# --- traces


def test_traces_of_a_store_are_those_of_the_files(store_dsn: str, tmp_path: Path) -> None:
    spans = EXAMPLES / "checkout-spans.jsonl.gz"
    log = write_log(tmp_path / "a.jsonl", record(1))
    for _ in range(2):
        load(store_dsn, log, spans=[spans])
    columns = ["trace_id", "span_id"]
    from_files, from_store = (read_traces([source]).spans.sort(columns) for source in (spans, store_dsn))
    for name in from_files.columns:
        one_column, other = from_files[name], from_store[name]
        if name == "queueing_delay":  # a store keeps microseconds
            assert (one_column - other).abs().max() < 1e-6  # type: ignore[operator]
            assert one_column.null_count() == other.null_count()
        elif name != "name":
            assert one_column.equals(other), name
    result, expected = tiers(read_traces([store_dsn])), tiers(read_traces([spans]))
    assert result.finding.sentence == expected.finding.sentence
    since, until = (BEGIN + timedelta(seconds=second) for second in (5, 9))
    window = [read_traces([source], since=since, until=until).spans for source in (spans, store_dsn)]
    assert len(window[0]) == len(window[1]) > 100
    assert set(window[0]["trace_id"]) == set(window[1]["trace_id"])
    assert tiers(read_traces([spans, store_dsn])).doubts["duplicates"] == len(from_files)
