"""An exact simulator of a service with one or several instances, all of them in front of one database.

A request waits for a worker of its instance, works, calls the database once or more, each time over a network and
through one first come, first served queue for all instances, works again and answers. Written as an event loop that
knows every instant; what it hands out is what such services record: spans, each by its own machine's clock.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

EPOCH = 1_767_225_600.0
SKEWS = {"db": 0.137}  # s: its clock is off by as much


@dataclass(frozen=True)
class TwoTiers:
    """``front`` and ``database``: mean seconds of work, before and after the calls together, and per call."""

    requests: int = 4_000
    rate: float = 20.0
    instances: int = 2
    workers: int = 8
    front: float = 0.012
    database: float = 0.04
    database_workers: int = 1
    calls: int = 1
    network: float = 0.0005  # one way
    seed: int = 5


@dataclass
class Visit:
    """One request's visit to the service."""

    number: int
    arrival: float
    instance: int
    parts: list[float]  # its own work, one before each call and one after the last
    works: list[float]  # the database's
    worker: int = -1
    begin: float = 0.0
    end: float = 0.0
    calls: list[tuple[float, float, float, float, int]] = field(default_factory=list)  # sent, begun, done, back, worker


class Queue:
    """Workers behind one first come, first served queue."""

    def __init__(self, workers: int) -> None:
        self.free = list(range(workers))
        self.waiting: deque[Any] = deque()


def simulated(settings: TwoTiers) -> list[Visit]:  # noqa: PLR0912 - one event, one branch
    """Return every visit with its instants, in the order of arrival."""
    rng = random.Random(settings.seed)
    clock, visits = 0.0, []
    for number in range(settings.requests):
        clock += rng.expovariate(settings.rate)
        parts = [rng.expovariate((settings.calls + 1) / settings.front) for _ in range(settings.calls + 1)]
        works = [rng.expovariate(1 / settings.database) for _ in range(settings.calls)]
        visits.append(Visit(number, clock, number % settings.instances, parts, works))
    fronts = [Queue(settings.workers) for _ in range(settings.instances)]
    database = Queue(settings.database_workers)
    order = itertools.count()
    events: list[tuple[float, int, str, Visit, float, int]] = []

    def later(at: float, what: str, visit: Visit, sent: float = 0.0, worker: int = -1) -> None:
        heapq.heappush(events, (at, next(order), what, visit, sent, worker))

    def taken(at: float, visit: Visit, worker: int) -> None:
        visit.worker, visit.begin = worker, at
        later(at + visit.parts[0], "call", visit)

    def served(at: float, visit: Visit, sent: float, worker: int) -> None:
        visit.calls.append((sent, at, at + visit.works[len(visit.calls)], 0.0, worker))
        later(visit.calls[-1][2], "done", visit, sent, worker)

    for visit in visits:
        later(visit.arrival, "arrive", visit)
    while events:
        at, _, what, visit, sent, worker = heapq.heappop(events)
        front = fronts[visit.instance]
        if what == "arrive":
            if front.free:
                taken(at, visit, front.free.pop())
            else:
                front.waiting.append(visit)
        elif what == "call":
            if len(visit.calls) == settings.calls:
                visit.end = at
                if front.waiting:
                    taken(at, front.waiting.popleft(), visit.worker)
                else:
                    front.free.append(visit.worker)
            else:
                later(at + settings.network, "reach", visit, at)
        elif what == "reach":
            if database.free:
                served(at, visit, sent, database.free.pop())
            else:
                database.waiting.append((visit, sent))
        elif what == "done":
            if database.waiting:
                served(at, *database.waiting.popleft(), worker)
            else:
                database.free.append(worker)
            later(at + settings.network, "back", visit)
        else:
            visit.calls[-1] = (*visit.calls[-1][:3], at, visit.calls[-1][4])
            later(at + visit.parts[len(visit.calls)], "call", visit)
    return visits


def truth(visits: list[Visit], settings: TwoTiers) -> dict[str, float]:
    """Return the mean seconds per request by account."""
    count = len(visits)
    return {
        "response": sum(v.end - v.arrival for v in visits) / count,
        "checkout queueing": sum(v.begin - v.arrival for v in visits) / count,
        "checkout self": sum(sum(v.parts) for v in visits) / count,
        "db queueing": sum(begun - sent - settings.network for v in visits for sent, begun, *_ in v.calls) / count,
        "db self": sum(sum(v.works) for v in visits) / count,
        "network": 2 * settings.network * settings.calls,
    }


def exports(visits: list[Visit], settings: TwoTiers) -> Iterator[dict[str, Any]]:
    """Yield the exports of the services, request by request; the root's parent is a proxy that exports nothing."""
    for visit in visits:
        trace, root = f"{visit.number + 1:032x}", f"{visit.number + 1:014x}00"
        instance = f"checkout-{visit.instance + 1}"
        spans = [
            span(trace, root, f"{visit.number + 1:012x}ffff", 2, visit.begin, visit.end, **{
                "queueing.delay": visit.begin - visit.arrival, "queueing.worker": f"w{visit.worker}",
                "http.request.header.x-request-id": [f"r{visit.number}"],
            })
        ]  # fmt: skip
        below = []
        for number, (sent, begun, done, back, worker) in enumerate(visit.calls, start=1):
            call = f"{visit.number + 1:014x}{2 * number - 1:02x}"
            spans.append(span(trace, call, root, 3, sent, back, **{"peer.service": "db"}))
            name, skew = f"{visit.number + 1:014x}{2 * number:02x}", SKEWS["db"]
            below.append(
                span(trace, name, call, 2, begun + skew, done + skew, **{
                    "queueing.delay": begun - sent - settings.network, "queueing.worker": f"w{worker}",
                })
            )  # fmt: skip
        yield export("checkout", spans, instance)
        yield export("db", below, "db-1")


def span(
    trace: str, name: str, parent: str, kind: int, begin: float, end: float, **attributes: object
) -> dict[str, Any]:
    return {
        "traceId": trace, "spanId": name, "parentSpanId": parent, "kind": kind, "name": "work",
        "startTimeUnixNano": str(nanoseconds(begin)), "endTimeUnixNano": str(nanoseconds(end)),
        "attributes": [{"key": key, "value": value(arguments)} for key, arguments in attributes.items()],
    }  # fmt: skip


def value(arguments: object) -> dict[str, Any]:
    if isinstance(arguments, list):
        return {"arrayValue": {"values": [value(one) for one in arguments]}}
    return {"doubleValue": arguments} if isinstance(arguments, float) else {"stringValue": arguments}


def nanoseconds(seconds: float) -> int:
    return int(EPOCH) * 1_000_000_000 + round(seconds * 1e9)


def export(service: str, spans: list[dict[str, Any]], instance: str = "") -> dict[str, Any]:
    facts = {"service.name": service} | ({"service.instance.id": instance} if instance else {})
    resource = {"attributes": [{"key": key, "value": value(text)} for key, text in facts.items()]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}


def as_lines(result: Iterator[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in result)
