"""A SERVER span and a histogram value for every request, in the names of OpenTelemetry.

A request that has a span already, from automatic instrumentation around this middleware, gets its attributes on that
span instead. Only the file of spans gets a span of every request, whatever else records it.

A process that does not use OpenTelemetry never imports it. Nothing here raises: what cannot be recorded is
logged once and the request continues.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from . import providers
from .in_progress import OTEL_NAME
from .pool_metrics import create_pool_instruments
from .semantics import (
    BUCKETS,
    HISTOGRAM,
    SCOPE,
    STAMP_EVENT,
    error_type,
    final_attributes,
    first_attributes,
    in_progress_attributes,
    outer_attributes,
    span_name,
    standard_method,
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
        # By process id: after a fork the exporting threads of the parent are gone and its lock may be held forever. Not
        # every server calls the hooks of `os.register_at_fork`: uWSGI does so only with py-call-osafterfork.
        self._processes: dict[int, _Process] = {}
        if tracer_provider is None and meter_provider is None:
            providers.preload()

    def _process(self, pid: int) -> _Process:
        # setdefault, because the first requests of a process can be in several threads; it needs no lock.
        return self._processes.get(pid) or self._processes.setdefault(pid, _Process())

    def start(self, exchange: MeasuredRequest, pid: int) -> TelemetrySpan | None:
        """Return the span of one request, in the process `pid`, which is this one; None if nothing is recorded."""
        try:
            process = self._process(pid)
            if process.without_wishes and not providers.loaded():
                return None
            instruments = process.instruments or self._set_up(process)
            outer = _outer_span()
            if outer is not None:
                return OuterSpan(self, instruments, exchange, outer)
            return None if instruments is None else OwnSpan(self, instruments, exchange)
        except Exception:
            self.warn("a span could not be started")
            return None

    def _set_up(self, process: _Process) -> _Instruments | None:
        with process.lock:
            if process.instruments is None:
                tracer_provider, meter_provider = self._given
                into_file = False
                if tracer_provider is None and meter_provider is None:
                    # Without a provider, each request checks again: an app may configure itself late.
                    # The environment is read once, at the start of a process.
                    process.wishes = process.wishes or providers.wishes()
                    process.without_wishes = process.wishes == providers.NO_WISHES
                    tracer_provider = providers.automatic_tracer_provider(process.wishes)
                    meter_provider = providers.automatic_meter_provider(process.wishes)
                    into_file = process.wishes.file is not None and tracer_provider is not None
                if tracer_provider is not None or meter_provider is not None:
                    process.instruments = _Instruments(tracer_provider, meter_provider, into_file)
            return process.instruments

    def warn(self, what: str) -> None:
        """Log the current exception; the same error of several requests is logged once per process."""
        warned = self._process(os.getpid()).warned
        if what not in warned:
            warned.add(what)
            _logger.warning("%s; the same again will not be logged", what, exc_info=True)


class _Process:
    """The state of a `Telemetry` in one process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.instruments: _Instruments | None = None
        self.wishes: providers.Wishes | None = None
        #: Whether the environment has been read, and nothing is set there.
        self.without_wishes = False
        self.warned: set[str] = set()


def _outer_span() -> Any:
    """Return the span that the request has already, sampled or not; None if there is none in this process."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    span = trace.get_current_span()
    context = span.get_span_context()
    return span if context.is_valid and not context.is_remote else None


class _Instruments:
    """The tracer and the histogram of one process; whether the spans go into the file of `providers.SPANS_FILE`."""

    def __init__(self, tracer_provider: Any, meter_provider: Any, into_file: bool) -> None:
        from opentelemetry import context, propagate, trace  # noqa: PLC0415  (only when it is used)

        self.into_file = into_file
        self.context = context
        self.propagate = propagate
        self.trace = trace
        if tracer_provider is None:
            tracer_provider = trace.NoOpTracerProvider()
        self.tracer = tracer_provider.get_tracer(SCOPE)
        self.histogram = None
        self.in_progress = None
        if meter_provider is not None:
            meter = meter_provider.get_meter(SCOPE)
            create_pool_instruments(meter)
            self.in_progress = meter.create_up_down_counter(
                OTEL_NAME, unit="{request}", description="Number of active HTTP server requests"
            )
            self.histogram = meter.create_histogram(
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

    def parent_beside(self, exchange: MeasuredRequest, outer: Any) -> Any:
        """Return the context of the caller, or without one that of the span `outer`: both are of one trace."""
        parent = self.parent(exchange)
        if self.trace.get_current_span(parent).get_span_context().is_remote:
            return parent
        return self.trace.set_span_in_context(outer)

    def record_delay(self, exchange: MeasuredRequest, context: Any) -> None:
        """Add the delay of one request to the histogram."""
        delay = exchange.corrected_delay
        # A negative delay is a disagreement of two clocks. The sum and the buckets of a histogram have no
        # place for it, and the SDK drops it with a warning each time; the span and the answer header do
        # carry it.
        if self.histogram is None or delay is None or delay < 0:
            return
        attributes: dict[str, Any] = {"http.request.method": standard_method(exchange.request.method)}
        if exchange.route:
            attributes["http.route"] = exchange.route
        if exchange.status is not None:
            attributes["http.response.status_code"] = exchange.status
        self.histogram.record(delay, attributes, context)


class TelemetrySpan(ABC):
    """The span of one request."""

    def __init__(self, telemetry: Telemetry, exchange: MeasuredRequest) -> None:
        self._telemetry = telemetry
        self._exchange = exchange

    @abstractmethod
    def attach(self) -> Callable[[], None]:
        """Make this the current span, and return a function that restores the previous one."""

    def add_in_progress(self, requests: int) -> None:
        """Add 1 to the requests in progress at the start of a request, and -1 at its end."""
        try:
            self._add_in_progress(requests)
        except Exception:
            self._telemetry.warn("the requests in progress could not be counted")

    def headers_left(self) -> None:
        """Record the attributes that are known when the response headers leave."""
        try:
            self._headers_left()
        except Exception:
            self._telemetry.warn("a span could not be recorded")

    def end(self, error: BaseException | None) -> None:
        """End the request now and record the delay."""
        try:
            self._end(error)
        except Exception:
            self._telemetry.warn("a span could not be recorded")

    @abstractmethod
    def _add_in_progress(self, requests: int) -> None: ...

    @abstractmethod
    def _headers_left(self) -> None: ...

    @abstractmethod
    def _end(self, error: BaseException | None) -> None: ...


class OwnSpan(TelemetrySpan):
    """A SERVER span, current while the app runs: the app's own spans become its children."""

    def __init__(
        self, telemetry: Telemetry, instruments: _Instruments, exchange: MeasuredRequest, outer: Any = None
    ) -> None:
        super().__init__(telemetry, exchange)
        self._otel = instruments
        parent = instruments.parent(exchange) if outer is None else instruments.parent_beside(exchange, outer)
        self._started_at = exchange.timing.start
        self._span: Any = instruments.tracer.start_span(
            span_name(exchange.request.method, None),
            context=parent,
            kind=instruments.trace.SpanKind.SERVER,
            attributes=first_attributes(exchange),
            start_time=self._started_at[0],
        )
        self._context = instruments.trace.set_span_in_context(self._span, parent)
        self._kind = in_progress_attributes(exchange)

    def attach(self) -> Callable[[], None]:
        """Make this the current span, and return a function that restores the previous one."""
        token = self._otel.context.attach(self._context)
        return lambda: self._otel.context.detach(token)

    def _add_in_progress(self, requests: int) -> None:
        if self._otel.in_progress is not None:
            self._otel.in_progress.add(requests, self._kind, self._context)

    def _headers_left(self) -> None:
        pass  # Its attributes are complete at the end.

    def _end(self, error: BaseException | None) -> None:
        self.end_span(error)
        self._otel.record_delay(self._exchange, self._context)

    def end_span(self, error: BaseException | None) -> None:
        """End the span now."""
        span, exchange, timing = self._span, self._exchange, self._exchange.timing
        # The end by the monotonic clock, so that a step of the wall clock cannot bend the duration.
        _, now_ns = timing.clock()
        start_wall_ns, start_ns = timing.start
        if span.is_recording():
            if timing.start is not self._started_at and hasattr(span, "_start_time"):
                # The API cannot move the start of a span, and the start is what `mark_started` is about.
                span._start_time = start_wall_ns
            if timing.stamp.start_us is not None:
                span.add_event(STAMP_EVENT, timestamp=timing.stamp.start_us * 1000)
            span.update_name(span_name(exchange.request.method, exchange.route))
            span.set_attributes(final_attributes(exchange, error))
            if error is not None:
                span.record_exception(error)
            if error_type(exchange, error) is not None:
                code = self._otel.trace.StatusCode.ERROR
                span.set_status(code, f"{type(error).__name__}: {error}" if error is not None else None)
        span.end(start_wall_ns + now_ns - start_ns)


class OuterSpan(TelemetrySpan):
    """The span that automatic instrumentation around the middleware has started, and will end.

    It remains the current one. The file of spans gets one of its own for the same request: its reader joins it with the
    proxy's log, and expects every request, sampled or not.
    """

    def __init__(
        self, telemetry: Telemetry, instruments: _Instruments | None, exchange: MeasuredRequest, span: Any
    ) -> None:
        super().__init__(telemetry, exchange)
        self._otel = instruments
        self._span = span
        self._annotated = False
        self._filed: OwnSpan | None = None
        if instruments is not None and instruments.into_file:
            self._filed = OwnSpan(telemetry, instruments, exchange, span)

    def attach(self) -> Callable[[], None]:
        """Do nothing: the span is the current one."""
        return _nothing

    def _add_in_progress(self, requests: int) -> None:
        pass  # The instrumentation counts its requests itself.

    def _headers_left(self) -> None:
        # Not at the end: the instrumentation may end its span as soon as it has seen the end of the body.
        self._annotate()

    def _end(self, error: BaseException | None) -> None:
        self._annotate()
        if self._filed is not None:
            self._filed.end_span(error)
        if self._otel is not None:
            self._otel.record_delay(self._exchange, self._otel.trace.set_span_in_context(self._span))

    def _annotate(self) -> None:
        if self._annotated or not self._span.is_recording():
            return
        self._annotated = True
        stamp_us = self._exchange.timing.stamp.start_us
        if stamp_us is not None:
            self._span.add_event(STAMP_EVENT, timestamp=stamp_us * 1000)
        self._span.set_attributes(outer_attributes(self._exchange))


def _nothing() -> None:
    pass
