"""Requests through one nginx to one-worker backends whose clocks have given offsets and drifts."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

EPOCH = 1_767_225_600.0
Skew = Callable[[float], float]


@dataclass(frozen=True)
class Seen:
    """A record as nginx writes it, and the truth: ``begun`` (s after ``EPOCH``), queueing delay (s)."""

    record: dict[str, str]
    begun: float
    queue: float


def requests_through(
    skew: Skew,
    *,
    requests: int,
    rate: float,
    service: float = 0.05,
    upstream: str = "10.0.0.1:80",
    proxy: str = "edge-1",
    busy: float = 0.0,
    tick: float = 1e-3,
    seed: int = 1,
) -> Iterator[Seen]:
    """A queue of one worker, first come, first served; ``skew`` is the app's clock less nginx's at an instant (s).

    ``busy``: work (s) that the worker has before it at every arrival: the queue is never empty.
    """
    rng = random.Random(seed)
    one_way = 0.0003
    now, free = 0.0, 0.0
    for number in range(requests):
        now += rng.expovariate(rate)
        reached = now + one_way * rng.uniform(0.5, 1.5)
        begun = max(reached + busy * rng.uniform(0.9, 1.1), free)
        worked = rng.expovariate(1 / service)
        free = begun + worked
        header = free + one_way * rng.uniform(0.5, 1.5)
        stamp = _cut(now, tick)
        used = f"{_cut(header, tick) - stamp:.6f}"
        yield Seen(
            {
                "time": f"{EPOCH + _cut(header, tick):.6f}", "request_id": f"{proxy}-{upstream}-{number}",
                "request_time": used, "status": "200", "request_start": f"{EPOCH + stamp:.6f}", "uri": "/",
                "upstream_addr": upstream, "upstream_status": "200", "upstream_connect_time": "0.000",
                "upstream_header_time": used, "upstream_response_time": used, "proxy": proxy, "worker": "1",
                "queueing_delay": f"{begun + skew(begun) - stamp:.6f}", "service_time": f"{worked:.6f}",
                "connection": str(number),
            },
            begun,
            begun - now,
        )  # fmt: skip


def _cut(instant: float, tick: float) -> float:
    return math.floor(instant / tick + 1e-9) * tick


def lines_of(seen: list[Seen]) -> bytes:
    """A log, in the order nginx writes it."""
    ordered = sorted(seen, key=lambda one: one.record["time"])
    return b"".join(json.dumps(one.record).encode() + b"\n" for one in ordered)


def example_log() -> bytes:
    """``docs/examples/clocks.jsonl.gz``: an hour in which one clock drifts, one is set back and one is never idle."""
    return lines_of(
        [
            *requests_through(lambda t: 0.004 + 40e-6 * t, requests=700, rate=0.2, upstream="10.0.0.1:80", seed=1),
            *requests_through(
                lambda t: 0.02 - (0.08 if t > 1800 else 0.0), requests=700, rate=0.2, upstream="10.0.0.2:80", seed=2
            ),
            *requests_through(lambda _: -0.03, requests=700, rate=0.2, upstream="10.0.0.3:80", busy=0.4, seed=3),
        ]
    )
