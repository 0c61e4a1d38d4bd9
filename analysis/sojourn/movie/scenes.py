"""A scene: one queue and its workers, from the first instant that is shown to the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.formatting import counted, duration, listed, printable
from sojourn.movie.places import places_of
from sojourn.timeline.request_timelines import GIVEN_UP, OUTCOMES, SERVED, TURNED_AWAY
from sojourn.timeline.steps import Steps

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SERVED_CODE, GIVEN_UP_CODE, TURNED_AWAY_CODE = (OUTCOMES.index(each) for each in (SERVED, GIVEN_UP, TURNED_AWAY))
MOST_LANES = 8
"""Backends of one scene; more would be too thin to be seen."""


@dataclass(frozen=True)
class Lane:
    """One backend: its line and its workers."""

    name: str
    workers: int


@dataclass(frozen=True)
class Scene:
    """Requests of one queue, in the order of their arrivals; n of them. Instants in seconds on the film's clock.

    Attributes:
        name: over it.
        lanes: its backends.
        first: when its instant 0 was.
        arrival: when it came. until: when it left the line: its work began, or it was done with.
        begin, end: from when to when it held a worker; NaN where none ever did.
        left: when nginx was done with it.
        outcome: index into ``sojourn.timeline.request_timelines.OUTCOMES``.
        wait_known: whether the wait is known.
        lane: index into ``lanes``.
        worker: of its backend, by a number for each name; -1 where none is known.
        place: which of the lane's boxes, from 0, -1 for none; see ``placed``.
        number: of the request, from 1.
        unseen: backends, and requests to them, that are left out.
    """

    name: str
    lanes: tuple[Lane, ...]
    first: datetime
    arrival: Floats
    until: Floats
    begin: Floats
    end: Floats
    left: Floats
    outcome: Ints
    wait_known: Bools
    lane: Ints
    worker: Ints
    place: Ints
    number: Ints
    unseen: tuple[int, int] = (0, 0)

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def gone(self) -> Floats:
        """When nothing of a request is in the system any more: neither waits, nor is worked on."""
        return np.fmax(np.fmax(self.until, self.end), self.left)

    def shifted(self, seconds: float) -> Scene:
        """The same with an instant 0 that is so much later."""
        earlier = {name: getattr(self, name) - seconds for name in ("arrival", "until", "begin", "end", "left")}
        return replace(self, first=self.first + timedelta(seconds=seconds), **earlier)

    def within(self, begin: float, end: float) -> Scene:
        """Only the requests that were there at some time in [begin, end)."""
        kept = (self.arrival < end) & (self.gone > begin)
        columns = (
            "arrival", "until", "begin", "end", "left", "outcome", "wait_known", "lane", "worker", "place", "number",
        )  # fmt: skip
        return replace(self, **{name: getattr(self, name)[kept] for name in columns})

    def placed(self) -> Scene:
        """The same with a box for everybody who holds a worker; a lane has a box for each worker, or more."""
        place = np.full(len(self), -1, np.int64)
        lanes = []
        for k, lane in enumerate(self.lanes):
            here = np.flatnonzero((self.lane == k) & ~np.isnan(self.end))
            work = zip(self.begin[here].tolist(), self.end[here].tolist(), strict=True)
            place[here] = places_of(list(work), self.worker[here].tolist())
            lanes.append(replace(lane, workers=max(int(place[here].max(initial=-1)) + 1, lane.workers)))
        return replace(self, place=place, lanes=tuple(lanes))

    def in_line(self) -> tuple[Floats, Ints]:
        """(instants, how many were in the line from then on), of all lanes, those given up on and not yet taken too."""
        return steps_of(self.arrival, self.until)

    def waiting(self) -> tuple[Floats, Ints]:
        """(instants, how many waited from then on), of all lanes: in the line, and not given up on."""
        return steps_of(self.arrival, np.minimum(self.until, np.maximum(self.left, self.arrival)))

    def longest_line(self, lane: int) -> int:
        """The most that were in a lane's line at a time."""
        here = self.lane == lane
        return int(steps_of(self.arrival[here], self.until[here])[1].max(initial=0))

    def most_waiting(self, begin: float, end: float) -> int:
        """The most that waited at a time in [begin, end)."""
        at, level = self.waiting()
        before = int(np.searchsorted(at, begin, "right")) - 1
        inside = level[max(before, 0) : int(np.searchsorted(at, end, "left"))]
        return int(inside.max(initial=0))

    def counts(self, begin: float, now: float) -> dict[str, int]:
        """How many ended how from ``begin`` to ``now``, by ``OUTCOMES``."""
        ended = (self.left >= begin) & (self.left <= now)
        return {name: int((self.outcome[ended] == code).sum()) for code, name in enumerate(OUTCOMES)}

    def reading(self, begin: float, end: float) -> str:
        """What this scene shows of these requests, from ``begin`` to ``end``, in plain words."""
        deepest = self.most_waiting(begin, end)
        ended = self.counts(begin, end)
        fate = [f"{ended[SERVED]:,} {'was' if ended[SERVED] == 1 else 'were'} served"]
        fate += [f"{ended[GIVEN_UP]:,} given up on"] if ended[GIVEN_UP] else []
        fate += [f"{ended[TURNED_AWAY]:,} turned away"] if ended[TURNED_AWAY] else []
        words = f"Of {counted(len(self), 'request')} {listed(fate)}; "
        words += f"at most {deepest:,} waited at one time." if deepest else "nobody waited."
        late = self.outcome == GIVEN_UP_CODE
        spent = float(np.nansum(np.clip(np.fmin(self.end, end) - np.fmax(self.begin, begin), 0, None)[late]))
        if spent > 0:
            words += f" Workers spent {duration(spent)} on requests that were given up on."
        return words


def scene_of(
    name: str,
    timelines: pl.DataFrame,
    *,
    first: datetime,
    workers: int | Mapping[str | None, int] | None = None,
    backends: Sequence[str] = (),
) -> Scene:
    """A scene of stays.

    Args:
        name: over it.
        stays: columns of ``sojourn.timeline.request_timelines.TIMELINE``.
        first: when their instant 0 was.
        workers: of each backend, at least; None: as many as are ever busy at one time.
        backends: only these; by default all, the busiest ``MOST_LANES`` where there are more.
    """
    chosen = timelines.filter(pl.col("backend").is_in(list(backends))) if backends else timelines
    busiest = chosen.group_by("backend").len().sort("len", "backend", descending=[True, False], nulls_last=True)
    shown = sorted(busiest["backend"].head(MOST_LANES).to_list(), key=lambda each: each or "")
    kept = chosen.filter(pl.col("backend").is_in(shown, nulls_equal=True))
    least = workers if isinstance(workers, Mapping) else dict.fromkeys(shown, workers or 1)
    lanes = tuple(Lane(printable(backend or "–", 60), least.get(backend, 1)) for backend in shown)
    columns = {
        column: kept[column].cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()
        for column in ("arrival", "begin", "end", "left")
    }
    until = np.where(np.isnan(columns["begin"]), columns["left"], columns["begin"])
    return Scene(
        name=printable(name, 80),
        lanes=lanes,
        first=first,
        until=np.maximum(until, columns["arrival"]),
        outcome=kept["outcome"].to_physical().cast(pl.Int64).to_numpy().copy(),
        wait_known=kept["wait_known"].fill_null(False).to_numpy().copy()
        if "wait_known" in kept.columns
        else np.ones(len(kept), np.bool_),
        lane=kept["backend"].replace_strict(shown, range(len(shown)), return_dtype=pl.Int64).to_numpy().copy(),
        worker=_codes(kept["worker"]),
        place=np.full(len(kept), -1, np.int64),
        number=kept["number"].to_numpy().copy(),
        unseen=(len(busiest) - len(shown), len(chosen) - len(kept)),
        **columns,
    )


def steps_of(begin: Floats, end: Floats) -> tuple[Floats, Ints]:
    """(instants, how many of the intervals [begin, end) hold from then on); before the first instant none does."""
    found = Steps.of(begin, end)
    return found.at, found.level


def _codes(names: pl.Series) -> Ints:
    codes = names.rank("dense").cast(pl.Int64) - 1
    return codes.fill_null(-1).to_numpy().copy()
