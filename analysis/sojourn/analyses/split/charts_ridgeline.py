"""Distributions above one another: of each route, or by the number of requests in system on arrival."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sojourn.analyses.split.charts import log_seconds
from sojourn.analyses.split.charts_heatmap import time_bins
from sojourn.model.formatting import counted, printable
from sojourn.model.measures import LogBins, Measures
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import STACKED, inline, part_colour, part_shares
from sojourn.present.chart_sizes import WIDTH

GROUPS = 8
BINS = 32
ROW = 56
THERE = "requests there"  # grouped by how many were at the backend already
FULL = 0.88  # of a row that the highest bar takes


@dataclass(frozen=True)
class Ridges:
    """Distributions of the response time, one a group.

    Attributes:
        group: what they are grouped by, for people.
        bins: of response times.
        table: columns group, bin, requests, total, queueing delay, service time, as ``Measures.bins_by`` has them.
    """

    group: str
    bins: LogBins
    table: pl.DataFrame


def ridges(measures: Measures, group: str) -> Ridges:
    """Return the groups with the most seconds, the first ``GROUPS`` of them."""
    bins = time_bins(measures, "request_time", BINS)
    return Ridges(group, bins, measures.bins_by(group, GROUPS, "request_time", bins))


def ridge_table(ridges: Ridges) -> pl.DataFrame:
    """Return columns group, low, high (s), requests, part, share (of the bar's time), bottom, top; a group is 1 high.

    The first group is at the top. Each has its own scale: its highest bar is ``FULL`` high.
    """
    groups = ridges.table["group"].unique(maintain_order=True).to_list()
    most = dict(ridges.table.group_by("group").agg(pl.col("requests").max()).iter_rows())
    rows = []
    for row in ridges.table.iter_rows(named=True):
        shares = part_shares(row)
        place = float(len(groups) - 1 - groups.index(row["group"]))
        low, high = ridges.bins.edge(row["bin"]), ridges.bins.edge(row["bin"] + 1)
        for part in STACKED:
            share = shares[part]
            if share <= 0:
                continue
            top = place + share * FULL * row["requests"] / most[row["group"]]
            rows.append((printable(row["group"], 40), low, high, row["requests"], part, share, place, top))
            place = top
    schema = ["group", "low", "high", "requests", "part", "share", "bottom", "top"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def ridgeline(ridges: Ridges) -> alt.LayerChart:
    """Draw distributions above one another, each on its own scale, bars divided like the time of their requests."""
    table = ridge_table(ridges)
    groups = ridges.table["group"].unique(maintain_order=True).to_list()
    scale = alt.Scale(domain=[0, max(len(groups), 1)], nice=False)
    x = alt.X("low:Q", title="response time (s)", **log_seconds(nice=False))
    bars = (
        alt.Chart(inline(table, digits=4))
        .mark_rect(stroke=None)
        .encode(
            x=x,
            x2=alt.X2("high:Q"),
            y=alt.Y("bottom:Q", title=None, scale=scale, axis=alt.Axis(values=list(range(len(groups))), labels=False)),
            y2=alt.Y2("top:Q"),
            color=part_colour(),
            tooltip=[
                alt.Tooltip("group:N"),
                alt.Tooltip("low:Q", title="from (s)", format=".3~g"),
                alt.Tooltip("high:Q", title="to (s)", format=".3~g"),
                alt.Tooltip("requests:Q", format=","),
                alt.Tooltip("part:N"),
                alt.Tooltip("share:Q", title="of their time", format=".0%"),
            ],
        )
    )
    sums = dict(ridges.table.group_by("group").agg(pl.col("requests").sum()).iter_rows())
    names = [
        {"name": printable(name, 28), "requests": counted(sums[name], "request"), "at": len(groups) - 1 - number}
        for number, name in enumerate(groups)
    ]
    base = alt.Chart(alt.InlineData(values=names)).encode(x=alt.value(0), y=alt.Y("at:Q", scale=scale))
    labels = base.mark_text(align="right", dx=-8, dy=-20, fontWeight="bold").encode(text=alt.Text("name:N"))
    counts = base.mark_text(align="right", dx=-8, dy=-6).encode(text=alt.Text("requests:N"))
    return (bars + labels + counts).properties(width=WIDTH - 120, height=ROW * max(len(groups), 1))
