"""Charts of a comparison: the components of both sides, and the change of each component."""

from __future__ import annotations

import polars as pl

from sojourn.analyses.compare.analysis import Comparison
from sojourn.model.verdict import CAUSES
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import inline, part_colour
from sojourn.present.chart_sizes import WIDTH
from sojourn.present.palette import OTHER, QUEUEING, SERVICE
from sojourn.present.section import Chart

PART_OF = {**dict.fromkeys(CAUSES["queueing"], "queueing delay"), "service_time": "service time"}
ORDER = ("everything else", "service time", "queueing delay")
COLOURS = {"queueing delay": QUEUEING, "service time": SERVICE, "everything else": OTHER}


def composition(comparison: Comparison) -> alt.Chart:
    """Draw the mean of all requests and of the slowest 1 % on either side: queueing, service and the rest."""
    rows = []
    for label, source in (("all", comparison.components), ("slowest 1 %", comparison.tail)):
        for side in ("a", "b"):
            sums = dict.fromkeys(ORDER, 0.0)
            for name, change in source.items():
                sums[PART_OF.get(name, "everything else")] += getattr(change, side)
            name = comparison.names[0 if side == "a" else 1]
            rows += [(label, f"{side.upper()}: {name}", part, value, ORDER.index(part)) for part, value in sums.items()]
    table = pl.DataFrame(rows, schema=["requests", "side", "part", "seconds", "rank"], orient="row")
    return (
        alt.Chart(inline(table))
        .mark_bar()
        .encode(
            x=alt.X("seconds:Q", title="mean response time (s)", stack="zero"),
            y=alt.Y("side:N", title=None),
            row=alt.Row("requests:N", title=None, sort=["all", "slowest 1 %"]),
            color=part_colour(),
            order=alt.Order("rank:Q"),
            tooltip=[
                alt.Tooltip("requests:N"),
                alt.Tooltip("side:N"),
                alt.Tooltip("part:N"),
                alt.Tooltip("seconds:Q", title="mean (s)", format=".4~f"),
            ],
        )
        .resolve_scale(x="independent")
        .properties(width=WIDTH - 120, height=70)
    )


def changes(comparison: Comparison) -> Chart:
    """Draw the change of each component's mean over the slowest 1 %, with its interval."""
    rows = [
        (name.replace("_", " "), change.change, change.low, change.high, PART_OF.get(name, "everything else"))
        for name, change in comparison.tail.items()
        if change.a or change.b
    ]
    table = pl.DataFrame(rows, schema=["component", "change", "low", "high", "part"], orient="row")
    y = alt.Y("component:N", title=None, sort=None)
    scale = alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    bars = (
        alt.Chart(inline(table))
        .mark_bar(opacity=0.85)
        .encode(
            x=alt.X("change:Q", title="change of the slowest 1 %, B minus A (s)"),
            y=y,
            color=alt.Color("part:N", title=None, scale=scale),
            tooltip=[
                alt.Tooltip("component:N"),
                *(alt.Tooltip(f"{name}:Q", format="+.4~f") for name in ("change", "low", "high")),
            ],
        )
    )
    spread = alt.Chart(inline(table)).mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y)
    return alt.layer(bars, spread).properties(width=WIDTH, height=40 + 24 * len(table))
