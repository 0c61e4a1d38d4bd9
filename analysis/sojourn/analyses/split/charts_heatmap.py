"""The heatmap of a time over arrivals: number of requests by time and arrival."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from sojourn.analyses.split.charts import log_seconds
from sojourn.model.measures import LogBins, Measures
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import LINES, count_colour, inline
from sojourn.present.chart_sizes import HEIGHT, WIDTH

WINDOWS = 64
BINS = 26
LEAST = 1e-3  # s, nginx's resolution: the lowest bin is "as good as nothing"


@dataclass(frozen=True)
class Heat:
    """Requests by arrival and time.

    Attributes:
        column: which time: a key of ``sojourn.present.chart_parts.LINES``.
        table: columns arrived (a window's begin), low, high (s), requests; cells without any are left out.
        width: of a window.
    """

    column: str
    table: pl.DataFrame
    width: timedelta


def time_bins(measures: Measures, column: str, count: int) -> LogBins:
    """Return bins from nginx's resolution, or the smallest value above it, to the largest value of a column."""
    smallest, largest = measures.quantiles(column, [0.0, 1.0])
    low = max(smallest or 0.0, LEAST)
    high = max(largest or 0.0, 2 * low)
    return LogBins.between(low, high, count)


def heat(measures: Measures, column: str = "request_time", bins: LogBins | None = None) -> Heat:
    """Count requests by arrival, in windows of equal width, and by the logarithm of one of their times.

    ``bins``: of the time; None: from the smallest to the largest value.
    """
    bins = bins or time_bins(measures, column, BINS)
    width, counts = measures.counts_over_time(column, WINDOWS, bins)
    table = counts.select(
        "arrived",
        (bins.low * (bins.width * pl.col("bin")).exp()).alias("low"),
        (bins.low * (bins.width * (pl.col("bin") + 1)).exp()).alias("high"),
        "requests",
    )
    return Heat(column, table, width)


def heatmap(heat: Heat) -> alt.Chart:
    """Draw cells, the brighter the more requests they have, by the logarithm of their number."""
    name = LINES[heat.column][0]
    # The instants of the data have a resolution of a millisecond: no narrower bin can be drawn.
    milliseconds = max(heat.width / timedelta(milliseconds=1), 1.0)
    return (
        alt.Chart(inline(heat.table, digits=4))
        .mark_rect(stroke=None)
        .transform_calculate(until=f"toNumber(toDate(datum.arrived)) + {milliseconds!r}")
        .encode(
            x=alt.X("arrived:T", title="arrival (UTC)", scale=alt.Scale(type="utc", nice=False)),
            x2=alt.X2("until:T"),
            y=alt.Y("low:Q", title=f"{name} (s)", **log_seconds(nice=False)),
            y2=alt.Y2("high:Q"),
            color=count_colour(),
            tooltip=[
                alt.Tooltip("arrived:T", title="arrived from", format="%H:%M:%S.%L"),
                alt.Tooltip("low:Q", title="from (s)", format=".3~g"),
                alt.Tooltip("high:Q", title="to (s)", format=".3~g"),
                alt.Tooltip("requests:Q", format=","),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
