"""Chart of the over-represented values: the share among the selected requests, that of the rest, and the interval."""

from __future__ import annotations

import polars as pl

from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import inline
from sojourn.present.chart_sizes import WIDTH
from sojourn.present.palette import QUEUEING, SERVICE
from sojourn.present.section import Chart


def shares_chart(table: pl.DataFrame, names: tuple[str, str]) -> Chart:
    """Draw two shares of each value, and the interval of their difference above the second share.

    Args:
        table: value, first and second (shares), low and high (of first - second); the most important row first.
        names: of the two shares.
    """
    rows = table.with_columns(
        begin=(pl.col("second") + pl.col("low")).clip(0.0, 1.0), end=(pl.col("second") + pl.col("high")).clip(0.0, 1.0)
    )
    y = alt.Y("value:N", title=None, sort=None)
    tooltip = [
        alt.Tooltip("value:N"),
        alt.Tooltip("first:Q", title=names[0], format=".1%"),
        alt.Tooltip("second:Q", title=names[1], format=".1%"),
    ]
    base = alt.Chart(inline(rows))
    x = alt.X("first:Q", title="share", axis=alt.Axis(format="~%"), scale=alt.Scale(domain=[0, 1]))
    bars = base.mark_bar(opacity=0.85, color=QUEUEING).encode(x=x, y=y, tooltip=tooltip)
    ticks = base.mark_tick(thickness=3, size=18, color=SERVICE).encode(x=alt.X("second:Q"), y=y, tooltip=tooltip)
    spread = base.mark_rule(strokeWidth=2).encode(x=alt.X("begin:Q"), x2=alt.X2("end:Q"), y=y)
    return alt.layer(bars, spread, ticks).properties(width=WIDTH, height=40 + 24 * len(rows))
