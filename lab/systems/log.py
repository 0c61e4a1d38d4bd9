"""Write simulated requests as nginx log records, and the app's spans."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from sojourn_lab.results.waits_by_cause import ANSWERED

from systems.requests import Request, rng_of

EPOCH = 1_767_225_600.0
COPY = 100_000  # what the number of a copy of a request differs by
SLOW, LARGE = 0.05, "600000"  # s, bytes: messages that take longer are so large
SKEWS = (0.137, -0.052, 0.018, -0.009)  # s: clocks of the backends relative to nginx's


OF_THE_APP = ("queueing_delay", "service_time", "worker")  # keys that a log without the middleware lacks


def write_log(path: Path, requests: Sequence[Request], *, plain: bool = False, seed: int = 5) -> int:
    """Write the records that are in the log, in the order of their ends; return their number.

    Args:
        path: of the file.
        requests: the simulated ones.
        plain: leave out what the app reports.
        seed: of the request ids.
    """
    rng = rng_of(seed)
    logged = sorted((r for r in requests if not r.hidden), key=lambda r: (r.end, r.number))
    with path.open("w") as file:
        for request in logged:
            written = record(request, f"{rng.getrandbits(128):032x}")
            if plain:
                written = {key: value for key, value in written.items() if key not in OF_THE_APP}
            file.write(json.dumps(written, separators=(",", ":")) + "\n")
    return len(logged)


def record(request: Request, request_id: str) -> dict[str, str]:
    """Return the record of a request."""
    gone = request.status not in ANSWERED
    way = request.reached - request.gated
    received = request.headers + way
    begun = EPOCH + request.begun + skew(request)
    connected = request.stamp if way > 0.005 else request.stamp + way  # kept connections to a backend far away
    return {
        "time": _ms(request.end),
        "request_id": request_id,
        "service": "shop",
        "route": request.route,
        "method": "GET",
        "uri": f"{request.route}/{request.number % COPY}",
        "status": str(request.status),
        "remote_addr": f"192.0.2.{request.client}",
        "request_time": _between(request.start, request.end),
        "request_start": _ms(request.stamp),
        "upstream_addr": request.address,
        "upstream_status": "-" if request.status == 499 else str(request.status),
        "upstream_connect_time": _between(request.stamp, connected),
        "upstream_header_time": "-" if gone else _between(request.stamp, received),
        "upstream_response_time": _between(request.stamp, request.end if gone else request.end - request.send),
        "queueing_delay": "" if gone else f"{begun - math.floor((EPOCH + request.stamp) * 1000) / 1000:.6f}",
        "service_time": "" if gone else f"{request.headers - request.begun:.6f}",
        "worker": "" if gone else request.worker,
        "proxy": "edge-1",
        "request_length": LARGE if request.upload > SLOW else "400",
        "bytes_sent": LARGE if max(request.answered - request.headers, request.send) > SLOW else "900",
    }


def write_spans(path: Path, requests: Sequence[Request], end: str, *, seed: int = 5) -> None:
    """Write a span of the app for every record of ``write_log`` with the same seed.

    Args:
        path: of the file.
        requests: as for ``write_log``.
        end: the attribute of a request at which its span ends: released or headers.
        seed: of the request ids.
    """
    rng = rng_of(seed)
    with path.open("w") as file:
        for request in sorted((r for r in requests if not r.hidden), key=lambda r: (r.end, r.number)):
            span = _span(request, f"{rng.getrandbits(128):032x}", getattr(request, end))
            file.write(json.dumps(span, separators=(",", ":")) + "\n")


def _span(request: Request, request_id: str, end: float) -> dict[str, object]:
    attributes = {
        "http.request.header.x-request-id": {"arrayValue": {"values": [{"stringValue": request_id}]}},
        "http.route": {"stringValue": request.route},
        "queueing.service_time": {"doubleValue": round(request.headers - request.begun, 6)},
        "queueing.worker": {"stringValue": request.worker},
    }
    ahead = EPOCH + skew(request)
    span = {
        "traceId": request_id,
        "spanId": request_id[:16],
        "name": f"GET {request.route}",
        "kind": 2,
        "startTimeUnixNano": str(round((ahead + request.begun) * 1e6) * 1000),
        "endTimeUnixNano": str(round((ahead + end) * 1e6) * 1000),
        "attributes": [{"key": key, "value": value} for key, value in attributes.items()],
    }
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}


def skew(request: Request) -> float:
    """Return by how much the clock of the request's backend is ahead of nginx's, s."""
    return SKEWS[request.backend % len(SKEWS)] if math.isnan(request.clock) else request.clock


def _ms(instant: float) -> str:
    return f"{math.floor((EPOCH + instant) * 1000) / 1000:.3f}"


def _between(earlier: float, later: float) -> str:
    return f"{(math.floor((EPOCH + later) * 1000) - math.floor((EPOCH + earlier) * 1000)) / 1000:.3f}"
