"""Measure an inferred queue against simulated systems whose waits are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from sojourn.estimation.engine import infer
from sojourn.estimation.inferred import REFUSED, Inference
from sojourn.estimation.reconstruction import reconstruct
from sojourn.model.arrays import Floats, Ints

from studies.inference import simulators as simulate
from studies.inference.simulators import Logged

KINDS = ("exponential", "lognormal", "erlang", "constant", "routes")
UTILISATIONS = (0.3, 0.5, 0.7, 0.85, 0.95, 1.1)
WORKERS = (1, 2, 4, 8, 16, 32)
HIDDEN = (0.1, 0.3, 0.5)  # of the requests, served and not in the log
TIMED_OUT = (0.02, 0.2)  # of the requests, served after the proxy had given up
MOVES = ((1, 2), (2, 4), (4, 8), (8, 4), (4, 1))  # numbers of workers before and after
MATERIAL = 0.05  # of the mean response time: an error of the mean wait that matters


@dataclass(frozen=True)
class Outcome:
    """One simulated log and its inference.

    Attributes:
        system: name of the system.
        kind: of the service times.
        workers, utilisation: of the system.
        verdict: of the inference.
        right: the number of workers is right.
        covered: the set contains it.
        error: of the mean wait, in parts of the mean response time; NaN where it is refused.
        p99_error: of the p99 of the wait, s; NaN where it is refused.
    """

    system: str
    kind: str
    workers: int
    utilisation: float
    verdict: str
    right: bool
    covered: bool
    error: float
    p99_error: float

    @property
    def wrong(self) -> bool:
        """Whether an accepted inference is materially wrong."""
        return self.verdict == "inferred" and abs(self.error) > MATERIAL


def outcome(
    log: Logged, system: str, kind: str, workers: int, utilisation: float, result: Inference | None = None
) -> Outcome:
    """Infer the queue of a simulated log, unless ``result`` is given, and compare it with the truth."""
    result = infer(log.arrival, log.departure, log.routes, unserved=log.unserved) if result is None else result
    top = result.highest if result.highest is not None else np.inf
    error = p99_error = float("nan")
    if result.verdict != REFUSED:
        p99 = float(np.quantile(log.wait, 0.99))
        error = float(result.wait.mean() - log.wait.mean()) / float(log.response.mean())
        p99_error = float(np.quantile(result.wait, 0.99)) - p99
    return Outcome(
        system, kind, workers, utilisation, result.verdict, result.workers == workers, result.lowest <= workers <= top,
        error, p99_error,
    )  # fmt: skip


def first_come_first_served(seed: int, requests: int, workers: tuple[int, ...] = WORKERS) -> Iterator[Outcome]:
    """Yield the outcomes of the systems for which the method is made."""
    rng = np.random.default_rng(seed)
    for number in workers:
        for utilisation in UTILISATIONS:
            for kind in KINDS:
                service, routes = simulate.services(rng, requests, kind)
                arrival = simulate.poisson(rng, service, number, utilisation)
                log = simulate.logged(rng, arrival, simulate.first_come(arrival, service, number), routes)
                yield outcome(log, "first come, first served", kind, number, utilisation)


def others(seed: int, requests: int) -> Iterator[Outcome]:
    """Yield the outcomes of systems that have to be refused, or get a lower bound."""
    rng = np.random.default_rng(seed)
    for number in (1, 4, 16):
        for utilisation in (0.5, 0.8, 0.95):
            for kind in ("exponential", "lognormal", "routes"):
                service, routes = simulate.services(rng, requests, kind)
                arrival = simulate.poisson(rng, service, number, utilisation)
                for system, log in _systems(rng, arrival, service, routes, number):
                    yield outcome(log, system, kind, number, utilisation)


def _systems(
    rng: np.random.Generator, arrival: Floats, service: Floats, routes: Ints, workers: int
) -> Iterator[tuple[str, Logged]]:
    rank = rng.integers(2, size=len(arrival))
    for system, times in (
        ("last come, first served", simulate.last_come(arrival, service, workers)),
        ("random order", simulate.random_order(rng, arrival, service, workers)),
        ("priority", simulate.priority(arrival, service, workers, rank)),
        ("processor sharing", simulate.processor_sharing(arrival, service, workers)),
    ):
        yield system, simulate.logged(rng, arrival, times, routes)
    if workers == 1:
        yield "event loop", simulate.logged(rng, arrival, simulate.event_loop(arrival, service), routes)
    else:
        each = simulate.one_queue_each(rng, arrival, service, workers)
        yield "a queue for each worker", simulate.logged(rng, arrival, each, routes)
    log = simulate.logged(rng, arrival, simulate.first_come(arrival, service, workers), routes)
    for share in HIDDEN:
        yield f"{share:.0%} of the load hidden", log.selected(rng.random(len(arrival)) >= share)
    for share in TIMED_OUT:
        in_time = log.response <= np.quantile(log.response, 1.0 - share)
        yield f"{share:.0%} of the requests timed out", replace(log.selected(in_time), unserved=int((~in_time).sum()))


def moves(seed: int, requests: int) -> Iterator[tuple[tuple[int, int], tuple[int, ...], Outcome]]:
    """Yield numbers of workers before and after, the inferred ones, and the outcome, of backends that changed."""
    rng = np.random.default_rng(seed)
    for before, after in MOVES:
        for utilisation in (0.7, 0.85, 0.95):
            log = moving(rng, requests, before, after, utilisation)
            result = infer(log.arrival, log.departure, log.routes)
            one = outcome(log, "moving", "exponential", after, utilisation, result)
            yield (before, after), tuple(window.workers for window in result.windows), one


def of_a_second(seed: int, requests: int, *, with_workers: bool) -> Iterator[Outcome]:
    """Yield the outcomes of backends whose log has stamps of a second."""
    rng = np.random.default_rng(seed)
    for number in (1, 2, 4, 8):
        for utilisation in (0.5, 0.7, 0.85, 0.95):
            for kind in ("exponential", "lognormal", "routes"):
                service, routes = simulate.services(rng, requests, kind)
                arrival = simulate.poisson(rng, service, number, utilisation)
                log = simulate.logged(rng, arrival, simulate.first_come(arrival, service, number), routes)
                lines, result = reconstructed(log, number if with_workers else None)
                yield outcome(lines, "first come, first served", kind, number, utilisation, result)


def others_of_a_second(seed: int, requests: int) -> Iterator[Outcome]:
    """Yield the outcomes of other systems whose log has stamps of a second."""
    rng = np.random.default_rng(seed)
    for number in (1, 4):
        for kind in ("exponential", "routes"):
            service, routes = simulate.services(rng, requests, kind)
            arrival = simulate.poisson(rng, service, number, 0.8)
            for system, log in _systems(rng, arrival, service, routes, number):
                lines, result = reconstructed(log, None)
                yield outcome(lines, system, kind, number, 0.8, result)


def reconstructed(log: Logged, workers: int | None) -> tuple[Logged, Inference]:
    """Return a log in the order of its lines, and what is inferred from their seconds, order and durations."""
    by_line = np.argsort(log.departure, kind="stable")
    lines = log.selected(by_line)
    result = reconstruct(
        np.floor(lines.departure), lines.departure - lines.arrival, lines.routes, unserved=log.unserved, workers=workers
    )
    return lines, result


def moving(rng: np.random.Generator, requests: int, before: int, after: int, utilisation: float = 0.85) -> Logged:
    """Return the log of a backend whose number of workers changed half way, with the load in proportion."""
    service, routes = simulate.services(rng, requests, "exponential")
    half = requests // 2
    first = simulate.poisson(rng, service[:half], before, utilisation)
    second = first[-1] + 20 + simulate.poisson(rng, service[half:], after, utilisation)
    times = [
        simulate.first_come(first, service[:half], before),
        simulate.first_come(second, service[half:], after),
    ]
    start, departure = (np.concatenate(parts) for parts in zip(*times, strict=True))
    return simulate.logged(rng, np.concatenate([first, second]), (start, departure), routes)
