"""The percentile curve: how long, for the share of requests that it is for; each nine takes as much room as another.

The manner of HdrHistogram (Tene 2013): along the axis 50 %, 90 %, 99 %, 99.9 %, …, which is 1 / (1 - share) on a
logarithmic scale.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sojourn.model.measures import Measures
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import LINES, inline, line_colour, line_dash
from sojourn.present.chart_sizes import HEIGHT, SMALLEST, WIDTH

POINTS = 100
NINES = (2, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)  # one request in this many takes longer
WIDE = 30  # times the median: from here on the axis of times is logarithmic, too


def percentile_table(measures: Measures, requests: int) -> pl.DataFrame:
    """Return columns part, share (of requests that are as fast or faster), one_in (1 / (1 - share)), seconds.

    The last point is one request in ``requests``.
    """
    if not requests:
        return pl.DataFrame(schema=dict.fromkeys(("share", "one_in", "seconds"), pl.Float64) | {"part": pl.String})
    even = np.geomspace(1, max(requests, 2), POINTS).tolist()
    one_in = sorted({*even, *(n for n in NINES if n <= requests)})
    levels = [1 - 1 / n for n in one_in]
    tables = [
        pl.DataFrame({"share": levels, "one_in": one_in, "seconds": measures.quantiles(column, levels)})
        .with_columns(pl.col("seconds").cast(pl.Float64), part=pl.lit(name))
        .drop_nulls()
        for column, (name, _, _) in LINES.items()
    ]
    return pl.concat(tables)


def percentile_curve(table: pl.DataFrame) -> alt.Chart:
    """Return the curves of ``percentile_table``."""
    response = table.filter(pl.col("part") == "response time")
    middle = response.filter(pl.col("share") <= 0.5)["seconds"].max()
    most = response["seconds"].max()
    wide = isinstance(middle, float) and isinstance(most, float) and most > WIDE * middle
    drawn = table.with_columns(pl.col("seconds").clip(lower_bound=SMALLEST)) if wide else table
    last = max(response["one_in"].to_list(), default=2)
    shares = " : ".join(f"datum.value == {n} ? '{_percentile(n)}'" for n in NINES) + " : ''"
    return (
        alt.Chart(inline(drawn))
        .mark_line(strokeWidth=2, clip=True)
        .encode(
            x=alt.X(
                "one_in:Q",
                title="percentile",
                scale=alt.Scale(type="log", nice=False, domain=[1, max(last, 2)]),
                axis=alt.Axis(values=[n for n in NINES if n <= last], labelExpr=shares),
            ),
            y=alt.Y(
                "seconds:Q",
                title="time (s)",
                scale=alt.Scale(type="log") if wide else alt.Scale(),
                axis=alt.Axis(tickCount=6, format="~g"),
            ),
            color=line_colour(),
            strokeDash=line_dash(),
            tooltip=[
                alt.Tooltip("part:N"),
                alt.Tooltip("share:Q", title="percentile", format=".4~%"),
                alt.Tooltip("seconds:Q", title="at most (s)", format=".4~f"),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )


def _percentile(one_in: int) -> str:
    """Return the percentile of one in 2, 10, 10,000 as text: 50 %, 90 %, 99.99 %."""
    nines = len(str(one_in)) - 1
    digits = max(nines - 2, 0)
    return f"{100 * (1 - 1 / one_in):.{digits}f} %"
