"""The attributes of a span: OpenTelemetry's stable HTTP attributes, and Sojourn's under ``queueing.``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Protocol

    from .request import Request
    from .timing import Timing

    class MeasuredRequest(Protocol):
        """The properties of a request for telemetry: an `Exchange` is one."""

        request: Request
        timing: Timing
        worker: str
        status: int | None
        route: str | None

        @property
        def clock_offset(self) -> float:
            """How far this machine's wall clock runs ahead of the proxy's, s."""

        @property
        def corrected_delay(self) -> float | None:
            """The queueing delay less the clock offset, s; None without a valid stamp."""


#: The instrumentation scope.
SCOPE = "sojourn_middleware"

#: The event whose timestamp is the proxy's stamp.
STAMP_EVENT = "http.proxy.request.started"

HISTOGRAM = "queueing.delay"

#: Seconds. The boundaries of ``http.server.request.duration``, finer below 5 ms, for healthy
#: queues, and wider above 10 s, for overloaded ones.
BUCKETS = [
    *(0.0005, 0.001, 0.0025),
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(15.0, 30.0, 60.0, 120.0),
]

_METHODS = frozenset(
    ("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"),
)


def span_name(method: str, route: str | None) -> str:
    """Return ``GET /users/{id}``; the method alone if the route is unknown, never the raw path."""
    name = method if method in _METHODS else "HTTP"
    return f"{name} {route}" if route else name


def standard_method(method: str) -> str:
    """Return the method, or ``_OTHER``: a client can send any text, and no text may create a time series."""
    return method if method in _METHODS else "_OTHER"


def first_attributes(exchange: MeasuredRequest) -> dict[str, Any]:
    """Return the attributes known at the start of the request, for a sampler."""
    request = exchange.request
    attributes: dict[str, Any] = {
        "http.request.method": standard_method(request.method),
        "url.path": request.path,
        "url.scheme": request.scheme,
    }
    if request.method not in _METHODS:
        attributes["http.request.method_original"] = request.method
    if request.protocol_version:
        attributes["network.protocol.version"] = request.protocol_version
    address, port = _server(exchange)
    if address:
        attributes["server.address"] = address
    if port is not None:
        attributes["server.port"] = port
    attributes.update(_request_id(exchange))
    return attributes


def in_progress_attributes(exchange: MeasuredRequest) -> dict[str, Any]:
    """Return the attributes of the number of requests in progress."""
    return {
        "http.request.method": standard_method(exchange.request.method),
        "url.scheme": exchange.request.scheme,
    }


def _request_id(exchange: MeasuredRequest) -> dict[str, Any]:
    value = exchange.request.header("x-request-id")
    return {"http.request.header.x-request-id": [value]} if value else {}


def queueing_attributes(exchange: MeasuredRequest) -> dict[str, Any]:
    """Return Sojourn's own attributes, known when the headers have left.

    Times in seconds; unknown ones are left out.
    """
    timing = exchange.timing
    attributes: dict[str, Any] = {
        "queueing.status": timing.stamp.status,
        "queueing.clock_offset": exchange.clock_offset,
        "queueing.worker": exchange.worker,
    }
    optional = {
        "queueing.delay": exchange.corrected_delay,
        "queueing.delay.raw": timing.queueing_delay,
        "queueing.service_time": timing.service_time,
    }
    attributes.update((name, value) for name, value in optional.items() if value is not None)
    return attributes


def outer_attributes(exchange: MeasuredRequest) -> dict[str, Any]:
    """Return the attributes for a span that automatic instrumentation has started: those that it does not set."""
    return {**_request_id(exchange), **queueing_attributes(exchange)}


def final_attributes(exchange: MeasuredRequest, error: BaseException | None) -> dict[str, Any]:
    """Return the attributes known at the end of the request; unknown ones are left out."""
    attributes = queueing_attributes(exchange)
    optional = {
        "http.response.status_code": exchange.status,
        "http.route": exchange.route,
        "error.type": error_type(exchange, error),
    }
    attributes.update((name, value) for name, value in optional.items() if value is not None)
    return attributes


def error_type(exchange: MeasuredRequest, error: BaseException | None) -> str | None:
    """Return the class of the exception, or the status from 500 on; None without an error."""
    if error is not None:
        return f"{type(error).__module__}.{type(error).__qualname__}".replace("builtins.", "")
    if exchange.status is not None and exchange.status >= 500:
        return str(exchange.status)
    return None


def _server(exchange: MeasuredRequest) -> tuple[str, int | None]:
    """Return the host and port of the Host header, or else the address at which the server listens."""
    host = exchange.request.header("host")
    if not host:
        return exchange.request.server
    name, colon, port = host.rpartition(":")
    if colon and port.isdecimal() and len(port) <= 5 and not name.endswith(":"):
        return name.strip("[]"), int(port)
    return host.strip("[]"), None
