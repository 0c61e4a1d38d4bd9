"""Where the squares of one lane are at an instant. The page's script has the same rules (templates/moment.js).

A change of place takes ``slide`` seconds, so that the eye can follow: in the line a square stands where it stood on
average during the last ``slide`` seconds; into the line and into a box it slides from where it was, for at most a
quarter of its time there. Colours and counts know no such delay: they are those of the instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sojourn.movie.layout import PAD, Layout
from sojourn.movie.scenes import GIVEN_UP_CODE, SERVED_CODE, Floats, Scene
from sojourn.timeline.request_timelines import OUTCOMES

WAITING, WORKING, NOBODY, UNKNOWN = "waiting", "working", "nobody", "unknown"
"""What is known of a square at an instant: it waits; it is worked on; it was given up on; nothing tells."""


@dataclass(frozen=True)
class Square:
    """One request in the picture: its index, top left in pixels, what it is, and how much of it is seen (1: all)."""

    index: int
    x: float
    y: float
    kind: str
    seen: float = 1.0


@dataclass(frozen=True)
class Counts:
    """Of a scene at an instant: in the line, given up on but still in it, in service, and ended, by outcome."""

    waiting: int
    gone: int
    working: int
    ended: tuple[int, ...]


def counts_of(scene: Scene, now: float) -> Counts:
    """Exact at the instant."""
    in_line = (scene.arrival <= now) & (now < scene.until)
    late = scene.left <= now
    ended = scene.counts(0.0, now)
    return Counts(
        waiting=int((in_line & ~late).sum()),
        gone=int((in_line & late).sum()),
        working=int(((scene.arrival <= now) & (scene.begin <= now) & (now < scene.end)).sum()),
        ended=tuple(ended[name] for name in OUTCOMES),
    )


def squares_of(scene: Scene, layout: Layout, lane: int, now: float, slide: float) -> Iterator[Square]:
    """Every square of a lane that is seen at an instant; ``slide`` in seconds of the requests, 0: nothing slides."""
    # Twice a slide: a square that has been on its way for one began where others stood on average of one before.
    here = np.flatnonzero((scene.lane == lane) & (scene.arrival <= now) & (scene.gone + 2 * slide > now))
    if not len(here):
        return
    arrival, until = scene.arrival[here], scene.until[here]
    # Between two rows nothing can stand: there a square jumps.
    smooth = slide if layout.lanes[lane].rows == 1 else 0.0
    slots = _slots(arrival, until, now, smooth)
    fits = layout.fits(lane)
    for k, index in enumerate(here.tolist()):
        begin, end, left = scene.begin[index], scene.end[index], scene.left[index]
        if now < until[k]:
            if slots[k] > fits - 1:
                continue
            x, y, share = _in_line(layout, lane, arrival[k], slots[k], now, min(slide, (until[k] - arrival[k]) / 4))
            kind = NOBODY if now >= left else WAITING if scene.wait_known[index] else UNKNOWN
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
            yield Square(index, x, y, NOBODY if now >= left else WORKING)
        elif slide > 0:
            yield from _going(scene, layout, lane, index, float(slots[k]), now, slide)


def busy_shares(scene: Scene, lane: int, now: float, slide: float) -> Floats:
    """How much of the last ``slide`` seconds each worker of a lane was held."""
    here = (scene.lane == lane) & (scene.place >= 0)
    shares = np.zeros(scene.lanes[lane].workers)
    window = max(slide, 1e-6)
    held = np.clip(np.minimum(scene.end[here], now) - np.maximum(scene.begin[here], now - window), 0, None)
    np.add.at(shares, scene.place[here], held / window)
    return np.minimum(shares, 1.0)


def eased(share: float) -> float:
    """From 0 to 1, slowly at both ends."""
    share = min(max(share, 0.0), 1.0)
    return share * share * (3 - 2 * share)


def _slots(arrival: Floats, until: Floats, now: float, slide: float) -> Floats:
    """How many older ones stood before each, on average of the last ``slide`` seconds."""
    if slide > 0:
        there = np.clip(np.minimum(until, now) - np.maximum(arrival, now - slide), 0, None) / slide
    else:
        there = ((arrival <= now) & (now < until)).astype(float)
    return np.cumsum(there) - there


def _in_line(
    layout: Layout, lane: int, arrival: float, slot: float, now: float, takes: float
) -> tuple[float, float, float]:
    """Top left of a square in the line, and how far it has come from the left end of its lane, from 0 to 1."""
    x, y = layout.slot(lane, slot)
    share = eased((now - arrival) / takes) if takes > 0 else 1.0
    return PAD + (x - PAD) * share, y, share


def _going(
    scene: Scene, layout: Layout, lane: int, index: int, slot: float, now: float, slide: float
) -> Iterator[Square]:
    """A square on its way out: to the right when its work is done, up when it leaves the line without."""
    begun = not np.isnan(scene.end[index])
    since = scene.end[index] if begun else scene.until[index]
    share = (now - since) / slide
    if not 0 <= share < 1:
        return
    if begun:
        x, y = layout.worker(lane, int(scene.place[index]))
        inner = (layout.box - layout.size) / 2
        target = layout.width - layout.size - 2
        kind = NOBODY if scene.outcome[index] == GIVEN_UP_CODE else WORKING
        yield Square(index, x + inner + (target - x - inner) * share, y + inner, kind, 1 - share)
        return
    x, y = layout.slot(lane, min(slot, layout.fits(lane) - 1))
    kind = UNKNOWN if scene.outcome[index] == SERVED_CODE else NOBODY
    yield Square(index, x, y - share * layout.size, kind, 1 - share)
