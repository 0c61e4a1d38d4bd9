"""The headers with which the app answers what it measured. The proxy logs them and strips them."""

from __future__ import annotations

from urllib.parse import quote

from .timing import Timing

QUEUEING_DELAY = "X-Queueing-Delay"
SERVICE_TIME = "X-Service-Time"
WORKER = "X-Worker"
ROUTE = "X-Route"

# What stays readable in a route template; a control character or a letter outside ASCII would break the
# header.
_ROUTE_SAFE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%") + "%"


def seconds(value: float) -> str:
    """Seconds with six decimals and a point, whatever the locale says."""
    return f"{value:.6f}"


def answer_headers(timing: Timing, worker: str, route: str | None) -> list[tuple[str, str]]:
    """The headers to add; a delay that is not known is left out rather than sent as zero."""
    headers = []
    delay, service = timing.queueing_delay, timing.service_time
    if delay is not None:
        headers.append((QUEUEING_DELAY, seconds(delay)))
    if service is not None:
        headers.append((SERVICE_TIME, seconds(service)))
    headers.append((WORKER, worker))
    if route:
        headers.append((ROUTE, quote(route, safe=_ROUTE_SAFE)))
    return headers


def replaced_names(route: str | None) -> frozenset[str]:
    """Lower-case names of the app's own headers that `answer_headers` supersedes.

    An ``X-Route`` set by the app stays when nothing better is known.
    """
    names = {QUEUEING_DELAY.lower(), SERVICE_TIME.lower(), WORKER.lower()}
    return frozenset(names | {ROUTE.lower()} if route else names)
