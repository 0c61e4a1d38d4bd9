package sojourn.middleware;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.metrics.SdkMeterProvider;
import io.opentelemetry.sdk.metrics.data.HistogramPointData;
import io.opentelemetry.sdk.metrics.data.MetricData;
import io.opentelemetry.sdk.testing.exporter.InMemoryMetricReader;
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.data.EventData;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import io.opentelemetry.sdk.trace.samplers.Sampler;
import jakarta.servlet.AsyncContext;
import jakarta.servlet.Filter;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Spans and the histogram, recorded by OpenTelemetry's SDK behind requests to Tomcat. */
class TelemetryTest {

    private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
    private static final String PARENT = "00f067aa0ba902b7";
    private static final long NOW = 1_767_225_600_000_000_000L;

    private final ManualClock clock = new ManualClock(NOW);
    private final InMemorySpanExporter spans = InMemorySpanExporter.create();
    private final InMemoryMetricReader metrics = InMemoryMetricReader.create();
    private final AtomicReference<Span> current = new AtomicReference<>();
    private final OpenTelemetrySdk sdk = sdk(Sampler.alwaysOn());
    private Server server;

    private OpenTelemetrySdk sdk(Sampler sampler) {
        return OpenTelemetrySdk.builder()
                .setTracerProvider(SdkTracerProvider.builder()
                        .setSampler(sampler)
                        .addSpanProcessor(SimpleSpanProcessor.create(spans))
                        .build())
                .setMeterProvider(SdkMeterProvider.builder().registerMetricReader(metrics).build())
                .build();
    }

    @AfterEach
    void stop() {
        server.close();
        sdk.close();
    }

    private SojournFilter.Builder builder() {
        return SojournFilter.builder().clock(clock);
    }

    private void start(Filter... filters) throws IOException {
        Server.App app = new Server.App();
        app.filters = List.of(filters);
        app.servlets.put("/items/*", new HttpServlet() {
            @Override
            protected void service(HttpServletRequest request, HttpServletResponse response)
                    throws IOException, ServletException {
                current.set(Span.current());
                clock.advanceMillis(250);
                switch (request.getPathInfo()) {
                    case "/error" -> response.sendError(503);
                    case "/throws" -> throw new ServletException("on purpose");
                    case "/async" -> {
                        AsyncContext context = request.startAsync();
                        context.start(() -> {
                            clock.advanceMillis(250);
                            context.complete();
                        });
                    }
                    default -> response.getWriter().print("ok");
                }
            }
        });
        server = Server.tomcat(app);
    }

    private Client.Reply get(String path, String... more) throws IOException {
        String[] headers = new String[more.length + 2];
        headers[0] = "X-Request-Start";
        headers[1] = clock.stamp(300);
        System.arraycopy(more, 0, headers, 2, more.length);
        return new Client(server.port()).get(path, headers);
    }

    /** Returns the only span, which can end after its response. */
    private SpanData span() {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (spans.getFinishedSpanItems().isEmpty()) {
            assertTrue(System.nanoTime() < deadline, "no span has ended");
            Thread.onSpinWait();
        }
        assertEquals(1, spans.getFinishedSpanItems().size());
        return spans.getFinishedSpanItems().get(0);
    }

    private static Object attribute(SpanData span, String name) {
        return span.getAttributes().asMap().entrySet().stream()
                .filter(each -> each.getKey().getKey().equals(name))
                .findFirst()
                .map(Map.Entry::getValue)
                .orElse(null);
    }

    @Test
    void serverSpanHasAttributesEventAndParent() throws IOException {
        start(builder().clockOffset(Duration.ofMillis(100)).telemetry(OpenTelemetryOutput.of(sdk)).build());
        get("/items/7", "traceparent", "00-" + TRACE + "-" + PARENT + "-01", "X-Request-ID", "abc");

        SpanData span = span();
        assertEquals("GET /items/*", span.getName());
        assertEquals(SpanKind.SERVER, span.getKind());
        assertEquals(TRACE, span.getTraceId());
        assertEquals(PARENT, span.getParentSpanId());
        assertEquals(NOW, span.getStartEpochNanos());
        assertEquals(NOW + 250_000_000, span.getEndEpochNanos());
        assertEquals("sojourn.middleware", span.getInstrumentationScopeInfo().getName());
        assertEquals("GET", attribute(span, "http.request.method"));
        assertEquals("/items/7", attribute(span, "url.path"));
        assertEquals("http", attribute(span, "url.scheme"));
        assertEquals("1.1", attribute(span, "network.protocol.version"));
        assertEquals("shop.example", attribute(span, "server.address"));
        assertEquals(8080L, attribute(span, "server.port"));
        assertEquals("/items/*", attribute(span, "http.route"));
        assertEquals(200L, attribute(span, "http.response.status_code"));
        assertEquals(List.of("abc"), attribute(span, "http.request.header.x-request-id"));
        assertEquals("ok", attribute(span, "queueing.status"));
        assertEquals(0.2, attribute(span, "queueing.delay"));
        assertEquals(0.3, attribute(span, "queueing.delay.raw"));
        assertEquals(0.1, attribute(span, "queueing.clock_offset"));
        assertEquals(0.25, attribute(span, "queueing.service_time"));
        assertTrue(((String) attribute(span, "queueing.worker")).matches("[0-9]+\\.[0-9]+"));
        EventData event = span.getEvents().get(0);
        assertEquals("http.proxy.request.started", event.getName());
        assertEquals(NOW - 300_000_000, event.getEpochNanos());
        assertEquals(span.getSpanId(), current.get().getSpanContext().getSpanId());
    }

    @Test
    void histogramHasRouteMethodAndStatus() throws IOException {
        start(builder().telemetry(OpenTelemetryOutput.of(sdk)).build());
        get("/items/7");
        span();
        Collection<MetricData> collected = delays();
        MetricData histogram = collected.iterator().next();
        assertEquals("queueing.delay", histogram.getName());
        assertEquals("s", histogram.getUnit());
        HistogramPointData point = histogram.getHistogramData().getPoints().iterator().next();
        assertEquals(0.3, point.getSum());
        assertEquals(1, point.getCount());
        assertEquals(21, point.getBoundaries().size());
        assertEquals("GET", point.getAttributes().get(AttributeKey.stringKey("http.request.method")));
        assertEquals("/items/*", point.getAttributes().get(AttributeKey.stringKey("http.route")));
        assertEquals(200L, point.getAttributes().get(AttributeKey.longKey("http.response.status_code")));
    }

    private List<MetricData> delays() {
        return metrics.collectAllMetrics().stream()
                .filter(metric -> metric.getName().equals("queueing.delay"))
                .toList();
    }

    @Test
    void negativeDelayIsInSpanAndNotInHistogram() throws IOException {
        start(builder().telemetry(OpenTelemetryOutput.of(sdk)).build());
        new Client(server.port()).get("/items/7", "X-Request-Start", clock.stamp(-500));
        assertEquals(-0.5, attribute(span(), "queueing.delay"));
        assertEquals(List.of(), delays());
    }

    @Test
    void refusedStampIsInStatus() throws IOException {
        start(builder().telemetry(OpenTelemetryOutput.of(sdk)).build());
        new Client(server.port()).send("BREW", "/items/7", "X-Request-Start", "junk");
        SpanData span = span();
        assertEquals("unparsable", attribute(span, "queueing.status"));
        assertNull(attribute(span, "queueing.delay"));
        assertEquals(List.of(), span.getEvents());
        assertEquals("HTTP /items/*", span.getName());
        assertEquals("_OTHER", attribute(span, "http.request.method"));
        assertEquals("BREW", attribute(span, "http.request.method_original"));
    }

    @Test
    void errorsAreInSpan() throws IOException {
        start(builder().telemetry(OpenTelemetryOutput.of(sdk)).build());
        get("/items/error");
        SpanData refused = span();
        assertEquals(503L, attribute(refused, "http.response.status_code"));
        assertEquals("503", attribute(refused, "error.type"));
        assertEquals(StatusCode.ERROR, refused.getStatus().getStatusCode());
        spans.reset();
        get("/items/throws");
        SpanData thrown = span();
        assertEquals(500L, attribute(thrown, "http.response.status_code"));
        assertEquals("jakarta.servlet.ServletException", attribute(thrown, "error.type"));
        assertEquals("exception", thrown.getEvents().get(1).getName());
    }

    @Test
    void asynchronousSpanEndsWithItsRequest() throws IOException {
        start(builder().telemetry(OpenTelemetryOutput.of(sdk)).build());
        get("/items/async");
        SpanData span = span();
        assertEquals(NOW + 500_000_000, span.getEndEpochNanos());
        assertEquals(0.5, attribute(span, "queueing.service_time"));
    }

    /** A filter that has a span for each request, as an automatic instrumentation has. */
    private static Filter instrumentation(OpenTelemetry openTelemetry) {
        return (request, response, chain) -> {
            Span span = openTelemetry.getTracer("instrumentation").spanBuilder("theirs").startSpan();
            Scope scope = span.makeCurrent();
            try {
                chain.doFilter(request, response);
            } finally {
                scope.close();
                span.end();
            }
        };
    }

    @Test
    void spanOfInstrumentationGetsAttributes() throws IOException {
        start(instrumentation(sdk), builder().telemetry(OpenTelemetryOutput.of(sdk)).build());
        get("/items/7");
        SpanData span = span();
        assertEquals("theirs", span.getName());
        assertEquals(0.3, attribute(span, "queueing.delay"));
        assertEquals(0.25, attribute(span, "queueing.service_time"));
        assertEquals("http.proxy.request.started", span.getEvents().get(0).getName());
        assertNull(attribute(span, "http.request.method"));
        assertEquals(1, delays().size());
    }

    @Test
    void noSpanIsStartedBesideOneThatIsNotSampled() throws IOException {
        try (OpenTelemetrySdk unsampled = sdk(Sampler.alwaysOff())) {
            start(instrumentation(unsampled), builder().telemetry(OpenTelemetryOutput.of(sdk)).build());
            get("/items/7");
            assertEquals(List.of(), spans.getFinishedSpanItems());
            assertFalse(current.get().isRecording());
            assertTrue(current.get().getSpanContext().isValid());
        }
    }

    @Test
    void globalInstanceIsUsedOnceAppHasSetIt() throws IOException {
        GlobalOpenTelemetry.resetForTest();
        try {
            start(builder().build());
            assertEquals("0.300000", get("/items/7").header("X-Queueing-Delay"));
            // It would fail if the filter had set the global instance.
            GlobalOpenTelemetry.set(sdk);
            get("/items/8");
            assertEquals("/items/8", attribute(span(), "url.path"));
        } finally {
            GlobalOpenTelemetry.resetForTest();
        }
    }

    @Test
    void telemetryCanBeOff() throws IOException {
        start(instrumentation(sdk), builder().telemetry(Telemetry.none()).build());
        assertEquals("0.300000", get("/items/7").header("X-Queueing-Delay"));
        assertNull(attribute(span(), "queueing.delay"));
    }
}
