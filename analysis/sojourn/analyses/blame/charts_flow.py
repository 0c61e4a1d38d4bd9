"""Flow chart of blame: every second of waiting runs from its cause to the requests that waited."""

from __future__ import annotations

from typing import Any

import polars as pl

from sojourn.analyses.blame.analysis import BlameResult
from sojourn.analyses.blame.charts import COLOURS, SLATES
from sojourn.model.formatting import duration, percent, printable
from sojourn.model.measures import ROUNDING
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_sizes import WIDTH
from sojourn.present.palette import OTHER as GREY
from sojourn.timeline.charge import DISPATCH, IMBALANCE
from sojourn.timeline.classes import NO_VALUE, OTHER
from sojourn.timeline.named_accounts import SUSPECT_ACCOUNTS

LARGEST = 6  # culprits, and victims, by name
LEAST = 0.001  # of all seconds: narrower ribbons are not drawn
HEIGHT = 340
BLOCK = 0.03  # width of a block, as a part of the chart's width
STEPS = 12  # of a ribbon's curve
SPACE = 0.03  # between two blocks, of all seconds
ACCOUNTS = (IMBALANCE, *SUSPECT_ACCOUNTS)  # without dispatch


def flow_table(result: BlameResult) -> pl.DataFrame:
    """Return columns cause, victim, seconds, largest first: the largest culprits, others, and the accounts.

    The sum is the whole queueing delay, without the cells that clock error makes negative.
    """
    sums = result.matrix.group_by("culprit").agg(pl.col("seconds").sum())
    sums = sums.sort("seconds", "culprit", descending=[True, False], nulls_last=True)
    cause = _or_other("culprit", sums["culprit"].head(LARGEST).to_list())
    victims = result.victims.sort("waited", descending=True)["victim"]
    victim = _or_other("victim", victims.head(LARGEST).to_list())
    blamed = result.matrix.select(cause=cause, victim=victim, seconds="seconds")
    accounts = [
        result.victims.select(cause=pl.lit(account), victim=victim, seconds=pl.col(account))
        for account in result.accounts
    ]
    return (
        pl.concat([blamed, *accounts])
        .group_by("cause", "victim")
        .agg(pl.col("seconds").sum())
        .filter(pl.col("seconds") > ROUNDING)
        .sort("seconds", "cause", "victim", descending=[True, False, False])
    )


def _or_other(column: str, names: list[str | None]) -> pl.Expr:
    is_largest = pl.col(column).is_in(names, nulls_equal=True)
    return pl.when(is_largest).then(pl.col(column).fill_null(NO_VALUE)).otherwise(pl.lit(OTHER))


def blame_flow(result: BlameResult) -> alt.LayerChart:
    """Draw causes at the left, victims at the right, and ribbons whose width is their seconds."""
    table = flow_table(result)
    total = float(table["seconds"].sum()) or 1.0
    causes = _places(table, "cause", total)
    victims = _places(table, "victim", total)
    colours = _colours(list(causes))
    ribbons = _ribbons(table, causes, victims, total)
    ends = (top + size for places in (causes, victims) for top, size in places.values())
    scale = alt.Scale(domain=[max(ends, default=1.0), 0], nice=False)
    # The labels are outside the blocks: each side reserves about a third of the width for them.
    x = alt.X("x:Q", scale=alt.Scale(domain=[-0.42, 1.42], nice=False), axis=None)
    colour = alt.Color("cause:N", legend=None, scale=alt.Scale(domain=list(colours), range=list(colours.values())))
    areas = (
        alt.Chart(alt.InlineData(values=ribbons))
        .mark_area(opacity=0.55, line=False, interpolate="monotone")
        .encode(
            x=x,
            y=alt.Y("y:Q", scale=scale, axis=None),
            y2=alt.Y2("y2:Q"),
            color=colour,
            detail=alt.Detail("victim:N"),
            tooltip=[alt.Tooltip("cause:N"), alt.Tooltip("victim:N"), alt.Tooltip("seconds:Q", format=",.3~f")],
        )
    )
    blocks = [
        {
            "x": at,
            "x2": at + BLOCK,
            "y": top,
            "y2": top + size,
            "cause": printable(name) if at < 0.5 else "",
            "name": printable(name),
        }
        for places, at in ((causes, 0.0), (victims, 1 - BLOCK))
        for name, (top, size) in places.items()
    ]
    marks = (
        alt.Chart(alt.InlineData(values=blocks))
        .mark_rect(color=GREY)
        .encode(
            x=x,
            x2=alt.X2("x2:Q"),
            y=alt.Y("y:Q", scale=scale, axis=None),
            y2=alt.Y2("y2:Q"),
            color=alt.condition("datum.cause != ''", colour, alt.value(GREY)),
        )
    )
    left = _labels(causes, -0.015, "right", x, scale, total)
    right = _labels(victims, 1.015, "left", x, scale, total)
    return (areas + marks + left + right).properties(width=WIDTH, height=HEIGHT)


Places = dict[str, tuple[float, float]]


def _places(table: pl.DataFrame, column: str, total: float) -> Places:
    """Return top and height of each block, largest first; others and then the accounts come last."""
    last = {OTHER: 1, **dict.fromkeys(ACCOUNTS, 2), DISPATCH: 3} if column == "cause" else {OTHER: 1}
    sums = table.group_by(column).agg(pl.col("seconds").sum()).rows()
    places: Places = {}
    top = 0.0
    for name, seconds in sorted(sums, key=lambda each: (last.get(each[0], 0), -each[1], each[0])):
        places[name] = (top, seconds)
        top += seconds + SPACE * total
    return places


def _colours(causes: list[str]) -> dict[str, str]:
    """Return a colour per cause, by the cause's label."""
    culprits = [cause for cause in causes if cause not in (OTHER, *ACCOUNTS, DISPATCH)]
    colours = dict(zip(culprits, [*COLOURS, "#F0E442"], strict=False))
    colours |= dict(zip([cause for cause in causes if cause in ACCOUNTS], SLATES, strict=False))
    return {printable(cause): colours.get(cause, GREY) for cause in causes}


def _ribbons(table: pl.DataFrame, causes: Places, victims: Places, total: float) -> list[dict[str, Any]]:
    """Return the points of each ribbon, on a curve that is horizontal at both ends."""
    begun = {name: top for name, (top, _) in causes.items()}
    ended = {name: top for name, (top, _) in victims.items()}
    rows = sorted(table.iter_rows(), key=lambda row: (list(causes).index(row[0]), list(victims).index(row[1])))
    points = []
    for cause, victim, seconds in rows:
        one, other = begun[cause], ended[victim]
        begun[cause] += seconds
        ended[victim] += seconds
        if seconds < LEAST * total:
            continue
        for step in range(STEPS + 1):
            part = step / STEPS
            bend = part * part * (3 - 2 * part)  # level at both ends
            y = one + (other - one) * bend
            points.append(
                {
                    "cause": printable(cause), "victim": printable(victim), "seconds": float(f"{seconds:.6g}"),
                    "x": round(BLOCK + (1 - 2 * BLOCK) * part, 4), "y": float(f"{y:.6g}"),
                    "y2": float(f"{y + seconds:.6g}"),
                }
            )  # fmt: skip
    return points


def _labels(places: Places, at: float, align: Any, x: alt.X, scale: alt.Scale, total: float) -> alt.Chart:
    rows = [
        {"x": at, "y": top + size / 2, "label": f"{printable(name, 24)}: {percent(size / total)}, {duration(size)}"}
        for name, (top, size) in places.items()
    ]
    return (
        alt.Chart(alt.InlineData(values=rows))
        .mark_text(align=align, baseline="middle", limit=200)
        .encode(x=x, y=alt.Y("y:Q", scale=scale, axis=None), text=alt.Text("label:N"))
    )
