"""How the cost of a command grows with requests, backends and routes: processor seconds without its start-up."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.measure import command_cost, median_of
from benchmarks.rows import Settings, Slope
from benchmarks.traffic_generator import Settings as Traffic
from benchmarks.traffic_generator import generate_traffic, write_log

WORKERS, BACKENDS, ROUTES, CORES = 5, 8, 20, 2
SERVICE, BUSY = 0.1, 0.8  # s; share of the workers' time
LEAST = 0.01  # s
SIGNIFICANT = 0.2  # of the cost of a start: a smaller cost is lost in it
SOJOURN = [sys.executable, "-m", "sojourn"]

REQUESTS_GROW = (100_000, 400_000, 1_600_000)
BACKENDS_GROW = (1, 16, 256)
ROUTES_GROW = (10, 300, 10_000)
OTHERS = 200_000  # requests, where backends or routes grow
FEW = 2_000  # requests of the log that shows what a start costs

Command = Callable[[Path], list[str]]
"""The command line for a log."""


def written_log(folder: Path, requests: int, *, backends: int = BACKENDS, routes: int = ROUTES) -> Path:
    """Write a log of ``requests`` requests whose backends are 80 % busy, whatever their number; return its path.

    Some of its lines are odd (``odd_lines``), as in a real log.
    """
    path = folder / f"log-{requests}-{backends}-{routes}.jsonl"
    if not path.exists():
        rate = BUSY * WORKERS * BACKENDS / SERVICE
        service = SERVICE * backends / BACKENDS
        traffic = Traffic(requests, rate=rate, service=service, workers=WORKERS, backends=backends, per_connection=4)
        write_log(generate_traffic(traffic), path, routes, odd=True)
    return path


def contended_log(folder: Path, requests: int) -> Path:
    """Write a log of ``requests`` requests of backends whose services share 2 cores, which are 80 % busy; as above."""
    path = folder / f"log-{requests}-cores.jsonl"
    if not path.exists():
        rate = BUSY * CORES * BACKENDS / SERVICE
        traffic = Traffic(
            requests, rate=rate, service=SERVICE, workers=WORKERS, backends=BACKENDS, cores=CORES, per_connection=4
        )
        write_log(generate_traffic(traffic), path, ROUTES, odd=True)
    return path


def slopes(
    settings: Settings, commands: dict[str, Command], notes: dict[tuple[str, str], str],
    goals: Mapping[str, float] | None = None,
) -> list[Slope]:  # fmt: skip
    """Measure the slope of every command over requests, backends and routes.

    Args:
        settings: ``folder`` holds the logs, one size at a time.
        commands: name -> command.
        notes: (name, against) -> a note on that slope.
        goals: name -> what its slopes should be at most.
    """
    requests = tuple(dict.fromkeys(settings.sized(size, FEW * 2) for size in REQUESTS_GROW))
    others = settings.sized(OTHERS, FEW * 2)
    few = written_log(settings.folder, FEW)
    starts = {name: _cpu(command(few), settings.repeats) for name, command in commands.items()}
    results = []
    logs: tuple[tuple[str, Sequence[int], Callable[[int], Path]], ...] = (
        ("requests", requests, lambda size: written_log(settings.folder, size)),
        ("backends", BACKENDS_GROW, lambda size: written_log(settings.folder, others, backends=size)),
        ("routes", ROUTES_GROW, lambda size: written_log(settings.folder, others, routes=size)),
    )
    for against, sizes, log_of in logs:
        costs: dict[str, list[float]] = {name: [] for name in commands}
        for size in sizes:
            log = log_of(size)
            for name, command in commands.items():
                settings.progress(f"{name}, {size:,} {against}")
                costs[name].append(max(_cpu(command(log), 1) - starts[name], LEAST))
            log.unlink()
        for name, spent in costs.items():
            if len(sizes) > 1:
                points = _significant(sizes, spent, starts[name])
                goal = (goals or {}).get(name)
                results.append(Slope(name, against, *points, note=notes.get((name, against), ""), goal=goal))
    return results


def grown(
    what: str, against: str, sizes: Sequence[int], command: Callable[[int], list[str]], idle: list[str],
    settings: Settings,
) -> Slope:  # fmt: skip
    """Measure the slope of one command over sizes; ``idle`` is a command that only starts. Equal sizes count once."""
    start = _cpu(idle, settings.repeats)
    costs = {}
    for size in sizes:
        settings.progress(f"{what}, {size:,} {against}")
        costs[size] = max(_cpu(command(size), 1) - start, LEAST)
    return Slope(what, against, *_significant(tuple(costs), tuple(costs.values()), start))


def _significant(
    sizes: Sequence[int], costs: Sequence[float], start: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Drop the smallest sizes, whose cost is lost in that of a start; keep two at least."""
    first = next((place for place, cost in enumerate(costs) if cost >= SIGNIFICANT * start), len(costs))
    first = min(first, max(len(costs) - 2, 0))
    return tuple(sizes[first:]), tuple(costs[first:])


def _cpu(command: list[str], repeats: int) -> float:
    return median_of([command_cost(command) for _ in range(repeats)], "cpu")
