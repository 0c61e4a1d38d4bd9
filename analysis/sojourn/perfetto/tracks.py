"""The tracks of a trace: a parent for each backend, its counters, its waiting lanes and the lanes of its workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.model.arrays import Ints
from sojourn.model.formatting import counted, printable
from sojourn.perfetto.counters import COUNTERS
from sojourn.perfetto.encoding import message, number, text
from sojourn.perfetto.schema import ChildTracksOrdering, CounterDescriptor, TrackDescriptor
from sojourn.timeline.slices import MOST_WAITING, Lane

LONGEST_NAME = 80  # characters
BY_COLUMN = {
    "waiting": "requests from the instant nginx turned to the backend to the start of their service",
    "in service": "requests that hold a worker until its release",
    "in system": "requests that wait, that hold a worker, and that were abandoned and are still in the queue",
}


@dataclass(frozen=True)
class Tracks:
    """The tracks, by their numbers (uuid), from 1: counters, parents, groups of waiting lanes, lanes.

    Attributes:
        backends: the drawn backends, as indices into the backends of the visits.
        lanes: all lanes.
    """

    backends: Sequence[int]
    lanes: Sequence[Lane]

    @property
    def first_lane(self) -> int:
        """The number of the first lane; those of the others follow."""
        return 1 + len(self.backends) * (len(COUNTERS) + 2)

    @property
    def count(self) -> int:
        """The number of tracks, which is that of the last one, too."""
        return self.first_lane + len(self.lanes) - 1

    def counter(self, kind: int, backend: Ints) -> Ints:
        """Return the track of a counter, of indices into ``backends``."""
        return 1 + kind * len(self.backends) + backend

    def descriptors(self, names: Sequence[str | None]) -> list[bytes]:
        """Return the fields of each track, parents first; ``names``: of all backends."""
        parents = 1 + len(self.backends) * len(COUNTERS)
        place = {backend: k for k, backend in enumerate(self.backends)}
        described = []
        with_waits = {lane.backend for lane in self.lanes if lane.waiting}
        for k, backend in enumerate(self.backends):
            name = "backend " + printable(names[backend] or "–", LONGEST_NAME)
            described.append(_track(parents + k, name, is_sorted=True))
            for kind, counter in enumerate(COUNTERS):
                (uuid,) = self.counter(kind, np.array([k])).tolist()
                unit = message(TrackDescriptor.COUNTER, text(CounterDescriptor.UNIT_NAME, "requests"))
                described.append(_track(uuid, counter, parents + k, kind, BY_COLUMN[counter]) + unit)
            if backend in with_waits:
                group = parents + len(self.backends) + k
                about = f"one lane for each request that waits at a time, at most {MOST_WAITING}"
                described.append(_track(group, "waiting requests", parents + k, len(COUNTERS), about, is_sorted=True))
        for number_of_lane, lane in enumerate(self.lanes):
            k = place[lane.backend]
            parent = parents + k + (len(self.backends) if lane.waiting else 0)
            rank = len(COUNTERS) + 1 + number_of_lane
            described.append(_track(self.first_lane + number_of_lane, lane.name, parent, rank))
        return described


def sentence_on_waits(unplaced: int) -> str:
    """Return the sentence on the requests whose waits no lane shows."""
    return (
        f"{counted(unplaced, 'request')} waited while {MOST_WAITING} others did: only the counters include the wait"
        if unplaced == 1
        else f"{counted(unplaced, 'request')} waited while {MOST_WAITING} others did: only the counters include these "
        "waits"
    )


def _track(
    uuid: int, name: str, parent: int | None = None, rank: int | None = None, about: str = "", *,
    is_sorted: bool = False,
) -> bytes:  # fmt: skip
    """Return the fields of a track; ``is_sorted``: whether its children have ranks."""
    return b"".join(
        (
            number(TrackDescriptor.UUID, uuid),
            text(TrackDescriptor.NAME, name),
            b"" if parent is None else number(TrackDescriptor.PARENT_UUID, parent),
            b"" if rank is None else number(TrackDescriptor.SIBLING_ORDER_RANK, rank),
            number(TrackDescriptor.CHILD_ORDERING, ChildTracksOrdering.EXPLICIT) if is_sorted else b"",
            text(TrackDescriptor.DESCRIPTION, about) if about else b"",
        )
    )
