"""Log records of an invented shop, as the lab's nginx would write them."""

from __future__ import annotations

import msgspec
import numpy as np

FIRST = 1_767_225_600.0
"""The first record's instant, unix s: 2026-01-01 00:00:00 UTC."""

ROUTES = ("/product", "/search", "/cart", "/checkout", "/export")
SHARES = (0.5, 0.25, 0.15, 0.08, 0.02)


def log_lines(count: int, seed: list[int], spread: float = 3600.0) -> list[bytes]:
    """Return `count` lines (with their newlines) whose instants lie evenly within `spread` seconds.

    Every value is text, as nginx writes it. Service times are exponential with a mean of 40 ms, queueing delays with
    one of 20 ms; every tenth request was tried at two backends.
    """
    rng = np.random.default_rng(seed)
    routes = rng.choice(len(ROUTES), size=count, p=SHARES)
    services, queueings = rng.exponential(0.04, count), rng.exponential(0.02, count)
    encode = msgspec.json.encode
    lines = []
    for number in range(count):
        route, service, queueing = ROUTES[routes[number]], float(services[number]), float(queueings[number])
        header = f"{service + queueing:.3f}"
        end = FIRST + spread * (number + 0.5) / count
        retried = number % 10 == 0
        record = {
            "time": f"{end:.3f}",
            "request_id": f"{number:032x}",
            "trace_id": f"{rng.integers(1 << 62):032x}",
            "service": "shop",
            "route": route,
            "method": "GET",
            "uri": f"{route}/{rng.integers(10_000)}",
            "status": "200",
            "protocol": "HTTP/1.1",
            "host": "shop.example",
            "remote_addr": f"192.0.2.{number % 250 + 1}",
            "bytes_sent": str(512 + int(rng.integers(20_000))),
            "request_length": "412",
            "request_time": f"{service + queueing + (0.25 if retried else 0.0):.3f}",
            "request_start": f"{end - service - queueing:.3f}",
            "connection": str(number // 20 + 1),
            "connection_requests": str(number % 20 + 1),
            "upstream_addr": "10.0.0.2:8080, 10.0.0.1:8080" if retried else f"10.0.0.{number % 4 + 1}:8080",
            "upstream_status": "502, 200" if retried else "200",
            "upstream_connect_time": "0.000, 0.001" if retried else "0.001",
            "upstream_header_time": f"-, {header}" if retried else header,
            "upstream_response_time": f"0.250, {header}" if retried else header,
            "upstream_cache_status": "",
            "limit_req_status": "",
            "queueing_delay": f"{queueing:.6f}",
            "service_time": f"{service:.6f}",
            "worker": str(1000 + number % 8),
            "proxy": "edge-1",
        }
        lines.append(encode(record) + b"\n")
    return lines
