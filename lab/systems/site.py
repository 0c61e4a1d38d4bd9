"""The simulated site: nginx, backends, workers in groups with a queue each, and what may be special about them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from systems.kernel import Kernel, Process, Slots
from systems.requests import AS_IT_IS, Change, Request, rng_of


@dataclass(slots=True)
class Worker:
    """One worker: its name, since when it is present, and whether it leaves after its request."""

    name: str
    since: float
    index: int
    leaving: bool = False


@dataclass
class Group:
    """Workers that take requests from one queue, and the requests in it."""

    workers: int
    idle: deque[Worker] = field(default_factory=deque)
    queue: deque[tuple[Request, Process]] = field(default_factory=deque)
    present: list[Worker] = field(default_factory=list)
    busy: int = 0

    @property
    def load(self) -> int:
        """Requests waiting and in service."""
        return self.busy + len(self.queue)


@dataclass(frozen=True)
class Setup:
    """How a site is built. Durations in s.

    Attributes:
        workers: per backend, before the change.
        backends: number, before the change.
        groups: number of workers of a backend -> sizes of its groups; None: one group.
        choose: (request, groups, site) -> group of the request; None: the first.
        order: fifo, lifo, or a priority of a request (the smallest first).
        balancer: round_robin, random or least_conn.
        pick: which idle worker takes a request: longest (idle), or last (a stack).
        overhead: (least, most) between the release of a request and the next one of the same worker.
        way: one way between nginx and the backend.
        limit: most requests that nginx or a proxy has under way at the backends; None: no limit.
        pauses: (begin, end) in which all workers stand still.
        absences: number of workers -> (worker, begin, end) of its absences.
        body_holds: whether the worker is held while the body is sent.
        work: the service of a request after its start; None: it takes its service time.
        name: (request, worker) -> worker value of the record; None: the worker's own.
        address: (request, site) -> upstream address; None: the backend's.
        seed: of random choices.
    """

    workers: int = 4
    backends: int = 1
    groups: Callable[[int], Sequence[int]] | None = None
    choose: Callable[[Request, Sequence[Group], Site], int] | None = None
    order: str | Callable[[Request], float] = "fifo"
    balancer: str = "round_robin"
    pick: str = "longest"
    overhead: tuple[float, float] = (0.0, 0.0)
    way: float = 0.0003
    limit: int | None = None
    pauses: Sequence[tuple[float, float]] = ()
    absences: Callable[[int], Iterable[tuple[int, float, float]]] | None = None
    body_holds: bool = True
    work: Callable[[Request, Site], Process] | None = None
    name: Callable[[Request, Worker], str] | None = None
    address: Callable[[Request, Site], str] | None = None
    seed: int = 11


class Site:
    """A site under simulation; ``requests`` are those it served, and ``presence`` the worker seconds present."""

    def __init__(self, setup: Setup, change: Change = AS_IT_IS) -> None:
        self.setup, self.kernel, self.rng = setup, Kernel(), rng_of(setup.seed)
        self.requests: list[Request] = []
        self._never_absent = change.never_absent
        self.presence = 0.0
        self.size = setup.workers + change.workers
        backends = setup.backends
        if change.total is not None and backends == 1:
            self.size = change.total
        elif change.total is not None:
            backends = max(change.total // setup.workers, 1)
        self.gate = Slots(self.kernel, setup.limit + change.limit) if setup.limit else None
        apart = setup.groups is not None and not change.one_queue
        sizes = setup.groups(self.size) if setup.groups and apart else (self.size,)
        self._choose = setup.choose if apart else None
        self.backends = [[Group(size) for size in sizes] for _ in range(backends)]
        self.under_way = [0] * backends
        self._held: dict[int, Worker] = {}
        self.left: list[tuple[int, int, float, float]] = []
        self._turn = 0
        self._names = 0
        self._absent(setup)

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self.size * len(self.backends)

    def _absent(self, setup: Setup) -> None:
        planned = list(setup.absences(self.size)) if setup.absences and not self._never_absent else []
        away = {index for index, begin, _ in planned if begin <= 0.0}
        for number, groups in enumerate(self.backends):
            first = 0
            for group in groups:
                for index in range(first, first + group.workers):
                    if index not in away:
                        self._join(number, group, index)
                first += group.workers
            for index, begin, end in planned:
                place = next(g for g, low in self._bounds(groups) if low <= index < low + g.workers)
                if begin > 0.0:
                    self.kernel.call(lambda g=place, i=index: self._leave(g, i), begin)  # type: ignore[misc]
                self.kernel.call(lambda n=number, g=place, i=index: self._join(n, g, i), end)  # type: ignore[misc]

    @staticmethod
    def _bounds(groups: Sequence[Group]) -> list[tuple[Group, int]]:
        low, bounds = 0, []
        for group in groups:
            bounds.append((group, low))
            low += group.workers
        return bounds

    def _join(self, backend: int, group: Group, index: int) -> None:
        self._names += 1
        worker = Worker(str(1000 + 1000 * backend + self._names), self.kernel.now, index)
        group.present.append(worker)
        self._free(group, worker)

    def _leave(self, group: Group, index: int) -> None:
        for worker in [w for w in group.present if w.index == index and not w.leaving]:
            worker.leaving = True
            if worker in group.idle:
                group.idle.remove(worker)
                self._gone(group, worker)

    def _gone(self, group: Group, worker: Worker) -> None:
        group.present.remove(worker)
        self.left.append((*self._place(group), worker.since, self.kernel.now))

    def _place(self, group: Group) -> tuple[int, int]:
        """Return the backend and the number of a group."""
        return next(
            (number, place)
            for number, groups in enumerate(self.backends)
            for place, each in enumerate(groups)
            if each is group
        )

    def lives(self) -> list[tuple[int, int, float, float]]:
        """Return the backend, group, begin and end (s) of the presence of each worker, until the last request."""
        last = max(max(request.end, request.released) for request in self.requests)
        still = [
            (number, place, worker.since, last)
            for number, groups in enumerate(self.backends)
            for place, group in enumerate(groups)
            for worker in group.present
        ]
        return [(number, place, begin, min(end, last)) for number, place, begin, end in [*self.left, *still]]

    def _free(self, group: Group, worker: Worker) -> None:
        if worker.leaving:
            self._gone(group, worker)
        elif group.queue:
            request, process = self._next(group)
            self._serve(group, worker, request)
            self.kernel.start(process)
        else:
            group.idle.append(worker)

    def _next(self, group: Group) -> tuple[Request, Process]:
        order = self.setup.order
        if order == "fifo":
            return group.queue.popleft()
        if isinstance(order, str):
            return group.queue.pop()
        best = min(range(len(group.queue)), key=lambda i: (order(group.queue[i][0]), i))
        entry = group.queue[best]
        del group.queue[best]
        return entry

    def _serve(self, group: Group, worker: Worker, request: Request) -> None:
        group.busy += 1
        request.got_worker = self.kernel.now
        request.worker = self.setup.name(request, worker) if self.setup.name else worker.name
        self._held[request.number] = worker

    def working(self, seconds: float) -> float:
        """Return how long ``seconds`` of work take from now, with the pauses."""
        if not self.setup.pauses:
            return seconds
        now, left = self.kernel.now, seconds
        at = now
        for begin, end in self.setup.pauses:
            if end <= at:
                continue
            if at + left < begin:
                break
            left -= max(begin - at, 0.0)
            at = end
        return at + left - now

    def worker_of(self, request: Request) -> Worker:
        """Return the worker that a request holds."""
        return self._held[request.number]

    def _release(self, request: Request, group: Group) -> None:
        worker = self._held.pop(request.number)
        request.released = self.kernel.now
        group.busy -= 1
        low, high = self.setup.overhead
        request.freed = self.kernel.now + (self.rng.uniform(low, high) if high > 0 else 0.0)
        if high > 0:
            self.kernel.call(lambda: self._free(group, worker), request.freed)
        else:
            self._free(group, worker)

    def _backend(self) -> int:
        count = len(self.backends)
        if self.setup.balancer == "random":
            return self.rng.randrange(count)
        self._turn += 1
        turn = self._turn % count
        if self.setup.balancer == "least_conn":
            return min(range(count), key=lambda b: (self.under_way[b], (b - turn) % count))
        return turn

    def visit(self, request: Request) -> Process:
        """Serve a request from its stamp to the end of its answer at the app."""
        setup, kernel = self.setup, self.kernel
        self.requests.append(request)
        if self.gate:
            yield self.gate.take
        request.gated = kernel.now
        request.backend = self._backend()
        self.under_way[request.backend] += 1
        request.address = setup.address(request, self) if setup.address else f"10.0.0.{request.backend + 1}:8080"
        yield setup.way * self.rng.uniform(0.8, 1.2)
        request.reached = kernel.now
        groups = self.backends[request.backend]
        request.group = self._choose(request, groups, self) if self._choose else 0
        group = groups[request.group]
        if group.idle:
            self._serve(group, self._idle(group), request)
        else:
            yield lambda process: group.queue.append((request, process))
        if request.before or setup.pauses:
            yield self.working(request.before)
        request.begun = kernel.now
        if setup.work is not None:
            yield from setup.work(request, self)
        else:
            yield self.working(request.service)
        request.headers = kernel.now
        if not setup.body_holds:
            self._release(request, group)
        if request.body:
            yield self.working(request.body)
        request.answered = kernel.now
        back = setup.way * self.rng.uniform(0.8, 1.2)
        self._end(request, back)
        self.under_way[request.backend] -= 1
        if self.gate:
            kernel.call(self.gate.release, kernel.now + back)
        if setup.body_holds:
            if request.after:
                kernel.start(self._after(request, group))
            else:
                self._release(request, group)

    def _end(self, request: Request, back: float) -> None:
        request.end = self.kernel.now + back + request.send
        if request.headers + back > request.stamp + request.timeout:
            request.status, request.end = request.give_up, request.stamp + request.timeout

    def _after(self, request: Request, group: Group) -> Process:
        yield self.working(request.after)
        self._release(request, group)

    def _idle(self, group: Group) -> Worker:
        return group.idle.pop() if self.setup.pick == "last" else group.idle.popleft()

    def run(self) -> None:
        """Run to the end; count the worker seconds present to the last end of a request."""
        self.kernel.run()
        self.presence = sum(max(end - begin, 0.0) for _, _, begin, end in self.lives())


def serve(requests: Sequence[Request], setup: Setup, change: Change = AS_IT_IS) -> Site:
    """Serve requests that arrive when they do, whatever the site does."""
    site = Site(setup, change)
    for request in requests:
        site.kernel.start(site.visit(request), request.stamp)
    site.run()
    return site
