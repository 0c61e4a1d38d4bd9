"""Serve the metrics to Prometheus, by its official client library."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.core import Exemplar as ClientExemplar
from prometheus_client.exposition import ThreadingWSGIServer, make_wsgi_app
from prometheus_client.registry import Collector
from prometheus_client.samples import BucketSpan, NativeHistogram

from sojourn.export.exporter import Exporter
from sojourn.export.histograms import ZERO, Histogram
from sojourn.export.metrics import COUNTER, GAUGE, HISTOGRAM, METRICS, NATIVE_SCHEMA
from sojourn.model.errors import SojournError

QUEUEING = "sojourn_queueing_delay_seconds"
NATIVE_FORMAT = "version=2.0.0"
"""In ``Accept``: the version of OpenMetrics that has native histograms."""


class ExporterCollector(Collector):
    """The metrics of an exporter as families of prometheus_client; ``native``: with native histograms as well."""

    def __init__(self, exporter: Exporter, *, native: bool) -> None:
        self._exporter = exporter
        self._native = native

    def describe(self) -> Iterable[Metric]:
        """See ``Collector``: nothing, so that registering collects nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """See ``Collector``."""
        snapshot = self._exporter.snapshot()
        for metric in METRICS:
            if metric.kind == HISTOGRAM:
                own = snapshot.histograms.get(metric.name, ())
                names = (metric.name, *((self._exporter.settings.alias,) if metric.name == QUEUEING else ()))
                for name in filter(None, names):
                    yield self._histogram(name, metric.help, metric.labels, own)
            elif samples := snapshot.samples.get(metric.name):
                family = _FAMILIES[metric.kind](metric.name, metric.help, labels=metric.labels)
                for sample in samples:
                    family.add_metric(sample.labels, sample.value)
                yield family

    def _histogram(
        self, name: str, text: str, labels: Sequence[str], histograms: Sequence[tuple[tuple[str, ...], Histogram]]
    ) -> Metric:
        bounds = [*map(str, self._exporter.tally.bounds), "+Inf"]
        family = HistogramMetricFamily(name, text, labels=labels)
        for values, histogram in histograms:
            buckets: list[Any] = []
            total = 0
            for number, bound in enumerate(bounds):
                total += int(histogram.counts[number])
                exemplar = histogram.exemplars.get(number)
                marked = exemplar and ClientExemplar({"trace_id": exemplar.trace_id}, exemplar.value, exemplar.time)
                buckets.append((bound, total, marked) if marked else (bound, total))
            family.add_metric(values, buckets, histogram.sum)
            if self._native:
                native = _native(histogram)
                family.add_sample(name, dict(zip(labels, values, strict=True)), 0.0, native_histogram=native)
        return family


_FAMILIES: dict[str, Callable[..., Any]] = {COUNTER: CounterMetricFamily, GAUGE: GaugeMetricFamily}


def _native(histogram: Histogram) -> NativeHistogram:
    """Return the native form: consecutive buckets as spans, and counts as differences."""
    (positive, deltas), (negative, negative_deltas) = _spans(histogram.positive), _spans(histogram.negative)
    return NativeHistogram(
        count_value=histogram.count,
        sum_value=histogram.sum,
        schema=NATIVE_SCHEMA,
        zero_threshold=ZERO,
        zero_count=histogram.zero,
        pos_spans=positive,
        neg_spans=negative,
        pos_deltas=deltas,
        neg_deltas=negative_deltas,
    )


def _spans(counts: dict[int, int]) -> tuple[list[BucketSpan] | None, list[int] | None]:
    spans: list[list[int]] = []
    deltas: list[int] = []
    end, before = 0, 0
    for index, count in sorted(counts.items()):
        if spans and index == end:
            spans[-1][1] += 1
        else:
            spans.append([index - end, 1])
        deltas.append(count - before)
        end, before = index + 1, count
    return ([BucketSpan(*span) for span in spans] or None, deltas or None)


def text_of(exporter: Exporter) -> str:
    """Return the metrics in Prometheus's text format."""
    return generate_latest(_registry(exporter, native=False)).decode()


def _registry(exporter: Exporter, *, native: bool) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ExporterCollector(exporter, native=native))
    return registry


class MetricsServer:
    """An HTTP server of the metrics of an exporter, on a thread of its own; port 0 chooses a free one.

    Raises:
        SojournError: the address cannot be listened on.
    """

    def __init__(self, exporter: Exporter, host: str, port: int) -> None:
        applications = {native: make_wsgi_app(_registry(exporter, native=native)) for native in (False, True)}

        def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            # An older format has no place for native histograms.
            native = NATIVE_FORMAT in environ.get("HTTP_ACCEPT", "")
            return applications[native](environ, start_response)

        server_class = _Server6 if ":" in host else _Server
        try:
            self._server = make_server(host, port, application, server_class, _SilentHandler)
        except OSError as error:
            raise SojournError(f"--listen {host}:{port}: {error.strerror or error}") from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="sojourn-metrics", daemon=True)
        self._thread.start()
        literal = f"[{host}]" if ":" in host else host
        self.url = f"http://{literal}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingWSGIServer):
    """A server that does not wait for unfinished responses when it ends."""

    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


class _SilentHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the class above
        """Log no request."""
