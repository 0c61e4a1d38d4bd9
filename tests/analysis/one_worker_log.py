"""Logs of one Node process: its clock counts in milliseconds, its service times do not."""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Callable, Iterator
from itertools import pairwise

EPOCH = 1_767_225_600.0


def serial(requests: int, service: float, between: float = 0.0004, clients: int = 8, seed: int = 1) -> bytes:
    """One request at a time; each client sends its next request when it has its answer.

    ``between``: what the process needs from one answer to the next request, s.
    """
    rng = random.Random(seed)
    waiting = [rng.random() * service for _ in range(clients)]
    heapq.heapify(waiting)
    free, lines = 0.0, []
    for number in range(requests):
        sent = heapq.heappop(waiting)
        begun = max(sent + 0.0002, free)
        worked = service * rng.uniform(1.0, 1.05)
        free = begun + worked + between
        answered = begun + worked + 0.0002
        heapq.heappush(waiting, answered + 0.0003)
        lines.append((answered, _line(number, sent, begun, worked, answered)))
    return b"".join(line for _, line in sorted(lines))


def event_loop(requests: int, rate: float, waits: Callable[[random.Random], float], seed: int = 1) -> bytes:
    """Requests that wait for something else most of their time (``waits``, s), and hold the loop for 1 ms."""
    rng = random.Random(seed)
    sent, free, lines = 0.0, 0.0, []
    for number in range(requests):
        sent += rng.expovariate(rate)
        begun = max(sent + 0.0002, free)
        free = begun + 0.001
        worked = 0.001 + waits(rng)
        answered = begun + worked + 0.0002
        lines.append((answered, _line(number, sent, begun, worked, answered)))
    return b"".join(line for _, line in sorted(lines))


def _line(number: int, sent: float, begun: float, worked: float, answered: float) -> bytes:
    stamp, took = _cut(sent), f"{_cut(answered) - _cut(sent):.3f}"
    record = {
        "time": f"{EPOCH + _cut(answered):.3f}", "request_id": f"{number:032x}", "request_time": took, "status": "200",
        "request_start": f"{EPOCH + stamp:.3f}", "uri": "/", "route": "/", "upstream_addr": "127.0.0.1:8000",
        "upstream_status": "200", "upstream_connect_time": "0.000", "upstream_header_time": took,
        "upstream_response_time": took, "queueing_delay": f"{_cut(begun) - stamp:.6f}", "service_time": f"{worked:.6f}",
        "worker": "4711", "proxy": "edge-1",
    }  # fmt: skip
    return json.dumps(record).encode() + b"\n"


def _cut(instant: float) -> float:
    return math.floor(instant * 1000 + 1e-9) / 1000


def overlaps_of(lines: bytes) -> Iterator[float]:
    """By how much each service overlaps the next, s, above 0."""
    held = []
    for line in lines.splitlines():
        record = json.loads(line)
        begin = float(record["request_start"]) + float(record["queueing_delay"])
        held.append((begin, begin + float(record["service_time"])))
    held.sort()
    for (_, end), (begin, _) in pairwise(held):
        if end > begin:
            yield end - begin
