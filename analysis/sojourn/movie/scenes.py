"""A scene: one queue and its workers, from the first instant that is shown to the last."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

import numpy as np
import polars as pl

from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.model.formatting import counted, duration, listed, printable
from sojourn.movie.places import places_of
from sojourn.timeline.phases import AFTER, BODY, READ, SERVICE
from sojourn.timeline.request_timelines import GIVEN_UP, OUTCOMES, SERVED, TURNED_AWAY
from sojourn.timeline.steps import Steps

SERVED_CODE, GIVEN_UP_CODE = OUTCOMES.index(SERVED), OUTCOMES.index(GIVEN_UP)
MOST_LANES = 8
"""Maximum backends of one scene; more lanes would be too thin to see."""
DOUBT = "in doubt"
"""Instead of a phase: a body of which is not known whether it holds the worker."""
HELD = {READ: "while they read requests", SERVICE: "in service", BODY: "by bodies", AFTER: "after answers"}
"""Phases in which a request holds its worker, in their order in time, as parts of a sentence about workers."""
LABELS = {READ: "read", SERVICE: "in service", BODY: "body", AFTER: "after", DOUBT: "perhaps held"}
PHASE_ENDS = ("started", "headers", "answered", "doubt_end")
INSTANTS = ("arrival", "until", "begin", "end", "left", *PHASE_ENDS)


@dataclass(frozen=True)
class Lane:
    """One backend: its queue and its workers; ``exact``: it never shows more workers than these."""

    name: str
    workers: int
    exact: bool = False


@dataclass(frozen=True)
class Scene:
    """Requests of one queue, in the order of their arrivals; n of them. Instants in seconds on the film's clock.

    Attributes:
        name: its title.
        lanes: its backends.
        first: time of its instant 0.
        arrival: when each request arrived.
        until: when it left the queue: its service began, or it ended without.
        begin, end: when it held a worker; NaN where it never did.
        started, headers, answered: end of the phases read, service and body; the phase after lasts until ``end``.
        doubt_end: until when a body may hold the worker, which is not known; NaN: there is no doubt.
        left: when it ended in nginx.
        outcome: index into ``sojourn.timeline.request_timelines.OUTCOMES``.
        wait_known: whether the log shows if it waited or was in service.
        lane: index into ``lanes``.
        worker: number of its worker; -1 where unknown.
        place: index of the lane's box, -1 for none; see ``placed``.
        number: of the request, from 1.
        unseen: backends, and requests to them, that are left out.
        route: name of its route, empty for none; None: not known of any.
    """

    name: str
    lanes: tuple[Lane, ...]
    first: datetime
    arrival: Floats
    until: Floats
    begin: Floats
    started: Floats
    headers: Floats
    answered: Floats
    end: Floats
    doubt_end: Floats
    left: Floats
    outcome: Ints
    wait_known: Bools
    lane: Ints
    worker: Ints
    place: Ints
    number: Ints
    unseen: tuple[int, int] = (0, 0)
    route: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def gone(self) -> Floats:
        """When each request has left the system: neither waiting nor in service."""
        return np.fmax(np.fmax(self.until, self.freed), self.left)

    @cached_property
    def freed(self) -> Floats:
        """When the worker of each request is free beyond doubt; NaN where it never had one."""
        return np.fmax(self.end, self.doubt_end)

    @cached_property
    def phases(self) -> dict[str, tuple[Floats, Floats]]:
        """Begin and end of each phase of ``LABELS``, n each; a phase that does not occur has no length."""
        certain_end = np.where(np.isnan(self.doubt_end), self.end, self.headers)
        return {
            READ: (self.begin, self.started),
            SERVICE: (self.started, self.headers),
            BODY: (self.headers, np.minimum(self.answered, certain_end)),
            AFTER: (self.answered, certain_end),
            DOUBT: (certain_end, self.freed),
        }

    def shifted(self, seconds: float) -> Scene:
        """Return the scene with its instant 0 ``seconds`` later."""
        earlier = {name: getattr(self, name) - seconds for name in INSTANTS}
        return replace(self, first=self.first + timedelta(seconds=seconds), **earlier)

    def within(self, begin: float, end: float) -> Scene:
        """Return only the requests present at some time in [begin, end)."""
        present = (self.arrival < end) & (self.gone > begin)
        columns = (*INSTANTS, "outcome", "wait_known", "lane", "worker", "place", "number")
        route = self.route and tuple(self.route[k] for k in np.flatnonzero(present).tolist())
        return replace(self, **{name: getattr(self, name)[present] for name in columns}, route=route)

    def placed(self) -> Scene:
        """Return the scene with a box for each request in service; a lane has at least one box per worker.

        A doubt ends when the box has its next request.
        """
        place, doubt_end = np.full(len(self), -1, np.int64), np.maximum(self.doubt_end, self.end)
        lanes = []
        for k, lane in enumerate(self.lanes):
            own = np.flatnonzero((self.lane == k) & ~np.isnan(self.end))
            work = zip(self.begin[own].tolist(), self.end[own].tolist(), strict=True)
            place[own] = places_of(list(work), self.worker[own].tolist(), lane.workers if lane.exact else 0)
            lanes.append(replace(lane, workers=max(int(place[own].max(initial=-1)) + 1, lane.workers)))
            order = own[np.lexsort((self.begin[own], place[own]))]
            before, after = order[:-1], order[1:]
            before, after = before[place[before] == place[after]], after[place[before] == place[after]]
            doubt_end[before] = np.minimum(doubt_end[before], np.maximum(self.begin[after], self.end[before]))
        return replace(self, place=place, doubt_end=doubt_end, lanes=tuple(lanes))

    def in_line(self) -> tuple[Floats, Ints]:
        """Return (instants, queue length from then on) of all lanes, including abandoned requests not yet taken."""
        return steps_of(self.arrival, self.until)

    def waiting(self) -> tuple[Floats, Ints]:
        """Return (instants, waiting requests from then on) of all lanes, without abandoned requests."""
        return steps_of(self.arrival, np.minimum(self.until, np.maximum(self.left, self.arrival)))

    def longest_line(self, lane: int) -> int:
        """Return the maximum queue length of a lane."""
        own = self.lane == lane
        return int(steps_of(self.arrival[own], self.until[own])[1].max(initial=0))

    def most_waiting(self, begin: float, end: float) -> int:
        """Return the maximum number of waiting requests in [begin, end)."""
        at, level = self.waiting()
        before = int(np.searchsorted(at, begin, "right")) - 1
        inside = level[max(before, 0) : int(np.searchsorted(at, end, "left"))]
        return int(inside.max(initial=0))

    def counts(self, begin: float, now: float) -> dict[str, int]:
        """Count the requests that ended from ``begin`` to ``now``, by outcome."""
        ended = (self.left >= begin) & (self.left <= now)
        return {name: int((self.outcome[ended] == code).sum()) for code, name in enumerate(OUTCOMES)}

    def held(self, begin: float, end: float) -> dict[str, float]:
        """Return phase -> seconds for which workers were held from ``begin`` to ``end``: service, and what occurs."""
        seconds = {
            phase: float(np.nansum(np.clip(np.minimum(last, end) - np.maximum(first, begin), 0, None)))
            for phase, (first, last) in self.phases.items()
        }
        return {phase: each for phase, each in seconds.items() if each > 0 or phase == SERVICE}

    def reading(self, begin: float, end: float) -> str:
        """Return a summary of the scene from ``begin`` to ``end``, as sentences."""
        deepest = self.most_waiting(begin, end)
        ended = self.counts(begin, end)
        outcomes = [f"{ended[SERVED]:,} {'was' if ended[SERVED] == 1 else 'were'} served"]
        outcomes += [f"{ended[GIVEN_UP]:,} given up on"] if ended[GIVEN_UP] else []
        outcomes += [f"{ended[TURNED_AWAY]:,} turned away"] if ended[TURNED_AWAY] else []
        summary = f"Of {counted(len(self), 'request')} {listed(outcomes)}; "
        summary += f"at most {deepest:,} waited at the same time." if deepest else "no request waited."
        late = self.outcome == GIVEN_UP_CODE
        spent = float(np.nansum(np.clip(np.minimum(self.end, end) - np.maximum(self.begin, begin), 0, None)[late]))
        if spent > 0:
            summary += f" Workers spent {duration(spent)} on requests that were given up on."
        held = self.held(begin, end)
        doubt = held.pop(DOUBT, 0.0)
        if len(held) > 1:
            parts = listed([f"{duration(seconds)} {HELD[phase]}" for phase, seconds in held.items()])
            summary += f" Workers were held for {parts}."
        if doubt:
            summary += f" For {duration(doubt)} it is unknown whether bodies held workers."
        return summary


def scene_of(
    name: str,
    timelines: pl.DataFrame,
    *,
    first: datetime,
    workers: int | Mapping[str | None, int] | None = None,
    backends: Sequence[str] = (),
    exact: Collection[str | None] = (),
) -> Scene:
    """Create a scene from request timelines.

    Args:
        name: its title.
        timelines: columns of ``sojourn.timeline.request_timelines.TIMELINE``, and those of
            ``sojourn.movie.write.phases_of``; without these, all is service.
        first: time of their instant 0.
        workers: minimum for each backend; None: as many as were ever busy at the same time.
        backends: only these; by default all, the busiest ``MOST_LANES`` where there are more.
        exact: backends that have no more than ``workers``: what seems to be more is an error of the stamps.
    """
    chosen = timelines.filter(pl.col("backend").is_in(list(backends))) if backends else timelines
    busiest = chosen.group_by("backend").len().sort("len", "backend", descending=[True, False], nulls_last=True)
    names = sorted(busiest["backend"].head(MOST_LANES).to_list(), key=lambda each: each or "")
    requests = chosen.filter(pl.col("backend").is_in(names, nulls_equal=True))
    least = workers if isinstance(workers, Mapping) else dict.fromkeys(names, workers or 1)
    lanes = tuple(Lane(printable(backend or "–", 60), least.get(backend, 1), backend in exact) for backend in names)
    columns = {
        column: requests[column].cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()
        for column in ("arrival", "begin", "end", "left", *PHASE_ENDS)
        if column in requests.columns
    }
    alike = {"started": "begin", "headers": "end", "answered": "end"}
    columns |= {name: columns[other] for name, other in alike.items() if name not in columns}
    columns.setdefault("doubt_end", np.full(len(requests), np.nan))
    until = np.where(np.isnan(columns["begin"]), columns["left"], columns["begin"])
    return Scene(
        name=printable(name, 80),
        lanes=lanes,
        first=first,
        until=np.maximum(until, columns["arrival"]),
        outcome=requests["outcome"].to_physical().cast(pl.Int64).to_numpy().copy(),
        wait_known=requests["wait_known"].fill_null(False).to_numpy().copy()
        if "wait_known" in requests.columns
        else np.ones(len(requests), np.bool_),
        lane=requests["backend"].replace_strict(names, range(len(names)), return_dtype=pl.Int64).to_numpy().copy(),
        worker=(requests["worker"].rank("dense").cast(pl.Int64) - 1).fill_null(-1).to_numpy().copy(),
        place=np.full(len(requests), -1, np.int64),
        number=requests["number"].to_numpy().copy(),
        unseen=(len(busiest) - len(names), len(chosen) - len(requests)),
        route=tuple(printable(each or "", 60) for each in requests["route"]) if "route" in requests.columns else None,
        **columns,
    )


def steps_of(begin: Floats, end: Floats) -> tuple[Floats, Ints]:
    """Return (instants, number of intervals [begin, end) that hold from then on); 0 before the first."""
    steps = Steps.of(begin, end)
    return steps.at, steps.level
