"""The metrics of the pools inside the process, for `prometheus_client` and for OpenTelemetry."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from .in_progress import writes_files
from .pools import pool_states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class PoolMetric(NamedTuple):
    """The metric of one field of `PoolState`: its name and help, and its name and unit in OpenTelemetry."""

    name: str
    help: str
    otel_name: str
    unit: str


#: In the order of the fields of `PoolState`.
POOL_METRICS = (
    PoolMetric(
        "sojourn_pool_places",
        "Requests or queries that a pool inside the app serves at a time.",
        "queueing.pool.places",
        "{place}",
    ),
    PoolMetric(
        "sojourn_pool_places_in_use",
        "Places of a pool inside the app that are in use.",
        "queueing.pool.places_in_use",
        "{place}",
    ),
    PoolMetric(
        "sojourn_pool_waiting",
        "Requests or queries that wait for a place of a pool inside the app.",
        "queueing.pool.waiting",
        "{request}",
    ),
)

#: The attribute of OpenTelemetry's instruments.
POOL_NAME = "queueing.pool.name"

_LABELS = ("service", "pool")


class PoolCollector:
    """A collector of `prometheus_client`, which reads the pools at each scrape."""

    def __init__(self, registry: Any, service: str) -> None:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415  (only when it is used)

        self._make_family = GaugeMetricFamily
        self._service = service
        registry.register(self)

    def describe(self) -> list[Any]:
        """Return the metrics without values: the registry refuses a name that another metric has."""
        return [self._make_family(metric.name, metric.help, labels=_LABELS) for metric in POOL_METRICS]

    def collect(self) -> Iterable[Any]:
        """Return the metrics that have values."""
        families = self.describe()
        for pool, state in pool_states():
            for field, value in enumerate(state):
                if value is not None:
                    families[field].add_metric((self._service, pool), value)
        return [family for family in families if family.samples]


class PoolGauges:
    """Gauges in the files of `prometheus_client`'s multiprocess mode, which calls no collector at a scrape.

    The scrape is the sum over the processes, as of the latest start of a request, or response headers, in each.
    """

    def __init__(self, registry: Any, service: str) -> None:
        from prometheus_client import Gauge  # noqa: PLC0415  (only when it is used)

        self._service = service
        self._gauges = [
            Gauge(metric.name, metric.help, _LABELS, registry=registry, multiprocess_mode="livesum")
            for metric in POOL_METRICS
        ]
        # By process id: a fork has files of its own, and the parent's lock may be held forever.
        self._processes: dict[int, _Written] = {}

    def sample(self) -> None:
        """Write what has changed since the last call."""
        pid = os.getpid()
        written = self._processes.get(pid) or self._processes.setdefault(pid, _Written())
        with written.lock:
            for pool, state in pool_states():
                for field, value in enumerate(state):
                    key = (field, pool)
                    if value is not None and value != written.values.get(key):
                        self._gauges[field].labels(self._service, pool).set(value)
                        written.values[key] = value


class _Written:
    """The values that a process has written: a comparison takes less time than a file."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.values: dict[tuple[int, str], int] = {}


def prometheus_pools(registry: Any, service: str) -> PoolGauges | None:
    """Register the metrics of the pools; return the gauges to be written, None if a scrape reads the pools itself.

    Raises ValueError if the registry has another metric of one of the names.
    """
    if writes_files():
        return PoolGauges(registry, service)
    PoolCollector(registry, service)
    return None


def create_pool_instruments(meter: Any) -> None:
    """Create OpenTelemetry's observable instruments, which read the pools at each collection."""
    from opentelemetry.metrics import Observation  # noqa: PLC0415  (only when it is used)

    def observe(field: int) -> Callable[[Any], list[Any]]:
        return lambda _: [
            Observation(value, {POOL_NAME: pool})
            for pool, state in pool_states()
            if (value := state[field]) is not None
        ]

    for field, metric in enumerate(POOL_METRICS):
        meter.create_observable_up_down_counter(
            metric.otel_name, callbacks=[observe(field)], unit=metric.unit, description=metric.help.rstrip(".")
        )
