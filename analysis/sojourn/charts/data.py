"""What charts share: data as they are written into a chart, colours of parts, lines told apart without colour."""

from __future__ import annotations

import altair as alt
import polars as pl

from sojourn.palette import PARTS, QUEUEING, RESPONSE, SERVICE

STACKED = tuple(reversed(PARTS))  # from the bottom: everything else, service time, queueing delay on top
TIME = "%Y-%m-%dT%H:%M:%S%.3fZ"

# Column -> what it is called, its colour, and its dashes: lines that cross are told apart without their colour.
LINES = {
    "queueing_delay": ("queueing delay", QUEUEING, [1, 0]),
    "service_time": ("service time", SERVICE, [8, 3]),
    "request_time": ("response time", RESPONSE, [2, 2]),
}


def inline(table: pl.DataFrame, digits: int = 6) -> alt.InlineData:
    """Inline data, floats cut to the digits that matter and instants as text: a third of the bytes."""
    short = table.with_columns(pl.col(pl.Float64).round_sig_figs(digits), pl.col(pl.Datetime).dt.strftime(TIME))
    return alt.InlineData(values=short.to_dicts())


def part_colour() -> alt.Color:
    """Queueing delay, service time and everything else in their colours, by the field ``part``."""
    return alt.Color("part:N", title=None, scale=alt.Scale(domain=list(PARTS), range=list(PARTS.values())))


def line_colour() -> alt.Color:
    """The colours of ``LINES``, by the field ``part``."""
    return alt.Color("part:N", title=None, scale=_scale(1))


def line_dash() -> alt.StrokeDash:
    """The dashes of ``LINES``, by the field ``part``."""
    return alt.StrokeDash("part:N", title=None, scale=_scale(2))


def _scale(place: int) -> alt.Scale:
    return alt.Scale(domain=[line[0] for line in LINES.values()], range=[line[place] for line in LINES.values()])
