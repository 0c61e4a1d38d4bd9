"""The replay's kernels compared with SimPy and Ciw: requests a second of one core.

Every figure is one call on Poisson arrivals and exponential services at 80 % utilisation, checks of arrays included,
compilation excluded: a call before warms it up. The peers simulate the same M/M/1 with fewer requests, drawn during
the run. Seconds are processor seconds: everything runs on one core.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from sojourn.queueing.replay import replay
from sojourn.queueing.system import BALANCERS, DISCIPLINES, System

from benchmarks.measure import Cost, Job, in_turns
from benchmarks.rows import Measurements, Row, Settings, compared_row

LOAD = 0.8
POOL = (4, 4, 4, 4)
WORKERS = (1, 4, 16)
REQUESTS = 1_000_000
Make = Callable[[int], Job]


def systems() -> dict[str, System]:
    """Return the measured systems: FIFO by workers, disciplines at one worker, balancers over four backends."""
    cases = {f"fifo, {count} worker{'s' * (count > 1)}, one queue": System((count,)) for count in WORKERS}
    for discipline in DISCIPLINES[1:]:
        timeout = 10.0 if discipline == "deadline" else None
        cases[f"{discipline}, 1 worker"] = System((1,), discipline, timeout=timeout, codel_target=2, codel_interval=20)
    for balancer in BALANCERS:
        cases[f"fifo, {balancer}, 4 × 4 workers"] = System(POOL, balancer=balancer)
    cases["lifo, least_conn, 4 × 4 workers, timeout, retries"] = System(
        POOL, "lifo", "least_conn", timeout=5, retries=2, backoff=0.5
    )
    return cases


def replay_job(system: System, requests: int) -> Job:
    """Return a job that calls ``replay`` once."""
    rng = np.random.default_rng(1)
    arrivals = np.cumsum(rng.exponential(1 / (LOAD * sum(system.workers)), requests))
    services = rng.exponential(1.0, requests)
    assignments: dict[str, Any] = {
        "backend": rng.integers(0, system.backends, requests).astype(np.int32) if system.balancer == "given" else None,
        "session": rng.integers(0, 10_000, requests) if system.balancer == "pinned" else None,
    }
    few: dict[str, Any] = {name: values if values is None else values[:1000] for name, values in assignments.items()}
    replay(arrivals[:1000], services[:1000], system, **few)
    return timed(lambda: replay(arrivals, services, system, **assignments))


def timed(work: Callable[[], object]) -> Job:
    """Return a job that runs ``work`` once, in this process."""

    def run() -> Cost:
        begin, busy = time.perf_counter(), time.process_time()
        work()
        return Cost(time.perf_counter() - begin, time.process_time() - busy)

    return run


def simpy_job(requests: int) -> Job:
    """Return a job that simulates M/M/1 as SimPy's own examples do."""
    import simpy  # noqa: PLC0415 - a peer, where it is installed

    def simulated() -> None:
        rng = random.Random(1)  # noqa: S311 - a benchmark, not a secret
        environment = simpy.Environment()
        worker = simpy.Resource(environment, capacity=1)

        def request():  # type: ignore[no-untyped-def]
            with worker.request() as turn:
                yield turn
                yield environment.timeout(rng.expovariate(1.0))

        def source():  # type: ignore[no-untyped-def]
            for _ in range(requests):
                yield environment.timeout(rng.expovariate(LOAD))
                environment.process(request())  # type: ignore[no-untyped-call]

        environment.process(source())  # type: ignore[no-untyped-call]
        environment.run()

    return timed(simulated)


def ciw_job(requests: int) -> Job:
    """Return a job that simulates M/M/1 with Ciw."""
    import ciw  # type: ignore[import-untyped]  # noqa: PLC0415 - a peer, where it is installed

    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(LOAD)],
        service_distributions=[ciw.dists.Exponential(1.0)],
        number_of_servers=[1],
    )

    def simulated() -> None:
        ciw.seed(1)
        ciw.Simulation(network).simulate_until_max_customers(requests, method="Arrive")

    return timed(simulated)


PEERS: dict[str, tuple[Make, int]] = {"SimPy": (simpy_job, 20), "Ciw": (ciw_job, 100)}
"""Peer -> its job, and the divisor of its number of requests, since peers are slower."""


def kernels(settings: Settings) -> Measurements:
    """Measure every system against every peer's M/M/1; only FIFO with one worker is the same system as theirs."""
    measurements = Measurements()
    requests = settings.sized(REQUESTS, 1_000)
    jobs = {name: (replay_job(system, requests), requests) for name, system in systems().items()}
    peers = []
    for name, (make, share) in PEERS.items():
        if not find_spec(name.lower()):
            measurements.skipped.append(f"{name}: it is not installed")
            continue
        peers.append(name)
        measurements.versions[name] = version(name.lower())
        few = max(requests // share, 100)
        jobs[name] = (make(few), few)
    costs = in_turns({name: job for name, (job, _) in jobs.items()}, settings.repeats, settings.progress)
    rates = {name: [jobs[name][1] / max(cost.cpu, 1e-6) / 1e6 for cost in measured] for name, measured in costs.items()}
    for name in systems():
        for peer in peers or [""]:
            # The other systems against Ciw follow from the first row, which compares both peers.
            if peer == "Ciw" and name != "fifo, 1 worker, one queue":
                continue
            measurements.rows.append(_row(name, rates, peer))
    return measurements


def _row(name: str, rates: dict[str, list[float]], peer: str) -> Row:
    what, unit = f"replay: {name}", "million requests/s"
    if not peer:
        return Row(what, unit, statistics.median(rates[name]))
    return compared_row(what, unit, rates[name], f"{peer}, M/M/1", rates[peer], times=True)
