"""Charts of a split. Each takes the frame with components, or its aggregates, and returns a chart over binned data.

Data are binned before they are plotted: a chart holds a few hundred points whether a thousand requests lie behind it or
ten million.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from sojourn.analyses.audit.incident import Incident
from sojourn.model.formatting import printable
from sojourn.model.measures import Measures
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import (
    MEASURED,
    STACKED,
    inline,
    part_colour,
    part_shares,
)
from sojourn.present.chart_sizes import HEIGHT, LABEL, SMALLEST, WIDTH
from sojourn.present.palette import PARTS, RESPONSE
from sojourn.sources.frame_measures import measured

BINS = 48
WINDOWS = 120
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


def distribution_table(rows: Rows, ends: tuple[float, float] | None = None) -> pl.DataFrame:
    """Return columns low, high (s), requests, part, share (of the bin's time), bottom, top (stacked requests).

    ``ends``: the shortest and longest response time of the bins, s; None: those of the requests.
    """
    measures = measured(rows)
    ends = ends or measures.response_range()
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
            y=alt.Y(
                "group:N",
                title=group,
                sort=alt.EncodingSortField("seconds", op="sum", order="descending"),
                axis=alt.Axis(labelLimit=LABEL),
            ),
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


def response_over_time(table: pl.DataFrame, incident: Incident | None = None) -> alt.LayerChart:
    """Draw the mean response time by arrival, split into queueing, service and everything else; its p99 as a line.

    Of ``over_time_table``; the interval of an incident is shaded.
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
    if incident is None:
        return (areas + line).properties(width=WIDTH, height=HEIGHT)
    interval = pl.DataFrame({"begin": [incident.begin], "end": [incident.end]})
    shade = (
        alt.Chart(inline(interval))
        .mark_rect(color=RESPONSE, opacity=0.25)
        .encode(
            x=alt.X("begin:T", title="arrival (UTC)", scale=alt.Scale(type="utc")),
            x2="end:T",
            tooltip=[
                alt.Tooltip("begin:T", title="incident from", format="%H:%M:%S"),
                alt.Tooltip("end:T", title="to", format="%H:%M:%S"),
            ],
        )
    )
    return (shade + areas + line).properties(width=WIDTH, height=HEIGHT)


def over_time_table(rows: Rows) -> pl.DataFrame:
    """Return columns arrived (window's begin), requests, p99 (s), mean seconds of each part; one row per window."""
    return measured(rows).parts_over_time(WINDOWS).with_columns(_everything_else()).drop("response")
