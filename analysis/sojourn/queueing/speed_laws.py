"""How fast services advance when several share a resource: processors, a lock, a database.

The speed of each of n services in progress is a function of n alone, 1 for a single one:

    shared part   a share p of each service needs a resource that C services use at full speed, and the rest does not.
                  The number at the resource is that of the machine repairman (Feller 1968, XVII.7), a closed network
                  of a delay and a station of C servers: p = 1 gives min(1, C / n), processors; C = 1 a lock.
    coherence     1 / (1 + a (n - 1) + b n (n - 1)), the universal scalability law (Gunther 2007, ch. 4), per service.

A resource that serves a number of services at a time at full speed, while the others wait for their turn, has places.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.model.arrays import Floats


@dataclass(frozen=True)
class SpeedLaw:
    """A law of speed.

    Attributes:
        share: p, the part of each service that needs the resource, from 0 to 1.
        capacity: C, how many services the resource serves at full speed, at least 1; infinite: services share nothing.
        contention, coherence: a and b; both 0: none.
    """

    share: float = 1.0
    capacity: float = math.inf
    contention: float = 0.0
    coherence: float = 0.0

    def speeds(self, most: int) -> Floats:
        """Return the speed of each service with 0 to ``most`` in progress; ``most`` + 1 values from 0 to 1."""
        n = np.arange(most + 1, dtype=np.float64)
        if self.contention or self.coherence:
            return 1.0 / (
                1.0 + self.contention * np.maximum(n - 1.0, 0.0) + self.coherence * np.maximum(n * (n - 1), 0)
            )
        if self.share <= 0 or self.capacity >= most:
            return np.ones(most + 1)
        if self.share >= 1:
            return np.minimum(1.0, self.capacity / np.maximum(n, 1.0))
        return _with_repairman(most, self.share, self.capacity)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; None for an infinite capacity."""
        return {**self.__dict__, "capacity": self.capacity if math.isfinite(self.capacity) else None}


@dataclass(frozen=True)
class Places:
    """A resource that serves ``number`` services at a time, first come, first served: a pool of connections."""

    number: int

    def speeds(self, most: int) -> Floats:
        """Return the speed of each service that has a place, with 0 to ``most`` in progress: 1."""
        return np.ones(most + 1)


Law = SpeedLaw | Places
NOTHING_SHARED = SpeedLaw()


def _with_repairman(most: int, share: float, capacity: float) -> Floats:
    """Return the speeds where a share of each service is at a station of ``capacity`` servers and the rest is not."""
    number = np.arange(most + 1, dtype=np.float64)
    serving = np.minimum(number, capacity)
    speeds = np.ones(most + 1)
    # A number m at the station of k in all: it grows at (k - m) / (1 - p) and falls at min(m, C) / p.
    down = np.log(serving[1:] / share)
    for k in range(1, most + 1):
        up = np.log((k - number[:k]) / (1.0 - share))
        weight = np.concatenate([[0.0], np.cumsum(up - down[:k])])
        weight = np.exp(weight - weight.max())
        speeds[k] = float((weight * serving[: k + 1]).sum() / weight.sum()) / (share * k)
    return speeds
