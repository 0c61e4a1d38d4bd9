"""The example log of the documents without stamps: nginx's combined format with four variables more, of four workers.

Run as a program, it writes docs/examples/plain.log.gz again.
"""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import numpy as np
from studies.inference import simulators as simulate

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
BEGIN = 1_767_225_600.0  # 2026-01-01
REQUESTS, WORKERS, UTILISATION, SEED = 10_500, 4, 0.85, 18
ROUTES = ("/product", "/search", "/export")


def plain_log(requests: int = REQUESTS, seed: int = SEED) -> tuple[bytes, simulate.Floats]:
    """Return the log, and the true waits (s)."""
    rng = np.random.default_rng(seed)
    service, routes = simulate.services(rng, requests, "routes")
    arrival = simulate.poisson(rng, service, WORKERS, UTILISATION)
    log = simulate.logged(rng, arrival, simulate.first_come(arrival, service, WORKERS), routes)
    lines = []
    for number in np.argsort(log.departure, kind="stable"):
        end = BEGIN + log.departure[number]
        stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(end))
        took = log.departure[number] - log.arrival[number]
        lines.append(
            f'192.0.2.{number % 250} - - [{stamp}] "GET {ROUTES[log.routes[number]]} HTTP/1.1" 200 512 "-" "-" '
            f"{end:.3f} {took:.3f} 10.0.0.1:8000 {took:.3f}\n"
        )
    return "".join(lines).encode(), log.wait


if __name__ == "__main__":
    (EXAMPLES / "plain.log.gz").write_bytes(gzip.compress(plain_log()[0], 9, mtime=0))
