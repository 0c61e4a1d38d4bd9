"""Common parts of charts: inline data, colours of components, dashes of lines."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import polars as pl

from sojourn.present.chart_libraries import alt
from sojourn.present.palette import PARTS, QUEUEING, RESPONSE, SERVICE

STACKED = tuple(reversed(PARTS))  # from the bottom: everything else, service time, queueing delay on top
MEASURED = ("queueing delay", "service time")  # the measured parts; the rest is "everything else"
# From few to many on a light background, even in lightness, after cividis (Nuñez, Anderton and Renslow 2018).
COUNTS = ["#eee8c8", "#c4b98a", "#8e8a79", "#5a6071", "#273a6b", "#00204d"]
TIME = "%Y-%m-%dT%H:%M:%S%.3fZ"

# A line over an area or a bar, and its halo: visible on blue and on vermillion, on light and on dark.
INK, HALO = "#111111", "#ffffff"

# Column -> label, colour and dashes: crossing lines differ in more than colour.
LINES = {
    "queueing_delay": ("queueing delay", QUEUEING, [1, 0]),
    "service_time": ("service time", SERVICE, [8, 3]),
    "request_time": ("response time", RESPONSE, [2, 2]),
}


def inline(table: pl.DataFrame, digits: int = 6) -> alt.InlineData:
    """Return inline data with floats of few digits and instants as text: a third of the bytes."""
    short = table.with_columns(pl.col(pl.Float64).round_sig_figs(digits), pl.col(pl.Datetime).dt.strftime(TIME))
    return _shared_data()(values=short.to_dicts())


@functools.cache
def _shared_data() -> type[alt.InlineData]:
    """Return the class of inline data that copies of a chart share; Altair copies charts whenever it layers them."""

    class SharedData(alt.InlineData):
        def __deepcopy__(self, _: Any = None) -> SharedData:
            return self

    return SharedData


def part_shares(row: Mapping[str, Any]) -> dict[str, float]:
    """Return part -> share of the time, with a sum of 1, of a row with total and the ``MEASURED`` parts, s."""
    shares = {part: max(row[part], 0.0) / row["total"] if row["total"] > 0 else 0.0 for part in MEASURED}
    shares["everything else"] = max(1.0 - sum(shares.values()), 0.0)
    whole = sum(shares.values())  # above 1 if clock error makes the app's part longer than the response
    return {part: share / whole for part, share in shares.items()}


def part_colour() -> alt.Color:
    """Return the colours of queueing delay, service time and everything else, by the field ``part``."""
    return alt.Color("part:N", title=None, scale=alt.Scale(domain=list(PARTS), range=list(PARTS.values())))


def count_colour() -> alt.Color:
    """Return the colour scale of the field ``requests``, ordered by lightness for all readers.

    The theme directs it (``sojourn.present.drawing.specification``): more requests contrast more with the background.
    """
    return alt.Color(
        "requests:Q",
        title="requests",
        scale=alt.Scale(type="log", range=COUNTS, interpolate="rgb"),
        legend=alt.Legend(tickCount=3, format="~s", gradientLength=160),
    )


def line_colour() -> alt.Color:
    """Return the colours of ``LINES``, by the field ``part``."""
    return alt.Color("part:N", title=None, scale=_scale(1))


def line_dash() -> alt.StrokeDash:
    """Return the dashes of ``LINES``, by the field ``part``."""
    return alt.StrokeDash("part:N", title=None, scale=_scale(2))


def _scale(place: int) -> alt.Scale:
    return alt.Scale(domain=[line[0] for line in LINES.values()], range=[line[place] for line in LINES.values()])
