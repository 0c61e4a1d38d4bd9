"""Measures of a split: sums, figures and counts over requests that carry their components.

``split`` assembles them into a result, ``audit`` judges them, charts draw them. Two things compute them: a frame
(``sojourn.sources.frame_measures``) and a store (``sojourn.sources.store_measures``), which sends no row for any of it.
All but ``overall`` leave upgraded connections (101) out. Durations are seconds, instants UTC datetimes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from sojourn.model.arrays import Floats, Ints
from sojourn.model.components import COMPONENTS
from sojourn.model.coverage import Coverage, Waits
from sojourn.model.figures import Summary
from sojourn.model.one_worker import Overlap
from sojourn.model.verdict import Evidence

Row = dict[str, Any]

SUMMARY_COLUMNS = ("queueing_delay", *COMPONENTS)
STATUS_CLASSES = (1, 2, 3, 4, 5)  # hundreds
GROUP_COLUMNS = ("request_time", "queueing_delay", "service_time")
# Sums of whole microseconds come out this near, in seconds or in parts of a window: what is nearer to 0 is 0.
ROUNDING = 1e-7
EDGE = 0.25  # part of the window over which the weight of Little's law rises, and falls again at the end
INSTANTS = {
    "time": ("nginx's end of the request", "log $msec"),
    "request_start": ("the stamp", "send t=${msec}"),
    "app_start": ("the app's clock", "let the app read its clock in microseconds"),
}
"""Instants of a request: what each is, and what makes it finer."""


@dataclass(frozen=True)
class LogBins:
    """``count`` logarithmic bins of times: the first begins at ``low`` (s), each is ``width`` in ln(s).

    What lies outside belongs to the first or the last, negative times too.
    """

    low: float
    width: float
    count: int

    @classmethod
    def between(cls, low: float, high: float, count: int) -> LogBins:
        """Return ``count`` bins from ``low`` to ``high``, s."""
        return cls(low, float(np.log(high / low)) / count, count)

    def edge(self, number: int) -> float:
        """Return where a bin begins, s; ``count``: where the last one ends."""
        return float(self.low * np.exp(self.width * number))


@dataclass(frozen=True)
class Hexagons:
    """A lattice of upright hexagons over ln(service time / low) and ln(queueing delay / low).

    They are ``across`` wide, and ``up`` is the distance between a row and the second next one, both in ln(s). Times
    below ``low`` (s) count as ``low``.
    """

    low: float
    across: float
    up: float


class Means(NamedTuple):
    """Means over requests, s.

    Attributes:
        requests: their number.
        components: component -> mean, unknown as 0.
        evidence: what tells the causes of a phase apart.
        waits: how much of it is queueing, by the requests whose wait is known.
    """

    requests: int
    components: dict[str, float]
    evidence: Evidence
    waits: Waits


class Measures(Protocol):
    """Aggregates over split requests."""

    @property
    def clock(self) -> pl.DataFrame:
        """Clock offsets used, as from ``sojourn.components.clock_offsets.offsets.clock_offsets``."""

    @property
    def notes(self) -> list[str]:
        """Notes on how the figures were computed; empty for exact ones."""

    def overall(self) -> Row:
        """Return, of all: requests, upgraded, first (arrival), last (end), wasted (s), source/<queue source>.

        Also several (requests with several attempts) and class/<class> (of ``STATUS_CLASSES``: requests with such a
        status).
        """

    def figures(self) -> dict[str, Summary]:
        """Return the figures of ``request_time`` and of every column of ``SUMMARY_COLUMNS``, nulls left out."""

    def means(self, at_least: float | None = None) -> Means:
        """Return the means of the requests that took ``at_least`` (s; None: all)."""

    def grouped(self, group: str, limit: int) -> tuple[list[Row], int]:
        """Return the rows of a group's values, most seconds first, and the number of values.

        Columns: the group, requests, share (of queueing, of all seconds; None where no
        delay is known), and ``column/figure`` of ``GROUP_COLUMNS``.
        """

    def grouped_each(self, groups: Sequence[str], limit: int) -> list[tuple[list[Row], int]]:
        """Return ``grouped`` of several groups, in their order."""

    def checks(self) -> Row:
        """Return the figures of the audit.

        error (largest miss of the identity, s), negative/<component> (requests below -``ROUNDING``), garbled
        (requests), differ (median of queue by stamp less queue by durations, s), first and last (arrival), p99 (s),
        duplicates (records that came again; None: a store had seen to it before).
        Of each instant of ``INSTANTS``: <instant>/count, and <instant>/<tick> (whether all are
        multiples of that many us).
        """

    def coverage(self) -> Coverage:
        """Return the coverage of the requests of each backend."""

    def between(self, begin: datetime, end: datetime) -> Measures:
        """Return the aggregates of the requests that arrived in [begin, end), by the same clock offsets."""

    def phases(self, instant: str, tick: int) -> int:
        """Return how many of the ten last digits occur among an instant's multiples of ``tick`` (us)."""

    def little(self, begin: datetime, seconds: float) -> Row:
        """Sum over the window of ``seconds`` from ``begin``, weighted by a trapezoid (``EDGE``).

        arrivals (requests with a weight above ``ROUNDING``), weight (of arrivals, in requests), response (weight x s),
        present (requests in the system, averaged over the window with that weight).
        """

    def windows(self, begin: datetime, end: datetime, count: int) -> pl.DataFrame:
        """Return columns window (0 … count - 1), arrivals, response time (mean, s), of equal windows in [begin, end).

        Windows without an arrival are left out.
        """

    def backends(self, first: datetime) -> tuple[float, list[tuple[str | None, int, float]]]:
        """Return the seconds from ``first`` to the last free worker; per backend: upstream, workers, busy (s).

        ``busy`` counts services only, until the release where a span shows it: bodies and work after the answer without
        a span are not in it (``sojourn.timeline.holds``).
        """

    def overlaps(self) -> dict[str | None, Overlap]:
        """Return backend -> requests that its workers served at the same time, by the first ``LOOKED_AT`` requests."""

    def response_range(self) -> tuple[float, float] | None:
        """Return the shortest and longest response time, s."""

    def response_bins(self, low: float, width: float, *, logarithmic: bool, count: int) -> pl.DataFrame:
        """Return columns bin (0 … count - 1), requests, total, queueing delay, service time (sums, s).

        A bin is ``width`` wide, in seconds or, when logarithmic, in ln(seconds); the first begins at ``low`` (s).
        """

    def exceeding(self, column: str, points: int) -> tuple[Floats, Floats]:
        """Return at most ``points`` values of a column (s), ascending, and the share of values that are larger."""

    def parts_by(self, group: str, limit: int) -> pl.DataFrame:
        """Return columns group (text, – for none), requests, total, response, queueing delay, service time (means)."""

    def parts_over_time(self, windows: int, *, p99: bool = True) -> pl.DataFrame:
        """Return columns arrived (window's begin), requests, p99, response, queueing delay, service time (means).

        Without ``p99``, that column is missing: for it the response times of all requests are held at once.
        """

    def quantiles(self, column: str, levels: Sequence[float]) -> list[float | None]:
        """Return the quantiles of a column at ``levels`` (0 … 1), interpolated linearly; None without values."""

    def counts_over_time(self, column: str, windows: int, bins: LogBins) -> tuple[timedelta, pl.DataFrame]:
        """Return the width of a window, and columns arrived (its begin), bin (of a value), requests; without nulls.

        Windows are those of ``parts_over_time``.
        """

    def bins_by(self, group: str, limit: int, column: str, bins: LogBins) -> pl.DataFrame:
        """Return columns group (text, – for none), bin (of a value), requests, total, queueing delay, service time.

        The last three are sums (s); total is of response times. Groups with the most seconds first; without nulls.
        """

    def hexagons(self, lattice: Hexagons) -> pl.DataFrame:
        """Return columns across, up, requests, by service time (across) and queueing delay (up); without nulls.

        The centre of a hexagon lies at across / 2 times its width and up / 2 times the lattice's ``up``: both numbers
        are even or both are odd. A point belongs to the hexagon whose centre is nearest (Carr et al. 1987).
        """


def exceeding_ranks(count: int, points: int) -> Ints:
    """Return ranks (0: the smallest of ``count`` values), even in the logarithm of the share that is larger."""
    if not count:
        return np.array([], np.int64)
    return np.unique(count - np.geomspace(count, 1, min(points, count)).round().astype(np.int64))


def microseconds_between(earlier: datetime, later: datetime) -> int:
    """Return the whole microseconds from one instant to another."""
    return (later - earlier) // timedelta(microseconds=1)


def window_width(first: datetime, last: datetime, windows: int) -> int:
    """Return whole microseconds such that ``windows`` of them cover first to last."""
    return max(-(-microseconds_between(first, last) // windows), 1)
