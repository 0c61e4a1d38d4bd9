"""Plain pools: one queue for each backend, first come first served. Nothing may be refused here."""

from __future__ import annotations

from systems.registry import kind
from systems.requests import Change, drawn
from systems.site import Setup, serve
from systems.truth import Facts, Served


@kind("one-worker", Facts("one worker, 70 % of its time held"))
def one_worker(change: Change) -> Served:
    """Simulate one worker."""
    return Served.by(serve(drawn(3000, 8.9, seed=10, change=change), Setup(workers=1), change))


@kind("pool-of-4", Facts("4 workers, 80 % of their time held"))
def pool_of_4(change: Change) -> Served:
    """Simulate 4 workers; the seed is one at which chance does not look like a shared core, as it does at 1 in 300."""
    return Served.by(serve(drawn(3000, 41.0, seed=9, change=change), Setup(workers=4), change))


@kind("pool-of-12", Facts("12 workers, 86 % of their time held"))
def pool_of_12(change: Change) -> Served:
    """Simulate 12 workers."""
    return Served.by(serve(drawn(3000, 132.0, seed=12, change=change), Setup(workers=12), change))


@kind("pool-of-32", Facts("a pool with 0.5 to 2.5 ms between two requests"))
def pool_of_32(change: Change) -> Served:
    """Simulate an ordinary pool of 32 workers, 94 % of their time held."""
    setup = Setup(workers=32, overhead=(0.0005, 0.0025))
    return Served.by(serve(drawn(6000, 390.0, seed=13, change=change), setup, change))


@kind("light-load", Facts("no queue: 4 workers, 20 % of their time held", excluded=frozenset({"queueing"})))
def light_load(change: Change) -> Served:
    """Simulate 4 workers that are mostly idle."""
    return Served.by(serve(drawn(3000, 10.0, seed=14, change=change), Setup(workers=4), change))


@kind("bursts", Facts("4 workers; three times as many arrivals for 2 s of every 10 s"))
def bursts(change: Change) -> Served:
    """Simulate arrivals in bursts."""
    requests = drawn(3000, lambda t: 75.0 if t % 10.0 < 2.0 else 25.0, seed=15, change=change, most_rate=75.0)
    return Served.by(serve(requests, Setup(workers=4), change))


@kind("daily-drift", Facts("6 workers; the rate of arrivals rises and falls by 40 %"))
def daily_drift(change: Change) -> Served:
    """Simulate a rate of arrivals that rises and falls in steps of a slow triangle."""

    def rate(instant: float) -> float:
        phase = instant % 60.0 / 30.0
        return 33.0 + 44.0 * (phase if phase < 1.0 else 2.0 - phase)

    return Served.by(serve(drawn(3000, rate, seed=16, change=change, most_rate=77.0), Setup(workers=6), change))


@kind("three-backends", Facts("3 backends of 2 workers, in turn"))
def three_backends(change: Change) -> Served:
    """Simulate round robin among backends."""
    return Served.by(serve(drawn(3000, 55.0, seed=17, change=change), Setup(workers=2, backends=3), change))


@kind("least-connections", Facts("2 backends of 3 workers, least connections"))
def least_connections(change: Change) -> Served:
    """Simulate the balancer least_conn."""
    setup = Setup(workers=3, backends=2, balancer="least_conn")
    return Served.by(serve(drawn(3000, 62.0, seed=18, change=change), setup, change))
