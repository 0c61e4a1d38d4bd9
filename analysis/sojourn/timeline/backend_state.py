"""State of each backend over a period: requests waiting, busy workers, and the queue at its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from sojourn.timeline.services import Services
from sojourn.timeline.steps import Steps
from sojourn.timeline.visits import Visits


@dataclass(frozen=True)
class BackendState:
    """One backend over a period.

    Attributes:
        waiting: mean number of requests waiting for a worker.
        most: the largest number.
        last: the number at the end.
        serving: mean number of requests in service: busy workers.
        utilisation: ``serving`` per worker.
    """

    waiting: float
    most: int
    last: int
    serving: float
    utilisation: float


def backend_state(visits: Visits, services: Services, backend: int, begin: datetime, end: datetime) -> BackendState:
    """Return the state of a backend, by its index, over a period in which its requests are known."""
    rows = visits.at_backend[backend]
    first, last = ((instant - visits.base).total_seconds() for instant in (begin, end))
    edges = np.array([first, last])
    waiting = Steps.of(visits.arrival[rows], visits.wait_end[rows])
    serving = Steps.of(services.begin[rows], services.end[rows])
    (waited,), (most,) = waiting.between(edges)
    (served,), _ = serving.between(edges)
    reached = int(np.searchsorted(waiting.at, last, "right")) - 1
    return BackendState(
        waiting=float(waited) / (last - first),
        most=int(most),
        last=int(waiting.level[reached]) if reached >= 0 else 0,
        serving=float(served) / (last - first),
        utilisation=float(served) / (last - first) / max(int(visits.workers.count[backend]), 1),
    )
