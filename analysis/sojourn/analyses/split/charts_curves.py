"""Curves of distributions: the complementary distribution and the percentiles, of several times or several logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sojourn.analyses.split.bands import quantile_bands, times_of
from sojourn.analyses.split.charts import Rows, log_seconds
from sojourn.model.measures import Measures
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import LINES, inline
from sojourn.present.chart_sizes import HEIGHT, SMALLEST, WIDTH
from sojourn.present.section import Chart
from sojourn.sources.frame_measures import measured

CCDF_POINTS = 240
PERCENTILE_POINTS = 100
NINES = (2, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)  # one request in this many takes longer
WIDE = 30  # times the median: from here on the axis of times is logarithmic, too
BAND = 0.22  # opacity


@dataclass(frozen=True)
class Series:
    """What the curves of a chart are of: the values of the column ``part``, with their colours and dashes."""

    names: tuple[str, ...]
    colours: tuple[str, ...]
    dashes: tuple[list[int], ...]

    def colour(self, *, banded: bool = False) -> alt.Color:
        """Return the colours, by the field ``part``; ``banded``: the legend shows the lines, not their bands."""
        scale = alt.Scale(domain=list(self.names), range=list(self.colours))
        colour = alt.Color("part:N", title=None, scale=scale)
        lines = alt.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2)
        return colour.legend(lines) if banded else colour

    def dash(self) -> alt.StrokeDash:
        """Return the dashes, by the field ``part``."""
        return alt.StrokeDash("part:N", title=None, scale=alt.Scale(domain=list(self.names), range=list(self.dashes)))


def times_series(columns: Mapping[str, str] | None = None) -> Series:
    """Return the series of times; ``columns``: column -> name of those that are drawn; None: all of ``LINES``."""
    chosen = {name: LINES[name] for name in columns or LINES}
    return Series(
        tuple(columns.values() if columns else (name for name, _, _ in chosen.values())),
        tuple(colour for _, colour, _ in chosen.values()),
        tuple(dash for _, _, dash in chosen.values()),
    )


# Colours of logs (Okabe and Ito 2008), none of them that of a component; dashes for those who do not see the colours.
LOG_COLOURS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F5200", "#808080")
LOG_DASHES = ([1, 0], [8, 3], [2, 2], [10, 3, 2, 3], [5, 5], [12, 2])


def log_series(names: tuple[str, ...]) -> Series:
    """Return the series of logs, at most as many as there are colours."""
    return Series(names, LOG_COLOURS[: len(names)], LOG_DASHES[: len(names)])


def ccdfs(table: pl.DataFrame, series: Series | None = None, bands: pl.DataFrame | None = None) -> Chart:
    """Draw the share of requests that take longer than a time, log-log, as a line for each ``part``.

    Args:
        table: as from ``ccdf_tables``.
        series: names and colours of the lines; None: queueing, service and response time.
        bands: as from ``sojourn.analyses.split.bands.bands_of``, drawn behind the lines; None: none.
    """
    series = series or times_series()
    x = alt.X("seconds:Q", title="time (s)", **log_seconds())
    y = alt.Y(
        "exceeding:Q",
        title="share of requests that took longer",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(tickCount=6, format="~%"),
    )
    lines = (
        alt.Chart(inline(table))
        .mark_line(interpolate="step-after", strokeWidth=2, clip=True)
        .encode(
            x=x,
            y=y,
            color=series.colour(banded=bands is not None),
            strokeDash=series.dash(),
            tooltip=[
                alt.Tooltip("part:N"),
                alt.Tooltip("seconds:Q", title="longer than (s)", format=".4~f"),
                alt.Tooltip("exceeding:Q", title="share", format=".3%"),
            ],
        )
    )
    return _before_band(lines, bands, series, x, y, interpolate="step-after").properties(width=WIDTH, height=HEIGHT)


def _before_band(
    lines: alt.Chart, bands: pl.DataFrame | None, series: Series, x: alt.X, y: alt.Y, **mark: Any
) -> Chart:
    """Return lines, before areas from ``low`` to ``high`` on the same axes."""
    if bands is None:
        return lines
    low = alt.Y("low:Q", title=y["title"], scale=y["scale"], axis=y["axis"])
    behind = (
        alt.Chart(inline(bands.drop_nulls()))
        .mark_area(opacity=BAND, clip=True, **mark)
        .encode(x=x, y=low, y2=alt.Y2("high:Q"), color=series.colour(banded=True))
    )
    return behind + lines


ALL_TIMES = {column: name for column, (name, _, _) in LINES.items()}


def ccdf_tables(rows: Rows, columns: Mapping[str, str] = ALL_TIMES) -> pl.DataFrame:
    """Return ``ccdf_table`` of columns, by their names in ``part``: queueing delay, service time, response time."""
    return pl.concat([ccdf_table(rows, column, name) for column, name in columns.items()])


def ccdf_table(rows: Rows, column: str, part: str) -> pl.DataFrame:
    """Return columns part, seconds, exceeding: the complementary distribution, even in its logarithm."""
    seconds, exceeding = measured(rows).exceeding(column, CCDF_POINTS)
    table = pl.DataFrame(
        {"seconds": seconds, "exceeding": exceeding}, schema={"seconds": pl.Float64, "exceeding": pl.Float64}
    )
    return table.filter(pl.col("seconds") >= SMALLEST).with_columns(part=pl.lit(part))


def percentile_table(measures: Measures, requests: int, columns: Mapping[str, str] = ALL_TIMES) -> pl.DataFrame:
    """Return columns part, share (of requests that are as fast or faster), one_in (1 / (1 - share)), seconds.

    The last point is one request in ``requests``. ``columns``: column -> its name in ``part``.
    """
    if not requests:
        return pl.DataFrame(schema=dict.fromkeys(("share", "one_in", "seconds"), pl.Float64) | {"part": pl.String})
    even = np.geomspace(1, max(requests, 2), PERCENTILE_POINTS).tolist()
    one_in = sorted({*even, *(n for n in NINES if n <= requests)})
    levels = [1 - 1 / n for n in one_in]
    tables = [
        pl.DataFrame({"share": levels, "one_in": one_in, "seconds": measures.quantiles(column, levels)})
        .with_columns(pl.col("seconds").cast(pl.Float64), part=pl.lit(name))
        .drop_nulls()
        for column, name in columns.items()
    ]
    return pl.concat(tables)


def percentile_curve(
    table: pl.DataFrame,
    series: Series | None = None,
    bands: pl.DataFrame | None = None,
    beside: Sequence[pl.DataFrame] = (),
) -> Chart:
    """Draw the curves of ``percentile_table``; each nine takes as much room as another (HdrHistogram, Tene 2013).

    Args:
        table: as from ``percentile_table``.
        series: names and colours of the lines; None: queueing, service and response time.
        bands: as from ``percentile_bands``, drawn behind the lines; None: none.
        beside: tables of charts on the same axes.
    """
    wide = any(_is_wide(each) for each in (table, *beside))
    last = max((point for each in (table, *beside) for point in each["one_in"].to_list()), default=2)
    shares = " : ".join(f"datum.value == {n} ? '{_percentile(n)}'" for n in NINES) + " : ''"
    series = series or times_series()
    x = alt.X(
        "one_in:Q",
        title="percentile",
        scale=alt.Scale(type="log", nice=False, domain=[1, max(last, 2)]),
        axis=alt.Axis(values=[n for n in NINES if n <= last], labelExpr=shares),
    )
    y = alt.Y(
        "seconds:Q",
        title="time (s)",
        scale=alt.Scale(type="log") if wide else alt.Scale(),
        axis=alt.Axis(tickCount=6, format="~g"),
    )
    if wide:
        table = table.with_columns(pl.col("seconds").clip(lower_bound=SMALLEST))
        bands = bands if bands is None else bands.with_columns(pl.col("low", "high").clip(lower_bound=SMALLEST))
    lines = (
        alt.Chart(inline(table))
        .mark_line(strokeWidth=2, clip=True)
        .encode(
            x=x,
            y=y,
            color=series.colour(banded=bands is not None),
            strokeDash=series.dash(),
            tooltip=[
                alt.Tooltip("part:N"),
                alt.Tooltip("share:Q", title="percentile", format=".4~%"),
                alt.Tooltip("seconds:Q", title="at most (s)", format=".4~f"),
            ],
        )
    )
    return _before_band(lines, bands, series, x, y).properties(width=WIDTH, height=HEIGHT)


def _is_wide(table: pl.DataFrame) -> bool:
    """Return whether the axis of the times is logarithmic: by the response time, if it is drawn, else by every line."""
    times = table.filter(pl.col("part") == LINES["request_time"][0])
    times = times if len(times) else table
    middle = times.filter(pl.col("share") <= 0.5)["seconds"].max()
    most = times["seconds"].max()
    return isinstance(middle, float) and isinstance(most, float) and most > WIDE * middle


def percentile_bands(rows: pl.LazyFrame, table: pl.DataFrame, columns: dict[str, str]) -> pl.DataFrame:
    """Return columns part, one_in, low, high (s): the intervals of the quantiles of ``table``.

    Args:
        rows: served requests with components.
        table: as from ``percentile_table``.
        columns: column -> its name in ``part``.
    """
    tables = []
    for column, values in times_of(rows, columns).items():
        levels = table.filter(pl.col("part") == columns[column])
        low, high = quantile_bands(values, levels["share"].to_numpy())
        tables.append(levels.select("part", "one_in").with_columns(low=pl.Series(low), high=pl.Series(high)))
    return pl.concat(tables).with_columns(pl.col("low", "high").fill_nan(None))


def _percentile(one_in: int) -> str:
    """Return the percentile of one in 2, 10, 10,000 as text: 50 %, 90 %, 99.99 %."""
    nines = len(str(one_in)) - 1
    digits = max(nines - 2, 0)
    return f"{100 * (1 - 1 / one_in):.{digits}f} %"
