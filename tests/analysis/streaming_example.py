"""The example log of a streaming export: a body after the headers holds a worker for a second.

Run as a program, it writes docs/examples/streaming.jsonl.gz again.
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

from worker_log import WorkerSystem, exponential, worker_log

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
ROUTE = "/feed"
_BODY = exponential(1.0)
STREAMING = WorkerSystem(
    requests=3_000,
    workers=3,
    load=0.30,
    mean=0.03,
    routes=(("/page", 0.72), ("/search", 0.24), (ROUTE, 0.04)),
    body=lambda rng, route: _BODY(rng, route) if route == ROUTE else 0.0,
    seed=5,
)


def streaming_log() -> bytes:
    """Return the log, decompressed."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "streaming.jsonl"
        worker_log(log, STREAMING)
        return log.read_bytes()


if __name__ == "__main__":
    (EXAMPLES / "streaming.jsonl.gz").write_bytes(gzip.compress(streaming_log(), 9, mtime=0))
