"""When each request waited, was gone but still ahead of others, and was in service."""

from __future__ import annotations

import numpy as np

from sojourn.model.arrays import Floats
from sojourn.timeline.services import Services
from sojourn.timeline.visits import Visits

MICROSECOND = 1e-6  # s: instants nearer than this are one


def queue_intervals(visits: Visits, services: Services) -> dict[str, tuple[Floats, Floats]]:
    """Return state -> begin and end (s) of each visit in it; of no length: it was never in it.

    ``waiting``: from its arrival to the end of its wait. ``gone``: from there to the begin of its service, if the
    client had disconnected before. ``in_service``: it holds a worker; NaN: unknown.

    Args:
        visits: the requests.
        services: when each of them held a worker.
    """
    late = services.begin > visits.wait_end + MICROSECOND
    starts = np.where(late, services.begin, visits.wait_end)
    left = np.where(visits.occupied < visits.busy_start, np.minimum(visits.wait_end, visits.occupied), visits.wait_end)
    return {
        "waiting": (visits.arrival, left),
        "gone": (visits.wait_end, starts),
        "in_service": (services.begin, services.end),
    }
