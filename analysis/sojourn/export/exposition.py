"""The metrics in Prometheus's formats, by its official client library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.core import Exemplar as ClientExemplar
from prometheus_client.registry import Collector
from prometheus_client.samples import BucketSpan, NativeHistogram

from sojourn.export.exporter import Exporter
from sojourn.export.histograms import ZERO, Histogram
from sojourn.export.metrics import COUNTER, GAUGE, HISTOGRAM, METRICS, NATIVE_SCHEMA

QUEUEING = "sojourn_queueing_delay_seconds"


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
    return generate_latest(registry_of(exporter, native=False)).decode()


def registry_of(exporter: Exporter, *, native: bool) -> CollectorRegistry:
    """Return a registry of an exporter's metrics; ``native``: with native histograms as well."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ExporterCollector(exporter, native=native))
    return registry
