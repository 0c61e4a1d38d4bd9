"""A view: the requests of a time window with some values, binned for drawing, in a few kilobytes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.datastructures import QueryParams

from sojourn.model.errors import ArgumentError
from sojourn.model.figures import summary
from sojourn.model.instants import of_epoch_us
from sojourn.serve.binning import Area, Binned, binned, values_of
from sojourn.serve.columns import BINS, DIMENSIONS, RequestColumns, edge_of

COLUMNS = 240  # of a heat map
MOST_COLUMNS = 1_000
SHORTEST = 1_000  # us: length of a view, at least
MOST_VALUES = 12  # of a dimension, offered as filters
WITHOUT_WORKERS = ("split",)  # verbs without the option --workers
LATEST = 253_402_300_800_000_000  # us: the end of the year 9999

AREA = ("from", "to", "low", "high")
SELECTION = ("begin", "end", "low", "high")
"""Parameters of an address: what is shown, and what is selected in it."""
Where = Mapping[str, frozenset[str | None]]


@dataclass(frozen=True)
class Options:
    """How the requests were read, as words of a command line.

    Attributes:
        sources: the sources.
        reading: options that every command has that reads these sources.
        workers: options on the number of workers.
        columns: keys of the log that are read besides canonical columns.
    """

    sources: tuple[str, ...]
    reading: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class View:
    """The requests that a page shows.

    Attributes:
        area: arrivals and response times.
        where: dimension -> the values that count; None: a missing value.
    """

    area: Area
    where: Where

    @classmethod
    def of(cls, query: QueryParams, begin: int, end: int, names: Sequence[str] = AREA) -> View:
        """Return the view of an address.

        Args:
            query: ``from`` and ``to`` (unix time, us), ``low`` and ``high`` (s), ``where`` (COLUMN=VALUE, repeated) and
                ``missing`` (COLUMN, repeated); what is missing is not limited.
            begin: the first arrival, unix time, us.
            end: the end of the last arrivals, unix time, us.
            names: of the parameters of the area.

        Raises:
            ArgumentError: a parameter is not valid.
        """
        since, until = (
            whole(query.get(name, ""), name, limit) for name, limit in zip(names, (begin, end), strict=False)
        )
        if until - since < SHORTEST:
            raise ArgumentError(f"{names[1]}: the view ends less than 1 ms after its begin")
        low, high = (
            _seconds(query.get(name, ""), name, limit) for name, limit in zip(names[2:], (0.0, math.inf), strict=True)
        )
        if low >= high:
            raise ArgumentError(f"{names[2]}: {low} is not below {names[3]}, {high}")
        where: dict[str, set[str | None]] = {}
        for text in query.getlist("where"):
            name, equals, value = text.partition("=")
            if not equals:
                raise ArgumentError(f"where: {text[:60]!r} is not COLUMN=VALUE")
            where.setdefault(name, set()).add(value)
        for name in query.getlist("missing"):
            where.setdefault(name, set()).add(None)
        for name in where:
            if name not in DIMENSIONS:
                raise ArgumentError(f"where: {name[:60]!r} is not one of {', '.join(DIMENSIONS)}")
        return cls(Area(since, until, low, high), {name: frozenset(values) for name, values in where.items()})


def overview(columns: RequestColumns, view: View, count: int = COLUMNS) -> dict[str, Any]:
    """Return the requests of a view, binned.

    Returns:
        ``from``, ``width`` (us), ``requests``; ``heat``: column, bin and number of requests of every cell that is not
        empty, and the edges of the bins (s); ``composition``: per column the number of requests, the mean response
        time, queueing delay and service time (s), and the requests without a known queueing delay; ``values``:
        dimension -> [value, requests] of the most frequent; ``more``: dimension -> further values.

    Raises:
        SojournError: numba is not installed.
    """
    bins = binned(columns, columns.combinations.chosen(view.where), view.area, min(max(count, 10), MOST_COLUMNS))
    column, place = np.nonzero(bins.counts)
    occupied = (int(place.min()), int(place.max()) + 1) if len(place) else (0, BINS)
    return {
        "from": view.area.begin,
        "to": view.area.end,
        "width": bins.width,
        "requests": bins.requests,
        "heat": {
            "first": occupied[0],
            "edges": [edge_of(number) for number in range(occupied[0], occupied[1] + 1)],
            "column": column.tolist(),
            "bin": (place - occupied[0]).tolist(),
            "requests": bins.counts[column, place].tolist(),
        },
        "composition": _composition(bins),
        **_values(columns, bins),
    }


def figures(columns: RequestColumns, view: View) -> dict[str, Any]:
    """Return number, mean and quantiles (s) of the times of a view: response, queueing, service; None: unknown."""
    result: dict[str, Any] = {}
    for name, values in values_of(columns, columns.combinations.chosen(view.where), view.area).items():
        times = values[~np.isnan(values)]
        result.setdefault("requests", len(values))
        result[name] = {"requests": len(times), **summary(times)}
    return result


def command_of(verb: str, options: Options, view: View) -> str:
    """Return the command line that computes a verb for the requests of a view; empty if no command selects them."""
    workers = () if verb in WITHOUT_WORKERS else options.workers
    words = [
        "sojourn",
        verb,
        *options.sources,
        *options.reading,
        *workers,
        "--since",
        iso(view.area.begin),
        "--until",
        iso(view.area.end),
    ]
    for name, values in view.where.items():
        if len(values) > 1 or None in values:
            return ""
        words += ["--where", f"{name}={next(iter(values))}"]
    return shlex.join(words)


def iso(instant: int) -> str:
    """Return a unix time (us) as text: ``2026-01-31T12:00:00.000001Z``."""
    return of_epoch_us(instant).isoformat().replace("+00:00", "Z")


def whole(text: str, name: str, otherwise: int) -> int:
    """Return the whole number of a parameter, such as a unix time in us; ``otherwise`` if it is empty.

    Raises:
        ArgumentError: it is none, or later than the year 9999.
    """
    if not text:
        return otherwise
    if not text.isascii() or not text.isdigit() or int(text[:20]) > LATEST:
        raise ArgumentError(f"{name}: {text[:60]!r} is not a whole number")
    return int(text)


def _composition(bins: Binned) -> dict[str, list[Any]]:
    requests = bins.counts.sum(axis=1)
    means = bins.sums / np.maximum(requests, 1)[:, None]
    return {
        "requests": requests.tolist(),
        "unknown": bins.unknown.tolist(),
        **{name: means[:, place].tolist() for place, name in enumerate(("response", "queueing", "service"))},
    }


def _values(columns: RequestColumns, bins: Binned) -> dict[str, Any]:
    values, more = {}, {}
    for name in DIMENSIONS:
        counts = columns.combinations.counts(name, bins.by_combination)
        largest = np.argsort(-counts, kind="stable")
        largest = largest[counts[largest] > 0]
        texts = columns.combinations.values[name]
        values[name] = [[texts[code], int(counts[code])] for code in largest[:MOST_VALUES].tolist()]
        more[name] = max(len(largest) - MOST_VALUES, 0)
    return {"values": values, "more": more}


def _seconds(text: str, name: str, otherwise: float) -> float:
    if not text:
        return otherwise
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ArgumentError(f"{name}: {text[:60]!r} is not a number of seconds")
    return value
