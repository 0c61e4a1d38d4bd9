"""Predictions of queueing theory for a case: shown next to the measurement, never used to correct it."""

from __future__ import annotations

import msgspec

from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.load import ClosedLoad
from sojourn_lab.scenario.topology import AWAITING, Topology


class Law(msgspec.Struct, frozen=True):
    """Means in seconds (throughput per second) by the operational laws, and the formula."""

    service_time: float
    response_time: float
    queueing_delay: float
    throughput: float
    formula: str


def closed_loop_law(users: int, service_time: float, workers: int, think_time: float = 0.0) -> Law:
    """Return the asymptotic bound of a closed loop, which balanced workers and constant service times attain.

    Interactive response time law   R = N / X - Z
    utilisation law, X at most      c / S   (all workers busy)   or   N / (S + Z)   (no request waits)
    hence                           R = max(N·S/c - Z, S)        W = R - S

    N users, Z think time, S service time, c workers; without think time R = max(N·S/c, S).
    Sources: Denning & Buzen 1978, The operational analysis of queueing network models, section 4;
    Lazowska, Zahorjan, Graham & Sevcik 1984, Quantitative System Performance, chapters 3 and 5.
    """
    response = max(users * service_time / workers - think_time, service_time)
    throughput = users / (response + think_time) if response + think_time else 0.0
    formula = "R = max(N·S/c - Z, S)" if think_time else "R = max(N·S/c, S)"
    return Law(service_time, response, response - service_time, throughput, f"{formula}, W = R - S")


def law_of(case: Case, topology: Topology) -> Law | None:
    """Return the law for a case; None where none gives its wait.

    That is an open load; paths of the user's own app, whose service times are unknown; services of processor time,
    which more workers than cores do not speed up; and an event loop whose requests await: it serves as many as it has,
    and a wait for the loop after the first line of the app counts as service.
    """
    if not isinstance(case.load, ClosedLoad) or case.load.from_concurrency is not None or case.uses_processor:
        return None
    if topology.server in AWAITING or case.paths:
        return None
    workers = topology.served_at_once
    return closed_loop_law(case.load.concurrency, case.mean_service_time, workers, case.load.think_time)


def warmup_of(case: Case, topology: Topology, at_least: float) -> float:
    """Return the seconds to wait before measuring: `at_least`, and two response times of a closed loop.

    A closed loop starts with an empty queue: the first request of every user meets fewer requests than any later one,
    so the whole first round waits less than the steady state. After the second response time the users of that round
    are in a queue that has its final length.
    """
    law = law_of(case, topology)
    return at_least if law is None else max(at_least, 2.0 * law.response_time)
