"""Choose where spans and measurements go if the app did not.

Spans: ``SOJOURN_SPANS`` names a file → the file. Else the app's global TracerProvider, if it set one. Else
an OTLP endpoint in the environment → an OTLP/HTTP exporter. Else nowhere. Measurements: the same without
the file. A provider made here belongs to one process; after a fork the child makes its own.
"""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

from .spanfile import AppendingStream

SPANS_FILE = "SOJOURN_SPANS"

_logger = logging.getLogger("sojourn_middleware")
# By process id and kind: a provider belongs to one process.
_made: dict[tuple[int, str], Any] = {}


class Wishes(NamedTuple):
    """The settings of the environment: file of the spans, OTLP exporter of spans, OTLP exporter of measurements."""

    file: str | None
    traces: bool
    metrics: bool


NO_WISHES = Wishes(None, traces=False, metrics=False)


def wishes() -> Wishes:
    """Return those of this process. Reading the environment takes half a microsecond: not for every request."""
    return Wishes(os.environ.get(SPANS_FILE) or None, _exports_otlp("TRACES"), _exports_otlp("METRICS"))


def loaded() -> bool:
    """Return whether this process has OpenTelemetry's API, which can have a provider or a span."""
    modules = sys.modules
    return "opentelemetry.trace" in modules or "opentelemetry.metrics" in modules


def preload() -> None:
    """Import now what the first request would import, if the environment requires it.

    Imports take tenths of a second, which the first request of every worker would otherwise spend. They are
    safe before a fork; making a provider is not.
    """
    settings = wishes()
    modules = ["opentelemetry.exporter.otlp.json.file"] if settings.file else []
    if settings.traces:
        modules.append("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    if settings.metrics:
        modules.append("opentelemetry.exporter.otlp.proto.http.metric_exporter")
    for module in modules:
        # A missing or broken package is reported when it is used.
        with suppress(Exception):
            import_module(module)


def automatic_tracer_provider(settings: Wishes | None = None) -> Any:
    """Return a TracerProvider by the rules above, or None; `settings` from the environment."""
    settings = settings or wishes()
    path = settings.file
    if path:
        return _once("file", lambda: _file_provider(path), "otel-file", f"no spans are written to {path}")
    provider = _global_provider("trace", "ProxyTracerProvider")
    if provider is None and settings.traces:
        provider = _once("traces", _otlp_tracer_provider, "otel-otlp", "no spans are sent")
    return provider


def automatic_meter_provider(settings: Wishes | None = None) -> Any:
    """Return a MeterProvider by the rules above, or None; `settings` from the environment."""
    settings = settings or wishes()
    provider = _global_provider("metrics", "_ProxyMeterProvider")
    if provider is None and settings.metrics:
        provider = _once("metrics", _otlp_meter_provider, "otel-otlp", "no measurements are sent")
    return provider


def _once(kind: str, make: Callable[[], Any], extra: str, consequence: str) -> Any:
    """Return the result of `make`, called once per process; None, and one warning, if it fails."""
    key = (os.getpid(), kind)
    if key not in _made:
        _made[key] = None
        try:
            _made[key] = make()
        except ImportError as error:
            command = f'pip install "./collector/middleware/python[{extra}]" in a checkout of Sojourn'
            _logger.warning("%s: %s; try: %s", consequence, error, command)
        except Exception as error:
            _logger.warning("%s: %s", consequence, error)
    return _made[key]


def _global_provider(module: str, proxy: str) -> Any:
    """Return the provider that the app set, or None. An app that set one has imported OpenTelemetry."""
    api = sys.modules.get(f"opentelemetry.{module}")
    if api is None:
        return None
    provider = api.get_tracer_provider() if module == "trace" else api.get_meter_provider()
    # Until one is set the API answers with a proxy. The one for meters has no public name.
    return None if type(provider).__name__ == proxy else provider


def _exports_otlp(signal: str) -> bool:
    env = os.environ.get
    if not (env(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or env("OTEL_EXPORTER_OTLP_ENDPOINT")):
        return False
    return "otlp" in env(f"OTEL_{signal}_EXPORTER", "otlp")


def _require_http(signal: str) -> None:
    env = os.environ.get
    protocol = env(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or env("OTEL_EXPORTER_OTLP_PROTOCOL") or ""
    if protocol.startswith("grpc"):
        raise ValueError(
            "the OTLP endpoint is set to gRPC and only http/protobuf is set up automatically; "
            "configure a global provider in the app, or use the collector's HTTP port"
        )


def _resource() -> Any:
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  (only when it is used)

    # Forked workers report separate streams: without their own identity they would overwrite one another.
    own: dict[str, Any] = {"process.pid": os.getpid()}
    if "service.instance.id" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        own["service.instance.id"] = str(uuid.uuid4())
    return Resource.create(own)


def _file_provider(path: str) -> Any:
    from opentelemetry.exporter.otlp.json.file import FileSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider, sampling  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415

    stream: Any = AppendingStream(path)
    # Every request, whatever the caller sampled: the file is joined with the proxy's log by request.
    # And immediately, not in batches: a worker that is killed for its slowness is the one whose span is
    # wanted.
    provider = TracerProvider(sampler=sampling.ALWAYS_ON, resource=_resource())
    provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(stream=stream)))
    return provider


def _otlp_tracer_provider() -> Any:
    _require_http("TRACES")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    provider = TracerProvider(resource=_resource())
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _otlp_meter_provider() -> Any:
    _require_http("METRICS")
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415

    return MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource=_resource())
