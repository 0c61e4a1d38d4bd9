"""Charts of blame: the matrix, and the accounts over time."""

from __future__ import annotations

import polars as pl

from sojourn.analyses.blame.analysis import BlameResult
from sojourn.model.formatting import printable
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import inline
from sojourn.present.chart_sizes import HEIGHT, LABEL, WIDTH
from sojourn.present.palette import OTHER as GREY
from sojourn.present.palette import QUEUEING
from sojourn.timeline.charge import DISPATCH
from sojourn.timeline.classes import NO_VALUE, OTHER

MATRIX_CLASSES = 12
COLOURED = 5  # culprits with a colour of their own
# Okabe and Ito (2008), without the two colours that mean queueing and service in other charts.
COLOURS = (QUEUEING, "#E69F00", "#CC79A7", "#009E73", "#56B4E9")
IMBALANCE = "#6b7683"  # visible on white and on black
SLATES = (IMBALANCE, "#9aa6b2", "#4d5965", "#b9a6c9", "#7d6b8f", "#a89f91", "#5f7f7a", "#8c8c5a")  # of accounts
LEAST = 0.001  # of the waiting: smaller accounts are not drawn


def blame_matrix(result: BlameResult) -> alt.LayerChart:
    """Draw seconds per victim and culprit: the largest classes, and the rest as one."""
    table = matrix_cells(result)
    order = alt.EncodingSortField("seconds", op="sum", order="descending")
    base = alt.Chart(alt.InlineData(values=table.to_dicts())).encode(
        x=alt.X("culprit:N", title="culprit", sort=order, axis=alt.Axis(labelAngle=-30, labelLimit=LABEL)),
        y=alt.Y("victim:N", title="victim", sort=order, axis=alt.Axis(labelLimit=LABEL)),
        tooltip=[
            alt.Tooltip("victim:N"),
            alt.Tooltip("culprit:N"),
            alt.Tooltip("seconds:Q", title="seconds", format=",.3~f"),
            alt.Tooltip("share:Q", title="of the blamed seconds", format=".1%"),
        ],
    )
    cells = base.mark_rect().encode(
        color=alt.Color("seconds:Q", title="seconds", scale=alt.Scale(range=["#ffffff", QUEUEING]))
    )
    text = base.mark_text().encode(
        text=alt.Text("share:Q", format=".0%"),
        color=alt.value("black"),  # 5.5 : 1 on the darkest cell
    )
    size = 60 + 34 * max(table["culprit"].n_unique(), table["victim"].n_unique())
    return (cells + text).properties(width=min(WIDTH, 2 * size), height=size)


def matrix_cells(result: BlameResult) -> pl.DataFrame:
    """Return columns victim, culprit, seconds, share; at most ``MATRIX_CLASSES`` of each, the rest as one."""
    table = result.matrix
    for column in ("victim", "culprit"):
        sums = table.group_by(column).agg(pl.col("seconds").sum()).sort("seconds", column, descending=True)
        names = sums.head(MATRIX_CLASSES)[column].to_list()
        table = table.with_columns(
            pl.when(pl.col(column).is_in(names, nulls_equal=True)).then(column).otherwise(pl.lit(OTHER)).alias(column)
        )
    cells = table.group_by("victim", "culprit").agg(pl.col("seconds", "share").sum()).sort("victim", "culprit")
    return _printable(cells, "victim", "culprit")


def blame_over_time(result: BlameResult) -> alt.Chart:
    """Draw seconds waited per window, stacked by culprit, with the other accounts."""
    table = over_time_parts(result)
    parts = table.group_by("part").agg(pl.col("rank").first()).sort("rank")["part"].to_list()
    culprits = [part for part in parts if part not in (*result.accounts, OTHER)]
    others = [part for part in parts if part in result.accounts and part != DISPATCH]
    colours = {**dict(zip(culprits, COLOURS, strict=False)), **dict(zip(others, SLATES, strict=False))}
    colours |= {OTHER: GREY, DISPATCH: "#c8c8c8"}
    return (
        alt.Chart(inline(table))
        .mark_area(interpolate="step-after")
        .encode(
            x=alt.X("begin:T", title="end of the wait (UTC)", scale=alt.Scale(type="utc")),
            y=alt.Y("seconds:Q", title="seconds waited", stack="zero"),
            color=alt.Color(
                "part:N", title=None, scale=alt.Scale(domain=parts, range=[colours[part] for part in parts])
            ),
            order=alt.Order("rank:Q"),
            tooltip=[
                alt.Tooltip("part:N"),
                alt.Tooltip("seconds:Q", format=",.3~f"),
                alt.Tooltip("begin:T", format="%H:%M:%S"),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )


def over_time_parts(result: BlameResult) -> pl.DataFrame:
    """Return columns begin, part, rank, seconds: the largest culprits by name; every part in every window."""
    top = result.culprits.head(COLOURED)["culprit"].fill_null(NO_VALUE).to_list()
    culprit = pl.col("culprit").fill_null(NO_VALUE)
    part = (
        pl.when(pl.col("account") != "blamed")
        .then("account")
        .when(culprit.is_in(top))
        .then(culprit)
        .otherwise(pl.lit(OTHER))
    )
    little = [name for name, seconds in result.accounts.items() if abs(seconds) <= LEAST * result.waited]
    drawn = result.over_time.filter(~pl.col("account").is_in(little))
    table = drawn.with_columns(part=part).group_by("begin", "part").agg(pl.col("seconds").sum())
    order = [*top, OTHER, *(name for name in result.accounts if name != DISPATCH), DISPATCH]
    ranks = {name: rank for rank, name in enumerate(order)}
    every = result.over_time.select("begin").unique().join(table.select("part").unique(), how="cross")
    full = every.join(table, on=["begin", "part"], how="left").with_columns(
        pl.col("seconds").fill_null(0.0), rank=pl.col("part").replace_strict(ranks, return_dtype=pl.Int8)
    )
    return _printable(full.sort("begin", "rank"), "part")


def _printable(table: pl.DataFrame, *columns: str) -> pl.DataFrame:
    return table.with_columns(
        pl.col(column).fill_null(NO_VALUE).map_elements(printable, return_dtype=pl.String) for column in columns
    )
