"""A film: scenes on one clock, and the part of it that is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise

import numpy as np

from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted, duration, iso, listed
from sojourn.movie.scenes import LABELS, Scene, steps_of
from sojourn.timeline.request_timelines import OUTCOMES

MOST = 2_000
"""Maximum requests of one film; a browser cannot draw more in time."""
MOST_SCENES = 8
ROUTES = 4  # with a colour
# Limits for cutting a film to the period of nearly all requests.
FEWEST = 4  # requests; with fewer, none is a straggler
STRAGGLERS = 0.05  # maximum share of the requests, and at least one
LONG = 0.5  # maximum length of the shown part, as a share of the film


@dataclass(frozen=True)
class Film:
    """Scenes on one clock that begins at 0.

    Attributes:
        title: of the film.
        scenes: at least one.
        seconds: length in the requests' time.
        begun: the instant 0 where all scenes share one; None where each has its own.
        notes: sentences about requests that are not shown.
        left_out: the periods cut off before and after, for a picture's caption; empty if none.
    """

    title: str
    scenes: tuple[Scene, ...]
    seconds: float
    begun: datetime | None
    notes: tuple[str, ...]
    left_out: str = ""

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that occur: service, and others of ``sojourn.movie.scenes.LABELS``, in their order in time."""
        occurring = {phase for scene in self.scenes for phase in scene.held(0.0, self.seconds)}
        return tuple(phase for phase in LABELS if phase in occurring)

    @cached_property
    def routes(self) -> tuple[str, ...]:
        """The routes that hold workers for the longest, ``ROUTES`` of them; empty if there are not several."""
        seconds: Counter[str] = Counter()
        for scene in self.scenes:
            held = np.clip(np.minimum(scene.freed, self.seconds) - np.maximum(scene.begin, 0.0), 0, None)
            for route, each in zip(scene.route or (), np.nan_to_num(held).tolist(), strict=False):
                seconds[route] += each
        ordered = [route for route, _ in sorted(seconds.items(), key=lambda item: (-item[1], item[0])) if route]
        return tuple(ordered[:ROUTES]) if len(ordered) > 1 else ()

    def to_dict(self) -> dict[str, object]:
        """Return the film as plain values; instants in seconds on the film's clock."""
        summaries = []
        for scene in self.scenes:
            ended = scene.counts(0.0, self.seconds)
            summaries.append(
                {
                    "name": scene.name,
                    "from": iso(scene.first),
                    "requests": len(scene),
                    **{name.replace(" ", "_"): ended[name] for name in OUTCOMES},
                    "most_waiting": scene.most_waiting(0.0, self.seconds),
                    "backends": [{"upstream": lane.name, "workers": lane.workers} for lane in scene.lanes],
                    "held_seconds": {
                        phase.replace(" ", "_"): round(seconds, 6)
                        for phase, seconds in scene.held(0.0, self.seconds).items()
                    },
                    "reading": scene.reading(0.0, self.seconds),
                }
            )
        window = None
        if self.begun is not None:
            window = {"from": iso(self.begun), "to": iso(self.begun + timedelta(seconds=self.seconds))}
        return {"seconds": round(self.seconds, 6), "window": window, "scenes": summaries, "notes": list(self.notes)}


def film_of(
    scenes: Sequence[Scene],
    *,
    title: str,
    since: datetime | None = None,
    until: datetime | None = None,
    most: int = MOST,
    notes: Sequence[str] = (),
) -> Film:
    """Put scenes on one clock, and select a part where there are too many requests to draw.

    Scenes that overlap in time share their clock. Where none overlap (the cases of a run, logs before and after a
    change) each begins with its own first arrival.

    Args:
        scenes: each with its own ``first``.
        title: of the film.
        since: begin of the part to show; without since and until, stragglers far from all others are left out.
        until: its end.
        most: maximum requests; with more, the part around the deepest queue is shown, and a note reports it.
        notes: further notes.

    Raises:
        SojournError: the window contains no request, or too many at one time.
    """
    cut = [_between(scene, since, until) for scene in scenes]
    drawn = [scene for scene in cut if scene is not None]
    if not drawn:
        raise SojournError("no request in this window; widen it with --since and --until")
    shared = len(drawn) == 1 or _overlap(drawn)
    if shared:
        zero = min(_begin(scene, since) for scene in drawn)
        drawn = [scene.shifted((zero - scene.first).total_seconds()) for scene in drawn]
    else:
        drawn = [scene.shifted(max(float(scene.arrival.min()), 0.0)) for scene in drawn]
    seconds = max(float(scene.gone.max()) for scene in drawn)
    if until is not None and shared:
        seconds = min(seconds, (until - drawn[0].first).total_seconds())
    remarks = [*notes, *_unseen(scenes)]
    names = [lane.name for scene in drawn for lane in scene.lanes]
    if shared and len(set(names)) < len(names):
        remarks.append(
            "Scenes share backends: each shows only its own requests, so a worker shown as free may serve a request of "
            "another scene."
        )
    left_out = ""
    if sum(len(scene) for scene in drawn) > most:
        drawn, seconds, remark = _around_the_deepest(drawn, seconds, most, shared)
        remarks.append(remark)
    elif since is None and until is None and (stretch := _crowded_stretch(drawn, seconds)) is not None:
        drawn, left_out = _cut(drawn, stretch, seconds)
        seconds = stretch[1] - stretch[0]
        remarks.append(f"Left out: {left_out}. Choose another window with --since and --until.")
    unknown = sum(int((~scene.wait_known).sum()) for scene in drawn)
    if unknown:
        remarks.append(
            f"For {counted(unknown, 'request')} the log does not show whether it waited or was in service: drawn "
            "hollow, in the queue until it ended in nginx."
        )
    doubtful = sum(int((~np.isnan(scene.doubt_end)).sum()) for scene in drawn)
    if doubtful:
        remarks.append(
            f"For {counted(doubtful, 'request')} the log does not show whether the body of the answer holds the "
            "worker: drawn hollow in the worker's box, until the answer ends or the worker takes another request."
        )
    begun = drawn[0].first if shared else None
    return Film(title, tuple(scene.placed() for scene in drawn), max(seconds, 1e-3), begun, tuple(remarks), left_out)


def _between(scene: Scene, since: datetime | None, until: datetime | None) -> Scene | None:
    begin = (since - scene.first).total_seconds() if since else -np.inf
    end = (until - scene.first).total_seconds() if until else np.inf
    part = scene.within(begin, end)
    return part if len(part) else None


def _begin(scene: Scene, since: datetime | None) -> datetime:
    first = scene.first + timedelta(seconds=float(scene.arrival.min()))
    return max(first, since) if since else first


def _overlap(scenes: Sequence[Scene]) -> bool:
    spans = sorted(
        (
            scene.first + timedelta(seconds=float(scene.arrival.min())),
            scene.first + timedelta(seconds=float(scene.arrival.max())),
        )
        for scene in scenes
    )
    return any(begin < end for (_, end), (begin, _) in pairwise(spans))


def _around_the_deepest(
    scenes: Sequence[Scene], seconds: float, most: int, shared: bool
) -> tuple[list[Scene], float, str]:
    """Return the longest window around the deepest queue with at most ``most`` requests."""
    peaks = []
    for scene in scenes:
        instants, level = steps_of(scene.arrival, scene.until)
        if len(level):
            peaks.append((int(level.max()), float(instants[level.argmax()]), scene.name))
    depth, at, name = max(peaks, default=(0, 0.0, ""))

    def bounds(half: float) -> tuple[float, float]:
        # A window that exceeds an end is shifted inside.
        begin = min(max(at - half, 0.0), max(seconds - 2 * half, 0.0))
        return begin, min(begin + 2 * half, seconds)

    def count_within(half: float) -> int:
        begin, end = bounds(half)
        return sum(int(((scene.arrival < end) & (scene.gone > begin)).sum()) for scene in scenes)

    low, high = 0.0, seconds / 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if count_within(middle) <= most else (low, middle)
    begin, end = bounds(low)
    if end - begin < 1e-3:
        raise SojournError(
            f"{counted(depth, 'request was', 'requests were')} in one queue at the same time, and {most:,} can be "
            "drawn: choose a window with fewer (--since, --until), or one backend (--backend)"
        )
    total = sum(len(scene) for scene in scenes)
    drawn = [scene.within(begin, end).shifted(begin) for scene in scenes]
    count = sum(len(scene) for scene in drawn)
    moment = drawn[0].first if shared else None
    span = (
        f"from {moment:%H:%M:%S} to {moment + timedelta(seconds=end - begin):%H:%M:%S} UTC"
        if moment
        else f"from {begin:.1f} s to {end:.1f} s after the first arrival"
    )
    queue = f" of {name}" if len(scenes) > 1 else ""
    remark = (
        f"{count:,} of {counted(total, 'request')} {'is' if count == 1 else 'are'} shown, {span}: around the deepest "
        f"queue{queue} ({depth:,} in the queue). Choose another window with --since and --until."
    )
    return [scene for scene in drawn if len(scene)], end - begin, remark


def _cut(scenes: Sequence[Scene], stretch: tuple[float, float], seconds: float) -> tuple[list[Scene], str]:
    """Return the scenes within a part of the film, and a description of the rest."""
    begin, end = stretch
    drawn = [scene.within(begin, end).shifted(begin) for scene in scenes]
    fewer = sum(len(scene) for scene in scenes) - sum(len(scene) for scene in drawn)
    sides = [f"{duration(begin)} before"] if begin > 0 else []
    sides += [f"{duration(seconds - end)} after"] if seconds > end else []
    return [scene for scene in drawn if len(scene)], f"{listed(sides)}, with {counted(fewer, 'request')}"


def _unseen(scenes: Sequence[Scene]) -> list[str]:
    notes = []
    for scene in scenes:
        backends, requests = scene.unseen
        if backends:
            more = f"{counted(backends, 'backend')} more, with {counted(requests, 'request')}"
            are = "is" if backends == 1 else "are"
            notes.append(f"{scene.name}: {more}, {are} not shown; choose with --backend.")
    return notes


def _crowded_stretch(scenes: Sequence[Scene], seconds: float) -> tuple[float, float] | None:
    """Return (begin, end), s, from the first arrival to the last end without stragglers; None to show all.

    Stragglers are requests far from all others: the shortest period that leaves out at most ``STRAGGLERS`` of the
    requests is not longer than ``LONG`` of the film. Steady traffic, however sparse, has no such period.

    """
    arrival = np.concatenate([scene.arrival for scene in scenes])
    order = np.argsort(arrival, kind="stable")
    arrival, gone = arrival[order], np.concatenate([scene.gone for scene in scenes])[order]
    if len(arrival) < FEWEST:
        return None
    need = len(arrival) - max(int(len(arrival) * STRAGGLERS), 1)
    ends = np.lib.stride_tricks.sliding_window_view(gone, need).max(axis=1)
    begins = np.maximum(arrival[: len(ends)], 0.0)
    best = int((ends - begins).argmin())
    begin, end = float(begins[best]), float(min(ends[best], seconds))
    return (begin, end) if 0 < end - begin <= LONG * seconds else None
