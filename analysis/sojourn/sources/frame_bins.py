"""Counts of requests in bins, from a frame, for charts; see ``sojourn.model.measures.Measures``.

Every function takes the rows of requests with their components, without upgraded connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import polars as pl

from sojourn.model.frame import INSTANT
from sojourn.model.measures import Hexagons, LogBins, window_width

PART_SUMS = {
    "queueing delay": pl.col("queueing_delay").fill_null(0.0),
    "service time": pl.col("service_time").fill_null(0.0),
}


def quantiles(rows: pl.LazyFrame, column: str, levels: Sequence[float]) -> list[float | None]:
    """See ``Measures.quantiles``."""
    value = pl.col(column)
    # One sort for all of them.
    ordered = rows.select(value.drop_nulls().sort()).collect(engine="streaming").to_series()
    if not len(ordered):
        return [None] * len(levels)
    return [ordered.quantile(level, "linear") for level in levels]


def windowed(rows: pl.LazyFrame, windows: int) -> tuple[timedelta, pl.Expr]:
    """Return the width of ``windows`` windows over all arrivals, and the begin of the window of each request."""
    ends = rows.select(pl.col("start").min(), pl.col("start").max().alias("last")).collect(engine="streaming")
    first, last = ends.row(0)
    # Of no requests, a window of any width.
    width = 1 if first is None else window_width(first, last, windows)
    begin = pl.lit(first, INSTANT)
    since = (pl.col("start") - begin).dt.total_microseconds()
    return timedelta(microseconds=width), begin + pl.duration(microseconds=since // width * width)


def counts_over_time(rows: pl.LazyFrame, column: str, windows: int, bins: LogBins) -> tuple[timedelta, pl.DataFrame]:
    """See ``Measures.counts_over_time``."""
    width, arrived = windowed(rows, windows)
    table = (
        rows.filter(pl.col(column).is_not_null())
        .group_by(arrived.alias("arrived"), bin_of(column, bins))
        .agg(pl.len().cast(pl.Int64).alias("requests"))
        .sort("arrived", "bin")
        .collect(engine="streaming")
    )
    return width, table


def bins_by(rows: pl.LazyFrame, group: str, limit: int, column: str, bins: LogBins) -> pl.DataFrame:
    """See ``Measures.bins_by``."""
    table = (
        rows.filter(pl.col(column).is_not_null())
        .group_by(pl.col(group).cast(pl.String).fill_null("–").alias("group"), bin_of(column, bins))
        .agg(*binned_sums())
        .collect(engine="streaming")
    )
    largest = (
        table.group_by("group")
        .agg(pl.col("total").sum().alias("seconds"))
        .sort("seconds", "group", descending=[True, False])
        .head(limit)
        .with_row_index("rank")
    )
    return table.join(largest, on="group").sort("rank", "bin").drop("rank", "seconds")


def hexagons(rows: pl.LazyFrame, lattice: Hexagons) -> pl.DataFrame:
    """See ``Measures.hexagons``."""

    def along(column: str, step: float) -> pl.Expr:
        return (pl.max_horizontal(pl.col(column), pl.lit(lattice.low)) / lattice.low).log() / step

    u, w = pl.col("u"), pl.col("w")
    # Hexagons' centres are those of two lattices of rectangles, √3 times as high as wide, one amid the other.
    one = ((u + 0.5).floor(), (w + 0.5).floor())
    other = (u.floor(), w.floor())
    near_one = (u - one[0]) ** 2 + 3 * (w - one[1]) ** 2
    near_other = (u - other[0] - 0.5) ** 2 + 3 * (w - other[1] - 0.5) ** 2
    chosen = near_one <= near_other
    return (
        rows.filter(pl.col("service_time").is_not_null() & pl.col("queueing_delay").is_not_null())
        .select(u=along("service_time", lattice.across), w=along("queueing_delay", lattice.up))
        .select(
            *(
                pl.when(chosen).then(2 * one[k]).otherwise(2 * other[k] + 1).cast(pl.Int32).alias(name)
                for k, name in enumerate(("across", "up"))
            )
        )
        .group_by("across", "up")
        .agg(pl.len().cast(pl.Int64).alias("requests"))
        .sort("across", "up")
        .collect(engine="streaming")
    )


def binned_sums() -> list[pl.Expr]:
    """Return expressions for the requests of a bin and their seconds: total, queueing delay, service time."""
    return [
        pl.len().cast(pl.Int64).alias("requests"),
        pl.col("request_time").sum().alias("total"),
        *(expr.sum().alias(part) for part, expr in PART_SUMS.items()),
    ]


def bin_of(column: str, bins: LogBins) -> pl.Expr:
    """Return the bin of a column's value."""
    value = pl.max_horizontal(pl.col(column), pl.lit(bins.low))
    return ((value / bins.low).log() / bins.width).floor().clip(0, bins.count - 1).cast(pl.Int32).alias("bin")
