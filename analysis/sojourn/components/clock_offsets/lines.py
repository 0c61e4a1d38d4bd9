"""Which straight lines of offset against time pass between two envelopes.

A window of time says: the offset was at least ``lower`` and at most ``upper``. Of a line with slope d through all of a
clock's windows, the bounds at instant 0 are max(lower - d x) and min(upper - d x); where the first exceeds the second,
the windows contradict that slope by the difference. It is a convex function of d, so its least value results from
narrowing an interval. Paxson (1998) takes lower envelopes, Moon, Skelly and Towsley (1999, "Estimation and removal of
clock skew from network delay measurements", section IV) the line under all points that is nearest to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sojourn.model.arrays import Bools, Floats, Ints

DRIFT_LIMIT = 500e-6  # s/s: a clock that is slewed runs at most so much fast or slow (RFC 5905, section 11.3)
GOLDEN = (5**0.5 - 1) / 2
NARROWINGS = 50
HALVINGS = 30  # of ``LIMITS``: to 1e-12 s/s


@dataclass(frozen=True)
class Envelopes:
    """Bounds of the clock offset of one pair of hosts, window by window; n windows, by time.

    Attributes:
        earliest, latest: us since 1970, of the instants at which the app read its clock.
        lower, upper: s. nginx takes instants from one clock and durations from another, each cut down to a tick: an
            arrival may look up to two ticks too early, one on average. ``lower`` allows for two.
        ticks: s, nginx's resolution.
        round_trip: s, shortest connect time.
        requests: how many.
    """

    earliest: Ints
    latest: Ints
    lower: Floats
    upper: Floats
    ticks: Floats
    round_trip: Floats
    requests: Ints

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, chosen: slice | Ints | Bools) -> Envelopes:
        return Envelopes(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def followed_by(self, other: Envelopes) -> Envelopes:
        """Return these windows and the other's, by time."""
        both = [np.concatenate([getattr(one, n) for one in (self, other)]) for n in self.__dataclass_fields__]
        order = np.argsort(both[0], kind="stable")
        return Envelopes(*(values[order] for values in both))

    @property
    def middle(self) -> int:
        """The instant half-way, us."""
        return (int(self.earliest[0]) + int(self.latest.max())) // 2

    def seconds_from(self, instant: int) -> Floats:
        """Return the middle of each window, s after an instant (us)."""
        return (self.earliest - instant + (self.latest - self.earliest) / 2) / 1e6

    @cached_property
    def breadth(self) -> float:
        """The longest window, s: drift may change a line by that much inside it."""
        return float((self.latest - self.earliest).max()) / 1e6

    def contradiction(self, drift: float, x: Floats) -> float:
        """Return by how much (s) the windows exclude a line with this slope; at most 0: they allow it."""
        lower, upper = self.within(drift, x)
        return lower - upper - abs(drift) * self.breadth

    @property
    def tick(self) -> float:
        """The resolution of nginx, s."""
        return float(self.ticks.max())

    def within(self, drift: float, x: Floats) -> tuple[float, float]:
        """Return the lower and upper bound (s) at instant 0 of a line with this slope."""
        bent = drift * x
        return float((self.lower - bent).max()), float((self.upper - bent).min())

    def gap(self, drift: float, x: Floats) -> float:
        """Return the room (s) between the bounds, less nginx's tick."""
        lower, upper = self.within(drift, x)
        return upper - lower - self.tick


def constant(windows: Envelopes, slack: float) -> bool:
    """Return whether one offset fits the bounds of all windows, which may miss each other by ``slack`` (s)."""
    return bool(windows.lower.max() - windows.upper.min() <= slack)


def line(windows: Envelopes, slack: float) -> bool:
    """Return whether one line fits the bounds of all windows, which may miss each other by ``slack`` (s)."""
    if constant(windows, slack):
        return True
    x = windows.seconds_from(windows.middle)
    return windows.contradiction(widest(windows, x), x) <= slack


def widest(windows: Envelopes, x: Floats) -> float:
    """Return the slope (s/s) of the line with the most room between the envelopes."""
    return least(lambda d: -windows.gap(d, x))


def lowest(windows: Envelopes, x: Floats) -> float:
    """Return the slope of the line above all lower bounds that is nearest to them (Moon, Skelly and Towsley 1999).

    The way back to nginx has no queue in it: the lower bounds show a drift where the upper ones do not.
    """
    centred = x - np.average(x)
    return least(lambda d: windows.within(d, centred)[0])


def drift_bounds(windows: Envelopes, drift: float, slack: float) -> tuple[float, float] | None:
    """Return the least and the greatest slope that the windows allow, around an allowed one; None if it is not."""
    x = windows.seconds_from(windows.middle)
    slack = max(slack, 0.0)
    if windows.contradiction(drift, x) > slack:
        return None
    return tuple(_furthest(drift, end, lambda d: windows.contradiction(d, x) <= slack) for end in LIMITS)  # type: ignore[return-value]


LIMITS = (-DRIFT_LIMIT, DRIFT_LIMIT)


def least(value: Callable[[float], float]) -> float:
    """Return where in ``LIMITS`` a convex function is least, by golden section (Kiefer 1953)."""
    low, high = LIMITS
    inner, outer = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_inner, at_outer = value(inner), value(outer)
    for _ in range(NARROWINGS):
        if at_inner <= at_outer:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - GOLDEN * (high - low)
            at_inner = value(inner)
        else:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + GOLDEN * (high - low)
            at_outer = value(outer)
    return (low + high) / 2


def _furthest(inside: float, end: float, allowed: Callable[[float], bool]) -> float:
    if allowed(end):
        return end
    for _ in range(HALVINGS):
        between = (inside + end) / 2
        if allowed(between):
            inside = between
        else:
            end = between
    return inside
