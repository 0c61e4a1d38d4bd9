"""Plain systems drawn at random: none of them may be given a refusal or a caution."""

from __future__ import annotations

from collections.abc import Callable

from systems.registry import Kind
from systems.requests import Change, Demand, Route, drawn, exponential, lognormal, rng_of, uniform
from systems.site import Setup, serve
from systems.truth import Facts, Served

LAWS: tuple[Callable[[float], Demand], ...] = (
    exponential,
    lognormal,
    lambda mean: lognormal(mean, 1.0),
    lambda mean: uniform(0.5 * mean, 1.5 * mean),
    lambda mean: uniform(mean, mean),
)


def plain_system(seed: int) -> Kind:
    """Return a pool of 1 to 12 workers at a load of 0.4 to 0.92, first come first served, drawn with a seed.

    Half of the systems have 0.5 to 2.5 ms between two requests of a worker, a third has bursts, and in a third a tenth
    of the clients send and receive slowly.
    """
    rng = rng_of(f"plain {seed}")
    workers, load, count = rng.randint(1, 12), rng.uniform(0.4, 0.92), rng.randint(2000, 4000)
    overhead = (0.0005, 0.0025) if rng.random() < 0.5 else (0.0, 0.0)
    means = [rng.uniform(0.02, 0.2) for _ in range(3)]
    routes = [Route(f"/{name}", 1 / 3, rng.choice(LAWS)(mean)) for name, mean in zip("abc", means, strict=True)]
    rate = load * workers / (sum(means) / 3 + sum(overhead) / 2)
    bursts, slow = rng.random() < 1 / 3, rng.random() < 1 / 3

    def rate_at(instant: float) -> float:
        return rate * (2.0 if instant % 10.0 < 2.0 else 0.75) if bursts else rate

    def simulation(change: Change) -> Served:
        requests = drawn(count, rate_at, routes, seed=seed, change=change, most_rate=2.0 * rate)
        clients = rng_of(f"clients {seed}")
        for request in requests if slow else ():
            if clients.random() < 0.1:
                request.upload, request.send = clients.uniform(0.05, 1.0), clients.uniform(0.05, 1.0)
        return Served.by(serve(requests, Setup(workers=workers, overhead=overhead), change))

    words = f"{workers} workers, load {load:.2f}"
    words += ", overhead" * (overhead[1] > 0) + ", bursts" * bursts + ", slow clients" * slow
    return Kind(f"plain-{seed}", "plain", simulation, Facts(words))
