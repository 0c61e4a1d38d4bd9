"""Systems drawn at random whose services share cores, or a dependency: the capacity of what they share is known."""

from __future__ import annotations

from dataclasses import dataclass

from systems.kernel import Cores, Process
from systems.plain_systems import LAWS
from systems.registry import Kind
from systems.requests import Change, Request, Route, drawn, rng_of
from systems.site import Setup, Site, serve
from systems.truth import Facts, Served

SLICES = 6  # of a service that computes and waits by turns


@dataclass(frozen=True)
class Contended:
    """A system and what its services share.

    Attributes:
        kind: the system.
        capacity: services that are served at full speed.
        share: part of each service that needs it.
        scope: ``backend`` or ``all``.
        load: of what is shared.
        workers: per backend.
    """

    kind: Kind
    capacity: int
    share: float
    scope: str
    load: float
    workers: int


def contended_system(seed: int, *, share: float | None = None) -> Contended:
    """Return a system of 2 to 10 workers on fewer cores, drawn with a seed.

    Two of five systems have 2 or 3 backends, which share one resource in half of these. In two of five systems, a part
    of each service waits elsewhere. Overhead and bursts are as in plain systems.

    Args:
        seed: of the system.
        share: part of each service that needs the resource; None: drawn.
    """
    rng = rng_of(f"contended {seed}")
    workers, backends = rng.randint(2, 10), 1 if rng.random() < 0.6 else rng.randint(2, 3)
    scope = "all" if backends > 1 and rng.random() < 0.5 else "backend"
    total = workers * (backends if scope == "all" else 1)
    capacity = rng.randint(1, max(total // 2, 1)) if total > 2 else 1
    part = rng.uniform(0.3, 0.95) if rng.random() < 0.4 else 1.0
    part = part if share is None else share
    load, count = rng.uniform(0.45, 0.9), rng.randint(3000, 8000)
    overhead = (0.0005, 0.0025) if rng.random() < 0.3 else (0.0, 0.0)
    means = [rng.uniform(0.02, 0.15) for _ in range(rng.randint(1, 3))]
    routes = [Route(f"/{number}", 1 / len(means), rng.choice(LAWS)(mean)) for number, mean in enumerate(means)]
    mean = sum(means) / len(means)
    # Workers without anything shared, or the resource: the scarcer one has the load.
    most = min(capacity / (part * mean), total / (mean + sum(overhead) / 2))
    rate = load * most * (backends if scope == "backend" else 1)
    bursts = rng.random() < 1 / 3
    order = rng.choice(("before", "after", "by turns")) if part < 1 else ""

    def rate_at(instant: float) -> float:
        return rate * (1.6 if instant % 10.0 < 2.0 else 0.85) if bursts else rate

    def simulation(change: Change) -> Served:
        shared: dict[tuple[Site, int], Cores] = {}

        def work(request: Request, site: Site) -> Process:
            key = site, request.backend if scope == "backend" else 0
            cores = shared.setdefault(key, Cores(site.kernel, capacity + change.cores))
            own, need = request.service * (1 - part), request.service * part * change.dependency
            if order == "by turns":
                for _ in range(SLICES):
                    yield own / SLICES
                    yield from cores.compute(request, need / SLICES)
                return
            if order == "before":
                yield own
            yield from cores.compute(request, need)
            if order == "after":
                yield own

        requests = drawn(count, rate_at, routes, seed=seed, change=change, most_rate=1.6 * rate)
        setup = Setup(workers=workers, backends=backends, overhead=overhead, work=work)
        return Served.by(serve(requests, setup, change))

    words = f"{backends} x {workers} workers, {capacity} of {scope}, load {load:.2f}"
    words += f", part {part:.2f} {order}" * (part < 1) + ", overhead" * (overhead[1] > 0) + ", bursts" * bursts
    return Contended(
        Kind(f"contended-{seed}", "contended", simulation, Facts(words)), capacity, part, scope, load, workers
    )
