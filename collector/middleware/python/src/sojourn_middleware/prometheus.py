"""Histograms of queueing delay and service time, gauges of requests and pools, in a registry of `prometheus_client`.

The library is imported only if the option ``prometheus`` is set. The registry is exposed by the app.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .answer import printable_route
from .in_progress import NAME as IN_PROGRESS
from .in_progress import InProgress
from .pool_metrics import POOL_METRICS, prometheus_pools

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from .pool_metrics import PoolGauges
    from .semantics import MeasuredRequest

QUEUEING_DELAY = "sojourn_queueing_delay_seconds"
SERVICE_TIME = "sojourn_service_time_seconds"
NEGATIVE_DELAYS = "sojourn_negative_queueing_delays_total"
NEGATIVE_SECONDS = "sojourn_negative_queueing_delay_seconds_total"

HELP = {
    QUEUEING_DELAY: "Time that requests waited for a worker; negative values count in the lowest bucket, and not in "
    "the sum.",
    SERVICE_TIME: "Time from the app's start to its response headers.",
    NEGATIVE_DELAYS: "Requests whose queueing delay was negative: the clocks differ, or one changed.",
    NEGATIVE_SECONDS: "Sum of the negative queueing delays, without sign; histogram sum less this is the exact sum.",
}

#: Upper bounds of the buckets, s.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

#: Routes of a process that have their own series; all others are counted as `OTHER`.
MAX_ROUTES = 100
OTHER = "other"

_LABELS = ("service", "route", "status_class")
_STATUS_CLASSES = {number: f"{number}xx" for number in range(1, 6)}
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_OTHER_NAMES = (SERVICE_TIME, NEGATIVE_DELAYS, NEGATIVE_SECONDS, IN_PROGRESS, *(metric.name for metric in POOL_METRICS))
_INSTALL = "try: pip install prometheus-client"

_logger = logging.getLogger("sojourn_middleware")


class Registered:
    """The metrics in one registry, for all middlewares that use it, and the routes that have their own series."""

    def __init__(self, registry: Any, service: str) -> None:
        from prometheus_client import Counter, Histogram  # noqa: PLC0415  (only when it is used)

        self._make_histogram = Histogram
        self._histograms: dict[str, Any] = {}
        self._routes: dict[str, str] = {}
        self.negative_delays = Counter(NEGATIVE_DELAYS, HELP[NEGATIVE_DELAYS], ("service",), registry=registry)
        self.negative_seconds = Counter(NEGATIVE_SECONDS, HELP[NEGATIVE_SECONDS], ("service",), registry=registry)
        self.in_progress = InProgress(registry)
        # The pools are those of the process: once in a registry, with the service of its first middleware.
        self.pools: PoolGauges | None = None
        try:
            self.pools = prometheus_pools(registry, service)
        except Exception as error:
            _logger.warning("no pools are exported: %s", error)

    def histogram(self, registry: Any, name: str, text: str) -> Any:
        """Return the histogram of this name; the first call registers it."""
        if name not in self._histograms:
            self._histograms[name] = self._make_histogram(name, text, _LABELS, buckets=BUCKETS, registry=registry)
        return self._histograms[name]

    def route_label(self, route: str | None) -> str:
        """Return the label of a route: as in the header X-Route; `OTHER` beyond `MAX_ROUTES`, empty if unknown."""
        if not route:
            return ""
        label = self._routes.get(route)
        if label is None:
            # Without a lock: two threads at the limit can add a route each, which does no harm.
            if len(self._routes) >= MAX_ROUTES:
                return OTHER
            label = self._routes[route] = printable_route(route)
        return label


# By registry. Metrics do not refer to their registry, so that the weak keys let it go.
_registered: MutableMapping[Any, Registered] = WeakKeyDictionary()
_lock = threading.Lock()


class PrometheusMetrics:
    """The metrics of one middleware, with the label ``service`` and the name of the delay's histogram.

    Raises ImportError without `prometheus_client`, ValueError if the registry has another metric of one of the names.
    """

    def __init__(self, registry: Any, service: str, name: str) -> None:
        """Register the metrics in the registry; True is the library's default one."""
        import prometheus_client  # noqa: PLC0415  (only when it is used)

        registry = prometheus_client.REGISTRY if registry is True else registry
        with _lock:
            shared = _registered.get(registry)
            if shared is None:
                shared = _registered[registry] = Registered(registry, service)
            self._delay = shared.histogram(registry, name, HELP[QUEUEING_DELAY])
            self._service_time = shared.histogram(registry, SERVICE_TIME, HELP[SERVICE_TIME])
        self._route_label = shared.route_label
        self._in_progress = shared.in_progress
        #: Gauges of the pools to be written with each request; None if a scrape reads the pools itself.
        self.pools = shared.pools
        self._service = service
        # The two series exist from now on: PromQL subtracts nothing from a series that does not exist.
        self._negative_delays = shared.negative_delays.labels(service)
        self._negative_seconds = shared.negative_seconds.labels(service)
        shared.in_progress.add(service, 0)
        # By route and class of status. The library's own search for a series takes longer than its observation.
        self._delays: dict[tuple[str, str], Any] = {}
        self._service_times: dict[tuple[str, str], Any] = {}

    def observe(self, request: MeasuredRequest) -> None:
        """Observe one request."""
        status = request.status
        status_class = "" if status is None else _STATUS_CLASSES.get(status // 100, "")
        key = (self._route_label(request.route), status_class)
        delay, service_time = request.corrected_delay, request.timing.service_time
        if delay is not None:
            series = self._delays.get(key)
            if series is None:
                series = self._delays[key] = self._delay.labels(self._service, *key)
            # A sum that decreases would be read as a restart of the process.
            if delay < 0:
                self._negative_delays.inc()
                self._negative_seconds.inc(-delay)
                delay = 0.0
            series.observe(delay)
        if service_time is not None:
            series = self._service_times.get(key)
            if series is None:
                series = self._service_times[key] = self._service_time.labels(self._service, *key)
            series.observe(service_time)

    def add_in_progress(self, requests: int) -> None:
        """Add 1 to the requests in progress at the start of a request, and -1 at its end."""
        self._in_progress.add(self._service, requests)


def prometheus_metrics(prometheus: Any, service: str | None, name: str) -> PrometheusMetrics | None:
    """Return the metrics that the options of a middleware require.

    Args:
        prometheus: False or None for none, True for the library's default registry, or a registry.
        service: the label ``service``; None for ``OTEL_SERVICE_NAME``, which may be empty.
        name: the name of the histogram of queueing delays.

    Returns:
        The metrics; None if they are off, and, with one warning in the log, if they cannot be registered.

    Raises:
        TypeError: prometheus is no registry, or service no text.
        ValueError: name is not the name of a metric, or that of another one of these metrics.
    """
    if service is not None and not isinstance(service, str):
        raise TypeError(f"service must be a text, not {service!r}")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"prometheus_name must be the name of a metric ([a-zA-Z_:][a-zA-Z0-9_:]*), not {name!r}")
    if name in _OTHER_NAMES:
        raise ValueError(f"prometheus_name is the name of the delays, and {name} is another metric of the middleware")
    if prometheus is None or prometheus is False:
        return None
    if prometheus is not True and not callable(getattr(prometheus, "register", None)):
        raise TypeError(f"prometheus must be True, False or a registry of prometheus_client, not {prometheus!r}")
    if service is None:
        service = os.environ.get("OTEL_SERVICE_NAME", "")
    try:
        return PrometheusMetrics(prometheus, service, name)
    except ImportError as error:
        _logger.warning("no metrics are exported: %s; %s", error, _INSTALL)
    except Exception as error:
        _logger.warning("no metrics are exported: %s", error)
    return None
