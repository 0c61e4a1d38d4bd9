"""The components of a response time: their names, and the statuses and limits that decide about a request.

    request_time = upload + proxy_queue + retries + connect + queue + service_time + network + transfer + redirected
                   + send (+ unattributed)

``sojourn.components`` computes them of rows, and ``collector/clickhouse/split`` in a store, where the constants are
placeholders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

COMPONENTS = {
    "upload": "reading the request from the client, until the upstream request was built",
    "proxy_queue": "waiting in the proxy's own queue for a place at the app: HAProxy, Envoy, NGINX Plus, Angie PRO",
    "retries": "attempts before the backend's: failed, or replaced by error_page (nginx does not stamp again)",
    "connect": "connecting to the app; the kernel accepts for it, so a queue does not show here",
    "queue": "waiting for a worker, from the connection to the app's start",
    "service_time": "the app's own clock, from its start to the response headers",
    "network": "the time between the app's clock and nginx's that no component accounts for, signed",
    "transfer": "from the response headers to the end of the answer",
    "redirected": "upstreams that an internal redirect of the app led to (X-Accel-Redirect), after its answer",
    "send": "writing the answer to the client",
    "unattributed": "upstream time of requests whose app did not report what it did",
}

# The parts of a response in which the queueing delay is one; a rollup has sums of each: its name there, its column.
QUEUEING = ("proxy_queue", "connect", "queue")
PARTS = {
    "queueing": "queueing_delay",
    "service": "service_time",
    **{name: name for name in COMPONENTS if name not in (*QUEUEING, "service_time")},
}

# Where a request's queue comes from, best first.
QUEUE_SOURCES = ("stamp", "span", "duration", "inferred", "none")

# A queue longer than the response that contains it, by more than clocks, their resolution and a busy nginx explain,
# cannot have happened: the stamp was forged, or a clock was set meanwhile.
IMPOSSIBLE = 0.1  # s

# us, the tick of nginx's $msec. An instant that is cut down to a tick is half a tick too early on average. Finer stamps
# (HAProxy, Apache) count in microseconds, half of which is less than a row resolves.
STAMP_TICK = 1000

# A logged stamp that lies after the begin of the upstream request (time - response time of the last attempt) is not the
# stamp that was sent. Each of the three instants is cut down to the clock's step: two steps are rounding.
LATE_STEPS = 2

SWITCHING_PROTOCOLS = 101
# The client (499) or nginx (504) stopped waiting for the app, which is not notified.
CLIENT_GONE, TIMED_OUT = 499, 504
GIVEN_UP_STATUSES = (CLIENT_GONE, TIMED_OUT)
# Of nginx itself, where no app answered.
BAD_GATEWAY, UNAVAILABLE = 502, 503
PROXY_STATUSES = (CLIENT_GONE, BAD_GATEWAY, UNAVAILABLE, TIMED_OUT)
# No upstream was contacted because of the client: the time was spent reading the request.
CLIENT_STATUSES = (400, 408, 413, CLIENT_GONE)
SERVER_ERROR = 500  # and above


def failed(status: pl.Expr) -> pl.Expr:
    """Return whether requests of these statuses failed: a server error, or the client had gone."""
    return (status >= SERVER_ERROR) | (status == CLIENT_GONE)


def failed_sql(status: str) -> str:
    """Return the condition of ``failed`` in SQL."""
    return f"({status} >= {SERVER_ERROR} OR {status} = {CLIENT_GONE})"
