"""The phases in which a request holds its worker: from the app's start to the headers, the body's end, the release.

read      from the instant at which the worker takes the request to the app's start, where workers read uploads
service   from the app's start to the response headers
body      from the headers to the end of the answer, where the body holds the worker
after     from then to the release: work after the answer
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sojourn.model.arrays import Floats, Ints
from sojourn.timeline.processes import Processes
from sojourn.timeline.suspicions import ABSENT, Suspect
from sojourn.timeline.worker_evidence import Evidence, free_share

SERVICE, BODY, AFTER, READ = "service", "body", "after", "read"
PHASES = (SERVICE, BODY, AFTER, READ)


@dataclass(frozen=True)
class BackendHolds:
    """What holds the workers of one backend, by the evidence in its log.

    Attributes:
        body: routes whose bodies hold a worker.
        elsewhere: routes whose bodies hold none: workers start other requests meanwhile.
        doubtful: routes with bodies of which neither is known.
        read: routes whose requests workers read before the app starts them.
        after: routes after whose answers a worker is held.
        way: time that a request takes to a free worker, s; 0 if it is too short to be measured.
        processes: with queues of their own; None: one queue for all workers.
        suspects: what may have held workers that still look free.
        evidence: of its busiest stretch, or of that of each process; empty: too few requests, or workers without names.
    """

    body: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    way: float = 0.0
    processes: Processes | None = None
    suspects: tuple[Suspect, ...] = ()
    evidence: tuple[Evidence, ...] = ()

    @property
    def causes(self) -> frozenset[str]:
        """Kinds of the suspects that explain the waiting: of several, none does, except absent workers."""
        kinds = {suspect.kind for suspect in self.suspects}
        return frozenset(kinds if len(kinds - {ABSENT}) <= 1 else kinds & {ABSENT})

    @property
    def free(self) -> float:
        """Share of the waiting of the stretch in which a worker looks free."""
        return free_share(self.evidence)


@dataclass(frozen=True)
class Phases:
    """The instants between a request's start and its release, s, n each; NaN: unknown.

    Attributes:
        occupied: when the worker took the request: the app's start, or earlier where it read the request first.
        headers: end of the service.
        body_end: end of the body while it holds the worker; the headers where it does not.
        evident_end: end that a span or the body shows; what follows until the release is inferred.
        in_doubt: s of a body after ``evident_end``, of which is not known whether it holds the worker; 0: none.
        backends: code of the backend -> what holds its workers.
    """

    occupied: Floats
    headers: Floats
    body_end: Floats
    evident_end: Floats
    in_doubt: Floats
    backends: Mapping[int, BackendHolds] = field(default_factory=dict)

    def at(self, places: Ints) -> Phases:
        """Return the phases of some of the requests."""
        each = ("occupied", "headers", "body_end", "evident_end", "in_doubt")
        return replace(self, **{name: getattr(self, name)[places] for name in each})
