"""Send the metrics by OTLP over HTTP, with the data model and the exporter of opentelemetry-sdk.

Histograms are sent with their classic buckets, or exponentially if the standard variable
``OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION`` is ``base2_exponential_bucket_histogram``. Headers,
certificates, compression and resource attributes are set by the standard variables, too.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from sojourn.export.exporter import Exporter, Snapshot
from sojourn.export.histograms import Histogram
from sojourn.export.metrics import COUNTER, METRICS, NATIVE_SCHEMA, Metric
from sojourn.export.tally import Sample
from sojourn.model.errors import SojournError
from sojourn.model.extras import needed_for
from sojourn.model.formatting import printable
from sojourn.model.version import version

with needed_for("--otlp", "otlp"):
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import export as sdk
    from opentelemetry.sdk.metrics.export import AggregationTemporality, MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

PATH = "/v1/metrics"
INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
DEFAULT_INTERVAL = 15.0  # s
AGGREGATION = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"
EXPONENTIAL = "base2_exponential_bucket_histogram"
TIMEOUT = 10.0  # s
CUMULATIVE = AggregationTemporality.CUMULATIVE
UNKNOWN_EXTREMES: Any = (None, None)
"""Minimum and maximum, which the protocol does not require."""


class Sender:
    """Sends the metrics of an exporter at a fixed interval, on a thread of its own, and once more at the end.

    ``/v1/metrics`` is added to a URL without a path.

    Raises:
        SojournError: the URL is no HTTP URL, or the interval in the environment is no number.
    """

    def __init__(self, exporter: Exporter, url: str) -> None:
        self._exporter = exporter
        self._url = endpoint_of(url)
        self._interval = _interval()
        self._exponential = os.environ.get(AGGREGATION, "").strip().lower() == EXPONENTIAL
        # It reports every failure; here the first of several is enough.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._client = OTLPMetricExporter(self._url, timeout=TIMEOUT)
        self._resource = Resource.create({"service.name": "sojourn", "service.version": version()} | _service_name())
        self._started = time.time_ns()
        self._failing = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sojourn-otlp", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def close(self) -> None:
        """Send once more, and stop."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2 * TIMEOUT)
        self._client.shutdown()

    def send(self) -> bool:
        """Send all metrics now; return whether the endpoint accepted them."""
        return bool(self._client.export(self._data(self._exporter.snapshot())) is sdk.MetricExportResult.SUCCESS)

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self._report(self.send())
        self._report(self.send())

    def _report(self, accepted: bool) -> None:
        if accepted == self._failing:
            state = "accepts metrics again" if accepted else "does not accept metrics; they are sent again later"
            sys.stderr.write(f"otlp: {printable(self._url, 200)} {state}\n")
        self._failing = not accepted

    def _data(self, snapshot: Snapshot) -> MetricsData:
        now = time.time_ns()
        metrics = []
        for metric in METRICS:
            if histograms := snapshot.histograms.get(metric.name):
                metrics.append(self._histogram(metric, histograms, now))
            elif samples := snapshot.samples.get(metric.name):
                metrics.append(self._number(metric, samples, now))
        scope = ScopeMetrics(InstrumentationScope("sojourn", version()), metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _number(self, metric: Metric, samples: Sequence[Sample], now: int) -> sdk.Metric:
        points = [
            sdk.NumberDataPoint(_attributes(metric, sample.labels), self._started, now, float(sample.value))
            for sample in samples
        ]
        data = sdk.Sum(points, CUMULATIVE, is_monotonic=True) if metric.kind == COUNTER else sdk.Gauge(points)
        return sdk.Metric(metric.name, metric.help, metric.unit, data)

    def _histogram(
        self, metric: Metric, histograms: Sequence[tuple[tuple[str, ...], Histogram]], now: int
    ) -> sdk.Metric:
        data: sdk.Histogram | sdk.ExponentialHistogram
        if self._exponential:
            points = [
                sdk.ExponentialHistogramDataPoint(
                    _attributes(metric, labels), self._started, now, each.count, each.sum, NATIVE_SCHEMA, each.zero,
                    _buckets(each.positive), _buckets(each.negative), 0, *UNKNOWN_EXTREMES,
                )
                for labels, each in histograms
            ]  # fmt: skip
            data = sdk.ExponentialHistogram(points, CUMULATIVE)
        else:
            bounds = self._exporter.tally.bounds
            classic = [
                sdk.HistogramDataPoint(
                    _attributes(metric, labels), self._started, now, each.count, each.sum, each.counts.tolist(), bounds,
                    *UNKNOWN_EXTREMES,
                )
                for labels, each in histograms
            ]  # fmt: skip
            data = sdk.Histogram(classic, CUMULATIVE)
        return sdk.Metric(metric.name, metric.help, metric.unit, data)


def endpoint_of(url: str) -> str:
    """Return the URL of the metrics of an OTLP endpoint.

    Raises:
        SojournError: it is no HTTP URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise SojournError(f"--otlp {url}: give an HTTP URL, such as http://127.0.0.1:4318")
    return urlunsplit(parts._replace(path=PATH)) if parts.path in {"", "/"} else url


def _interval() -> float:
    text = os.environ.get(INTERVAL, "")
    try:
        seconds = float(text) / 1000 if text else DEFAULT_INTERVAL
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise SojournError(f"{INTERVAL}={text}: give milliseconds above 0")
    return seconds


def _service_name() -> dict[str, str]:
    """Return the service name of the environment, which a default must not replace."""
    name = os.environ.get("OTEL_SERVICE_NAME")
    return {"service.name": name} if name else {}


def _attributes(metric: Metric, labels: Sequence[str]) -> dict[str, str]:
    return {name: value for name, value in zip(metric.labels, labels, strict=True) if value}


def _buckets(counts: dict[int, int]) -> sdk.Buckets:
    """Return native buckets as OTLP has them: bucket i begins where Prometheus's ends."""
    if not counts:
        return sdk.Buckets(0, [])
    first, last = min(counts), max(counts)
    return sdk.Buckets(first - 1, [counts.get(index, 0) for index in range(first, last + 1)])
