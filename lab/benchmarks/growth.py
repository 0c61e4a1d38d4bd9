"""How what a command costs grows with requests, backends and routes: processor seconds less those of its start."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.made_traffic import Settings as Traffic
from benchmarks.made_traffic import made_traffic, write_log
from benchmarks.measure import command_cost, median_of
from benchmarks.rows import Settings, Slope

WORKERS, BACKENDS, ROUTES = 5, 8, 20
SERVICE, BUSY = 0.1, 0.8  # s; share of the workers' time
LEAST = 0.01  # s
TOLD = 0.2  # of what a start costs: less cannot be told from one
SOJOURN = [sys.executable, "-m", "sojourn"]

REQUESTS_GROW = (100_000, 400_000, 1_600_000)
BACKENDS_GROW = (1, 16, 256)
ROUTES_GROW = (10, 300, 10_000)
OTHERS = 200_000  # requests, where something else grows
FEW = 2_000  # requests of the log that shows what a start costs

Command = Callable[[Path], list[str]]
"""The command line for a log."""


def written_log(folder: Path, requests: int, *, backends: int = BACKENDS, routes: int = ROUTES) -> Path:
    """A log of so many requests, its backends busy to 80 % whatever their number, some queueing at all of them."""
    path = folder / f"log-{requests}-{backends}-{routes}.jsonl"
    if not path.exists():
        rate = BUSY * WORKERS * BACKENDS / SERVICE
        service = SERVICE * backends / BACKENDS
        traffic = Traffic(requests, rate=rate, service=service, workers=WORKERS, backends=backends, kept=4)
        write_log(made_traffic(traffic), path, routes)
    return path


def slopes(settings: Settings, commands: dict[str, Command], notes: dict[tuple[str, str], str]) -> list[Slope]:
    """A slope for every command over each of the three.

    Args:
        settings: ``folder`` takes the logs, one size after the other.
        commands: name -> command.
        notes: (name, against) -> a word on that slope.
    """
    requests = tuple(dict.fromkeys(settings.sized(size, FEW * 2) for size in REQUESTS_GROW))
    others = settings.sized(OTHERS, FEW * 2)
    few = written_log(settings.folder, FEW)
    starts = {name: _cpu(command(few), settings.repeats) for name, command in commands.items()}
    found = []
    logs: tuple[tuple[str, Sequence[int], Callable[[int], Path]], ...] = (
        ("requests", requests, lambda size: written_log(settings.folder, size)),
        ("backends", BACKENDS_GROW, lambda size: written_log(settings.folder, others, backends=size)),
        ("routes", ROUTES_GROW, lambda size: written_log(settings.folder, others, routes=size)),
    )
    for against, sizes, made in logs:
        costs: dict[str, list[float]] = {name: [] for name in commands}
        for size in sizes:
            log = made(size)
            for name, command in commands.items():
                settings.progress(f"{name}, {size:,} {against}")
                costs[name].append(max(_cpu(command(log), 1) - starts[name], LEAST))
            log.unlink()
        for name, spent in costs.items():
            if len(sizes) > 1:
                told = _told(sizes, spent, starts[name])
                found.append(Slope(name, against, *told, note=notes.get((name, against), "")))
    return found


def grown(
    what: str, against: str, sizes: Sequence[int], command: Callable[[int], list[str]], idle: list[str],
    settings: Settings,
) -> Slope:  # fmt: skip
    """The slope of one command over sizes; ``idle`` is what its start costs. Sizes that are alike count once."""
    start = _cpu(idle, settings.repeats)
    costs = {}
    for size in sizes:
        settings.progress(f"{what}, {size:,} {against}")
        costs[size] = max(_cpu(command(size), 1) - start, LEAST)
    return Slope(what, against, *_told(tuple(costs), tuple(costs.values()), start))


def _told(sizes: Sequence[int], costs: Sequence[float], start: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Sizes and costs without the smallest sizes whose cost is lost in that of a start; two at least."""
    first = next((place for place, cost in enumerate(costs) if cost >= TOLD * start), len(costs))
    first = min(first, max(len(costs) - 2, 0))
    return tuple(sizes[first:]), tuple(costs[first:])


def _cpu(command: list[str], repeats: int) -> float:
    return median_of([command_cost(command) for _ in range(repeats)], "cpu")
