"""A reference queue in plain Python, event by event with linear searches, to verify the replay."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from sojourn.queueing.system import System


@dataclass(eq=False)
class Attempt:
    request: int
    number: int
    arrived: float
    service: float
    backend: int | None
    present: bool = True
    start: float | None = None
    worker_of: int | None = None


class Codel:
    """The pseudocode of RFC 8289, §5, over whole queues."""

    def __init__(self, target: float, interval: float) -> None:
        self.target, self.interval = target, interval
        self.first_above = self.drop_next = 0.0
        self.count = self.last_count = 0
        self.dropping = False

    def _head(self, queue: list[Attempt], now: float) -> tuple[Attempt | None, bool]:
        if not queue:
            self.first_above = 0.0
            return None, False
        head = queue.pop(0)
        if now - head.arrived < self.target or not queue:
            self.first_above = 0.0
            return head, False
        if self.first_above == 0.0:
            self.first_above = now + self.interval
            return head, False
        return head, now >= self.first_above

    def dequeue(self, queue: list[Attempt], now: float) -> tuple[Attempt | None, list[Attempt]]:
        gone = []
        head, may = self._head(queue, now)
        if self.dropping:
            if not may:
                self.dropping = False
            while self.dropping and now >= self.drop_next:
                gone.append(head)
                self.count += 1
                head, may = self._head(queue, now)
                if not may:
                    self.dropping = False
                else:
                    self.drop_next += self.interval / math.sqrt(self.count)
        elif may:
            gone.append(head)
            head, may = self._head(queue, now)
            self.dropping = True
            delta = self.count - self.last_count
            self.count = delta if delta > 1 and now - self.drop_next < 16 * self.interval else 1
            self.drop_next = now + self.interval / math.sqrt(self.count)
            self.last_count = self.count
        return head, gone


class Reference:
    """A queue; ``run`` computes status, arrival, sojourn, wait, start and attempts per request, busy and wasted."""

    def __init__(self, arrivals, services, system: System, backend=None, previous=None, think=None) -> None:
        self.system, self.services, self.destination = system, list(services), backend
        self.previous = list(previous) if previous is not None else [-1] * len(self.services)
        self.think = list(think) if think is not None else [0.0] * len(self.services)
        self.coming = [(t, i) for i, t in enumerate(arrivals) if self.previous[i] < 0]
        self.shared = system.balancer == "shared_queue"
        count = 1 if self.shared else system.backends
        self.queues: list[list[Attempt]] = [[] for _ in range(count)]
        self.codel = [Codel(system.codel_target, system.codel_interval) for _ in range(count)]
        self.serving: list[Attempt] = []
        self.turn, self.current = 0, [0] * system.backends
        n = len(self.services)
        self.status = [None] * n
        self.arrival, self.sojourn, self.wait, self.start = ([math.nan] * n for _ in range(4))
        self.attempts = [0] * n
        self.busy = self.wasted = 0.0

    def run(self) -> Reference:
        while True:
            live = [a for a in [*self.serving, *(a for queue in self.queues for a in queue)] if a.present]
            gone = [(a.arrived + (self.system.timeout or math.inf), a) for a in live]
            ends = [(a.start + a.service, a.request, a) for a in self.serving]
            instants = [t for t, *_ in [*gone, *ends, *self.coming]]
            now = min(instants, default=math.inf)
            if math.isinf(now):
                return self
            late = sorted((a for t, a in gone if t == now), key=lambda a: (a.arrived, a.request))
            if late:
                for attempt in late:
                    self.give_up(attempt, now)
                continue
            done = [(r, a) for t, r, a in ends if t == now]
            if done:
                self.end(min(done, key=lambda pair: pair[0])[1], now)
            else:
                entry = min(self.coming)
                self.coming.remove(entry)
                self.come(entry[1], now)

    def give_up(self, attempt: Attempt, now: float) -> None:
        attempt.present = False
        if attempt.start is None:
            self.wait[attempt.request] = now - attempt.arrived
        self.fail(attempt.request, "timed_out_waiting" if attempt.start is None else "timed_out_served", now)

    def fail(self, i: int, status: str, now: float) -> None:
        if self.attempts[i] <= self.system.retries:
            self.coming.append((now + self.system.backoff, i))
        else:
            self.settle(i, status, now)

    def settle(self, i: int, status: str, now: float) -> None:
        assert self.status[i] is None
        self.status[i], self.sojourn[i] = status, now - self.arrival[i]
        self.coming += [(now + self.think[j], j) for j, p in enumerate(self.previous) if p == i]

    def end(self, attempt: Attempt, now: float) -> None:
        self.serving.remove(attempt)
        if attempt.present:
            attempt.present = False
            self.settle(attempt.request, "served", now)
        else:
            self.wasted += attempt.service
        self.serve(0 if self.shared else attempt.backend, now)

    def connections(self, b: int) -> int:
        waiting = sum(a.present and a.backend == b for queue in self.queues for a in queue)
        return waiting + sum(a.present and a.backend == b for a in self.serving)

    def choose(self, i: int) -> int | None:
        if self.shared:
            return None
        if self.system.balancer == "given":
            return int(self.destination[i])
        if self.system.balancer == "round_robin":
            self.turn += 1
            return (self.turn - 1) % self.system.backends
        open_ = [self.connections(b) for b in range(self.system.backends)]
        tied = [b for b in range(self.system.backends) if open_[b] == min(open_)]
        if len(tied) == 1:
            return tied[0]
        for b in tied:
            self.current[b] += 1
        best = max(tied, key=lambda b: (self.current[b], -b))
        self.current[best] -= len(tied)
        return best

    def free(self, q: int) -> int:
        total = sum(self.system.workers) if self.shared else self.system.workers[q]
        return total - sum(self.shared or a.backend == q for a in self.serving)

    def come(self, i: int, now: float) -> None:
        if not self.attempts[i]:
            self.arrival[i] = now
        self.attempts[i] += 1
        self.wait[i], self.start[i] = 0.0, math.nan
        b = self.choose(i)
        q = 0 if self.shared else b
        limit = math.inf
        if self.system.capacity is not None:
            limit = self.system.capacity * (self.system.backends if self.shared else 1)
        if not self.free(q) and len(self.queues[q]) >= limit:
            self.fail(i, "rejected", now)
            return
        self.queues[q].append(Attempt(i, self.attempts[i], now, self.services[i], b))
        self.serve(q, now)

    def take(self, q: int, now: float) -> Attempt | None:
        queue, system = self.queues[q], self.system
        if system.discipline == "codel":
            head, gone = self.codel[q].dequeue(queue, now)
            for attempt in gone:
                self.drop(attempt, now)
            return head
        if system.discipline == "deadline":
            while queue:
                head = queue.pop(0)
                if head.present and head.arrived + system.timeout - now > system.deadline_margin:
                    return head
                self.drop(head, now)
            return None
        if system.discipline == "sjf":
            head = min(queue, key=lambda a: (a.service, a.arrived, a.request))
            queue.remove(head)
            return head
        last = system.discipline == "lifo" or (
            system.discipline == "adaptive_lifo" and len(queue) > system.lifo_threshold
        )
        return queue.pop(-1 if last else 0)

    def drop(self, attempt: Attempt, now: float) -> None:
        if attempt.present:
            attempt.present = False
            self.wait[attempt.request] = now - attempt.arrived
            self.fail(attempt.request, "dropped", now)

    def serve(self, q: int, now: float) -> None:
        while self.free(q) > 0 and self.queues[q]:
            attempt = self.take(q, now)
            if attempt is None:
                continue
            attempt.start = now
            i = attempt.request
            if attempt.number == self.attempts[i]:
                self.start[i] = now
                if attempt.present:
                    self.wait[i] = now - attempt.arrived
            self.busy += attempt.service
            self.serving.append(attempt)


def drawn(seed: int, n: int, rate: float, *, lattice: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return arrivals and services; on a lattice of eighths, events coincide and sums are exact."""
    rng = np.random.default_rng(seed)
    gaps, services = rng.exponential(1 / rate, n), rng.exponential(1.0, n)
    if lattice:
        gaps, services = np.round(gaps * 8) / 8, np.ceil(services * 8) / 8
    return np.cumsum(gaps), services
