package sojourn.middleware;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.common.AttributesBuilder;
import io.opentelemetry.api.metrics.DoubleHistogram;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanBuilder;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** The span of one request, its own or that of an instrumentation, and its value of the histogram. */
final class OpenTelemetrySpan implements Telemetry.Recording {

    private static final String STAMP_EVENT = "http.proxy.request.started";
    private static final String OTHER_METHOD = "_OTHER";
    private static final Set<String> METHODS =
            Set.of("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY");

    private static final AttributeKey<String> METHOD = AttributeKey.stringKey("http.request.method");
    private static final AttributeKey<String> METHOD_ORIGINAL = AttributeKey.stringKey("http.request.method_original");
    private static final AttributeKey<List<String>> REQUEST_ID =
            AttributeKey.stringArrayKey("http.request.header.x-request-id");
    private static final AttributeKey<Long> STATUS = AttributeKey.longKey("http.response.status_code");
    private static final AttributeKey<String> ROUTE = AttributeKey.stringKey("http.route");
    private static final AttributeKey<String> ERROR_TYPE = AttributeKey.stringKey("error.type");
    private static final AttributeKey<String> PROTOCOL_VERSION = AttributeKey.stringKey("network.protocol.version");
    private static final AttributeKey<String> SERVER_ADDRESS = AttributeKey.stringKey("server.address");
    private static final AttributeKey<Long> SERVER_PORT = AttributeKey.longKey("server.port");
    private static final AttributeKey<String> URL_PATH = AttributeKey.stringKey("url.path");
    private static final AttributeKey<String> URL_SCHEME = AttributeKey.stringKey("url.scheme");
    private static final AttributeKey<Double> DELAY = AttributeKey.doubleKey("queueing.delay");
    private static final AttributeKey<Double> DELAY_RAW = AttributeKey.doubleKey("queueing.delay.raw");
    private static final AttributeKey<Double> CLOCK_OFFSET = AttributeKey.doubleKey("queueing.clock_offset");
    private static final AttributeKey<Double> SERVICE_TIME = AttributeKey.doubleKey("queueing.service_time");
    private static final AttributeKey<String> WORKER = AttributeKey.stringKey("queueing.worker");
    private static final AttributeKey<String> QUEUEING_STATUS = AttributeKey.stringKey("queueing.status");

    private final Exchange exchange;
    private final String method;
    private final Span span;
    private final Context context;
    private final boolean own;
    private final DoubleHistogram histogram;

    /**
     * Takes the span of a request.
     *
     * @param own whether this package has started the span, and ends it
     * @param histogram of the delay; null for none
     */
    OpenTelemetrySpan(Exchange exchange, Span span, Context context, boolean own, DoubleHistogram histogram) {
        this.exchange = exchange;
        this.method = exchange.request.method();
        this.span = span;
        this.context = context;
        this.own = own;
        this.histogram = histogram;
        if (span.isRecording()) {
            addQueue();
        }
    }

    /** Returns the attributes of the number of requests in progress. */
    static Attributes inProgress(RequestView request) {
        return Attributes.of(METHOD, known(request.method()), URL_SCHEME, request.scheme());
    }

    static Span started(Tracer tracer, Exchange exchange, Context parent) {
        RequestView request = exchange.request;
        SpanBuilder builder = tracer.spanBuilder(name(request.method(), null))
                .setParent(parent)
                .setSpanKind(SpanKind.SERVER)
                .setStartTimestamp(exchange.startWallNanos, TimeUnit.NANOSECONDS)
                .setAttribute(METHOD, known(request.method()))
                .setAttribute(URL_PATH, request.path())
                .setAttribute(URL_SCHEME, request.scheme());
        if (!METHODS.contains(request.method())) {
            builder.setAttribute(METHOD_ORIGINAL, request.method());
        }
        String protocol = request.protocol();
        int slash = protocol == null ? -1 : protocol.indexOf('/');
        if (slash >= 0) {
            String version = protocol.substring(slash + 1).toLowerCase(Locale.ROOT);
            builder.setAttribute(PROTOCOL_VERSION, version.equals("2.0") ? "2" : version);
        }
        String server = request.serverName();
        if (server != null && !server.isEmpty()) {
            builder.setAttribute(SERVER_ADDRESS, server);
        }
        if (request.serverPort() > 0) {
            builder.setAttribute(SERVER_PORT, (long) request.serverPort());
        }
        return builder.startSpan();
    }

    /** Adds what is known when the request begins. */
    private void addQueue() {
        Stamp stamp = exchange.stamp;
        span.setAttribute(QUEUEING_STATUS, stamp.status());
        span.setAttribute(CLOCK_OFFSET, seconds(exchange.clockOffsetNanos()));
        span.setAttribute(WORKER, exchange.worker);
        if (stamp.valid()) {
            span.setAttribute(DELAY, correctedDelay());
            span.setAttribute(DELAY_RAW, seconds(exchange.delayNanos()));
            span.addEvent(STAMP_EVENT, stamp.micros(), TimeUnit.MICROSECONDS);
        }
        String requestId = exchange.request.header("X-Request-ID");
        if (requestId != null && !requestId.isEmpty()) {
            span.setAttribute(REQUEST_ID, List.of(requestId));
        }
    }

    private double correctedDelay() {
        return seconds(exchange.delayNanos() - exchange.clockOffsetNanos());
    }

    @Override
    public Runnable attach() {
        if (!own) {
            return () -> {};
        }
        Scope scope = context.makeCurrent();
        return scope::close;
    }

    @Override
    public void end(Throwable error) {
        if (exchange.serviceNanos() >= 0) {
            span.setAttribute(SERVICE_TIME, seconds(exchange.serviceNanos()));
        }
        if (own) {
            endOwn(error);
        }
        recordDelay();
    }

    private void endOwn(Throwable error) {
        int status = exchange.status();
        span.updateName(name(method, exchange.route()));
        if (exchange.route() != null) {
            span.setAttribute(ROUTE, exchange.route());
        }
        if (status != 0) {
            span.setAttribute(STATUS, (long) status);
        }
        if (error != null) {
            span.recordException(error);
            span.setStatus(StatusCode.ERROR, error.toString());
            span.setAttribute(ERROR_TYPE, error.getClass().getName());
        } else if (status >= 500) {
            span.setStatus(StatusCode.ERROR);
            span.setAttribute(ERROR_TYPE, Integer.toString(status));
        }
        // By the monotonic clock: a change of the time of day does not change the duration.
        span.end(exchange.startWallNanos + exchange.now() - exchange.startNanos, TimeUnit.NANOSECONDS);
    }

    private void recordDelay() {
        // A negative delay is a disagreement of two clocks; the sum and the buckets of a histogram have no place for it.
        if (histogram == null || !exchange.stamp.valid() || correctedDelay() < 0) {
            return;
        }
        AttributesBuilder attributes = Attributes.builder().put(METHOD, known(method));
        if (exchange.route() != null) {
            attributes.put(ROUTE, exchange.route());
        }
        if (exchange.status() != 0) {
            attributes.put(STATUS, (long) exchange.status());
        }
        histogram.record(correctedDelay(), attributes.build(), context);
    }

    /** Returns {@code GET /users/{id}}; the method alone if the route is unknown, never the path. */
    private static String name(String method, String route) {
        String verb = METHODS.contains(method) ? method : "HTTP";
        return route == null ? verb : verb + " " + route;
    }

    /** Returns the method or {@code _OTHER}: a client can send any text, and no text may create a time series. */
    private static String known(String method) {
        return METHODS.contains(method) ? method : OTHER_METHOD;
    }

    private static double seconds(long nanos) {
        return nanos / 1e9;
    }
}
