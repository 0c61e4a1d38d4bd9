"""Charts of a split. Each takes the frame with components, or its aggregates, and returns a chart over binned data.

Data are binned before they are plotted: a chart holds a few hundred points whether a thousand requests lie behind it or
ten million.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from sojourn.model.formatting import printable
from sojourn.model.measures import Measures
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import (
    LINES,
    MEASURED,
    STACKED,
    inline,
    line_colour,
    line_dash,
    part_colour,
    part_shares,
)
from sojourn.present.chart_sizes import HEIGHT, SMALLEST, WIDTH
from sojourn.present.palette import PARTS, RESPONSE
from sojourn.sources.frame_measures import measured

BINS = 48
WINDOWS = 120
CCDF_POINTS = 240
PERCENTILE_POINTS = 100
NINES = (2, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)  # one request in this many takes longer
WIDE = 30  # times the median: from here on the axis of times is logarithmic, too
GROUPS = 20

Rows = pl.LazyFrame | Measures


def stacked_distribution(table: pl.DataFrame) -> alt.Chart:
    """Draw requests by response time, each bar divided by component (``distribution_table``)."""
    wide = len(table) > 0 and _is_wide(*table.select(pl.col("low").min(), pl.col("high").max()).row(0))
    scale = alt.Scale(type="log", nice=False) if wide else alt.Scale(zero=False)
    return (
        alt.Chart(inline(table))
        .mark_rect(stroke=None)
        .encode(
            x=alt.X("low:Q", title="response time (s)", scale=scale, axis=alt.Axis(tickCount=8, format="~g")),
            x2=alt.X2("high:Q"),
            y=alt.Y("bottom:Q", title="requests"),
            y2=alt.Y2("top:Q"),
            color=part_colour(),
            tooltip=[
                alt.Tooltip("low:Q", title="from (s)", format=".3~f"),
                alt.Tooltip("high:Q", title="to (s)", format=".3~f"),
                alt.Tooltip("requests:Q", format=","),
                alt.Tooltip("part:N"),
                alt.Tooltip("share:Q", title="of their time", format=".0%"),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )


def _is_wide(low: float, high: float) -> bool:
    """Return whether response times from ``low`` to ``high`` (s) need logarithmic bins and axis."""
    return high > 30 * max(low, SMALLEST)


def distribution_table(rows: Rows) -> pl.DataFrame:
    """Return columns low, high (s), requests, part, share (of the bin's time), bottom, top (stacked requests)."""
    measures = measured(rows)
    ends = measures.response_range()
    if ends is None:
        empty = pl.DataFrame(schema=dict.fromkeys(("low", "high", "requests", "share", "bottom", "top"), pl.Float64))
        return empty.with_columns(part=pl.lit("", pl.String))
    low, high = (max(end, SMALLEST) for end in ends)
    wide = _is_wide(low, high)
    if wide:
        width = math.log(high / low) / BINS
        edges = low * np.exp(width * np.arange(BINS + 1))
    else:
        width = max(high - low, 0.001) / BINS
        edges = low + width * np.arange(BINS + 1)
    bins = measures.response_bins(low, width, logarithmic=wide, count=BINS)
    bars = []
    for row in bins.iter_rows(named=True):
        shares = part_shares(row)
        bottom = 0.0
        for part in STACKED:
            share = shares[part]
            top = bottom + share * row["requests"]
            between = (float(edges[row["bin"]]), float(edges[row["bin"] + 1]))
            bars.append((*between, row["requests"], part, share, bottom, top))
            bottom = top
    return pl.DataFrame(bars, schema=["low", "high", "requests", "part", "share", "bottom", "top"], orient="row")


def split_by(table: pl.DataFrame, group: str) -> alt.Chart:
    """Draw the mean response time of each value of a group, divided; the slowest first, as ``split_by_table``."""
    return (
        alt.Chart(inline(table))
        .mark_bar()
        .encode(
            x=alt.X("seconds:Q", title="mean response time (s)", stack="zero"),
            y=alt.Y("group:N", title=group, sort=alt.EncodingSortField("seconds", op="sum", order="descending")),
            color=part_colour(),
            order=alt.Order("rank:Q"),
            tooltip=[
                alt.Tooltip("group:N"),
                alt.Tooltip("part:N"),
                alt.Tooltip("seconds:Q", title="mean (s)", format=".4~f"),
                alt.Tooltip("requests:Q"),
            ],
        )
        .properties(width=WIDTH, height=60 + 24 * table["group"].n_unique())
    )


def split_by_table(rows: Rows, group: str) -> pl.DataFrame:
    """Return columns group, requests, part, seconds (mean), rank (stacking order); at most ``GROUPS`` groups."""
    table = measured(rows).parts_by(group, GROUPS).with_columns(_everything_else())
    ranks = {part: rank for rank, part in enumerate(STACKED)}
    return table.unpivot(
        list(PARTS), index=["group", "requests"], variable_name="part", value_name="seconds"
    ).with_columns(
        pl.col("group").map_elements(printable, return_dtype=pl.String),
        rank=pl.col("part").replace_strict(ranks, return_dtype=pl.Int8),
    )


def _everything_else() -> pl.Expr:
    return (pl.col("response") - pl.sum_horizontal(*MEASURED)).clip(lower_bound=0).alias("everything else")


def log_seconds(**scale: Any) -> dict[str, Any]:
    """Return scale and axis of a channel of seconds on a logarithmic scale; ``scale``: more of ``alt.Scale``."""
    return {"scale": alt.Scale(type="log", **scale), "axis": alt.Axis(tickCount=8, format="~g")}


def ccdfs(table: pl.DataFrame) -> alt.Chart:
    """Draw the share of requests that take longer than a time: queueing, service and response time, log-log."""
    return (
        alt.Chart(inline(table))
        .mark_line(interpolate="step-after", strokeWidth=2, clip=True)
        .encode(
            x=alt.X("seconds:Q", title="time (s)", **log_seconds()),
            y=alt.Y(
                "exceeding:Q",
                title="share of requests that took longer",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(tickCount=6, format="~%"),
            ),
            color=line_colour(),
            strokeDash=line_dash(),
            tooltip=[
                alt.Tooltip("part:N"),
                alt.Tooltip("seconds:Q", title="longer than (s)", format=".4~f"),
                alt.Tooltip("exceeding:Q", title="share", format=".3%"),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )


def ccdf_tables(rows: Rows) -> pl.DataFrame:
    """Return ``ccdf_table`` of queueing delay, service time and response time."""
    return pl.concat([ccdf_table(rows, column, name) for column, (name, _, _) in LINES.items()])


def ccdf_table(rows: Rows, column: str, part: str) -> pl.DataFrame:
    """Return columns part, seconds, exceeding: the complementary distribution, even in its logarithm."""
    seconds, exceeding = measured(rows).exceeding(column, CCDF_POINTS)
    table = pl.DataFrame(
        {"seconds": seconds, "exceeding": exceeding}, schema={"seconds": pl.Float64, "exceeding": pl.Float64}
    )
    return table.filter(pl.col("seconds") >= SMALLEST).with_columns(part=pl.lit(part))


def percentile_table(measures: Measures, requests: int) -> pl.DataFrame:
    """Return columns part, share (of requests that are as fast or faster), one_in (1 / (1 - share)), seconds.

    The last point is one request in ``requests``.
    """
    if not requests:
        return pl.DataFrame(schema=dict.fromkeys(("share", "one_in", "seconds"), pl.Float64) | {"part": pl.String})
    even = np.geomspace(1, max(requests, 2), PERCENTILE_POINTS).tolist()
    one_in = sorted({*even, *(n for n in NINES if n <= requests)})
    levels = [1 - 1 / n for n in one_in]
    tables = [
        pl.DataFrame({"share": levels, "one_in": one_in, "seconds": measures.quantiles(column, levels)})
        .with_columns(pl.col("seconds").cast(pl.Float64), part=pl.lit(name))
        .drop_nulls()
        for column, (name, _, _) in LINES.items()
    ]
    return pl.concat(tables)


def percentile_curve(table: pl.DataFrame) -> alt.Chart:
    """Draw the curves of ``percentile_table``; each nine takes as much room as another (HdrHistogram, Tene 2013)."""
    response = table.filter(pl.col("part") == "response time")
    middle = response.filter(pl.col("share") <= 0.5)["seconds"].max()
    most = response["seconds"].max()
    wide = isinstance(middle, float) and isinstance(most, float) and most > WIDE * middle
    drawn = table.with_columns(pl.col("seconds").clip(lower_bound=SMALLEST)) if wide else table
    last = max(response["one_in"].to_list(), default=2)
    shares = " : ".join(f"datum.value == {n} ? '{_percentile(n)}'" for n in NINES) + " : ''"
    return (
        alt.Chart(inline(drawn))
        .mark_line(strokeWidth=2, clip=True)
        .encode(
            x=alt.X(
                "one_in:Q",
                title="percentile",
                scale=alt.Scale(type="log", nice=False, domain=[1, max(last, 2)]),
                axis=alt.Axis(values=[n for n in NINES if n <= last], labelExpr=shares),
            ),
            y=alt.Y(
                "seconds:Q",
                title="time (s)",
                scale=alt.Scale(type="log") if wide else alt.Scale(),
                axis=alt.Axis(tickCount=6, format="~g"),
            ),
            color=line_colour(),
            strokeDash=line_dash(),
            tooltip=[
                alt.Tooltip("part:N"),
                alt.Tooltip("share:Q", title="percentile", format=".4~%"),
                alt.Tooltip("seconds:Q", title="at most (s)", format=".4~f"),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )


def _percentile(one_in: int) -> str:
    """Return the percentile of one in 2, 10, 10,000 as text: 50 %, 90 %, 99.99 %."""
    nines = len(str(one_in)) - 1
    digits = max(nines - 2, 0)
    return f"{100 * (1 - 1 / one_in):.{digits}f} %"


def response_over_time(table: pl.DataFrame) -> alt.LayerChart:
    """Draw the mean response time by arrival, split into queueing, service and everything else; its p99 as a line.

    Of ``over_time_table``.
    """
    x = alt.X("arrived:T", title="arrival (UTC)", scale=alt.Scale(type="utc"))
    areas = (
        alt.Chart(
            inline(
                table.unpivot(list(PARTS), index=["arrived", "requests"], variable_name="part", value_name="seconds")
            )
        )
        .mark_area(interpolate="step-after")
        .encode(
            x=x,
            y=alt.Y("seconds:Q", title="mean response time (s), p99 as a line", stack="zero"),
            color=part_colour(),
            order=alt.Order("rank:Q"),
            tooltip=[
                alt.Tooltip("arrived:T", title="arrival", format="%H:%M:%S.%L"),
                alt.Tooltip("part:N"),
                alt.Tooltip("seconds:Q", title="mean (s)", format=".4~f"),
                alt.Tooltip("requests:Q", format=","),
            ],
        )
        .transform_calculate(rank=f"indexof({list(STACKED)}, datum.part)")
    )
    line = (
        alt.Chart(inline(table.select("arrived", "p99")))
        .mark_line(color=RESPONSE, strokeDash=[4, 3])
        .encode(x=x, y=alt.Y("p99:Q"))
    )
    return (areas + line).properties(width=WIDTH, height=HEIGHT)


def over_time_table(rows: Rows) -> pl.DataFrame:
    """Return columns arrived (window's begin), requests, p99 (s), mean seconds of each part; one row per window."""
    return measured(rows).parts_over_time(WINDOWS).with_columns(_everything_else()).drop("response")
