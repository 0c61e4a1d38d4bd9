"""Columns, numbers and names, fitted into the available width."""

from __future__ import annotations

import contextlib
import locale
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from rich.cells import set_cell_size

from sojourn.model.formatting import percent, printable, shortened, time_in_ms, without_noise
from sojourn.present import palette
from sojourn.watch.figures import Figures

WIDTH = 7  # of a number, the space before it included
LEAST_NAME = 12
MOST_NAME = 48
LONG = 99.95  # s; times from here on are shown in seconds

SPARKS = "▁▂▃▄▅▆▇█"
ASCII_SPARKS = ".:-=+*#%@"
PLAIN = str.maketrans({"–": "-", "…": "~", "±": "+-", "≤": "<=", "\u00a0": " "})

BOLD, DIM, REVERSE = "bold", "dim", "reverse"
QUEUEING, SERVICE = palette.QUEUEING, palette.SERVICE
BAD, GOOD = f"bold {QUEUEING}", "bold #009E73"


class Part(NamedTuple):
    """Text of one style (as Rich writes it), and the action of a click on it, with its arguments."""

    text: str
    style: str = ""
    action: tuple[str, tuple[str, ...]] | None = None


Line = tuple[Part, ...]


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        key: name to sort by.
        alone: its one-line heading.
        above, heading: its two-line heading; neighbours share the text above.
        phrase: its name in a sentence.
        style: of its numbers.
        value: function of a group's row (as in ``Figures.groups``) and the window's length, s.
        text: formats the value.
    """

    key: str
    alone: str
    above: str
    heading: str
    phrase: str
    style: str
    value: Callable[[dict[str, Any], float], float | None]
    text: Callable[[float | None], str]


def _of(distribution: str, figure: str) -> Callable[[dict[str, Any], float], float | None]:
    return lambda row, _seconds: row[distribution][figure]


def _queued(row: dict[str, Any], _seconds: float) -> float | None:
    return without_noise(row["queueing_share"], row["queueing_delay"]["mean"])


def rate_text(rate: float | None) -> str:
    """Format requests per second with three significant digits."""
    if rate is None:
        return "–"
    if rate == 0:
        return "0"
    return f"{rate:,.0f}" if rate >= 99.5 else f"{rate:.1f}" if rate >= 9.95 else f"{rate:.2f}"


def time_text(seconds: float | None) -> str:
    """Format a time in ms without its unit, as ``time_in_ms`` does; from ``LONG`` on, in seconds with it."""
    return f"{seconds:,.0f} s" if seconds is not None and seconds >= LONG else time_in_ms(seconds)


def share_text(share: float | None) -> str:
    """Format a share in per cent."""
    return "–" if share is None or not math.isfinite(share) else percent(share)


COLUMNS = (
    Column("rate", "req/s", "", "req/s", "requests", "", lambda row, seconds: row["requests"] / seconds, rate_text),
    Column("p50", "r p50", "response", "p50", "response p50", "", _of("response_time", "p50"), time_text),
    Column("p99", "r p99", "response", "p99", "response p99", "", _of("response_time", "p99"), time_text),
    Column(
        "queueing", "q mean", "queueing", "mean", "mean queueing", QUEUEING, _of("queueing_delay", "mean"), time_text
    ),
    Column("queueing99", "q p99", "queueing", "p99", "queueing p99", QUEUEING, _of("queueing_delay", "p99"), time_text),
    Column("service", "s mean", "service", "mean", "mean service", SERVICE, _of("service_time", "mean"), time_text),
    Column("service99", "s p99", "service", "p99", "service p99", SERVICE, _of("service_time", "p99"), time_text),
    Column(
        "share", "queued", "queued", "share", "share of queueing", "", _queued, share_text
    ),
    Column("caused", "caused", "caused", "1 min", "waiting caused", QUEUEING, lambda row, _: row["caused"], share_text),
    Column(
        "errors", "errors", "", "errors", "errors", "",
        lambda row, _: row["errors"] / row["requests"] if row["requests"] else None, share_text,
    ),
)  # fmt: skip
# Headings of columns in ms -> the short form that fits one column.
TIMES = {"response": "resp.", "queueing": "queue", "service": "serv."}
# Columns by priority, for widths that cannot hold all.
RANK = ("rate", "p99", "queueing", "caused", "share", "errors", "queueing99", "service", "p50", "service99")
SECONDS = "seconds"
SORTS = (SECONDS, *(column.key for column in COLUMNS))
"""Sort keys of groups: the seconds of all their requests, or a column."""


def sort_words(sort: str) -> str:
    """Return the phrase for a sort key."""
    return next((column.phrase for column in COLUMNS if column.key == sort), "seconds")


def columns_in(width: int) -> tuple[Column, ...]:
    """Return the columns that fit next to a name."""
    count = max(min((width - LEAST_NAME) // WIDTH, len(COLUMNS)), 0)
    return tuple(column for column in COLUMNS if column.key in RANK[:count])


def name_width(width: int, count: int) -> int:
    """Return the width left for a name next to ``count`` numbers."""
    return max(min(width - count * WIDTH, MOST_NAME), 1)


def name_cell(value: object, width: int) -> str:
    """Return a printable name in exactly ``width`` cells."""
    text = "–" if value is None or value == "" else printable(value, 200)
    return set_cell_size(shortened(text, width), width)


def headings_above(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Return (text, width) of the upper headings: neighbours with the same text share one, with its unit."""
    above = []
    for text, group in groupby(texts):
        width = WIDTH * len(list(group))
        long = f"{text} ms" if text in TIMES else text
        above.append((long if len(long) < width else TIMES.get(text, text), width))
    return above


def number(text: str) -> str:
    """Right-align a number in its column."""
    return text.rjust(WIDTH)


def row_of(figures: Figures) -> dict[str, Any]:
    """Return the figures of a window as a row of the table."""
    return {
        "requests": figures.requests,
        "errors": figures.errors,
        "queueing_share": figures.share,
        "response_time": figures.response,
        "queueing_delay": figures.queueing,
        "service_time": figures.service,
        "caused": None,
    }


def sorted_rows(rows: Sequence[dict[str, Any]], sort: str, seconds: float) -> list[dict[str, Any]]:
    """Sort groups by a column, largest first, without a value last; by seconds they keep their order."""
    column = next((column for column in COLUMNS if column.key == sort), None)
    if column is None:
        return list(rows)

    def place(row: dict[str, Any]) -> float:
        value = column.value(row, seconds)
        return math.inf if value is None or math.isnan(value) else -value

    return sorted(rows, key=place)


def sparkline(values: Sequence[float | None], width: int, *, ascii_only: bool) -> str:
    """Draw bars from 0 to the largest value; each cell shows its largest value, a blank has none."""
    marks = ASCII_SPARKS if ascii_only else SPARKS
    each = -(-len(values) // max(width, 1))
    places = [[v for v in values[k : k + each] if v is not None] for k in range(0, len(values), each)]
    top = max((max(place) for place in places if place), default=0.0)
    steps = (len(marks) - 1) / top if top > 0 else 0.0
    return "".join(marks[round(max(*place, 0.0, 0.0) * steps)] if place else " " for place in places)


def plain_text(text: str) -> str:
    """Convert text to ASCII, for terminals without UTF-8."""
    return text.translate(PLAIN).encode("ascii", "replace").decode()


def speaks_utf8() -> bool:
    """Return whether the terminal's character set is UTF-8."""
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_CTYPE, "")
    return locale.nl_langinfo(locale.CODESET).upper().replace("-", "") == "UTF8"
