"""Logs of one worker at 60 % load, whose clocks are set while it is written."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from watch_support import EPOCH, record

REQUESTS, RATE, SERVICE = 1_200, 20.0, 0.030


def one_worker(requests: int = REQUESTS, seed: int = 3) -> list[tuple[float, float, float]]:
    """(arrival, wait, service time) of every request, s, first come first served."""
    rng, now, free, result = random.Random(seed), 0.0, 0.0, []
    for _ in range(requests):
        now += rng.expovariate(RATE)
        service = rng.expovariate(1 / SERVICE)
        start = max(now, free)
        free = start + service
        result.append((now, start - now, service))
    return result


def written(
    log: Path, nginx: Callable[[float], float] = lambda _: 0.0, app: Callable[[float], float] | None = None
) -> Path:
    """The log of an nginx and an app whose clocks are so far off (s) at an instant; ``app`` of None: as nginx's."""
    lines = []
    for number, (arrival, wait, service) in enumerate(one_worker()):
        start, end = arrival + wait, arrival + wait + service + 0.001
        stamp = arrival + nginx(arrival)
        queueing = start + (app or nginx)(start) - stamp
        line = record(
            EPOCH + end + nginx(end), wait, service, request_start=f"{EPOCH + stamp:.3f}",
            queueing_delay=f"{queueing:.6f}", request_id=f"{number:032x}", route=f"/r{number % 3}",
        )  # fmt: skip
        lines.append((end, line))
    log.write_bytes(b"".join(line for _, line in sorted(lines)))
    return log
