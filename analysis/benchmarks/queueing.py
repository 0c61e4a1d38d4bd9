"""How many requests a second the replay gets through on one core, beside SimPy and Ciw in the same run.

    .venv/bin/python analysis/benchmarks/queueing.py [--requests 1000000] [--repeats 3] [--out DIR]

Each row is one call of ``replay`` on the same Poisson arrivals and exponential services at 80 % utilisation, checks of
the arrays included, compilation not: a call before warms it up. The peers simulate the same M/M/1 with fewer requests,
drawing them as they go. Seconds are the processor's: everything here runs on one core, and what else the machine does
counts little. Medians of the repeats, interleaved, so that a slow minute of the machine hits all of them.
Writes queueing.json and queueing.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sojourn.queueing.replay import replay
from sojourn.queueing.system import BALANCERS, DISCIPLINES, System

LOAD = 0.8
POOL = (4, 4, 4, 4)
WORKERS = (1, 2, 4, 8, 16)
Job = Callable[[], float]  # runs and gives its seconds


def systems() -> dict[str, System]:
    """What is measured: the recursion by workers; disciplines at one worker; balancers over four backends."""
    found = {f"fifo, {count} worker{'s' * (count > 1)}, one queue": System((count,)) for count in WORKERS}
    for discipline in DISCIPLINES[1:]:
        timeout = 10.0 if discipline == "deadline" else None
        found[f"{discipline}, 1 worker"] = System((1,), discipline, timeout=timeout, codel_target=2, codel_interval=20)
    for balancer in BALANCERS:
        found[f"fifo, {balancer}, 4 × 4 workers"] = System(POOL, balancer=balancer)
    found["lifo, least_conn, 4 × 4 workers, timeout, retries"] = System(
        POOL, "lifo", "least_conn", timeout=5, retries=2, backoff=0.5
    )
    return found


def replay_job(system: System, requests: int) -> Job:
    """Calls ``replay`` once."""
    rng = np.random.default_rng(1)
    arrivals = np.cumsum(rng.exponential(1 / (LOAD * sum(system.workers)), requests))
    services = rng.exponential(1.0, requests)
    told: dict[str, Any] = {
        "backend": rng.integers(0, system.backends, requests).astype(np.int32) if system.balancer == "given" else None,
        "session": rng.integers(0, 10_000, requests) if system.balancer == "pinned" else None,
    }
    few: dict[str, Any] = {name: values if values is None else values[:1000] for name, values in told.items()}
    replay(arrivals[:1000], services[:1000], system, **few)

    def run() -> float:
        begin = time.process_time()
        replay(arrivals, services, system, **told)
        return time.process_time() - begin

    return run


def simpy_job(requests: int) -> Job:
    """M/M/1 as SimPy's own examples write it."""
    import simpy  # noqa: PLC0415 - a peer, where it is installed

    def run() -> float:
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
        begin = time.process_time()
        environment.run()
        return time.process_time() - begin

    return run


def ciw_job(requests: int) -> Job:
    """M/M/1 by Ciw."""
    import ciw  # type: ignore[import-untyped]  # noqa: PLC0415 - a peer, where it is installed

    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(LOAD)],
        service_distributions=[ciw.dists.Exponential(1.0)],
        number_of_servers=[1],
    )

    def run() -> float:
        ciw.seed(1)
        simulation = ciw.Simulation(network)
        begin = time.process_time()
        simulation.simulate_until_max_customers(requests, method="Arrive")
        return time.process_time() - begin

    return run


def result(requests: int, repeats: int, progress: Callable[[str], None]) -> dict[str, object]:
    """Rows of name, requests per second (median, slowest, fastest), and how many times as many as each peer's."""
    jobs: dict[str, tuple[Job, int]] = {}
    peers = {}
    for name, make, share in (("SimPy", simpy_job, 20), ("Ciw", ciw_job, 100)):
        if not find_spec(name.lower()):
            progress(f"{name} is not installed; its row is left out")
            continue
        peers[name] = max(requests // share, 100)
        jobs[f"{name}, M/M/1"] = (make(peers[name]), peers[name])
    for name, system in systems().items():
        jobs[name] = (replay_job(system, requests), requests)
    rates: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeats):
        for name, (job, count) in jobs.items():
            progress(f"{turn + 1}/{repeats} {name}")
            rates[name].append(count / job())
    medians = {name: statistics.median(found) for name, found in rates.items()}
    rows = [
        {
            "what": name,
            "requests": jobs[name][1],
            "requests_per_second": round(medians[name]),
            "from": round(min(rates[name])),
            "to": round(max(rates[name])),
            **{f"to_{peer.lower()}": round(medians[name] / medians[f"{peer}, M/M/1"], 1) for peer in peers},
        }
        for name in jobs
    ]
    libraries = ("numpy", "numba", *(name.lower() for name in peers))
    return {
        "repeats": repeats,
        "utilisation": LOAD,
        "rows": rows,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in libraries}},
        "machine": {"cores": os.cpu_count(), "system": platform.platform()},
    }


def as_markdown(found: dict[str, object]) -> str:
    """The rows as a table."""
    rows = found["rows"]
    assert isinstance(rows, list)  # noqa: S101
    peers = [key for key in rows[0] if key.startswith("to_")]
    names = {"to_simpy": "× SimPy", "to_ciw": "× Ciw"}
    lines = [
        f"Requests per second of one core, {found['utilisation']:.0%} utilisation, median of {found['repeats']}\n",
        f"| replay | million requests/s | from – to | {' | '.join(names[peer] for peer in peers)} |",
        "| --- " * (3 + len(peers)) + "|",
    ]
    for row in rows:
        million = [f"{row[key] / 1e6:.3g}" for key in ("requests_per_second", "from", "to")]
        ratios = " | ".join(f"{row[peer]:,}" for peer in peers)
        lines.append(f"| {row['what']} | {million[0]} | {million[1]} – {million[2]} | {ratios} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print the table, write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    options = parser.parse_args()
    found = result(options.requests, options.repeats, lambda text: print(f"bench: {text}", file=sys.stderr))  # noqa: T201
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "queueing.json").write_text(json.dumps(found, indent=2) + "\n")
    (options.out / "queueing.md").write_text(as_markdown(found))
    print(as_markdown(found))  # noqa: T201


if __name__ == "__main__":
    main()
