"""Workers that are absent or stand still, and limits in front of them."""

from __future__ import annotations

from collections.abc import Iterator

from systems.registry import kind
from systems.requests import Change, drawn
from systems.site import Setup, serve
from systems.truth import Facts, Served


def _restarts(workers: int) -> Iterator[tuple[int, float, float]]:
    for number in range(40):
        begin = 5.0 + 4.0 * number
        yield number % workers, begin, begin + 3.0


def _deploys(workers: int) -> Iterator[tuple[int, float, float]]:
    for begin in (25.0, 65.0):
        for worker in range(workers):
            yield worker, begin + 0.3 * worker, begin + 0.3 * worker + 4.0


def _autoscaled(workers: int) -> Iterator[tuple[int, float, float]]:
    for worker in range(workers // 2, workers):
        yield worker, 0.0, 45.0


@kind("restarts", Facts("one of 4 workers is absent for 3 s of every 4", apart="absences"))
def restarts(change: Change) -> Served:
    """Simulate workers that restart one after the other."""
    return Served.by(serve(drawn(3000, 35.0, seed=41, change=change), Setup(workers=4, absences=_restarts), change))


@kind("deploys", Facts("all workers are replaced within seconds, twice", apart="absences"))
def deploys(change: Change) -> Served:
    """Simulate deployments, in which each worker is away for 4 s."""
    return Served.by(serve(drawn(3500, 36.0, seed=44, change=change), Setup(workers=4, absences=_deploys), change))


@kind("autoscaling", Facts("half of the 8 workers come after 45 s"))
def autoscaling(change: Change) -> Served:
    """Simulate workers that are added when the load has risen."""
    return Served.by(serve(drawn(3000, 50.0, seed=45, change=change), Setup(workers=8, absences=_autoscaled), change))


@kind("pauses", Facts("all workers stand still for 0.8 s every 6 s"))
def pauses(change: Change) -> Served:
    """Simulate a garbage collector that stops the world."""
    stops = [(3.0 + 6.0 * i, 3.8 + 6.0 * i) for i in range(60)]
    return Served.by(serve(drawn(3000, 33.0, seed=42, change=change), Setup(workers=4, pauses=stops), change))


@kind("limit-in-front", Facts("at most 4 of 8 workers are used: max_conns", apart="limit"))
def limit_in_front(change: Change) -> Served:
    """Simulate a limit of requests under way that keeps workers idle."""
    return Served.by(serve(drawn(3000, 46.0, seed=43, change=change), Setup(workers=8, limit=4), change))
