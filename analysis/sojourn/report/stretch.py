"""The stretch of a large log of which a report places every request in time: that in which requests waited most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from sojourn.model.arrays import Floats
from sojourn.model.formatting import RESOLUTION, counted, interval_text
from sojourn.present.section import Section
from sojourn.sources.open_requests import OpenedRequests
from sojourn.sources.opening import requests_from

WINDOWS_IN_STRETCH = 20
MOST_WINDOWS = 2_000


@dataclass(frozen=True)
class Stretch:
    """The requests of an interval.

    Attributes:
        begin, end: they arrived from ``begin`` on and before ``end``.
        requests: their number.
        of: the number of all requests.
        most_of: what no stretch of as many has more of.
    """

    begin: datetime
    end: datetime
    requests: int
    of: int
    most_of: str

    @property
    def sentence(self) -> str:
        """What is placed in time, and how to place others."""
        of = counted(self.of, "request")
        return (
            f"Of {self.requests:,} of {of}: those that arrived {interval_text(self.begin, self.end)}. "
            f"No stretch of as many has more {self.most_of}. --since and --until choose another, --most a longer one."
        )

    def part_of(self, requests: OpenedRequests) -> OpenedRequests:
        """Return the requests of the interval."""
        return requests_from(requests, since=self.begin, until=self.end)

    def marked(self, section: Section) -> Section:
        """Return a section of these requests that says so."""
        of = f"(Requests {interval_text(self.begin, self.end)}.)"
        return replace(
            section,
            sentence=f"{section.sentence} {of}",
            measures=f"{self.sentence} {section.measures}".strip(),
            short=f"{section.short} {of}" if section.short else "",
        )


def stretch_of(requests: OpenedRequests, most: int) -> Stretch | None:
    """Return the stretch with the most waiting that has at most so many requests; None where all are at most so many.

    Where requests hardly wait, it is the one with the most service time. Requests that ``where`` leaves out count: they
    are placed in time, too. A stretch has at least one window of ``parts_over_time``, with all its requests.

    Args:
        requests: split requests.
        most: the number.
    """
    whole = requests.whole
    overall = whole.once("overall", whole.measures.overall)
    number, last = overall["requests"], overall["last"]
    if number <= most:
        return None
    windows = min(-(-number * WINDOWS_IN_STRETCH // most), MOST_WINDOWS)
    table = _windows(whole, windows)
    arrived, count = table["arrived"].to_list(), _floats(table["requests"])
    own = table if requests is whole else _windows(requests, windows)
    most_of, weights = _most_of(own)
    weight = np.zeros(len(count))
    places = np.searchsorted(table["arrived"].to_numpy(), own["arrived"].to_numpy(), "right") - 1
    np.add.at(weight, np.maximum(places, 0), weights)
    low, high = heaviest(count, weight, most)
    return Stretch(
        begin=arrived[low],
        end=arrived[high] if high < len(arrived) else last + timedelta(microseconds=1),
        requests=int(count[low:high].sum()),
        of=int(number),
        most_of=most_of,
    )


def _most_of(windows: pl.DataFrame) -> tuple[str, Floats]:
    """Return what a stretch is chosen for, and how much of it each window has."""
    requests = _floats(windows["requests"])
    for what, column in (("waiting", "queueing delay"), ("service time", "service time")):
        mean = _floats(windows[column]).clip(0.0)
        if mean.max() > RESOLUTION:
            return what, requests * mean
    return "requests", requests


def _floats(column: pl.Series) -> Floats:
    return column.cast(pl.Float64).fill_null(0.0).to_numpy()


def _windows(requests: OpenedRequests, windows: int) -> pl.DataFrame:
    return requests.measures.parts_over_time(windows, p99=False).drop_nulls("arrived")


def heaviest(count: Floats, weight: Floats, most: float) -> tuple[int, int]:
    """Return the first of the adjacent windows with the largest total weight, and the one after the last.

    Args:
        count: requests of each window.
        weight: of each window, 0 or more.
        most: requests that they may have together; one window may have more.
    """
    best, low, heavy = (0, 1), 0, -1.0
    counts, weights = np.concatenate([[0.0], count.cumsum()]), np.concatenate([[0.0], weight.cumsum()])
    for high in range(1, len(count) + 1):
        while counts[high] - counts[low] > most and low < high - 1:
            low += 1
        if weights[high] - weights[low] > heavy:
            best, heavy = (low, high), float(weights[high] - weights[low])
    return best
