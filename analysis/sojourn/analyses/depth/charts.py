"""Draw the queue depth over time, on arrival and by worker."""

from __future__ import annotations

import polars as pl

from sojourn.analyses.depth.analysis import ALL, DepthResult
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import HALO, INK, TIME
from sojourn.present.chart_sizes import HEIGHT, WIDTH
from sojourn.present.palette import QUEUEING, RESPONSE, SERVICE

PARTS = {"waiting": QUEUEING, "in service": SERVICE}


def depth_over_time(result: DepthResult) -> alt.LayerChart:
    """Draw requests in service and, on top, waiting: averages per window, all backends."""
    table = over_time_parts(result)
    areas = (
        alt.Chart(alt.InlineData(values=table.to_dicts()))
        .mark_area(interpolate="step-after")
        .encode(
            x=alt.X("begin:T", title="time (UTC)", scale=alt.Scale(type="utc")),
            y=alt.Y("requests:Q", title="requests", stack="zero"),
            color=alt.Color("part:N", title=None, scale=alt.Scale(domain=list(PARTS), range=list(PARTS.values()))),
            order=alt.Order("rank:Q"),
            tooltip=[
                alt.Tooltip("part:N"),
                alt.Tooltip("requests:Q", format=".2~f"),
                alt.Tooltip("begin:T", format="%H:%M:%S"),
            ],
        )
    )
    workers = alt.Chart(alt.InlineData(values=[{"workers": result.overall["workers"]}]))
    line = workers.mark_rule(color=INK, strokeDash=[4, 3]).encode(y=alt.Y("workers:Q"))
    return (areas + workers.mark_rule(color=HALO, strokeWidth=3).encode(y=alt.Y("workers:Q")) + line).properties(
        width=WIDTH, height=HEIGHT
    )


def over_time_parts(result: DepthResult) -> pl.DataFrame:
    """Return columns begin, part, rank (from below), requests (average in the window)."""
    return (
        result.over_time.filter(pl.col("upstream") == ALL)
        .select(pl.col("begin").dt.strftime(TIME), "waiting", pl.col("in_service").alias("in service"))
        .unpivot(["in service", "waiting"], index="begin", variable_name="part", value_name="requests")
        .with_columns(
            pl.col("requests").round_sig_figs(6),
            rank=pl.col("part").replace_strict({"in service": 0, "waiting": 1}, return_dtype=pl.Int8),
        )
    )


def depth_on_arrival(result: DepthResult) -> alt.VConcatChart:
    """Draw requests by queue length at arrival (above), and their mean wait (below)."""
    between = pl.when(pl.col("low") == pl.col("high")).then(pl.col("low").cast(pl.String))
    table = result.seen.with_columns(
        depth=between.otherwise(pl.format("{}–{}", "low", "high")), wait=pl.col("wait").round_sig_figs(6)
    )
    base = alt.Chart(alt.InlineData(values=table.to_dicts())).encode(
        x=alt.X("depth:O", title="waiting on arrival", sort=table["depth"].to_list(), axis=alt.Axis(labelAngle=0)),
        tooltip=[
            alt.Tooltip("depth:O"),
            alt.Tooltip("requests:Q", format=","),
            alt.Tooltip("share:Q", format=".1%"),
            alt.Tooltip("wait:Q", title="mean wait (s)", format=".4~f"),
        ],
    )
    requests = base.mark_bar(color=RESPONSE).encode(y=alt.Y("requests:Q", title="requests"))
    waits = base.mark_bar(color=QUEUEING).encode(y=alt.Y("wait:Q", title="mean wait (s)"))
    sized = (chart.properties(width=WIDTH, height=HEIGHT // 2) for chart in (requests, waits))
    return alt.vconcat(*sized)
