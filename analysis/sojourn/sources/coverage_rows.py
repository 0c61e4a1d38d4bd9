"""``sojourn.model.coverage`` of split rows: apart from it, because Polars takes its time to load."""

from __future__ import annotations

import polars as pl

from sojourn.model.components import CLIENT_GONE, GIVEN_UP_STATUSES, TIMED_OUT
from sojourn.model.coverage import COUNTS, Counts, Coverage, Waits, waits_of
from sojourn.model.frame import APP, LOST_TIMES
from sojourn.model.groups import LARGEST

OF_APP = (pl.col("vantage") == APP).fill_null(value=False)
TIMES_DROPPED = pl.col("dropped").str.contains_any(list(LOST_TIMES)).fill_null(value=False)
# Requests by what is known of them; of a frame as ``split_rows`` makes it. store/sql/backends.sql has the same.
_BOTH = pl.col("queue").is_not_null() & pl.col("service_time").is_not_null()
# A dropped time does not show that there was no answer.
_UNANSWERED = pl.col("proxied") & ~pl.col("answered") & pl.col("queue").is_null() & ~TIMES_DROPPED
COVERAGE_COUNTS = {
    "not_proxied": ~pl.col("proxied"),
    "answered": pl.col("answered"),
    "by_stamp": pl.col("answered") & _BOTH & pl.col("queue_source").is_in(["stamp", "span"]),
    "by_duration": pl.col("answered") & _BOTH & (pl.col("queue_source") == "duration"),
    "inferred": pl.col("answered") & _BOTH & (pl.col("queue_source") == "inferred"),
    "silent": pl.col("answered") & pl.col("queue").is_null(),
    "timed_out": _UNANSWERED & (pl.col("status") == TIMED_OUT),
    "left": _UNANSWERED & (pl.col("status") == CLIENT_GONE),
    "failed": _UNANSWERED & ~pl.col("status").is_in(GIVEN_UP_STATUSES),
    "impossible": pl.col("impossible"),
    "late_stamps": pl.col("late_stamp"),
    "of_app": pl.col("answered") & OF_APP,
}
COVERAGE_COLUMNS = (
    "upstream", "status", "proxied", "answered", "queue", "service_time", "queue_source", "impossible", "late_stamp",
    "vantage", "dropped",
)  # fmt: skip


def wait_columns() -> list[pl.Expr]:
    """Return the means ``waits/<name>`` that ``sojourn.model.coverage.waits_of`` reads."""
    delay, seconds, proxied = pl.col("queueing_delay"), pl.col("request_time"), pl.col("proxied")
    in_part = proxied & delay.is_null() & ~OF_APP
    values = {
        "proxied": proxied,
        "measured": delay.is_not_null(),
        "measured_seconds": pl.when(delay.is_not_null() | ~proxied).then(seconds),
        "queueing": delay,
        "part_seconds": pl.when(in_part).then(seconds),
        "part_queueing": pl.when(in_part).then(pl.col("proxy_queue") + pl.col("connect").fill_null(0.0)),
        "part_queue": pl.when(in_part).then("proxy_queue"),
    }
    return [value.cast(pl.Float64).fill_null(0.0).mean().alias(f"waits/{name}") for name, value in values.items()]


def waits_of_frame(rows: pl.LazyFrame) -> Waits:
    """Return the waits of split rows without upgraded connections."""
    row = rows.select(pl.len().alias("requests"), *wait_columns()).collect(engine="streaming").row(0, named=True)
    return waits_of(row["requests"], row)


def coverage_of_frame(rows: pl.LazyFrame) -> Coverage:
    """Return the coverage of split rows without upgraded connections; they need ``COVERAGE_COLUMNS``."""
    counts = [value.fill_null(False).sum().alias(name) for name, value in COVERAGE_COUNTS.items()]
    return coverage_of(rows.group_by("upstream").agg(counts).collect(engine="streaming"))


def coverage_of(table: pl.DataFrame) -> Coverage:
    """Return the coverage, from one row per backend: ``upstream`` and the other fields of ``Counts``."""
    with_source = pl.sum_horizontal("by_stamp", "by_duration", "inferred")
    answered = pl.col("answered") > 0
    ordered = table.sort("answered", "upstream", descending=[True, False])
    largest, others = ordered[:LARGEST].sort("upstream"), ordered[LARGEST:]
    return Coverage(
        tuple(Counts(**row) for row in largest.to_dicts()),
        Counts(None, **others.select(pl.col(COUNTS).sum()).row(0, named=True)) if len(others) else None,
        len(table),
        *table.select(answered.sum(), (answered & (pl.col("answered") > with_source)).sum().alias("lacking")).row(0),
    )
