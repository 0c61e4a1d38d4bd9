"""Simulate the closed loop: arrivals, one queue, workers that need time to start, and a policy that looks every period.

The truth is the input: arrivals and service times. A policy gets what an autoscaler beside a server can know: counts
that are sampled every 0.2 s, the lines of requests that have ended, and the workers that are ready.

    simulated = simulate(arrivals, services, policy, startup=0.3)
    simulated.within_share(0.1), simulated.worker_seconds(0.0, 100.0)

`policies.py` has a fixed number and the lab's autoscaler; every object with ``look(now, observation) -> int`` is a
policy, too.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from studies.autoscale.figures import worker_seconds
from studies.autoscale.loop import STEP
from studies.autoscale.policies import Ended, Observation, Policy, Sample

SAMPLE_PERIOD = 0.2
"""Seconds between two samples of the counts, as `sojourn export --status` reads them."""

END, READY, ARRIVAL, GIVE_UP, SAMPLE, LOOK, SCALE = range(7)
"""Events, in the order of those at one instant: a look sees what has happened by then, its own instant included."""


@dataclass(frozen=True)
class Simulated:
    """What happened.

    Attributes:
        arrivals: instants, s.
        waits: queueing delay of each request, s; infinite where its client gave up before the answer.
        live: (instant, living workers) at each change.
        desired: (instant, workers that were set) at each look.
    """

    arrivals: NDArray[np.float64]
    waits: NDArray[np.float64]
    live: list[tuple[float, int]]
    desired: list[tuple[float, int]]

    def worker_seconds(self, since: float, until: float) -> float:
        """Return the integral of the living workers between two instants."""
        return worker_seconds(self.live, since, until)

    def within_share(self, threshold: float, since: float = 0.0, until: float = math.inf) -> float:
        """Return the share of the requests that arrived in a time and waited at most `threshold` seconds."""
        inside = (self.arrivals >= since) & (self.arrivals < until)
        return float(np.mean(self.waits[inside] <= threshold))


@dataclass(eq=False)
class Worker:
    """A worker; `free`: it is ready and has no request. `leaving`: it ends after its request."""

    ready: bool
    free: bool
    leaving: bool = False


def simulate(
    arrivals: Sequence[float] | NDArray[np.float64],
    services: Sequence[float] | NDArray[np.float64],
    policy: Policy,
    *,
    workers: int = 2,
    period: float = 2.0,
    phase: float = 0.0,
    startup: float = 0.0,
    timeout: float = math.inf,
    until: float | None = None,
) -> Simulated:
    """Return what happens to requests whose workers are set by a policy.

    One queue, first come first served. The number follows the policy as gunicorn follows SIGTTIN and SIGTTOU: one
    worker every 0.05 s; the oldest one goes, after its request. A request whose client gives up is served all the same.

    Args:
        arrivals: instants, sorted, s from 0 on.
        services: their service times, s.
        policy: looked at every `period` seconds from `phase` on.
        workers: at the start, all ready.
        period: s.
        phase: the instant of the first look, s.
        startup: seconds from the start of a worker until it is ready.
        timeout: seconds from the arrival after which a client gives up.
        until: the last instant of a look (default: the last arrival).

    Raises:
        ValueError: the policy returns less than 1.
    """
    loop = _Loop(np.asarray(arrivals, dtype=float), np.asarray(services, dtype=float), policy, workers, startup)
    loop.run(period, phase, timeout, until)
    return Simulated(loop.arrivals, loop.waits, loop.live, loop.desired)


class _Loop:
    """The state of a simulation and its events."""

    def __init__(
        self,
        arrivals: NDArray[np.float64],
        services: NDArray[np.float64],
        policy: Policy,
        workers: int,
        startup: float,
    ) -> None:
        self.arrivals = arrivals
        self.waits = np.full(len(arrivals), math.inf)
        self.live = [(0.0, workers)]
        self.desired = [(0.0, workers)]
        self._services = services
        self._policy = policy
        self._startup = startup
        self._workers = [Worker(ready=True, free=True) for _ in range(workers)]
        """Oldest first; those that leave after their request are not among them."""
        self._leaving = 0
        self._free = deque(self._workers)
        self._queue: deque[int] = deque()
        self._starts: dict[int, float] = {}
        self._gone: set[int] = set()
        self._events: list[tuple[float, int, int, int | Worker, Worker | None]] = []
        self._number = 0
        self._samples: list[Sample] = []
        self._ended: list[Ended] = []
        self._arrived = 0
        self._scaling = False

    def run(self, period: float, phase: float, timeout: float, until: float | None) -> None:
        last = float(self.arrivals[-1]) if len(self.arrivals) else 0.0
        end = last if until is None else until
        for request, instant in enumerate(self.arrivals.tolist()):
            self._add(instant, ARRIVAL, request)
            if not math.isinf(timeout):
                self._add(instant + timeout, GIVE_UP, request)
        # By number, so that no rounding adds up: a sample and a look at one instant are at one instant.
        for number in range(math.floor(end / SAMPLE_PERIOD + 1e-9) + 1):
            self._add(number * SAMPLE_PERIOD, SAMPLE)
        for number in range(math.floor((end - phase) / period + 1e-9) + 1):
            self._add(phase + number * period, LOOK)
        while self._events:
            now, event, _, subject, worker = heapq.heappop(self._events)
            self._step(round(now, 9), event, subject, worker)

    def _add(self, instant: float, event: int, subject: int | Worker = 0, worker: Worker | None = None) -> None:
        self._number += 1
        heapq.heappush(self._events, (round(instant, 9), event, self._number, subject, worker))

    def _step(self, now: float, event: int, subject: int | Worker, worker: Worker | None) -> None:
        if event == ARRIVAL and isinstance(subject, int):
            self._arrived += 1
            self._queue.append(subject)
            self._serve(now)
        elif event == END and isinstance(subject, int) and worker is not None:
            self._end(now, subject, worker)
        elif event == READY and isinstance(subject, Worker):
            if not subject.leaving:
                subject.ready = subject.free = True
                self._free.append(subject)
                self._serve(now)
        elif event == GIVE_UP and isinstance(subject, int):
            if math.isinf(self.waits[subject]):
                self._gone.add(subject)
                self._ended.append(Ended(float(self.arrivals[subject]), now, None, None))
        elif event == SAMPLE:
            self._samples.append(Sample(now, self._arrived, self._arrived - len(self._ended)))
        elif event == LOOK:
            self._look(now)
        elif event == SCALE:
            self._scale(now)

    def _serve(self, now: float) -> None:
        while self._queue and self._free:
            request, worker = self._queue.popleft(), self._free.popleft()
            worker.free = False
            self._starts[request] = now
            self._add(now + self._services[request], END, request, worker)

    def _end(self, now: float, request: int, worker: Worker) -> None:
        arrival, start = float(self.arrivals[request]), self._starts.pop(request)
        if request not in self._gone:
            self.waits[request] = max(0.0, start - arrival)
            self._ended.append(Ended(arrival, now, float(self._services[request]), float(self.waits[request])))
        if worker.leaving:
            self._leaving -= 1
            self._count(now)
            return
        worker.free = True
        self._free.append(worker)
        self._serve(now)

    def _look(self, now: float) -> None:
        ready = sum(worker.ready for worker in self._workers)
        arrived, ended, desired = self._arrived, len(self._ended), self.desired[-1][1]
        living = len(self._workers) + self._leaving
        number = self._policy.look(
            now, Observation(self._samples, self._ended, arrived, arrived - ended, ready, living, desired)
        )
        if number < 1:
            raise ValueError(f"a policy must set at least one worker, not {number}")
        self.desired.append((now, number))
        if not self._scaling:
            self._scale(now)

    def _scale(self, now: float) -> None:
        """Start or end one worker, and come back for the next one."""
        wanting = self.desired[-1][1] - len(self._workers)
        self._scaling = wanting != 0
        if wanting > 0:
            ready = self._startup <= 0.0
            self._workers.append(worker := Worker(ready=ready, free=ready))
            if ready:
                self._free.append(worker)
                self._serve(now)
            else:
                self._add(now + self._startup, READY, worker)
        elif wanting < 0:
            oldest = self._workers.pop(0)
            oldest.leaving = True
            if oldest.free:
                self._free.remove(oldest)
            elif oldest.ready:
                self._leaving += 1
        if self._scaling:
            self._count(now)
            self._add(now + STEP, SCALE)

    def _count(self, now: float) -> None:
        self.live.append((now, len(self._workers) + self._leaving))
