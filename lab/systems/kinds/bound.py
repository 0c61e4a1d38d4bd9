"""Processes with a queue of their own, and workers that serve some requests only."""

from __future__ import annotations

from collections.abc import Sequence

from systems.registry import kind
from systems.requests import Change, Request, drawn, rng_of
from systems.site import Group, Setup, Site, serve
from systems.truth import Facts, Served


def one_each(workers: int) -> list[int]:
    """Return groups of one worker: each process has a queue of its own."""
    return [1] * workers


def at_random(request: Request, groups: Sequence[Group], _: Site) -> int:
    """Choose a process as the kernel does: the same one for every change of the services."""
    return rng_of(f"process {request.number}").randrange(len(groups))


def in_turn(request: Request, groups: Sequence[Group], _: Site) -> int:
    """Choose the processes one after the other."""
    return request.number % len(groups)


def _pinned(request: Request, groups: Sequence[Group], _: Site) -> int:
    return (request.client * 7 + request.client // 5) % len(groups)


@kind("reuseport-random", Facts("each process has a queue of its own; the kernel chooses at random", apart="processes"))
def reuseport_random(change: Change) -> Served:
    """Simulate processes that listen with SO_REUSEPORT."""
    setup = Setup(workers=4, groups=one_each, choose=at_random)
    return Served.by(serve(drawn(3000, 31.0, seed=31, change=change), setup, change))


@kind("bound-in-turn", Facts("each process has a queue of its own; a master deals in turn", apart="processes"))
def bound_in_turn(change: Change) -> Served:
    """Simulate a master process that hands connections to its processes in turn."""
    setup = Setup(workers=4, groups=one_each, choose=in_turn)
    return Served.by(serve(drawn(3000, 36.0, seed=32, change=change), setup, change))


@kind(
    "bound-least-stale",
    Facts("each process has a queue of its own; least loaded by loads 0.2 s old", apart="processes"),
)
def bound_least_stale(change: Change) -> Served:
    """Simulate a balancer inside the backend that knows the loads of 0.2 s ago."""
    last_loads: dict[Site, tuple[float, list[int]]] = {}

    def least(_: Request, groups: Sequence[Group], site: Site) -> int:
        if site not in last_loads or site.kernel.now - last_loads[site][0] > 0.2:
            last_loads[site] = site.kernel.now, [group.load for group in groups]
        loads = last_loads[site][1]
        return min(range(len(groups)), key=lambda i: (loads[i], site.rng.random()))

    setup = Setup(workers=4, groups=one_each, choose=least)
    return Served.by(serve(drawn(3000, 34.0, seed=33, change=change), setup, change))


@kind("reserved-workers", Facts("one worker of 4 serves /search only, the others never"))
def reserved_workers(change: Change) -> Served:
    """Simulate a worker that is reserved for one route."""

    def choose(request: Request, groups: Sequence[Group], _: Site) -> int:
        return int(request.route == "/search") if len(groups) > 1 else 0

    setup = Setup(workers=4, groups=lambda size: [size - 1, 1] if size > 1 else [size], choose=choose)
    return Served.by(serve(drawn(3000, 24.0, seed=34, change=change), setup, change))


@kind("pinned-clients", Facts("kept connections: each client always has the same process", apart="processes"))
def pinned_clients(change: Change) -> Served:
    """Simulate clients whose kept connections lead to one process each."""
    setup = Setup(workers=4, groups=one_each, choose=_pinned)
    return Served.by(serve(drawn(3000, 32.0, seed=35, change=change), setup, change))
