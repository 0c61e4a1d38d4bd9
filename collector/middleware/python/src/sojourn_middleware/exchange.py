"""One request and its response, from the start of the app to the end of the body."""

from __future__ import annotations

import logging
import math
import os
from typing import TYPE_CHECKING, Any, TypedDict

from .answer import REPLACED, ROUTE, SERVER_TIMING, answer_headers, server_timing
from .pools import observe_threads
from .prometheus import QUEUEING_DELAY, prometheus_metrics
from .request import Request
from .stamp import DEFAULT_MAX_AGE, DEFAULT_MAX_FUTURE, StampReader
from .telemetry import Telemetry
from .timing import Clock, Timing, read_clocks
from .worker import worker_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from .pool_metrics import PoolGauges
    from .prometheus import PrometheusMetrics
    from .telemetry import TelemetrySpan

    # From the environ or the scope to the route's template, or None to let the middleware detect it.
    RouteCallable = Callable[[Any], str | None]

_ROUTE = ROUTE.lower()

_logger = logging.getLogger("sojourn_middleware")


class Options(TypedDict, total=False):
    """The options of a middleware; see `Measurement` for their meaning."""

    max_age: float
    max_future: float
    clock_offset: float
    route: RouteCallable | None
    server_timing: bool
    always_answer: bool
    telemetry: Telemetry | bool | None
    prometheus: Any
    prometheus_name: str
    service: str | None
    clock: Clock


class Measurement:
    """The options of a middleware, and the way to begin an exchange under them.

    max_age and max_future (s) bound the age of a stamp; clock_offset (s) is how far this machine's wall
    clock runs ahead of the proxy's; route names the route of an environ or a scope; server_timing adds the
    header Server-Timing; always_answer sends the measurements in answers to requests without a stamp, too;
    telemetry is None for automatic, False for none, or a `Telemetry`; prometheus is True for metrics in the
    default registry of `prometheus_client`, or a registry; prometheus_name is the name of the delay's histogram;
    service is a label of the metrics, None for ``OTEL_SERVICE_NAME``. Raises ValueError for a limit or an offset
    that is not a number of seconds and for a name that no metric can have, TypeError for any other telemetry,
    registry or service.
    """

    def __init__(
        self,
        *,
        max_age: float = DEFAULT_MAX_AGE,
        max_future: float = DEFAULT_MAX_FUTURE,
        clock_offset: float = 0.0,
        route: RouteCallable | None = None,
        server_timing: bool = False,
        always_answer: bool = False,
        telemetry: Telemetry | bool | None = None,
        prometheus: Any = False,
        prometheus_name: str = QUEUEING_DELAY,
        service: str | None = None,
        clock: Clock = read_clocks,
    ) -> None:
        self.reader = StampReader(max_age, max_future)
        if not isinstance(clock_offset, (int, float)) or not math.isfinite(clock_offset):
            raise ValueError(f"clock_offset must be a number of seconds, not {clock_offset!r}")
        self.clock_offset = float(clock_offset)
        self.route = route
        self.server_timing = server_timing
        self.always_answer = always_answer
        self.clock = clock
        self._warned: set[str] = set()
        if not isinstance(telemetry, (bool, Telemetry, type(None))):
            raise TypeError(f"telemetry must be None, False or a Telemetry, not {telemetry!r}")
        self.telemetry: Telemetry | None
        if isinstance(telemetry, Telemetry):
            self.telemetry = telemetry
        else:
            self.telemetry = None if telemetry is False else Telemetry()
        self.metrics = prometheus_metrics(prometheus, service, prometheus_name)

    def begin(self, request: Request, native: Any) -> Exchange | None:
        """Start the clocks of one request; None, and a warning in the log, if that fails for any reason.

        native is the environ or the scope, which the route callable gets.
        """
        try:
            start = self.clock()
            stamp = self.reader.read(request.stamp_values(), start[0] // 1000)
            exchange = Exchange(self, request, native, Timing(stamp, start, self.clock))
        except Exception:
            self.warn("a request is served unmeasured")
            return None
        if self.metrics is not None or exchange.span is not None:
            exchange.enter()
            if self.metrics is not None and self.metrics.pools is not None:
                self.sample_pools(self.metrics.pools)
        return exchange

    def sample_pools(self, pools: PoolGauges) -> None:
        """Write the state of the pools."""
        try:
            pools.sample()
        except Exception:
            self.warn("the state of the pools could not be written")

    def warn(self, what: str) -> None:
        """Log the current exception; the same error of several requests is logged once."""
        if what not in self._warned:
            self._warned.add(what)
            _logger.warning("%s; the same again will not be logged", what, exc_info=True)


class Exchange:
    """The measurements of one request so far. No method raises: a failure to measure is logged."""

    __slots__ = (
        "_finished",
        "_observed",
        "in_progress",
        "measurement",
        "native",
        "request",
        "route",
        "span",
        "status",
        "timing",
        "worker",
    )

    def __init__(self, measurement: Measurement, request: Request, native: Any, timing: Timing) -> None:
        self.measurement = measurement
        self.request = request
        self.native = native
        self.timing = timing
        pid = os.getpid()
        self.worker = worker_name(request.multithread, pid)
        self.status: int | None = None
        self.route: str | None = None
        self.span: TelemetrySpan | None = None
        self._finished = False
        self._observed = False
        #: Whether the request counts among those in progress.
        self.in_progress = False
        if measurement.telemetry is not None:
            self.span = measurement.telemetry.start(self, pid)

    @property
    def clock_offset(self) -> float:
        """How far this machine's wall clock runs ahead of the proxy's, in seconds: as configured."""
        return self.measurement.clock_offset

    @property
    def corrected_delay(self) -> float | None:
        """The queueing delay less the configured clock offset, in seconds; None without a valid stamp."""
        raw = self.timing.queueing_delay
        return None if raw is None else raw - self.measurement.clock_offset

    def headers_left(self, status: int | None, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the app's response headers with the headers added; the service time ends here."""
        self.timing.headers_left()
        self.status = status
        if self.span is not None:
            self.span.headers_left()
        if self.route is None:
            self.look_for_route()
        try:
            return self._with_measurements(headers)
        except Exception:
            self.measurement.warn("an answer leaves without its measurements")
            return headers
        finally:
            if self.measurement.metrics is not None:
                self._observe(self.measurement.metrics)

    def _with_measurements(self, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        measurement, route = self.measurement, self.route
        # Without a stamp there is no proxy that removes the measurements before the client.
        answers = measurement.always_answer or self.timing.stamp.reason != "missing"
        answer = []
        for name, value in headers:
            lowered = name.lower()
            if lowered in REPLACED:
                if lowered == _ROUTE and route is None:
                    # An X-Route of the app remains, so that it is not added again.
                    self.route = value if self.route is None else self.route
                elif answers:
                    continue
            answer.append((name, value))
        if answers:
            answer += answer_headers(self.timing, self.worker, route)
        # Beside a Server-Timing of the app, which is a list that may be sent in several headers.
        if measurement.server_timing and (durations := server_timing(self.timing)):
            answer.append((SERVER_TIMING, durations))
        return answer

    def enter(self) -> None:
        """Count the request among those in progress."""
        self.in_progress = True
        self._add_in_progress(1)

    def leave(self) -> None:
        """Count the request among those in progress no longer: it has ended, or it lasts until its client leaves.

        Only the first call counts.
        """
        if self.in_progress:
            self._add_in_progress(-1)
            self.in_progress = False

    def _add_in_progress(self, requests: int) -> None:
        try:
            if self.measurement.metrics is not None:
                self.measurement.metrics.add_in_progress(requests)
        except Exception:
            self.measurement.warn("the requests in progress could not be counted")
        if self.span is not None:
            self.span.add_in_progress(requests)

    def finish(self, error: BaseException | None = None) -> None:
        """End the request: the body has ended, or it failed with `error`. Only the first call counts."""
        if self._finished:
            return
        self._finished = True
        self.leave()
        metrics = self.measurement.metrics
        if metrics is not None and not self._observed:
            self.look_for_route()
            self._observe(metrics)
        if self.span is not None:
            self.span.end(error)

    def _observe(self, metrics: PrometheusMetrics) -> None:
        if self._observed:
            return
        self._observed = True
        try:
            metrics.observe(self)
        except Exception:
            self.measurement.warn("a request could not be counted in the metrics")
        if metrics.pools is not None:
            self.measurement.sample_pools(metrics.pools)

    def observe_threads(self) -> None:
        """Export the threads of AnyIO. Called inside of the event loop, if something is recorded."""
        try:
            observe_threads()
        except Exception:
            self.measurement.warn("the threads of AnyIO are not observed")

    def look_for_route(self) -> None:
        """Read the route's template now; a framework may discard it before the headers leave."""
        chosen = self.measurement.route
        try:
            self.route = (chosen(self.native) if chosen is not None else None) or self.request.route()
        except Exception:
            self.measurement.warn("the route of a request could not be read")
