"""Charts across tiers: where a response is spent, and what a callee takes by the calls under way."""

from __future__ import annotations

import altair as alt
import polars as pl

from sojourn.analyses.tiers.analysis import Tiers
from sojourn.model.formatting import printable
from sojourn.present.chart_sizes import HEIGHT, WIDTH
from sojourn.present.palette import OTHER, QUEUEING, SERVICE

SHOWN = 20
ACCOUNTS = {"queueing delay": "queueing", "service time": "self", "network": "network", "waiting or network": "unknown"}
COLOURS = {"queueing delay": QUEUEING, "service time": SERVICE, "network": OTHER, "waiting or network": "#E69F00"}


def tiers_chart(found: Tiers) -> alt.Chart:
    """Mean seconds of a response by service, divided; at most ``SHOWN`` services."""
    names = list(COLOURS)
    return (
        alt.Chart(alt.InlineData(values=tiers_table(found).to_dicts()))
        .mark_bar()
        .encode(
            x=alt.X("seconds:Q", title="mean of a response (s)", stack="zero"),
            y=alt.Y("service:N", title=None, sort=alt.EncodingSortField("seconds", op="sum", order="descending")),
            color=alt.Color("part:N", title=None, scale=alt.Scale(domain=names, range=list(COLOURS.values()))),
            order=alt.Order("rank:Q"),
            tooltip=["service:N", "part:N", alt.Tooltip("seconds:Q", title="mean (s)", format=".4~f")],
        )
        .properties(width=WIDTH, height=60 + 24 * min(len(found.services), SHOWN))
    )


def tiers_table(found: Tiers) -> pl.DataFrame:
    """Columns service, part, seconds (mean of all requests), rank (stacking order)."""
    rows = [
        (printable(tier.service, 60), part, float(f"{tier.seconds[account] / found.requests:.6g}"), rank)
        for tier in found.services[:SHOWN]
        for rank, (part, account) in enumerate(ACCOUNTS.items())
        if tier.seconds[account]
    ]
    return pl.DataFrame(rows, schema=["service", "part", "seconds", "rank"], orient="row")


def load_chart(found: Tiers) -> alt.Chart:
    """Mean seconds of a callee's own by the calls it had under way, one line a callee; the eight called most."""
    table = load_table(found)
    return (
        alt.Chart(alt.InlineData(values=table.to_dicts()))
        .mark_line(point=True)
        .encode(
            x=alt.X("under_way:Q", title="calls under way when one arrives"),
            y=alt.Y("seconds:Q", title="the callee takes (s)"),
            color=alt.Color("service:N", title=None),
            tooltip=[
                "service:N",
                alt.Tooltip("under_way:Q", title="under way"),
                alt.Tooltip("seconds:Q", title="mean (s)", format=".4~f"),
                alt.Tooltip("calls:Q", format=","),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )


def load_table(found: Tiers) -> pl.DataFrame:
    """Columns service, under_way, calls, seconds; at most 40 rows a callee."""
    parts = [
        load.by_load.select(pl.lit(printable(load.service, 60)).alias("service"), "under_way", "calls", "seconds")
        for load in found.loads[:8]
        if load.correlation is not None
    ]
    return pl.concat(parts).with_columns(pl.col("seconds").round_sig_figs(6))
