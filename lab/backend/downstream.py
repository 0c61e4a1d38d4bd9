"""The app's call to the tier behind it, and the lock that tier may hold.

LAB_DEPENDENCY   URL of that tier's proxy; the app requests work from it if a request has `dependency=SECONDS`
LAB_LOCK         a file; if set, all work is done while holding a lock on it, as under a lock that every
                 query of a database takes. Waiting for the lock counts as queueing delay in the middleware
"""

from __future__ import annotations

import fcntl
import http.client
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from sojourn_middleware import mark_started

DEPENDENCY = os.environ.get("LAB_DEPENDENCY", "")
LOCK = os.environ.get("LAB_LOCK", "")
PATIENCE = 120.0
SUFFIX = ".dependency"


@contextmanager
def locked() -> Iterator[None]:
    """Hold the lock, if there is one; the time before counts as waiting."""
    if not LOCK:
        yield
        return
    # A file of its own each time: threads of one process would otherwise share one lock.
    with open(LOCK, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        mark_started()
        yield


def requested(seconds: float, case: str) -> int:
    """Request work from the tier behind, wait for its answer, and return its status; 502 without an answer.

    The call is a span of its own, a child of the request's; its context goes along, so that the spans of both tiers are
    one trace.
    """
    where = urlsplit(DEPENDENCY)
    from opentelemetry import trace  # noqa: PLC0415 - only where there is a tier behind

    with _tracer().start_as_current_span(
        "GET", kind=trace.SpanKind.CLIENT, attributes={"peer.service": "dependency"}
    ) as span:
        headers = {"X-Lab-Case": f"{case}{SUFFIX}"}
        _inject(headers)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE)
        try:
            connection.request("GET", f"/sleep/{seconds:.6f}", headers=headers)
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        except (OSError, http.client.HTTPException) as error:
            span.record_exception(error)
            status = 502
        finally:
            connection.close()
        span.set_attribute("http.response.status_code", status)
    return status


@cache
def _tracer() -> Any:
    from opentelemetry import trace  # noqa: PLC0415
    from sojourn_middleware.providers import automatic_tracer_provider  # noqa: PLC0415

    provider = automatic_tracer_provider() or trace.NoOpTracerProvider()
    return provider.get_tracer("lab")


def _inject(headers: dict[str, str]) -> None:
    from opentelemetry import propagate  # noqa: PLC0415

    propagate.inject(headers)
