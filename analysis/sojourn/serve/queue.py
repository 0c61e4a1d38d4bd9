"""The queue of a view over time: requests waiting and in service, by backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.analyses.depth.groups import Group, groups_of
from sojourn.analyses.queue_source import explained
from sojourn.model.arrays import Floats
from sojourn.model.errors import SojournError
from sojourn.model.instants import epoch_us
from sojourn.sources.open_requests import OpenedRequests
from sojourn.timeline.concurrency import IN_SERVICE, WAITING, intervals_of
from sojourn.timeline.services import Services, services_of
from sojourn.timeline.steps import Steps
from sojourn.timeline.visits import Visits, WorkersLike
from sojourn.timeline.visits_of import visits_of

DRAWN = (WAITING, IN_SERVICE)


@dataclass(frozen=True)
class QueueOverTime:
    """The numbers of requests waiting and in service, as functions of time.

    Attributes:
        visits: the requests.
        services: when each held a worker.
        intervals: as of ``sojourn.timeline.concurrency.intervals_of``.
        base: unix time (us) that the instants count from.
        groups: backends.
        steps: of each group: state -> number of requests in it.
    """

    visits: Visits
    services: Services
    intervals: dict[str, tuple[Floats, Floats]]
    base: int
    groups: Sequence[Group]
    steps: Sequence[Mapping[str, Steps]]

    @classmethod
    def of(cls, requests: OpenedRequests, workers: WorkersLike = None) -> QueueOverTime:
        """Return the queue of opened requests.

        Raises:
            SojournError: no wait is known.
        """
        visits = visits_of(requests, workers=workers)
        if not len(visits):
            raise explained(SojournError("the queueing delay of no request is known"), requests)
        services = services_of(visits)
        intervals = intervals_of(visits, services)
        groups = groups_of(visits)
        steps = [
            {key: Steps.of(*(instants[group.rows] for instants in intervals[key])) for key in DRAWN} for group in groups
        ]
        return cls(visits, services, intervals, epoch_us(visits.base), groups, steps)

    def over_time(self, begin: int, width: int, count: int, upstreams: frozenset[str | None] | None) -> dict[str, Any]:
        """Return averages in ``count`` windows from ``begin``, each of ``width``, in us.

        Args:
            begin: of the first window, unix time, us.
            width: of a window, us.
            count: number of windows.
            upstreams: the backends that count; None: all.

        Returns:
            ``waiting`` and ``in_service``: mean number of requests per window; ``most_waiting``: the largest number
            that waited at one backend; ``workers``: of these backends.
        """
        edges = (begin - self.base + width * np.arange(count + 1)) / 1e6
        sums = {key: np.zeros(count) for key in DRAWN}
        most, workers = np.zeros(count, np.int64), 0
        for group, steps in zip(self.groups, self.steps, strict=True):
            if upstreams is not None and group.name not in upstreams:
                continue
            workers += group.workers
            for key in DRAWN:
                seconds, largest = steps[key].between(edges)
                sums[key] += seconds
                if key == WAITING:
                    most = np.maximum(most, largest)
        means = {key: (each / (width / 1e6)).tolist() for key, each in sums.items()}
        return {**means, "most_waiting": most.tolist(), "workers": workers}
