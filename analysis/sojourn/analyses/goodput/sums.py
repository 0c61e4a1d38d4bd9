"""Sums over the requests of a group and of a window; unknown worker time is null, not 0."""

from __future__ import annotations

import numpy as np
import polars as pl

from sojourn.model.frame import INSTANT
from sojourn.timeline.windows import Windows

OVER_TIME_SCHEMA = {
    "begin": INSTANT,
    "throughput": pl.Float64(),
    "goodput": pl.Float64(),
    "failures": pl.Float64(),
    "wasted": pl.Float64(),
    "worked": pl.Float64(),
}

# Of the requests of a group. If no figure is known and some are unknown, the sum is null, not 0.
UNKNOWN = pl.col("given_up") & pl.col("wasted").is_null() & ~pl.col("not_reached")
WASTED = pl.when(UNKNOWN.any() & pl.col("wasted").is_null().all()).then(None).otherwise(pl.col("wasted").sum())

WORKED = (
    pl.when(pl.col("proxied").any() & pl.col("worked").is_null().all()).then(None).otherwise(pl.col("worked").sum())
)


def groups_of(proxied: pl.DataFrame) -> pl.DataFrame:
    """Return the sums of every group of requests that went to an app: columns as of ``GoodputResult.groups``."""
    return (
        proxied.group_by("group")
        .agg(
            requests=pl.len(),
            given_up=pl.col("given_up").sum(),
            known=pl.col("wasted").is_not_null().sum(),
            unknown=UNKNOWN.sum(),
            wasted=WASTED,
            worked=WORKED,
        )
        .with_columns(share=pl.when(pl.col("worked") > 0).then(pl.col("wasted") / pl.col("worked")))
        .sort("wasted", "given_up", "requests", "group", descending=[True, True, True, False], nulls_last=True)
    )


def over_time_of(table: pl.DataFrame, windows: Windows, first: float, last: float) -> pl.DataFrame:
    """Return the sums of every window: columns of ``OVER_TIME_SCHEMA``."""
    if not len(table):
        return pl.DataFrame(schema=OVER_TIME_SCHEMA)
    window = pl.Series("window", windows.of(table["ended"].to_numpy()))
    edges = windows.edges
    length = np.maximum(np.minimum(edges[1:], last) - np.maximum(edges[:-1], first), 1e-3)
    begins = pl.Series(windows.begins, dtype=INSTANT)
    frame = pl.DataFrame({"window": np.arange(windows.count), "begin": begins, "length": length})
    sums = (
        table.with_columns(window)
        .group_by("window")
        .agg(
            pl.len().alias("ended_here"),
            pl.col("good", "failed").sum(),
            worked=WORKED,
            wasted=WASTED,
            unknown=UNKNOWN.sum(),
        )
    )
    per_second = {"throughput": "ended_here", "goodput": "good", "failures": "failed"}
    return (
        frame.join(sums, on="window", how="left")
        .sort("window")
        .select(
            "begin",
            *((pl.col(count).fill_null(0) / pl.col("length")).alias(name) for name, count in per_second.items()),
            pl.when(pl.col("unknown").is_null()).then(0.0).otherwise("wasted").alias("wasted"),
            pl.when(pl.col("unknown").is_null()).then(0.0).otherwise("worked").alias("worked"),
        )
    )
