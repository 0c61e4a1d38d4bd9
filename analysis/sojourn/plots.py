"""Charts of a split. Each takes the frame with components and returns an Altair chart over binned data.

Data are binned before they are plotted: a chart holds a few hundred points whether a thousand requests lie behind it or
ten million.
"""

from __future__ import annotations

import math

import altair as alt
import numpy as np
import polars as pl

from sojourn.frame import INSTANT
from sojourn.palette import PARTS, QUEUEING, RESPONSE, SERVICE
from sojourn.words import printable

WIDTH = 640
HEIGHT = 260
BINS = 48
WINDOWS = 120
CCDF_POINTS = 240
GROUPS = 20
SMALLEST = 1e-4  # s: below this a logarithmic axis shows only nginx's rounding

STACKED = tuple(reversed(PARTS))  # from the bottom: everything else, service time, queueing delay on top
PART_SUMS = {
    "queueing delay": pl.col("queueing_delay").fill_null(0.0),
    "service time": pl.col("service_time").fill_null(0.0),
}


def _colour() -> alt.Color:
    return alt.Color("part:N", title=None, scale=alt.Scale(domain=list(PARTS), range=list(PARTS.values())))


def stacked_distribution(rows: pl.LazyFrame) -> alt.Chart:
    """Requests by response time; each bar is divided as the time of its requests was."""
    table = distribution_table(rows)
    wide = len(table) > 0 and _is_wide(*table.select(pl.col("low").min(), pl.col("high").max()).row(0))
    scale = alt.Scale(type="log", nice=False) if wide else alt.Scale(zero=False)
    return (
        alt.Chart(_data(table))
        .mark_rect(stroke=None)
        .encode(
            x=alt.X("low:Q", title="response time (s)", scale=scale, axis=alt.Axis(tickCount=8, format="~g")),
            x2="high:Q",
            y=alt.Y("bottom:Q", title="requests"),
            y2="top:Q",
            color=_colour(),
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
    """Whether response times from ``low`` to ``high`` (s) need bins and an axis that are logarithmic."""
    return high > 30 * max(low, SMALLEST)


def distribution_table(rows: pl.LazyFrame) -> pl.DataFrame:
    """Columns low, high (s), requests, part, share (of the bin's time), bottom, top (stacked requests)."""
    value = pl.max_horizontal(pl.col("request_time"), pl.lit(SMALLEST))
    low, high = rows.select(value.min().alias("low"), value.max().alias("high")).collect(engine="streaming").row(0)
    empty = pl.DataFrame(schema=dict.fromkeys(("low", "high", "requests", "share", "bottom", "top"), pl.Float64))
    if low is None:
        return empty.with_columns(part=pl.lit("", pl.String))
    if _is_wide(low, high):
        width = math.log(high / low) / BINS
        index = (value / low).log() / width
        edges = low * np.exp(width * np.arange(BINS + 1))
    else:
        width = max(high - low, 0.001) / BINS
        index = (value - low) / width
        edges = low + width * np.arange(BINS + 1)
    bins = (
        rows.group_by(index.floor().clip(0, BINS - 1).cast(pl.Int32).alias("bin"))
        .agg(
            pl.len().alias("requests"),
            pl.col("request_time").sum().alias("total"),
            *(expr.sum().alias(part) for part, expr in PART_SUMS.items()),
        )
        .sort("bin")
        .collect(engine="streaming")
    )
    found = []
    for row in bins.iter_rows(named=True):
        shares = {p: max(row[p], 0.0) / row["total"] if row["total"] > 0 else 0.0 for p in PART_SUMS}
        shares["everything else"] = max(1.0 - sum(shares.values()), 0.0)
        whole = sum(shares.values())  # above 1 where clocks make the app's part longer than the response
        bottom = 0.0
        for part in STACKED:
            share = shares[part] / whole
            top = bottom + share * row["requests"]
            ends = (float(edges[row["bin"]]), float(edges[row["bin"] + 1]))
            found.append((*ends, row["requests"], part, share, bottom, top))
            bottom = top
    return pl.DataFrame(found, schema=["low", "high", "requests", "part", "share", "bottom", "top"], orient="row")


def split_by(rows: pl.LazyFrame, group: str) -> alt.Chart:
    """Mean response time of each value of a group, divided; the values with the most seconds, slowest first."""
    table = split_by_table(rows, group)
    return (
        alt.Chart(_data(table))
        .mark_bar()
        .encode(
            x=alt.X("seconds:Q", title="mean response time (s)", stack="zero"),
            y=alt.Y("group:N", title=group, sort=alt.EncodingSortField("seconds", op="sum", order="descending")),
            color=_colour(),
            order=alt.Order("rank:Q"),
            tooltip=["group:N", "part:N", alt.Tooltip("seconds:Q", title="mean (s)", format=".4~f"), "requests:Q"],
        )
        .properties(width=WIDTH, height=60 + 24 * table["group"].n_unique())
    )


def split_by_table(rows: pl.LazyFrame, group: str) -> pl.DataFrame:
    """Columns group, requests, part, seconds (mean), rank (stacking order); at most ``GROUPS`` groups."""
    table = (
        rows.group_by(pl.col(group).cast(pl.String).fill_null("–").alias("group"))
        .agg(
            pl.len().alias("requests"),
            pl.col("request_time").sum().alias("total"),
            pl.col("request_time").mean().alias("response"),
            *(expr.mean().alias(part) for part, expr in PART_SUMS.items()),
        )
        .sort("total", "group", descending=[True, False])
        .head(GROUPS)
        .collect(engine="streaming")
        .with_columns(_everything_else())
    )
    ranks = {part: rank for rank, part in enumerate(STACKED)}
    return table.unpivot(
        list(PARTS), index=["group", "requests"], variable_name="part", value_name="seconds"
    ).with_columns(
        pl.col("group").map_elements(printable, return_dtype=pl.String),
        rank=pl.col("part").replace_strict(ranks, return_dtype=pl.Int8),
    )


def _everything_else() -> pl.Expr:
    return (pl.col("response") - pl.sum_horizontal(*PART_SUMS)).clip(lower_bound=0).alias("everything else")


def ccdfs(rows: pl.LazyFrame) -> alt.Chart:
    """Share of requests that take longer than a time: queueing delay, service time, response time, log-log."""
    table = pl.concat(
        [
            ccdf_table(rows, "request_time", "response time"),
            ccdf_table(rows, "queueing_delay", "queueing delay"),
            ccdf_table(rows, "service_time", "service time"),
        ]
    )
    domain = ["queueing delay", "service time", "response time"]
    return (
        alt.Chart(_data(table))
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X(
                "seconds:Q",
                title="time (s)",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(tickCount=8, format="~g"),
            ),
            y=alt.Y(
                "exceeding:Q",
                title="share of requests that took longer",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(tickCount=6, format="~%"),
            ),
            color=alt.Color("part:N", title=None, scale=alt.Scale(domain=domain, range=[QUEUEING, SERVICE, RESPONSE])),
            strokeDash=alt.StrokeDash(
                "part:N", title=None, scale=alt.Scale(domain=domain, range=[[1, 0], [1, 0], [4, 3]])
            ),
            tooltip=[
                "part:N",
                alt.Tooltip("seconds:Q", title="longer than (s)", format=".4~f"),
                alt.Tooltip("exceeding:Q", title="share", format=".3%"),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )


def ccdf_table(rows: pl.LazyFrame, column: str, part: str) -> pl.DataFrame:
    """Columns part, seconds, exceeding: exact points of the complementary distribution, even in its logarithm."""
    values = rows.select(pl.col(column).drop_nulls().sort()).collect(engine="streaming").to_series().to_numpy()
    count = len(values)
    if count:
        ranks = np.unique(count - np.geomspace(count, 1, min(CCDF_POINTS, count)).round().astype(np.int64))
        seconds, exceeding = values[ranks], (count - ranks) / count
    else:
        seconds, exceeding = np.array([]), np.array([])
    table = pl.DataFrame(
        {"seconds": seconds, "exceeding": exceeding}, schema={"seconds": pl.Float64, "exceeding": pl.Float64}
    )
    return table.filter(pl.col("seconds") >= SMALLEST).with_columns(part=pl.lit(part))


def response_over_time(rows: pl.LazyFrame) -> alt.LayerChart:
    """Mean response time by arrival, split in queueing, service and everything else; its p99 as a line."""
    table = over_time_table(rows)
    x = alt.X("arrived:T", title="arrival (UTC)", scale=alt.Scale(type="utc"))
    areas = (
        alt.Chart(
            _data(table.unpivot(list(PARTS), index=["arrived", "requests"], variable_name="part", value_name="seconds"))
        )
        .mark_area(interpolate="step-after")
        .encode(
            x=x,
            y=alt.Y("seconds:Q", title="mean response time (s), p99 as a line", stack="zero"),
            color=_colour(),
            order=alt.Order("rank:Q"),
            tooltip=[
                alt.Tooltip("arrived:T", title="arrival", format="%H:%M:%S.%L"),
                "part:N",
                alt.Tooltip("seconds:Q", title="mean (s)", format=".4~f"),
                alt.Tooltip("requests:Q", format=","),
            ],
        )
        .transform_calculate(rank=f"indexof({list(STACKED)}, datum.part)")
    )
    line = (
        alt.Chart(_data(table.select("arrived", "p99")))
        .mark_line(color=RESPONSE, strokeDash=[4, 3])
        .encode(x=x, y="p99:Q")
    )
    return (areas + line).properties(width=WIDTH, height=HEIGHT)


def over_time_table(rows: pl.LazyFrame) -> pl.DataFrame:
    """Columns arrived (window's begin), requests, p99 (s), and the mean seconds of each part; one row a window."""
    first, last = (
        rows.select(pl.col("start").min(), pl.col("start").max().alias("last")).collect(engine="streaming").row(0)
    )
    if first is None:
        columns = {"arrived": INSTANT, "requests": pl.Int64(), "p99": pl.Float64()}
        return pl.DataFrame(schema={**columns, **dict.fromkeys(PARTS, pl.Float64())})
    width = max(math.ceil((last - first).total_seconds() * 1e6 / WINDOWS), 1)
    since = (pl.col("start") - pl.lit(first)).dt.total_microseconds()
    window = pl.lit(first) + pl.duration(microseconds=since // width * width)
    return (
        rows.group_by(window.alias("arrived"))
        .agg(
            pl.len().alias("requests"),
            pl.col("request_time").quantile(0.99, "linear").alias("p99"),
            pl.col("request_time").mean().alias("response"),
            *(expr.mean().alias(part) for part, expr in PART_SUMS.items()),
        )
        .sort("arrived")
        .collect(engine="streaming")
        .with_columns(_everything_else())
        .drop("response")
    )


def _data(table: pl.DataFrame) -> alt.InlineData:
    """Inline data, floats cut to six digits that matter and instants as text: a third of the bytes."""
    short = table.with_columns(
        pl.col(pl.Float64).round_sig_figs(6),
        pl.col(pl.Datetime).dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"),
    )
    return alt.InlineData(values=short.to_dicts())
