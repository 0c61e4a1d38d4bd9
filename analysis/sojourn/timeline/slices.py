"""What each lane of a worker and each lane of waiting requests shows, slice by slice, and which request caused a wait.

Instants are whole microseconds after the base of the visits, the resolution of the log: two that differ by less are
one, so that the slices of a lane follow each other without overlapping.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.model.formatting import printable
from sojourn.timeline.arrows import VisitTimes, culprits_of
from sojourn.timeline.classes import classes_of
from sojourn.timeline.concurrency import GONE, IN_SERVICE, WAITING
from sojourn.timeline.lanes import lanes_of_groups, lowest_free
from sojourn.timeline.phases import AFTER, BODY, READ, SERVICE
from sojourn.timeline.services import Services
from sojourn.timeline.visits import Visits

TURNAROUND = "turnaround"  # from the release of a worker to the start of the next request that waited for it
UNKNOWN = "unknown service"  # of a request without a service time: from the end of its wait until its answer began
ABANDONED = "abandoned"  # in the queue after nginx or the client gave up: the app has yet to take it
HOLDS = (READ, SERVICE, BODY, AFTER, TURNAROUND)  # in their order in time
CATEGORIES = (*HOLDS, UNKNOWN, WAITING, ABANDONED)

LONGEST_NAME = 80  # characters
MOST_WAITING = 200  # lanes of waiting requests of a backend


@dataclass(frozen=True)
class Lane:
    """A lane, which shows one slice at a time.

    Attributes:
        backend: index into the backends of the visits.
        worker: worker value; None: the lane is assigned, because the worker is not in the log.
        number: from 0: of the lanes of this worker, or of the assigned ones.
        waiting: whether it shows waiting requests.
    """

    backend: int
    worker: str | None
    number: int
    waiting: bool = False

    @property
    def name(self) -> str:
        """The name of the lane."""
        if self.waiting:
            return f"waiting {self.number + 1}"
        if self.worker is None:
            return f"slot {self.number + 1} (assigned)"
        name = f"worker {printable(self.worker, LONGEST_NAME)}"
        return f"{name} · {self.number + 1}" if self.number else name


@dataclass(frozen=True)
class Slices:
    """Slices in the order of the requests, m of them.

    Attributes:
        begin, end: µs; each ends after its begin.
        lane: index into ``lanes``.
        request: index into the visits.
        category: index into ``CATEGORIES``.
        details: whether the slice has all values of its request: the first of its worker, or else of its wait.
        lanes: all lanes.
        unplaced: number of requests whose wait no lane shows, because ``MOST_WAITING`` others waited.
        culprit: index of the request whose release each request waited for, n; -1: none.
        left: when each request left the queue, µs, n.
    """

    begin: Ints
    end: Ints
    lane: Ints
    request: Ints
    category: Ints
    details: Bools
    lanes: list[Lane]
    unplaced: int
    culprit: Ints
    left: Ints


def micros(seconds: Floats) -> Ints:
    """Return instants in whole microseconds; an unknown one (NaN) is before all others."""
    return np.where(np.isnan(seconds), np.iinfo(np.int64).min, np.rint(seconds * 1e6)).astype(np.int64)


def slices_of(
    visits: Visits, services: Services, intervals: dict[str, tuple[Floats, Floats]], drawn: Bools, chosen: Bools
) -> Slices:
    """Return the slices of visits.

    Args:
        visits: the requests.
        services: when each held a worker.
        intervals: as of ``sojourn.timeline.concurrency.intervals_of``.
        drawn: the requests at the backends that are drawn.
        chosen: of these, the requests whose waits are drawn.
    """
    begin, end = (micros(each) for each in intervals[IN_SERVICE])
    held = np.flatnonzero(drawn & (end > begin) & ~np.isnan(services.begin))
    hold_lane = np.full(len(visits), -1, np.int64)
    lanes, hold_lane[held] = _worker_lanes(visits, held, begin[held], _sure_end(visits, held, begin, end))
    is_assigned = np.array([*(lane.worker is None for lane in lanes), False])[hold_lane]
    end[held] = _until_next(hold_lane[held], begin[held], end[held])
    arrival, left = (micros(each) for each in intervals[WAITING])
    gone, begun = (micros(each) for each in intervals[GONE])
    wait_lane, waiting, unplaced = _waiting_lanes(visits, arrival, np.maximum(left, begun), drawn & chosen, len(lanes))
    placed = wait_lane >= 0
    is_wait, is_gone = placed & (left > arrival), placed & (begun > gone)
    request, phase, first, last = _phases(visits, services, held, end[held])
    waits, lingering = np.flatnonzero(is_wait), np.flatnonzero(is_gone)
    of_request = np.concatenate([request, waits, lingering])
    category = np.concatenate(
        [phase, np.full(len(waits), CATEGORIES.index(WAITING)), np.full(len(lingering), CATEGORIES.index(ABANDONED))]
    )
    # The first slice of each request: in its worker, or else its wait.
    is_held = hold_lane >= 0
    first_of_hold = np.append(True, request[1:] != request[:-1])[: len(request)]
    details = np.concatenate([first_of_hold, ~is_held[waits], ~(is_held | is_wait)[lingering]])
    return Slices(
        np.concatenate([first, arrival[waits], gone[lingering]]),
        np.concatenate([last, left[waits], begun[lingering]]),
        np.concatenate([hold_lane[request], wait_lane[waits], wait_lane[lingering]]),
        of_request,
        category,
        details,
        lanes + waiting,
        unplaced,
        culprits_of(visits, VisitTimes(arrival, left, begin, end, hold_lane, is_assigned), is_wait),
        left,
    )


def _worker_lanes(visits: Visits, held: Ints, begin: Ints, end: Ints) -> tuple[list[Lane], Ints]:
    """Return the lanes of workers, and the lane of each request that holds one (``held``, from begin to end)."""
    backend = visits.backend[held].astype(np.int64)
    worker, names = np.zeros(len(held), np.int64), [""]
    has_name = np.zeros(len(held), np.bool_)
    if "worker" in visits.rows.columns:
        values = visits.column_at("worker", held)
        worker, names = classes_of(values)
        has_name = values.is_not_null().to_numpy() & (visits.workers.names[backend] > 0)
    # One code for each worker of a backend, and one for all its requests without a worker.
    code = np.where(has_name, worker + 1, 0) + backend * (len(names) + 1)
    codes, group = np.unique(code, return_inverse=True)
    number = lanes_of_groups(group, begin, end)
    unnamed = np.flatnonzero(~has_name)
    unnamed = unnamed[np.lexsort((begin[unnamed], group[unnamed]))]
    for members in np.split(unnamed, np.flatnonzero(np.diff(group[unnamed])) + 1):
        number[members] = lowest_free(begin[members], end[members])
    count = int(number.max(initial=0)) + 1
    keys, lane = np.unique(group * count + number, return_inverse=True)
    lanes = []
    for key in keys.tolist():
        of_backend, of_worker = divmod(int(codes[key // count]), len(names) + 1)
        lanes.append(Lane(of_backend, names[of_worker - 1] if of_worker else None, key % count))
    return lanes, lane.astype(np.int64)


def _waiting_lanes(
    visits: Visits, arrival: Ints, until: Ints, chosen: Bools, first: int
) -> tuple[Ints, list[Lane], int]:
    """Return the waiting lane of each request, from ``first``, or -1; the lanes; and how many waits have none."""
    lane = np.full(len(visits), -1, np.int64)
    lanes: list[Lane] = []
    unplaced = 0
    waits = chosen & (until > arrival)
    for backend in np.unique(visits.backend[waits]).tolist():
        members = visits.at_backend[backend]
        members = members[waits[members]]
        number = lowest_free(arrival[members], until[members], MOST_WAITING)
        lane[members] = np.where(number >= 0, number + first + len(lanes), -1)
        unplaced += int((number < 0).sum())
        lanes += [Lane(backend, None, k, waiting=True) for k in range(int(number.max()) + 1)]
    return lane, lanes, unplaced


def _sure_end(visits: Visits, held: Ints, begin: Ints, end: Ints) -> Ints:
    """Return the end of each hold without what may be rounding of the app's clock: the worker's next may begin then."""
    slack = np.array(visits.workers.slack or (0.0,) * len(visits.backends))
    rounding = np.floor(slack * 1e6).astype(np.int64)[visits.backend[held]]
    return np.maximum(end[held] - rounding, begin[held] + 1)


def _until_next(lane: Ints, begin: Ints, end: Ints) -> Ints:
    """Return the ends of the holds, none of which is later than the next begin of the lane."""
    order = np.lexsort((begin, lane))
    same = lane[order[1:]] == lane[order[:-1]]
    cut = end.copy()
    cut[order[:-1][same]] = np.minimum(end[order[:-1]], begin[order[1:]])[same]
    return cut


def _phases(visits: Visits, services: Services, held: Ints, until: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return request, category, begin and end of the slices in which requests hold workers, each request's together.

    ``until``: the end of each, µs.
    """
    has_service = services.known[held]
    begin, end, start, release = (
        services.begin[held],
        services.end[held],
        visits.busy_start[held],
        visits.busy_end[held],
    )
    headers = body_end = release
    if visits.phases is not None:
        headers, body_end = visits.phases.headers[held], visits.phases.body_end[held]
    inner = [np.where(has_service, each, guessed) for each, guessed in (
        (start, begin), (headers, end), (body_end, end), (release, end),
    )]  # fmt: skip
    edges = np.maximum.accumulate(np.column_stack([micros(each) for each in (begin, *inner, end)]), axis=1)
    edges = np.minimum(edges, until[:, None])
    place, phase = np.nonzero(edges[:, 1:] > edges[:, :-1])
    category = np.where(has_service[place], phase, CATEGORIES.index(UNKNOWN))
    return held[place], category, edges[place, phase], edges[place, phase + 1]
