"""Charts of tiers: response time by service, and call durations by concurrent calls."""

from __future__ import annotations

import polars as pl

from sojourn.analyses.tiers.result import Tiers
from sojourn.model.formatting import printable
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_sizes import HEIGHT, WIDTH
from sojourn.present.palette import OTHER, QUEUEING, SERVICE

MOST_SERVICES = 20
ACCOUNTS = {"queueing delay": "queueing", "service time": "self", "network": "network", "waiting or network": "unknown"}
COLOURS = {"queueing delay": QUEUEING, "service time": SERVICE, "network": OTHER, "waiting or network": "#E69F00"}


def tiers_chart(result: Tiers) -> alt.Chart:
    """Draw the mean seconds of a response by service and component; at most ``MOST_SERVICES`` services."""
    names = list(COLOURS)
    return (
        alt.Chart(alt.InlineData(values=tiers_table(result).to_dicts()))
        .mark_bar()
        .encode(
            x=alt.X("seconds:Q", title="mean of a response (s)", stack="zero"),
            y=alt.Y("service:N", title=None, sort=alt.EncodingSortField("seconds", op="sum", order="descending")),
            color=alt.Color("part:N", title=None, scale=alt.Scale(domain=names, range=list(COLOURS.values()))),
            order=alt.Order("rank:Q"),
            tooltip=[
                alt.Tooltip("service:N"),
                alt.Tooltip("part:N"),
                alt.Tooltip("seconds:Q", title="mean (s)", format=".4~f"),
            ],
        )
        .properties(width=WIDTH, height=60 + 24 * min(len(result.services), MOST_SERVICES))
    )


def tiers_table(result: Tiers) -> pl.DataFrame:
    """Return columns service, part, seconds (mean of all requests), rank (stacking order)."""
    rows = [
        (printable(tier.service, 60), part, float(f"{tier.seconds[account] / result.requests:.6g}"), rank)
        for tier in result.services[:MOST_SERVICES]
        for rank, (part, account) in enumerate(ACCOUNTS.items())
        if tier.seconds[account]
    ]
    return pl.DataFrame(rows, schema=["service", "part", "seconds", "rank"], orient="row")


def load_chart(result: Tiers) -> alt.Chart:
    """Draw a callee's own mean seconds by its concurrent calls, one line per callee; the eight most called."""
    table = load_table(result)
    return (
        alt.Chart(alt.InlineData(values=table.to_dicts()))
        .mark_line(point=True)
        .encode(
            x=alt.X("under_way:Q", title="calls under way when one arrives"),
            y=alt.Y("seconds:Q", title="the callee takes (s)"),
            color=alt.Color("service:N", title=None),
            tooltip=[
                alt.Tooltip("service:N"),
                alt.Tooltip("under_way:Q", title="under way"),
                alt.Tooltip("seconds:Q", title="mean (s)", format=".4~f"),
                alt.Tooltip("calls:Q", format=","),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )


def load_table(result: Tiers) -> pl.DataFrame:
    """Return columns service, under_way, calls, seconds; at most 40 rows per callee."""
    parts = [
        load.by_load.select(pl.lit(printable(load.service, 60)).alias("service"), "under_way", "calls", "seconds")
        for load in result.loads[:8]
        if load.correlation is not None
    ]
    return pl.concat(parts).with_columns(pl.col("seconds").round_sig_figs(6))
