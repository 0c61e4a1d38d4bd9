"""A SERVER span and a histogram value for every request, in the names of OpenTelemetry.

A process that does not use OpenTelemetry never imports it. Nothing here raises: what cannot be recorded is
logged once and the request continues.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from . import providers
from .semantics import (
    BUCKETS,
    HISTOGRAM,
    SCOPE,
    STAMP_EVENT,
    error_type,
    final_attributes,
    first_attributes,
    known_method,
    span_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from .semantics import MeasuredRequest

_logger = logging.getLogger("sojourn_middleware")


class Telemetry:
    """Where spans and measurements are sent.

    Without providers it chooses by itself, as `providers` says, at the first request of each process. With a
    tracer_provider, a meter_provider or both, exactly those are used.
    """

    def __init__(self, tracer_provider: Any = None, meter_provider: Any = None) -> None:
        self._given = (tracer_provider, meter_provider)
        self._forget()
        _living.add(self)
        if tracer_provider is None and meter_provider is None:
            providers.preload()

    def _forget(self) -> None:
        # After a fork the exporting threads of the parent are gone and its lock may be held forever.
        self._lock = threading.Lock()
        self._instruments: _Instruments | None = None
        self._wishes: providers.Wishes | None = None
        self._warned: set[str] = set()

    def start(self, exchange: MeasuredRequest) -> TelemetrySpan | None:
        """Return the span of one request; None if nothing is recorded."""
        try:
            instruments = self._instruments or self._set_up()
            return None if instruments is None else TelemetrySpan(self, instruments, exchange)
        except Exception:
            self.warn("a span could not be started")
            return None

    def _set_up(self) -> _Instruments | None:
        with self._lock:
            if self._instruments is None:
                tracer_provider, meter_provider = self._given
                if tracer_provider is None and meter_provider is None:
                    # Without a provider, each request checks again: an app may configure itself late.
                    # The environment is read once, at the start of a process.
                    self._wishes = self._wishes or providers.wishes()
                    tracer_provider = providers.automatic_tracer_provider(self._wishes)
                    meter_provider = providers.automatic_meter_provider(self._wishes)
                if tracer_provider is not None or meter_provider is not None:
                    self._instruments = _Instruments(tracer_provider, meter_provider)
            return self._instruments

    def warn(self, what: str) -> None:
        """Log the current exception; the same error of several requests is logged once per process."""
        if what not in self._warned:
            self._warned.add(what)
            _logger.warning("%s; the same again will not be logged", what, exc_info=True)


_living: weakref.WeakSet[Telemetry] = weakref.WeakSet()


def _forget_all() -> None:
    for telemetry in list(_living):
        telemetry._forget()
    providers.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


class _Instruments:
    """The tracer and the histogram of one process."""

    def __init__(self, tracer_provider: Any, meter_provider: Any) -> None:
        from opentelemetry import context, propagate, trace  # noqa: PLC0415  (only when it is used)

        self.context = context
        self.propagate = propagate
        self.trace = trace
        if tracer_provider is None:
            tracer_provider = trace.NoOpTracerProvider()
        self.tracer = tracer_provider.get_tracer(SCOPE)
        self.histogram = None
        if meter_provider is not None:
            self.histogram = meter_provider.get_meter(SCOPE).create_histogram(
                HISTOGRAM,
                unit="s",
                description="Time from the proxy's stamp to the start of the app",
                explicit_bucket_boundaries_advisory=BUCKETS,
            )

    def parent(self, exchange: MeasuredRequest) -> Any:
        """Return the context of the caller, from ``traceparent`` or what the app's propagators read."""
        carrier = {}
        for field in self.propagate.get_global_textmap().fields:
            value = exchange.request.header(field.lower())
            if value is not None:
                carrier[field] = value
        return self.propagate.extract(carrier)


class TelemetrySpan:
    """The span of one request, current while the app runs: the app's own spans become its children."""

    def __init__(self, telemetry: Telemetry, instruments: _Instruments, exchange: MeasuredRequest) -> None:
        self._telemetry = telemetry
        self._otel = instruments
        self._exchange = exchange
        parent = instruments.parent(exchange)
        self._started_at = exchange.timing.start
        self._span: Any = instruments.tracer.start_span(
            span_name(exchange.request.method, None),
            context=parent,
            kind=instruments.trace.SpanKind.SERVER,
            attributes=first_attributes(exchange),
            start_time=self._started_at.wall_ns,
        )
        self._context = instruments.trace.set_span_in_context(self._span, parent)

    def attach(self) -> Callable[[], None]:
        """Make this the current span, and return a function that restores the previous one."""
        token = self._otel.context.attach(self._context)
        return lambda: self._otel.context.detach(token)

    def end(self, error: BaseException | None) -> None:
        """End the span now and record the delay."""
        try:
            self._end_span(error)
            self._record_delay()
        except Exception:
            self._telemetry.warn("a span could not be recorded")

    def _end_span(self, error: BaseException | None) -> None:
        span, exchange, timing = self._span, self._exchange, self._exchange.timing
        # The end by the monotonic clock, so that a step of the wall clock cannot bend the duration.
        now = timing.clock()
        if span.is_recording():
            if timing.start is not self._started_at and hasattr(span, "_start_time"):
                # The API cannot move the start of a span, and the start is what `mark_started` is about.
                span._start_time = timing.start.wall_ns
            if timing.stamp.start_us is not None:
                span.add_event(STAMP_EVENT, timestamp=timing.stamp.start_us * 1000)
            span.update_name(span_name(exchange.request.method, exchange.route))
            span.set_attributes(final_attributes(exchange, error))
            if error is not None:
                span.record_exception(error)
            if error_type(exchange, error) is not None:
                code = self._otel.trace.StatusCode.ERROR
                span.set_status(code, f"{type(error).__name__}: {error}" if error is not None else None)
        span.end(timing.start.wall_ns + now.monotonic_ns - timing.start.monotonic_ns)

    def _record_delay(self) -> None:
        exchange = self._exchange
        delay = exchange.corrected_delay
        # A negative delay is a disagreement of two clocks. The sum and the buckets of a histogram have no
        # place for it, and the SDK drops it with a warning each time; the span and the answer header do
        # carry it.
        if self._otel.histogram is None or delay is None or delay < 0:
            return
        attributes: dict[str, Any] = {"http.request.method": known_method(exchange.request.method)}
        if exchange.route:
            attributes["http.route"] = exchange.route
        if exchange.status is not None:
            attributes["http.response.status_code"] = exchange.status
        self._otel.histogram.record(delay, attributes, self._context)
