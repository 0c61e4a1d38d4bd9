"""`python -m sojourn_lab.experiments.endurance.log_writer LOG RATE SECONDS`: write records as nginx would, at a rate.

Waits and service times are exponential; twenty routes on eight backends. The log is renamed and created again, as
logrotate does, when it is longer than ``LONGEST``; the renamed one is removed at the next time. Prints the number of
records.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

KINDS = 4_000  # different records, except for their instants and ids
LONGEST = 200_000_000  # bytes
PAUSE = 0.05  # s between two writes
SEED = 1
WAIT, SERVICE = 0.02, 0.01  # s, means
REST = 0.001  # s, of the response that is neither


def written(log: Path, rate: float, seconds: float) -> int:
    """Write records at ``rate`` a second for ``seconds``; return how many."""
    kinds = _kinds()
    count, begun = 0, time.monotonic()
    file = log.open("ab", buffering=0)
    try:
        while (passed := time.monotonic() - begun) < seconds:
            now, parts = time.time(), []
            for number in range(count, int(passed * rate)):
                head, response = kinds[number % KINDS]
                identity = f'"{number:032x}"'
                start = f'"time":"{now:.3f}","request_start":"{now - response:.3f}"'
                parts.append(f'{head},"request_id":{identity},"trace_id":{identity},{start}}}\n')
            count += len(parts)
            file.write("".join(parts).encode())
            if file.tell() > LONGEST:
                file.close()
                log.rename(log.with_suffix(".old"))
                file = log.open("ab", buffering=0)
            time.sleep(PAUSE)
    finally:
        file.close()
    return count


def _kinds() -> list[tuple[str, float]]:
    """Return records without instants and ids, and their response times (s)."""
    rng = np.random.default_rng(SEED)
    waits, services = rng.exponential(WAIT, KINDS), rng.exponential(SERVICE, KINDS)
    kinds = []
    for number, (wait, service) in enumerate(zip(waits.tolist(), services.tolist(), strict=True)):
        response = wait + service + REST
        text = f"{response:.3f}"
        record = {
            "service": "shop", "route": f"/route/{number % 20}", "method": "GET", "uri": "/", "status": "200",
            "proxy": "edge", "request_time": text, "upstream_addr": f"10.0.0.{number % 8}:8080",
            "upstream_status": "200", "upstream_connect_time": "0.000", "upstream_header_time": text,
            "upstream_response_time": text, "queueing_delay": f"{wait:.6f}", "service_time": f"{service:.6f}",
            "worker": str(number % 97), "span_id": "50f0a4e250f0a4e2",
        }  # fmt: skip
        kinds.append((json.dumps(record, separators=(",", ":"))[:-1], response))
    return kinds


if __name__ == "__main__":
    sys.stdout.write(f"{written(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))}\n")
