"""Where everything of a scene is, for a width in pixels. The page's script has the same rules (templates/layout.js).

    name                                            what is said of it
    counts: waiting, in service
    ┌ lane: one for each backend ──────────────────────────────┐
    │ backend's name (where there are several)                 │
    │            ■ ■ ■ ■ ■ ■   ┌───┐                           │
    │   the line, the longest  │ ■ │  workers      going out   │
    │   waiting on the right   └───┘                           │
    └──────────────────────────────────────────────────────────┘
    served, given up, turned away: squares of few requests, a bar of many
    depth over time, and where in it one is

Squares are as large as the longest line of the scene allows, so they keep their size throughout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sojourn.movie.scenes import Scene
from sojourn.timeline.request_timelines import OUTCOMES

PAD = 10
OUT = 40  # where squares go when they leave
HEAD = 44  # name and counts
NAME = 16  # of a backend
SHELF, BAR = 26, 30
DEPTH = 64
LARGEST, SMALLEST = 30, 3
BOXES = 0.4  # of a scene's width, that the boxes may take
FEW = 40
"""So many requests are drawn with their numbers, and put on a shelf when they have left."""


@dataclass(frozen=True)
class LanePlace:
    """A lane: its top and height, the rows of its line, the columns of its boxes."""

    top: float
    height: float
    rows: int
    columns: int
    box_rows: int
    box_columns: int


@dataclass(frozen=True)
class Layout:
    """Places of a scene in pixels; x grows to the right, y down.

    Attributes:
        width, height: of the scene.
        size, gap: of a square of a request, and from one to the next.
        box: of a worker; boxes_left: where the boxes begin.
        lanes: one for each of the scene.
        shelf: top of what has left. shelves: the outcomes that have a row each; none where a bar is drawn.
        depth: top of the line of depth.
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
        """Top left of the square that has ``number`` before it in the line; between two places for a fraction."""
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
        """Top left of a worker's box."""
        place = self.lanes[lane]
        step = self.box + 3
        column, row = divmod(number, place.box_rows)
        top = place.top + (place.height - place.box_rows * step + 3) / 2
        return self.boxes_left + column * step, top + row * step

    def fits(self, lane: int) -> int:
        """How many squares of a lane's line there is room for."""
        return self.lanes[lane].rows * self.lanes[lane].columns


def layout_of(scene: Scene, width: float) -> Layout:
    """The places of a scene of this width."""
    lines = [scene.longest_line(lane) for lane in range(len(scene.lanes))]
    workers = [lane.workers for lane in scene.lanes]
    size = next((each for each in range(LARGEST, SMALLEST, -1) if _fits(each, width, lines, workers)), SMALLEST)
    gap, box, deep = gap_of(size), box_of(size), height_of(len(lines), max(lines, default=0))
    # More boxes than even the smallest squares leave room for stand in more rows: a lane is then as high as it takes.
    most_columns = max(math.floor(BOXES * width / (box + 3)), 1)
    box_rows = [max(min(deep // (box + 3), each), -(-each // most_columns), 1) for each in workers]
    box_columns = [-(-each // rows) for each, rows in zip(workers, box_rows, strict=True)]
    boxes_left = width - PAD - OUT - max(box_columns) * (box + 3)
    columns = max(int((boxes_left - 12 - PAD) // (size + gap)), 1)
    top = float(HEAD)
    lanes = []
    for lane, line in enumerate(lines):
        top += NAME if len(lines) > 1 else 0
        rows = max(min(-(-line // columns), deep // (size + gap)), 1)
        height = max(rows * (size + gap), box_rows[lane] * (box + 3)) + 8
        lanes.append(LanePlace(top, height, rows, columns, box_rows[lane], box_columns[lane]))
        top += height + 6
    few = len(scene) <= FEW
    shelves = tuple(code for code in range(len(OUTCOMES)) if few and (scene.outcome == code).any())
    depth = top + (len(shelves) * SHELF if few else BAR) + 6
    return Layout(width, depth + DEPTH, size, gap, box, boxes_left, tuple(lanes), top, shelves, depth)


def gap_of(size: int) -> int:
    """Between two squares."""
    return 5 if size >= 14 else 2 if size >= 6 else 1


def box_of(size: int) -> int:
    """A worker's box around a square of this size."""
    return size + (8 if size >= 12 else 4)


def height_of(lanes: int, longest: int) -> int:
    """The most a lane of so many may have."""
    deep = 150 if longest > 300 else 110
    return deep if lanes == 1 else max(deep // 2, 40) if lanes <= 4 else 40


def _fits(size: int, width: float, lines: list[int], workers: list[int]) -> bool:
    deep, box, gap = height_of(len(lines), max(lines, default=0)), box_of(size), gap_of(size)
    box_rows = max(deep // (box + 3), 1)
    boxes = -(-max(workers) // box_rows) * (box + 3)
    columns = (width - 2 * PAD - OUT - boxes - 12) // (size + gap)
    rows = deep // (size + gap)
    return boxes <= BOXES * width and columns >= 1 and rows >= 1 and columns * rows >= max(lines, default=0)
