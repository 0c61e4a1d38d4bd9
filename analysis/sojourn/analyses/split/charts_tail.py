"""Composition of the tail: the mean time of all requests and of ever slower ones, by component."""

from __future__ import annotations

from typing import Any

import polars as pl

from sojourn.analyses.split.result import SplitResult
from sojourn.model.figures import QUANTILES
from sojourn.model.formatting import duration
from sojourn.model.verdict import CAUSES
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import inline
from sojourn.present.chart_sizes import WIDTH
from sojourn.present.palette import OTHER, QUEUEING, SERVICE

# Cause -> label, colour (Okabe and Ito 2008), and the colour of a number on it (contrast at least 4.5 : 1).
PARTS = {
    "queueing": ("queueing delay", QUEUEING, "#000000"),
    "service": ("service time", SERVICE, "#ffffff"),
    "retries": ("earlier attempts", "#E69F00", "#000000"),
    "before": ("before the app", "#56B4E9", "#000000"),
    "body": ("body of the answer", "#F0E442", "#000000"),
    "after": ("after the app", "#009E73", "#000000"),
    "unknown": ("unaccounted", OTHER, "#000000"),
}
ROOM = 0.06  # share of a bar: the smallest with a number in it
BAR = 46


def tail_table(result: SplitResult) -> pl.DataFrame:
    """Return one row per level and cause; levels are all requests and those at and above p50, p90, p99 and p99.9.

    Columns level, label, at_least (s), requests, mean (s), cause, part, seconds (of the mean), share, begin, end (of
    the bar, 0 to 1; negative means, from clock error, have no width). A level with the same requests as the one before
    is left out.
    """
    rows = []
    before = None
    for name in ("all", *QUANTILES):
        at_least = None if name == "all" else result.response_time[name]
        if name != "all" and at_least is None:
            continue
        if name in result.tail:
            tail: dict[str, Any] = result.tail[name]
            requests, means = tail["requests"], tail["components"]
        else:
            requests, means, *_ = result.measures.means(at_least)
        if not requests or requests == before:
            continue
        before = requests
        sums = {cause: sum(means.get(part, 0.0) for part in parts) for cause, parts in CAUSES.items()}
        mean = sum(sums.values())
        whole = sum(max(value, 0.0) for value in sums.values()) or 1.0
        place = 0.0
        for cause, (part, _, _) in PARTS.items():
            drawn = max(sums[cause], 0.0) / whole
            share = sums[cause] / mean if mean > 0 else 0.0
            rows.append(
                (name, _label(name), at_least, requests, mean, cause, part, sums[cause], share, place,
                 place + drawn)
            )  # fmt: skip
            place += drawn
    names = ["level", "label", "at_least", "requests", "mean", "cause", "part", "seconds", "share", "begin", "end"]
    return pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)


def _label(level: str) -> str:
    return "all requests" if level == "all" else f"slowest {100 * (1 - QUANTILES[level]):.3g} %"


def tail_composition(table: pl.DataFrame) -> alt.LayerChart:
    """Draw a bar of equal length per level of ``tail_table``, divided by component, with the number of requests."""
    order = table["label"].unique(maintain_order=True).to_list()
    y = alt.Y("label:N", title=None, sort=order, axis=alt.Axis(labelLimit=260))
    names = [name for name, _, _ in PARTS.values()]
    visible = table.filter(pl.col("end") > pl.col("begin"))
    bars = (
        alt.Chart(inline(visible.drop("cause")))
        .mark_bar()
        .encode(
            y=y,
            x=alt.X(
                "begin:Q",
                title="share of their time",
                axis=alt.Axis(format="%"),
                scale=alt.Scale(domain=[0, 1]),
            ),
            x2=alt.X2("end:Q"),
            color=alt.Color(
                "part:N", title=None, scale=alt.Scale(domain=names, range=[colour for _, colour, _ in PARTS.values()])
            ),
            tooltip=[
                alt.Tooltip("label:N", title="requests"),
                alt.Tooltip("part:N"),
                alt.Tooltip("share:Q", format=".1%"),
                alt.Tooltip("seconds:Q", title="mean (s)", format=".4~f"),
            ],
        )
    )
    numbers = [
        alt.Chart(inline(visible.filter((pl.col("part") == part) & (pl.col("end") - pl.col("begin") >= ROOM)).select(
            "label", "share", middle=(pl.col("begin") + pl.col("end")) / 2)))
        .mark_text(color=ink)
        .encode(y=y, x=alt.X("middle:Q"), text=alt.Text("share:Q", format=".0%"))
        for part, _, ink in PARTS.values()
    ]  # fmt: skip
    totals = table.group_by("label", maintain_order=True).agg(pl.col("requests", "at_least").first())
    means = (
        alt.Chart(
            alt.InlineData(
                values=[
                    {"label": row["label"], "total": f"{row['requests']:,}" + _at_least(row["at_least"])}
                    for row in totals.to_dicts()
                ]
            )
        )
        .mark_text(align="left", dx=6)
        .encode(y=y, x=alt.datum(1), text=alt.Text("total:N"))
    )
    chart = bars + means
    for layer in numbers:
        chart += layer
    return chart.properties(width=WIDTH - 120, height=BAR * len(order))


def _at_least(seconds: float | None) -> str:
    return " in all" if seconds is None else f" of {duration(seconds)} and more"
