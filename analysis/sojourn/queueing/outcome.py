"""What became of the requests of a replay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SERVED, TIMED_OUT_WAITING, TIMED_OUT_SERVED, DROPPED, REJECTED = range(5)
STATUSES = ("served", "timed_out_waiting", "timed_out_served", "dropped", "rejected")


@dataclass(frozen=True)
class Outcome:
    """Every request with its one outcome; arrays of n, in the order the requests were given. Durations in s.

    Attributes:
        arrival: s, when it came (its first attempt), on the clock of the arrivals given.
        backend: where its last attempt was sent; with a shared queue, whose worker took it, -1 for none.
        wait: of its last attempt, from its arrival to its start, or to when it was given up, dropped or rejected.
        sojourn: from its first arrival to its answer or its last failure; earlier attempts and backoff included.
        start: s, when a worker took its last attempt, if only for nobody; NaN: none ever did.
        status: SERVED; TIMED_OUT_WAITING: given up before a worker took it; TIMED_OUT_SERVED: given up during its
            service; DROPPED by the discipline; REJECTED for want of a place to wait.
        attempts: how many were made.
        busy: worker seconds, of every service begun.
        wasted: those of them for clients who had given up by the end.
        ended: s, end of the last service or the last outcome, whichever is later.
        workers: in all.
    """

    arrival: npt.NDArray[np.float64]
    backend: npt.NDArray[np.int32]
    wait: npt.NDArray[np.float64]
    sojourn: npt.NDArray[np.float64]
    start: npt.NDArray[np.float64]
    status: npt.NDArray[np.int8]
    attempts: npt.NDArray[np.int32]
    busy: float
    wasted: float
    ended: float
    workers: int

    @property
    def requests(self) -> int:
        """How many there are."""
        return len(self.status)

    @property
    def served(self) -> int:
        """Requests that were answered in time."""
        return int(np.count_nonzero(self.status == SERVED))

    @property
    def timeouts(self) -> int:
        """Requests whose client gave up in the end."""
        return int(np.count_nonzero((self.status == TIMED_OUT_WAITING) | (self.status == TIMED_OUT_SERVED)))

    @property
    def seconds(self) -> float:
        """From the first arrival to the end."""
        return self.ended - float(self.arrival.min()) if self.requests else 0.0

    @property
    def goodput(self) -> float:
        """Requests answered in time per second; NaN when no time passed."""
        return self.served / self.seconds if self.seconds > 0 else float("nan")

    @property
    def utilisation(self) -> float:
        """Share of the workers' time that was spent on services; NaN when no time passed."""
        return self.busy / (self.workers * self.seconds) if self.seconds > 0 else float("nan")

    def counts(self) -> dict[str, int]:
        """Status -> requests, all five."""
        return counts_of(self.status)


def counts_of(status: npt.NDArray[np.int8]) -> dict[str, int]:
    """Status -> requests, all five."""
    found = np.bincount(status, minlength=len(STATUSES))
    return {name: int(count) for name, count in zip(STATUSES, found, strict=True)}
