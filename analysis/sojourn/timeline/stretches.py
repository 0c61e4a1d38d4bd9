"""The stretch of a backend's requests that is looked at in detail: that with the most requests in the system."""

from __future__ import annotations

import numpy as np

from sojourn.model.arrays import Floats

LOOKED_AT = 20_000  # requests of a backend
BEFORE = 2_000  # requests that may be in service when the stretch begins


def busiest(arrival: Floats, end: Floats) -> slice:
    """Return the ``LOOKED_AT`` arrivals (s) with most requests in the system, and up to ``BEFORE`` before them."""
    if len(arrival) <= LOOKED_AT:
        return slice(0, len(arrival))
    # Little's law: the mean number in the system is the time spent in it per time.
    first = densest(arrival, end - arrival)
    return slice(max(first - BEFORE, 0), first + LOOKED_AT)


def densest(arrival: Floats, spent: Floats) -> int:
    """Return the first of ``LOOKED_AT`` successive arrivals (s), of more, with most seconds spent per time."""
    total = np.append(0.0, np.cumsum(spent))
    seconds = np.maximum(arrival[LOOKED_AT - 1 :] - arrival[: len(arrival) - LOOKED_AT + 1], 1e-9)
    return int(((total[LOOKED_AT:] - total[:-LOOKED_AT]) / seconds).argmax())
