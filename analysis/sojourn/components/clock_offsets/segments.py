"""Divide a pair's time into stretches of constant drift, and find the instants at which a clock was set.

A stretch is as long as one line of offset against time fits all its windows. Where none fits any longer, the clock was
set: the lower bounds, which no queue loosens, tell the instant. After a step forward the first request rules the old
offset out; after a step back the last one before it rules the new offset out.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sojourn.components.clock_offsets.lines import DRIFT_LIMIT, Envelopes, constant, drift_bounds, line, lowest, widest
from sojourn.model.arrays import Bools, Floats
from sojourn.model.verdict import NETWORK_GAP

SLACK = 1e-3  # s: bounds that miss each other by less are nginx late to look at its clock, not a clock that was set
NEAR = 2e-3  # s: lower bounds that lie on average within this below a level may do so by chance
ENOUGH = 10  # requests that a stretch must rest on: fewer are odd ones out
ODD_SHARE = 0.2  # of the requests: where more contradict their neighbours, it is not the clock


@dataclass(frozen=True)
class Stretch:
    """Windows that one line fits: offset(t) = ``offset`` + ``drift`` (t - middle).

    Attributes:
        windows: what it rests on.
        drift: s/s; 0 where one offset fits.
        allowed: the least and greatest drift that the windows allow; None where they allow none.
        lower, upper: s, bounds of the offset half-way, the drift taken out.
        offset, uncertainty: s, the offset half-way lies within +- the uncertainty.
        idle: the bounds are as near as a network explains: the queue was seen empty.
        correction: s, what delays are corrected by half-way: the offset, or 0 where the clocks may well be the same.
    """

    windows: Envelopes
    drift: float
    allowed: tuple[float, float] | None
    lower: float
    upper: float
    offset: float
    uncertainty: float
    idle: bool
    correction: float

    @property
    def tolerance(self) -> float:
        """How far the offset may be below ``correction``, s: no queue loosens the lower bound."""
        return max(self.correction - self.lower, 0.0)

    def at(self, windows: Envelopes) -> Floats:
        """Return the line in the middle of some windows, s."""
        return self.offset + self.drift * windows.seconds_from(self.windows.middle)

    def allows(self, windows: Envelopes) -> Bools:
        """Return which windows the line fits."""
        slack = 2 * SLACK + abs(self.drift) * windows.breadth
        line_at = self.at(windows)
        return (windows.lower - line_at <= slack) & (line_at - windows.upper <= slack)


def stretch(windows: Envelopes) -> Stretch:
    """Return the line of windows that one fits.

    The offset is the middle between the bounds, as long as a network could explain their gap. Where it cannot, the
    backend's queue was never empty and the upper bound is far too high, while the way back has no queue; the offset
    is then near the lower bound, by half the connect time (one round trip), and the uncertainty is the whole gap.
    """
    x = windows.seconds_from(windows.middle)
    round_trip, tick = float(windows.round_trip.min()), windows.tick
    drift = 0.0
    allowed = drift_bounds(windows, 0.0, 0.0)
    if not constant(windows, SLACK) and line(windows, SLACK):
        drift = widest(windows, x)
        allowed = drift_bounds(windows, drift, SLACK)
    if allowed is not None and windows.gap(drift, x) > round_trip + NETWORK_GAP:
        # The upper bounds rise and fall with the queue, the lower ones do not.
        slope = float(np.clip(lowest(windows, x), *allowed))
        if drift or _nearer(windows, slope, x):
            drift = slope
    lower, upper = windows.within(drift, x)
    estimate = between(np.array([lower]), np.array([upper]), np.array([round_trip]), np.array([tick]), drift)
    return Stretch(
        windows, drift, allowed, lower, upper, float(estimate.offset[0]), float(estimate.uncertainty[0]),
        bool(estimate.idle[0]), float(estimate.correction[0]),
    )  # fmt: skip


class Estimates(NamedTuple):
    """The offsets of clocks; attributes as of ``Stretch``, one value per clock."""

    offset: Floats
    uncertainty: Floats
    idle: Bools
    correction: Floats


def between(lower: Floats, upper: Floats, round_trip: Floats, tick: Floats, drift: float = 0.0) -> Estimates:
    """Return the offsets of clocks between their bounds.

    Args:
        lower: bound of each offset, s.
        upper: bound of each offset, s.
        round_trip: shortest connect time of each, s.
        tick: the resolution of nginx, s.
        drift: that was taken out of the bounds, s/s.
    """
    likely = lower + tick
    idle = upper - likely <= round_trip + NETWORK_GAP
    offset = likely + np.where(idle, (upper - likely) / 2, (round_trip + tick) / 2)
    # The upper bound is hard: a stamp cut down to a millisecond only ever makes a request look later. Not so for a
    # line, which a clock that drifts unevenly leaves on either side.
    if not drift:
        offset = np.minimum(offset, upper)
    least = np.maximum(np.abs(offset - lower), tick)
    # A queue that was never empty leaves the upper bound open, not what a network explains.
    plausible = np.where(idle, upper, np.minimum(upper, likely + round_trip + NETWORK_GAP))
    same = np.abs(offset) <= np.maximum(plausible - offset, least)
    correction = offset if drift else np.where(same, 0.0, offset)
    return Estimates(offset, np.maximum(upper - offset, least), idle, correction)


def _nearer(windows: Envelopes, drift: float, x: Floats) -> bool:
    """Return whether the lower bounds follow this slope rather than a level."""
    level, along = (float(np.mean(windows.within(d, x)[0] - (windows.lower - d * x))) for d in (0.0, drift))
    return level > NEAR and along < level / 4


def stretches(windows: Envelopes) -> list[Stretch]:
    """Return the stretches of a pair whose windows no single offset fits; one of all windows where they are at odds.

    They are at odds where too many requests fit into no stretch: what is measured is then not what it is taken for.
    """
    usable: list[np.ndarray] = []
    for begin, end in _runs(windows):
        run = np.arange(begin, end)
        if windows.requests[run].sum() >= ENOUGH:
            usable.append(run)
    # What lies between two that one line fits was odd, not a clock that was set and set back at once.
    merged: list[np.ndarray] = []
    for run in usable:
        if merged and line(windows[np.concatenate([merged[-1], run])], SLACK):
            merged[-1] = np.concatenate([merged[-1], run])
        else:
            merged.append(run)
    inside = sum(int(windows.requests[run].sum()) for run in merged)
    # A window in which the clock was set fits on neither side of it.
    edges = sum(int(windows.requests[b[0] - 1]) for _, b in pairwise(merged) if b[0] > 0)
    if inside + edges < (1 - ODD_SHARE) * windows.requests.sum():
        return [stretch(windows)]
    return [stretch(windows[run]) for run in merged]


def _runs(windows: Envelopes) -> list[tuple[int, int]]:
    """Return ranges of windows, each as long as one line fits them, without windows that contradict themselves."""
    breadth = (windows.latest - windows.earliest) / 1e6
    broken = windows.lower - windows.upper > SLACK + DRIFT_LIMIT * breadth
    runs, begin = [], 0
    while begin < len(windows):
        if broken[begin]:
            begin += 1
            continue
        stops = np.flatnonzero(broken[begin:])
        end = _longest(windows, begin, begin + int(stops[0]) if len(stops) else len(windows))
        runs.append((begin, end))
        begin = end
    return runs


def _longest(windows: Envelopes, begin: int, stop: int) -> int:
    """Return the end of the longest range from ``begin`` that a line fits: doubled until none does, then halved."""
    fits, step = begin + 1, 1
    while fits < stop:
        tried = min(begin + 2 * step, stop)
        if not line(windows[begin:tried], SLACK):
            break
        fits, step = tried, 2 * step
    else:
        return fits
    fails = min(begin + 2 * step, stop)
    return fits + bisect_left(range(fits + 1, fails), True, key=lambda end: not line(windows[begin:end], SLACK))


def change(before: Stretch, after: Stretch) -> float:
    """Return by how much (s) the clock was set between two stretches."""
    between = (int(before.windows.latest.max()) + int(after.windows.earliest[0])) // 2
    ends = [s.offset + s.drift * (between - s.windows.middle) / 1e6 for s in (before, after)]
    return ends[1] - ends[0]


def is_step(seconds: float, *uncertainties: float) -> bool:
    """Return whether the change (s) between two lines exceeds their uncertainty: the clock was set."""
    return abs(seconds) > 2 * SLACK + sum(uncertainties)


def step_window(windows: Envelopes, before: Stretch, after: Stretch) -> int | None:
    """Return the number of the window in which the clock was set; None if no window shows it, or for a mere drift."""
    if not is_step(change(before, after), before.uncertainty, after.uncertainty):
        return None
    # Earlier windows may belong to the stretch after: those in which nothing contradicts it.
    first = int(np.searchsorted(windows.earliest, before.windows.earliest[0]))
    last = int(np.searchsorted(windows.earliest, after.windows.earliest[0]))
    if change(before, after) > 0:
        first = int(np.searchsorted(windows.earliest, before.windows.earliest[-1])) + 1
        ruled_out = np.flatnonzero(~before.allows(windows[first : last + 1]))
        return first + int(ruled_out[0]) if len(ruled_out) else None
    ruled_out = np.flatnonzero(~after.allows(windows[first:last]))
    return first + int(ruled_out[-1]) if len(ruled_out) else None


def step_instant(cells: Envelopes, before: Stretch, after: Stretch) -> int:
    """Return the instant (us) from which the later stretch holds, from the requests of its first window."""
    if change(before, after) > 0:
        ruled_out = np.flatnonzero(~before.allows(cells))
        return int(cells.earliest[ruled_out[0]]) if len(ruled_out) else int(cells.earliest[0])
    ruled_out = np.flatnonzero(~after.allows(cells))
    return int(cells.latest[ruled_out[-1]]) + 1 if len(ruled_out) else int(cells.earliest[0])
