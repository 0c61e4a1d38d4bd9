"""Positions of one lane's squares at an instant; templates/moment.js has the same rules.

A move takes ``slide`` seconds, so that the eye can follow: in the queue a square is at its average position of the last
``slide`` seconds; it slides into the queue and into a box for at most a quarter of its time there. Colours and counts
are those of the instant, without delay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sojourn.model.arrays import Floats
from sojourn.movie.layout import PAD, Layout
from sojourn.movie.scenes import DOUBT, GIVEN_UP_CODE, SERVED_CODE, Scene
from sojourn.timeline.phases import SERVICE
from sojourn.timeline.request_timelines import OUTCOMES

WAITING, WORKING, ABANDONED, UNKNOWN = "waiting", "working", "abandoned", "unknown"
"""State of a request at an instant: waiting; in its worker; given up by nginx or the client; not in the log."""


@dataclass(frozen=True)
class Square:
    """One request in the picture: index, top left in pixels, kind, opacity (1: opaque), phase in a box."""

    index: int
    x: float
    y: float
    kind: str
    opacity: float = 1.0
    phase: str = SERVICE


@dataclass(frozen=True)
class Counts:
    """Requests of a scene at an instant: queued, given up but still queued, in workers by phase, ended by outcome."""

    waiting: int
    gone: int
    held: dict[str, int]
    ended: tuple[int, ...]


def counts_of(scene: Scene, now: float) -> Counts:
    """Count the requests of a scene at an instant, without the delay of moves."""
    in_line = (scene.arrival <= now) & (now < scene.until)
    late = scene.left <= now
    ended = scene.counts(0.0, now)
    return Counts(
        waiting=int((in_line & ~late).sum()),
        gone=int((in_line & late).sum()),
        held={
            phase: int(((scene.arrival <= now) & (begin <= now) & (now < end)).sum())
            for phase, (begin, end) in scene.phases.items()
        },
        ended=tuple(ended[name] for name in OUTCOMES),
    )


def squares_of(scene: Scene, layout: Layout, lane: int, now: float, slide: float) -> Iterator[Square]:
    """Yield the visible squares of a lane at an instant; ``slide`` in seconds of the requests, 0: no moves."""
    # Twice a slide: a leaving square started at the average position over the slide before.
    visible = np.flatnonzero((scene.lane == lane) & (scene.arrival <= now) & (scene.gone + 2 * slide > now))
    if not len(visible):
        return
    arrival, until = scene.arrival[visible], scene.until[visible]
    # With several rows a square jumps: there is no place between two rows.
    smooth = slide if layout.lanes[lane].rows == 1 else 0.0
    slots = _slots(arrival, until, now, smooth)
    fits, freed = layout.fits(lane), scene.freed
    for k, index in enumerate(visible.tolist()):
        begin, end, left = scene.begin[index], freed[index], scene.left[index]
        if now < until[k]:
            if slots[k] > fits - 1:
                continue
            x, y, share = _in_line(layout, lane, arrival[k], slots[k], now, min(slide, (until[k] - arrival[k]) / 4))
            kind = ABANDONED if now >= left else WAITING if scene.wait_known[index] else UNKNOWN
            yield Square(index, x, y, kind, min(4 * share, 1.0))
        elif begin <= now < end:
            box_x, box_y = layout.worker(lane, int(scene.place[index]))
            inner = (layout.box - layout.size) / 2
            takes = min(slide, (end - begin) / 4)
            share = eased((now - begin) / takes) if takes > 0 else 1.0
            x, y = box_x + inner, box_y + inner
            if share < 1:
                slot = _slots(arrival, until, float(until[k]), smooth)[k]
                waited = min(slide, (until[k] - arrival[k]) / 4)
                from_x, from_y, _ = _in_line(layout, lane, arrival[k], min(slot, fits - 1), float(until[k]), waited)
                x, y = from_x + (x - from_x) * share, from_y + (y - from_y) * share
            phase = next((each for each, (first, last) in scene.phases.items() if first[index] <= now < last[index]))
            gone = now >= left and scene.outcome[index] == GIVEN_UP_CODE
            kind = ABANDONED if gone else UNKNOWN if phase == DOUBT else WORKING
            yield Square(index, x, y, kind, phase=phase)
        elif slide > 0:
            yield from _going(scene, layout, lane, index, float(slots[k]), now, slide)


def busy_shares(scene: Scene, lane: int, now: float, slide: float) -> Floats:
    """Return the share of the last ``slide`` seconds for which each worker of a lane was held."""
    served = (scene.lane == lane) & (scene.place >= 0)
    shares = np.zeros(scene.lanes[lane].workers)
    window = max(slide, 1e-6)
    held = np.clip(np.minimum(scene.end[served], now) - np.maximum(scene.begin[served], now - window), 0, None)
    np.add.at(shares, scene.place[served], held / window)
    return np.minimum(shares, 1.0)


def eased(share: float) -> float:
    """Return a share from 0 to 1 that changes slowly at both ends."""
    share = min(max(share, 0.0), 1.0)
    return share * share * (3 - 2 * share)


def _slots(arrival: Floats, until: Floats, now: float, slide: float) -> Floats:
    """Return the number of older requests in the queue before each, averaged over ``slide`` seconds."""
    if slide > 0:
        there = np.clip(np.minimum(until, now) - np.maximum(arrival, now - slide), 0, None) / slide
    else:
        there = ((arrival <= now) & (now < until)).astype(float)
    return np.cumsum(there) - there


def _in_line(
    layout: Layout, lane: int, arrival: float, slot: float, now: float, takes: float
) -> tuple[float, float, float]:
    """Return the top left of a queued square, and its progress from the left end of the lane, 0 to 1."""
    x, y = layout.slot(lane, slot)
    share = eased((now - arrival) / takes) if takes > 0 else 1.0
    return PAD + (x - PAD) * share, y, share


def _going(
    scene: Scene, layout: Layout, lane: int, index: int, slot: float, now: float, slide: float
) -> Iterator[Square]:
    """Yield a leaving square: to the right after its service, up when it leaves the queue without."""
    begun = not np.isnan(scene.end[index])
    since = scene.freed[index] if begun else scene.until[index]
    share = (now - since) / slide
    if not 0 <= share < 1:
        return
    if begun:
        x, y = layout.worker(lane, int(scene.place[index]))
        inner = (layout.box - layout.size) / 2
        target = layout.width - layout.size - 2
        kind = ABANDONED if scene.outcome[index] == GIVEN_UP_CODE else WORKING
        yield Square(index, x + inner + (target - x - inner) * share, y + inner, kind, 1 - share)
        return
    x, y = layout.slot(lane, min(slot, layout.fits(lane) - 1))
    kind = UNKNOWN if scene.outcome[index] == SERVED_CODE else ABANDONED
    yield Square(index, x, y - share * layout.size, kind, 1 - share)
