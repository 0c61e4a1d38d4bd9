"""The outcome of a replay, request by request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn.model.arrays import Floats

SERVED, TIMED_OUT_WAITING, TIMED_OUT_SERVED, DROPPED, REJECTED = range(5)
STATUSES = ("served", "timed_out_waiting", "timed_out_served", "dropped", "rejected")


@dataclass(frozen=True)
class Outcome:
    """Every request with its outcome; arrays of n, in the order of the input. Durations in s.

    Attributes:
        arrival: s, of its first attempt, on the clock of the input.
        backend: of its last attempt; with a shared queue, that of the worker that took it, -1 for none.
        wait: of its last attempt, from its arrival to its start, or until it timed out, was dropped or rejected.
        sojourn: from its first arrival to its answer or its last failure; with earlier attempts and backoff.
        start: s, when a worker took its last attempt, even after the time-out; NaN: never.
        status: SERVED; TIMED_OUT_WAITING: before a worker took it; TIMED_OUT_SERVED: during its service; DROPPED by
            the discipline; REJECTED, because the queue was full.
        attempts: number of attempts.
        busy: worker seconds, of every service begun.
        wasted: worker seconds of services whose client had given up by the end.
        ended: s, end of the last service or the last outcome, whichever is later.
        workers: total number.
    """

    arrival: Floats
    backend: npt.NDArray[np.int32]
    wait: Floats
    sojourn: Floats
    start: Floats
    status: npt.NDArray[np.int8]
    attempts: npt.NDArray[np.int32]
    busy: float
    wasted: float
    ended: float
    workers: int

    @property
    def requests(self) -> int:
        """Return the number of requests."""
        return len(self.status)

    @property
    def served(self) -> int:
        """Return the number of requests that were answered in time."""
        return int(np.count_nonzero(self.status == SERVED))

    @property
    def timeouts(self) -> int:
        """Return the number of requests that timed out in the end."""
        return int(np.count_nonzero((self.status == TIMED_OUT_WAITING) | (self.status == TIMED_OUT_SERVED)))

    @property
    def seconds(self) -> float:
        """Return the time from the first arrival to the end, s."""
        return self.ended - float(self.arrival.min()) if self.requests else 0.0

    @property
    def goodput(self) -> float:
        """Return the requests answered in time per second; NaN if no time passed."""
        return self.served / self.seconds if self.seconds > 0 else float("nan")

    @property
    def utilisation(self) -> float:
        """Return the share of the workers' time that was spent on services; NaN if no time passed."""
        return self.busy / (self.workers * self.seconds) if self.seconds > 0 else float("nan")

    def counts(self) -> dict[str, int]:
        """Return status -> requests, all five."""
        return counts_of(self.status)


def counts_of(status: npt.NDArray[np.int8]) -> dict[str, int]:
    """Return status -> requests, all five."""
    counts = np.bincount(status, minlength=len(STATUSES))
    return {name: int(count) for name, count in zip(STATUSES, counts, strict=True)}
