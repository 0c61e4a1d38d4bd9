"""The response headers with the app's measurements. The proxy logs and strips them."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote

from .timing import Timing

QUEUEING_DELAY = "X-Queueing-Delay"
SERVICE_TIME = "X-Service-Time"
WORKER = "X-Worker"
ROUTE = "X-Route"
SERVER_TIMING = "Server-Timing"

# Characters that remain unescaped in a route template; a control character or a letter outside ASCII would break the
# header.
_ROUTE_SAFE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%") + "%"

#: Lower-case names of the app's own headers that `answer_headers` supersedes. An ``X-Route`` of the app remains if the
#: route is unknown.
REPLACED = frozenset(name.lower() for name in (QUEUEING_DELAY, SERVICE_TIME, WORKER, ROUTE))


def answer_headers(timing: Timing, worker: str, route: str | None) -> list[tuple[str, str]]:
    """Return the headers to add, in seconds with six decimals; an unknown delay is left out, not sent as zero."""
    headers = []
    delay, service = timing.queueing_delay, timing.service_time
    if delay is not None:
        headers.append((QUEUEING_DELAY, f"{delay:.6f}"))
    if service is not None:
        headers.append((SERVICE_TIME, f"{service:.6f}"))
    headers.append((WORKER, worker))
    if route:
        headers.append((ROUTE, printable_route(route)))
    return headers


# An app has few routes; one with a name for every request fills this cache and no more.
@lru_cache(maxsize=256)
def printable_route(route: str) -> str:
    """Return a route as a header can carry it: bytes outside printable ASCII as ``%XX``."""
    return quote(route, safe=_ROUTE_SAFE, errors="replace")


def server_timing(timing: Timing) -> str | None:
    """Return the value of Server-Timing in milliseconds; None if both durations are unknown.

    A negative delay is left out: it is a disagreement of two clocks, not a duration.
    """
    delay, service = timing.queueing_delay, timing.service_time
    durations = []
    if delay is not None and delay >= 0:
        durations.append(f"queue;dur={1000 * delay:.3f}")
    if service is not None:
        durations.append(f"app;dur={1000 * service:.3f}")
    return ", ".join(durations) or None
