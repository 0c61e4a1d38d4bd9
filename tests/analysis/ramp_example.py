"""The example of a ramp: four workers of 20 requests/s each, and arrivals that grow from 10 to 80 requests/s.

``python tests/analysis/ramp_example.py`` writes docs/examples/ramp.jsonl.gz again.
"""

from __future__ import annotations

import gzip
import heapq
import json
import math
import random
from pathlib import Path

LOG = Path(__file__).parents[2] / "docs" / "examples" / "ramp.jsonl.gz"
BASE = 1_767_225_600
WORKERS, MEAN = 4, 0.05
SECONDS, FROM, TO = 200.0, 10.0, 80.0


def ramp_log() -> bytes:
    """JSON lines, compressed, the same whenever they are made."""
    rng = random.Random(4)
    free, served, now = [0.0] * WORKERS, [], 0.0
    while True:
        rate = FROM + (TO - FROM) * now / SECONDS
        now += rng.expovariate(rate)
        if now > SECONDS:
            break
        begun = max(now, heapq.heappop(free))
        end = begun + rng.expovariate(1 / MEAN)
        heapq.heappush(free, end)
        served.append((end, now))
    lines = (_line(*request) for request in sorted(served))
    return gzip.compress(b"".join(lines), compresslevel=9, mtime=0)


def _line(end: float, start: float) -> bytes:
    begun, ended = (math.floor(instant * 1000) / 1000 for instant in (start, end))
    record = {"time": f"{BASE + ended:.3f}", "request_time": f"{ended - begun:.3f}", "status": "200", "uri": "/quote"}
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


if __name__ == "__main__":
    LOG.write_bytes(ramp_log())
