"""Find the incident of a log: the interval in which requests waited far longer than in the rest, as more work arrived.

The log is divided into windows of equal width by arrival, with ``REQUESTS`` requests on average. The usual wait is the
median of the windows' mean waits, so that no interval of less than half of the log can hide itself. An incident begins
and ends with hysteresis: it contains a window whose mean wait is ``ENTER`` times the usual one, and extends to both
sides while the mean wait is ``LEAVE`` times the usual one.

A stationary queue has excursions, too. The interval counts only if it is neither short (``FEWEST`` requests) nor most
of the log (``LONGEST``), if at least ``PART`` of all waiting is in it, and by two figures together (``EVIDENT``): how
many times the wait of the rest its mean wait is, and by how many standard deviations the requests or their services
until its peak exceed those of as many other windows. Of 3,552 simulated stationary logs of 1,000 to 30,000 requests at
loads up to 0.95, 8 had such an interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from sojourn.model.arrays import Bools, Floats
from sojourn.model.formatting import duration, interval_text
from sojourn.model.measures import Measures, microseconds_between, window_width

REQUESTS = 30  # in a window, on average
WINDOWS = (20, 120)  # least and most
ENTER, LEAVE = 10.0, 3.0
ENTER_AT, LEAVE_AT = 0.05, 0.01  # s: a shorter wait is no incident whatever is usual
EVIDENT = ((8.0, 6.5), (25.0, 5.0))  # contrast of the waits, and standard deviations of the load: any of the pairs
PART = 0.5  # of all waiting
LONGEST = 0.5  # of the log's time
FEWEST = 100  # requests
FEWEST_OTHERS = 8  # windows, whose deviation is compared with
MICROSECOND = timedelta(microseconds=1)
LEAST_RATIO = 1.2  # times the usual rate or service: less is not named as a cause


@dataclass(frozen=True)
class Incident:
    """The interval of an incident, by arrival.

    Attributes:
        begin, end: requests that arrived from ``begin`` on and before ``end``.
        requests: their number.
        wait, usual_wait: mean queueing delay of these, and of all others, s; an unknown wait counts as 0.
        share_of_waiting: of all waiting, the part of these.
        arrivals: rate of the arrivals until the peak, relative to the usual one.
        services: mean service time of these, relative to the usual one; None where it is unknown.
    """

    begin: datetime
    end: datetime
    requests: int
    wait: float
    usual_wait: float
    share_of_waiting: float
    arrivals: float
    services: float | None

    @property
    def interval(self) -> str:
        """Its begin and end: "from 00:01:08 to 00:01:40 UTC"."""
        return interval_text(self.begin, self.end)

    @property
    def sentence(self) -> str:
        """The incident in one sentence."""
        parts = [f"{self.arrivals:.2g} times as many requests arrived"] if self.arrivals >= LEAST_RATIO else []
        if self.services is not None and self.services >= LEAST_RATIO:
            parts.append(f"services took {self.services:.2g} times as long")
        before = f", when {' and '.join(parts)}," if parts else ""
        return (
            f"In an incident {self.interval}{before} requests waited {duration(self.wait)} on average; "
            f"otherwise {duration(max(self.usual_wait, 0.0))}."
        )


def incident_of(measures: Measures, first: datetime, last: datetime, requests: int) -> Incident | None:
    """Return the incident of a log; None without one.

    Args:
        measures: aggregates of the requests.
        first: their first arrival.
        last: their last arrival.
        requests: their number.
    """
    windows = int(np.clip(requests // REQUESTS, *WINDOWS))
    if requests < 2 * FEWEST or last <= first:
        return None
    table = measures.parts_over_time(windows, p99=False)
    width = window_width(first, last, windows)
    places = np.array([microseconds_between(first, each) // width for each in table["arrived"]], np.int64)
    count, waited, served = (np.zeros(max(windows, int(places.max()) + 1)) for _ in range(3))
    arrived = table["requests"].to_numpy()
    for sums, values in ((count, 1.0), (waited, table["queueing delay"]), (served, table["service time"])):
        np.add.at(sums, places, arrived * np.asarray(values))
    bounds = interval(count, waited, served)
    if bounds is None:
        return None
    low, peak, high = bounds
    inside = _windows_of(count, low, high)
    wait, usual_wait = _waits(count, waited, inside)
    rising = slice(max(low - 1, 0), peak + 1)
    rate, usual_rate = count[rising].mean(), count[~inside].mean()
    usual_service = served[~inside].sum() / max(count[~inside].sum(), 1.0)
    services = served[rising].sum() / count[rising].sum() / usual_service if usual_service > 0 else None
    step = timedelta(microseconds=width)
    return Incident(
        begin=first + low * step,
        end=min(first + high * step, last + MICROSECOND),
        requests=int(count[inside].sum()),
        wait=wait,
        usual_wait=usual_wait,
        share_of_waiting=float(waited[inside].sum() / waited.sum()),
        arrivals=float(rate / usual_rate) if usual_rate > 0 else float("inf"),
        services=None if services is None else float(services),
    )


def interval(count: Floats, waited: Floats, served: Floats) -> tuple[int, int, int] | None:
    """Return the first window of the incident, the window of its peak, and the end; None without an incident.

    Args:
        count: requests of each window.
        waited: their waiting, s.
        served: their service time, s.
    """
    mean = waited / np.maximum(count, 1)
    usual = max(float(np.median(mean)), 0.0)
    enters = mean >= max(ENTER * usual, ENTER_AT)
    if not enters.any():
        return None
    edges = np.flatnonzero(np.diff(np.r_[False, mean >= max(LEAVE * usual, LEAVE_AT), False]))
    runs = [(int(low), int(high)) for low, high in zip(edges[::2], edges[1::2], strict=True)]
    low, high = max((run for run in runs if enters[slice(*run)].any()), key=lambda run: waited[slice(*run)].sum())
    inside = _windows_of(count, low, high)
    wait, usual_wait = _waits(count, waited, inside)
    peak = low + int(np.argmax(mean[low:high]))
    is_incident = (
        count[inside].sum() >= FEWEST
        and high - low <= LONGEST * len(count)
        and waited[inside].sum() >= PART * waited.sum()
    )
    surplus = max(_surplus(each, low, peak, inside) for each in (count, served))
    is_evident = any(wait >= contrast * usual_wait and surplus >= least for contrast, least in EVIDENT)
    return (low, peak, high) if is_incident and is_evident else None


def _windows_of(count: Floats, low: int, high: int) -> Bools:
    """Return which of the windows are in an interval."""
    places = np.arange(len(count))
    return (places >= low) & (places < high)


def _waits(count: Floats, waited: Floats, inside: Bools) -> tuple[float, float]:
    """Return the mean wait of the requests in some windows, and in the others, s."""
    return (
        float(waited[inside].sum() / count[inside].sum()),
        float(waited[~inside].sum() / max(count[~inside].sum(), 1.0)),
    )


def _surplus(values: Floats, low: int, peak: int, inside: Bools) -> float:
    """Return by how many standard deviations the windows until the peak exceed as many others; 0 of too few others."""
    before = max(low - 1, 0)
    others = values[~inside]
    if len(others) < FEWEST_OTHERS or others.std() == 0:
        return 0.0
    rising = values[before : peak + 1]
    return float((rising.sum() - len(rising) * others.mean()) / (others.std(ddof=1) * np.sqrt(len(rising))))
