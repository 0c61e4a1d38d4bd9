// Package sojournotel records the measurements of package sojourn with OpenTelemetry: a span and a histogram.
//
//	measured := sojourn.New(sojourn.Observe(sojournotel.New()))
//
// If the request has a span of this process already, for example of otelhttp around the middleware, that span gets the
// attributes. Otherwise the package starts a SERVER span with the stable HTTP attributes, whose parent is read from
// traceparent, and which is current in the context of the handler.
//
// The attributes are queueing.delay (less the clock offset), queueing.delay.raw, queueing.clock_offset and
// queueing.service_time in seconds, queueing.worker, queueing.status (ok, missing, unparsable, future or stale) and
// http.request.header.x-request-id. The event http.proxy.request.started has the time of the stamp. The histogram
// queueing.delay in seconds has http.request.method, http.route and http.response.status_code; negative delays are
// omitted.
//
// The up-down counter http.server.active_requests has http.request.method and url.scheme; see [sojourn.Counter] for the
// requests that are in it.
//
// Without a provider, set globally or with an option, nothing is recorded.
package sojournotel

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	sojourn "sojourn/middleware"
)

// ScopeName is the name of the instrumentation scope.
const ScopeName = "sojourn/middleware/otel"

const (
	stampEvent    = "http.proxy.request.started"
	histogramName = "queueing.delay"
	activeName    = "http.server.active_requests"
)

// The boundaries of http.server.request.duration in seconds, finer below 5 ms, for healthy queues, and wider above 10 s,
// for overloaded ones.
var buckets = []float64{
	0.0005, 0.001, 0.0025,
	0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
	15, 30, 60, 120,
}

var methods = map[string]bool{
	"GET": true, "HEAD": true, "POST": true, "PUT": true, "DELETE": true, "CONNECT": true, "OPTIONS": true,
	"TRACE": true, "PATCH": true, "QUERY": true,
}

// An Option configures [New].
type Option func(*observer)

// WithTracerProvider sets the provider of the spans. The default is the global one, also if it is set later.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(o *observer) { o.tracerProvider = provider }
}

// WithMeterProvider sets the provider of the histogram. The default is the global one, also if it is set later.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(o *observer) { o.meterProvider = provider }
}

// WithPropagator sets how the parent of a span is read from the headers of the request. The default is the global one,
// or [propagation.TraceContext] as long as none is set.
func WithPropagator(propagator propagation.TextMapPropagator) Option {
	return func(o *observer) { o.propagator = propagator }
}

type observer struct {
	tracerProvider trace.TracerProvider
	meterProvider  metric.MeterProvider
	propagator     propagation.TextMapPropagator

	tracer trace.Tracer
	delay  metric.Float64Histogram
	active metric.Int64UpDownCounter
}

// New returns an observer for [sojourn.Observe]. It is a [sojourn.Counter].
func New(options ...Option) sojourn.Observer {
	o := &observer{}
	for _, option := range options {
		option(o)
	}
	if o.tracerProvider == nil {
		o.tracerProvider = otel.GetTracerProvider()
	}
	if o.meterProvider == nil {
		o.meterProvider = otel.GetMeterProvider()
	}
	o.tracer = o.tracerProvider.Tracer(ScopeName)
	var err error
	meter := o.meterProvider.Meter(ScopeName)
	o.delay, err = meter.Float64Histogram(
		histogramName,
		metric.WithUnit("s"),
		metric.WithDescription("Time from the proxy's stamp to the start of the app"),
		metric.WithExplicitBucketBoundaries(buckets...),
	)
	if err != nil {
		// The instrument is usable nevertheless, as the API has it.
		otel.Handle(fmt.Errorf("sojourn: the histogram %s: %w", histogramName, err))
	}
	o.active, err = meter.Int64UpDownCounter(
		activeName,
		metric.WithUnit("{request}"),
		metric.WithDescription("Number of active HTTP server requests"),
	)
	if err != nil {
		otel.Handle(fmt.Errorf("sojourn: the counter %s: %w", activeName, err))
	}
	return o
}

// Enter implements [sojourn.Counter].
func (o *observer) Enter(ctx context.Context, r *http.Request) func() {
	attributes := metric.WithAttributeSet(attribute.NewSet(
		attribute.String("http.request.method", knownMethod(r.Method)), attribute.String("url.scheme", scheme(r))))
	o.active.Add(ctx, 1, attributes)
	return func() { o.active.Add(ctx, -1, attributes) }
}

// Begin implements [sojourn.Observer].
func (o *observer) Begin(ctx context.Context, r *http.Request, m sojourn.Measurement) (context.Context, func(sojourn.Measurement)) {
	// The handler can change the request.
	method, requestID := r.Method, r.Header.Get("X-Request-Id")
	span := trace.SpanFromContext(ctx)
	if current := span.SpanContext(); current.IsValid() && !current.IsRemote() {
		return ctx, func(m sojourn.Measurement) {
			if span.IsRecording() {
				annotate(span, m, requestID)
			}
			o.record(ctx, method, m)
		}
	}
	propagator := o.propagator
	if propagator == nil {
		if propagator = otel.GetTextMapPropagator(); len(propagator.Fields()) == 0 {
			propagator = propagation.TraceContext{}
		}
	}
	ctx, span = o.tracer.Start(
		propagator.Extract(ctx, propagation.HeaderCarrier(r.Header)),
		spanName(method, ""),
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(m.Start),
		trace.WithAttributes(requestAttributes(r)...),
	)
	return ctx, func(m sojourn.Measurement) {
		if span.IsRecording() {
			span.SetName(spanName(method, valid(m.Route)))
			annotate(span, m, requestID)
			describe(span, m)
		}
		span.End(trace.WithTimestamp(m.End))
		o.record(ctx, method, m)
	}
}

// annotate sets the attributes of the queue and its event.
func annotate(span trace.Span, m sojourn.Measurement, requestID string) {
	attributes := []attribute.KeyValue{
		attribute.String("queueing.status", status(m.Reason)),
		attribute.Float64("queueing.clock_offset", m.ClockOffset.Seconds()),
		attribute.String("queueing.worker", m.Worker),
	}
	if raw, ok := m.QueueingDelay(); ok {
		corrected, _ := m.CorrectedDelay()
		attributes = append(attributes,
			attribute.Float64("queueing.delay", corrected.Seconds()), attribute.Float64("queueing.delay.raw", raw.Seconds()))
		span.AddEvent(stampEvent, trace.WithTimestamp(m.Stamp))
	}
	if m.Answered {
		attributes = append(attributes, attribute.Float64("queueing.service_time", m.ServiceTime.Seconds()))
	}
	if requestID != "" {
		attributes = append(attributes, attribute.StringSlice("http.request.header.x-request-id", []string{valid(requestID)}))
	}
	span.SetAttributes(attributes...)
}

// describe sets the HTTP attributes that are known at the end.
func describe(span trace.Span, m sojourn.Measurement) {
	if m.Route != "" {
		span.SetAttributes(attribute.String("http.route", valid(m.Route)))
	}
	if m.Status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", m.Status))
	}
	switch {
	case m.Panic != nil:
		kind, message := fmt.Sprintf("%T", m.Panic), valid(fmt.Sprint(m.Panic))
		span.SetAttributes(attribute.String("error.type", kind))
		span.SetStatus(codes.Error, "panic: "+message)
		span.AddEvent("exception", trace.WithTimestamp(m.End), trace.WithAttributes(
			attribute.String("exception.type", kind), attribute.String("exception.message", message)))
	case m.Status >= 500:
		span.SetAttributes(attribute.String("error.type", strconv.Itoa(m.Status)))
		span.SetStatus(codes.Error, "")
	}
}

// record adds the delay to the histogram. A negative one is a disagreement of two clocks, for which a histogram has no
// place; the span and the header have it.
func (o *observer) record(ctx context.Context, method string, m sojourn.Measurement) {
	delay, ok := m.CorrectedDelay()
	if !ok || delay < 0 {
		return
	}
	attributes := []attribute.KeyValue{attribute.String("http.request.method", knownMethod(method))}
	if m.Route != "" {
		attributes = append(attributes, attribute.String("http.route", valid(m.Route)))
	}
	if m.Status != 0 {
		attributes = append(attributes, attribute.Int("http.response.status_code", m.Status))
	}
	o.delay.Record(ctx, delay.Seconds(), metric.WithAttributes(attributes...))
}

// requestAttributes returns what is known at the start, for a sampler.
func requestAttributes(r *http.Request) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		attribute.String("http.request.method", knownMethod(r.Method)),
		attribute.String("url.path", r.URL.EscapedPath()),
		attribute.String("url.scheme", scheme(r)),
		attribute.String("network.protocol.version", protocolVersion(r)),
	}
	if !methods[r.Method] {
		attributes = append(attributes, attribute.String("http.request.method_original", r.Method))
	}
	address, port := server(r)
	if address != "" {
		attributes = append(attributes, attribute.String("server.address", address))
	}
	if port != 0 {
		attributes = append(attributes, attribute.Int("server.port", port))
	}
	return attributes
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

func protocolVersion(r *http.Request) string {
	if r.ProtoMajor >= 2 {
		return strconv.Itoa(r.ProtoMajor)
	}
	return fmt.Sprintf("%d.%d", r.ProtoMajor, r.ProtoMinor)
}

// server returns the host and port of the Host header, or else the address at which the server listens. The port is 0
// if it is unknown.
func server(r *http.Request) (string, int) {
	host := r.Host
	if host == "" {
		local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if !ok {
			return "", 0
		}
		return local.IP.String(), local.Port
	}
	if name, text, err := net.SplitHostPort(host); err == nil {
		if port, err := strconv.ParseUint(text, 10, 16); err == nil {
			return name, int(port)
		}
	}
	return strings.Trim(host, "[]"), 0
}

// spanName returns "GET /users/{id}"; the method alone if the route is unknown, never the path.
func spanName(method, route string) string {
	if !methods[method] {
		method = "HTTP"
	}
	if route == "" {
		return method
	}
	return method + " " + route
}

// knownMethod returns the method, or "_OTHER": a client can send any text, and no text may create a time series.
func knownMethod(method string) string {
	if methods[method] {
		return method
	}
	return "_OTHER"
}

// valid returns the text in UTF-8: exporters refuse all spans of a batch for one invalid text.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// status returns the value of queueing.status.
func status(reason sojourn.Reason) string {
	switch reason {
	case "":
		return "ok"
	case sojourn.ReasonMissing, sojourn.ReasonFuture, sojourn.ReasonStale:
		return string(reason)
	default:
		return "unparsable"
	}
}
