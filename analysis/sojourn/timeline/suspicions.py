"""What may have held workers that look free, or kept requests from them, by the evidence in the log.

At each release of a worker while a request waits, the worker either takes a request or not. After which routes it does
not, at which number in service and for how long tells the causes apart. The thresholds were measured on simulated
systems (docs/reference/systems.md). A cause is named as a suspect, not as a fact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sojourn.model.formatting import counted, listed, percent, printable
from sojourn.timeline.worker_evidence import Evidence, after_routes

SEVERAL, BODY, AFTER, READ = "several_at_once", "body", "after_the_answer", "before_the_start"
BOUND, RESERVED, STARTED, LIMIT = "bound", "reserved", "worker_started", "limit"
ABSENT, PAUSE, ABANDONED, HIDDEN = "absent", "pause", "abandoned_work", "load_not_in_the_log"
UNNAMED, UNKNOWN = "workers_unnamed", "unknown"
LEAST_WAIT = 0.0015  # s: mean wait; a shorter one is no queue
ROUTES = 3  # named in a clause


@dataclass(frozen=True)
class Suspect:
    """A cause that fits the evidence.

    Attributes:
        kind: one of the constants of this module.
        routes: the routes concerned.
        number: of workers or slots, where the kind has one.
        share: of the backend's waiting, or of its load (``load_not_in_the_log``); None: not measured.
    """

    kind: str
    routes: tuple[str, ...] = ()
    number: int | None = None
    share: float | None = None

    @property
    def clause(self) -> str:
        """The cause as a clause for a sentence."""
        routes = listed([printable(route, 60) for route in self.routes[:ROUTES]])
        share = "" if self.share is None else f" ({percent(self.share)} of the waiting)"
        slots = "" if self.number is None else counted(self.number, "request")
        return {
            SEVERAL: "workers that serve several requests at a time",
            BODY: f"the bodies of {routes}, which may hold a worker: few show whether they do",
            AFTER: f"work after the answer to {routes}",
            READ: f"workers that read the requests of {routes} before the app starts them",
            BOUND: "processes with queues of their own (SO_REUSEPORT or a balancer in the app server)",
            RESERVED: "workers that are reserved for some routes",
            STARTED: "workers that are started for a request (cold starts)",
            LIMIT: f"a limit in front of the workers, of {slots} at a time",
            ABSENT: f"workers that were absent: restarts, deploys or scaling{share}",
            PAUSE: f"pauses of all workers at once{share}",
            ABANDONED: "work on requests that were abandoned or retried",
            HIDDEN: "load that is not in this log, or work that is in none of its lines"
            + ("" if self.share is None else f" (about {percent(self.share)} of the load)"),
            UNNAMED: "workers whose names are not logged, so their number is uncertain",
            UNKNOWN: "something that this log does not show",
        }[self.kind]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**self.__dict__, "routes": list(self.routes)}


def suspects(evidence: Evidence) -> tuple[Suspect, ...]:
    """Return what fits the evidence; the most likely first, empty if no worker looks free while requests wait."""
    return tuple(_suspects(evidence))


def _suspects(evidence: Evidence) -> Iterator[Suspect]:
    if evidence.waited < LEAST_WAIT * len(evidence.begin):
        return
    # Abandoned requests name no worker, so a worker that serves them seems to be away.
    if evidence.absent > 0.1 and evidence.abandoned <= 0.005:
        yield Suspect(ABSENT, share=evidence.absent)
    if evidence.free <= 0.1:
        return
    if evidence.abandoned > 0.005 and evidence.overtakes < 0.05:
        yield Suspect(ABANDONED)
    elif evidence.overtakes > 0.05 and evidence.overtaken_in_new_worker > 0.6:
        yield Suspect(STARTED)
    elif routes := evidence.read_routes:
        yield Suspect(READ, routes)
    elif evidence.overtakes > 0.15 and evidence.disorder_in_worker < 0.01 and evidence.met > 30:
        yield Suspect(RESERVED if evidence.partitioned else BOUND)
    elif (limit := evidence.limit) is not None:
        yield Suspect(LIMIT, number=limit)
    elif (routes := after_routes([evidence])) and evidence.overtakes < 0.05:
        yield Suspect(AFTER, routes)
    elif evidence.paused > 0.6 * evidence.free:
        yield Suspect(PAUSE, share=evidence.paused)
    elif evidence.overtakes < 0.05 and not evidence.has_edge and evidence.is_alike:
        # A few abandoned requests may hold workers for long.
        yield Suspect(ABANDONED) if evidence.abandoned > 0 else Suspect(HIDDEN, share=evidence.hidden)
    else:
        yield Suspect(UNKNOWN)
