"""``sojourn.model.coverage`` of split rows: apart from it, because Polars takes its time to load."""

from __future__ import annotations

import polars as pl

from sojourn.model.components import CLIENT_GONE, GIVEN_UP_STATUSES, TIMED_OUT
from sojourn.model.coverage import Coverage, coverage_of

# Requests by what is known of them; of a frame as ``split_rows`` makes it. store/sql/backends.sql has the same.
_BOTH = pl.col("queue").is_not_null() & pl.col("service_time").is_not_null()
_UNANSWERED = pl.col("proxied") & ~pl.col("answered") & pl.col("queue").is_null()
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
}
COVERAGE_COLUMNS = (
    "upstream", "status", "proxied", "answered", "queue", "service_time", "queue_source", "impossible", "late_stamp",
)  # fmt: skip


def coverage_of_frame(rows: pl.LazyFrame) -> Coverage:
    """Return the coverage of split rows without upgraded connections; they need ``COVERAGE_COLUMNS``."""
    counts = [value.fill_null(False).sum().alias(name) for name, value in COVERAGE_COUNTS.items()]
    return coverage_of(rows.group_by("upstream").agg(counts).sort("upstream").collect(engine="streaming").to_dicts())
