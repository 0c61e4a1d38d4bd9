"""Positions of all parts of a scene for a width in pixels; templates/layout.js has the same rules.

    name
    counts: waiting, in service
    ┌ lane: one for each backend ──────────────────────────────┐
    │ backend's name (where there are several)                 │
    │            ■ ■ ■ ■ ■ ■   ┌───┐                           │
    │   queue, the longest     │ ■ │  workers      leaving     │
    │   waiting on the right   └───┘                           │
    └──────────────────────────────────────────────────────────┘
    served, given up, turned away: squares of few requests, a bar of many
    depth over time, with the current instant

The size of the squares follows from the longest queue of the scene and is constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sojourn.movie.scenes import Scene
from sojourn.timeline.phases import AFTER, BODY, READ
from sojourn.timeline.request_timelines import OUTCOMES

PAD = 10
OUT = 40  # room for leaving squares
HEAD = 44  # name and counts
NAME = 16  # of a backend
SHELF, BAR = 26, 30
DEPTH = 64
LARGEST, SMALLEST = 30, 3
BOXES = 0.4  # maximum share of a scene's width for the boxes
FEW = 40
"""Up to this many requests are drawn with numbers, and shown on a shelf after they left."""


@dataclass(frozen=True)
class LanePlace:
    """A lane: top and height, rows and columns of its queue, and rows of its boxes."""

    top: float
    height: float
    rows: int
    columns: int
    box_rows: int


@dataclass(frozen=True)
class Layout:
    """Positions of a scene in pixels; x grows to the right, y down.

    Attributes:
        width, height: of the scene.
        size, gap: of a square of a request, and from one to the next.
        box: size of a worker.
        boxes_left: left edge of the boxes.
        lanes: one for each lane of the scene.
        shelf: top of the ended requests.
        shelves: outcomes with a row each; empty where a bar is drawn.
        depth: top of the depth chart.
    """

    width: float
    height: float
    size: int
    gap: int
    box: int
    boxes_left: float
    lanes: tuple[LanePlace, ...]
    shelf: float
    shelves: tuple[int, ...]
    depth: float

    def slot(self, lane: int, number: float) -> tuple[float, float]:
        """Return the top left of the square with ``number`` squares before it; fractions are interpolated."""
        low = int(number)
        x, y = self._slot(lane, low)
        further = number - low
        if not further:
            return x, y
        next_x, next_y = self._slot(lane, low + 1)
        return x + (next_x - x) * further, y + (next_y - y) * further

    def _slot(self, lane: int, number: int) -> tuple[float, float]:
        place = self.lanes[lane]
        step = self.size + self.gap
        column, row = divmod(number, place.rows)
        top = place.top + (place.height - place.rows * step + self.gap) / 2
        return self.boxes_left - 12 - (column + 1) * step, top + row * step

    def worker(self, lane: int, number: int) -> tuple[float, float]:
        """Return the top left of a worker's box."""
        place = self.lanes[lane]
        step = self.box + 3
        column, row = divmod(number, place.box_rows)
        top = place.top + (place.height - place.box_rows * step + 3) / 2
        return self.boxes_left + column * step, top + row * step

    def fits(self, lane: int) -> int:
        """Return the number of squares that fit a lane's queue."""
        return self.lanes[lane].rows * self.lanes[lane].columns


def layout_of(scene: Scene, width: float) -> Layout:
    """Compute the layout of a scene for a width."""
    lines = [scene.longest_line(lane) for lane in range(len(scene.lanes))]
    workers = [lane.workers for lane in scene.lanes]
    size = next((each for each in range(LARGEST, SMALLEST, -1) if _fits(each, width, lines, workers)), SMALLEST)
    gap, box, deep = gap_of(size), box_of(size), height_of(len(lines), max(lines, default=0))
    # Boxes that do not fit even with the smallest squares use more rows, and a higher lane.
    most_columns = max(math.floor(BOXES * width / (box + 3)), 1)
    box_rows = [max(min(deep // (box + 3), each), -(-each // most_columns), 1) for each in workers]
    box_columns = max(-(-each // rows) for each, rows in zip(workers, box_rows, strict=True))
    boxes_left = width - PAD - OUT - box_columns * (box + 3)
    columns = max(int((boxes_left - 12 - PAD) // (size + gap)), 1)
    top = float(HEAD)
    lanes = []
    for lane, line in enumerate(lines):
        top += NAME if len(lines) > 1 else 0
        rows = max(min(-(-line // columns), deep // (size + gap)), 1)
        height = max(rows * (size + gap), box_rows[lane] * (box + 3)) + 8
        lanes.append(LanePlace(top, height, rows, columns, box_rows[lane]))
        top += height + 6
    few = len(scene) <= FEW
    shelves = tuple(code for code in range(len(OUTCOMES)) if few and (scene.outcome == code).any())
    depth = top + (len(shelves) * SHELF if few else BAR) + 6
    return Layout(width, depth + DEPTH, size, gap, box, boxes_left, tuple(lanes), top, shelves, depth)


def stripe_of(size: float) -> tuple[float, float]:
    """Return top and height of the stripe of a square's route, below its number, pixels.

    The square's own colour is below it, so that a light stripe is seen on a light background.
    """
    high = max(round(0.22 * size), 1)
    return size - high - max(round(0.08 * size), 1), high


def strokes_of(phase: str, size: float) -> list[tuple[float, float, float, float]]:
    """Return the lines (x, y, x, y), from the top left of a square, that show its phase without colour.

    Vertical for a request that is read, horizontal for a body, diagonal for work after the answer; none in service.
    """
    edge = 2.0 if size >= 12 else 0.0
    far = size - edge
    step = max((far - edge) / 4, 3.0)
    steps = np.arange(edge + step / 2, far, step).tolist()
    if phase == READ:
        return [(at, edge, at, far) for at in steps]
    if phase == BODY:
        return [(edge, at, far, at) for at in steps]
    if phase != AFTER:
        return []
    shifts = np.arange(step, far - edge - step / 2, step * 1.4).tolist()
    lower = [(edge, edge + shift, far - shift, far) for shift in shifts]
    return [(edge, edge, far, far), *lower, *((y, x, v, u) for x, y, u, v in lower)]


def gap_of(size: int) -> int:
    """Return the gap between two squares of this size."""
    return 5 if size >= 14 else 2 if size >= 6 else 1


def box_of(size: int) -> int:
    """Return the size of a worker's box around a square of this size."""
    return size + (8 if size >= 12 else 4)


def height_of(lanes: int, longest: int) -> int:
    """Return the maximum height of a lane, for a number of lanes and the longest queue."""
    deep = 150 if longest > 300 else 110
    return deep if lanes == 1 else max(deep // 2, 40) if lanes <= 4 else 40


def _fits(size: int, width: float, lines: list[int], workers: list[int]) -> bool:
    deep, box, gap = height_of(len(lines), max(lines, default=0)), box_of(size), gap_of(size)
    box_rows = max(deep // (box + 3), 1)
    boxes = -(-max(workers) // box_rows) * (box + 3)
    columns = (width - 2 * PAD - OUT - boxes - 12) // (size + gap)
    rows = deep // (size + gap)
    return boxes <= BOXES * width and columns >= 1 and rows >= 1 and columns * rows >= max(lines, default=0)
