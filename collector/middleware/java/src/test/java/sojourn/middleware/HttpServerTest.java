package sojourn.middleware;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpContext;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The filter in the JDK's own HTTP server. */
class HttpServerTest {

    private static final long NOW = 1_767_225_600_000_000_000L;
    private static final Logger JDK_LOGGER = Logger.getLogger("com.sun.net.httpserver");

    private final ManualClock clock = new ManualClock(NOW);
    private final InMemorySpanExporter spans = InMemorySpanExporter.create();
    private final OpenTelemetrySdk sdk = OpenTelemetrySdk.builder()
            .setTracerProvider(SdkTracerProvider.builder()
                    .addSpanProcessor(SimpleSpanProcessor.create(spans))
                    .build())
            .build();
    private final ExecutorService pool = Executors.newFixedThreadPool(2);
    private HttpServer server;
    private Client client;

    @BeforeEach
    void start() throws IOException {
        JDK_LOGGER.setLevel(Level.OFF);
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(pool);
        server.start();
        client = new Client(server.getAddress().getPort());
    }

    @AfterEach
    void stop() {
        server.stop(0);
        pool.shutdown();
        sdk.close();
    }

    private void serve(String path, HttpHandler handler) {
        HttpContext context = server.createContext(path, handler);
        SojournHttpFilter outer = SojournHttpFilter.builder()
                .clock(clock)
                .telemetry(OpenTelemetryOutput.of(sdk))
                .build();
        context.getFilters().add(outer);
        context.getFilters().add(new SojournHttpFilter());
    }

    private Client.Reply get(String path) throws IOException {
        return client.get(path, "X-Request-Start", clock.stamp(300));
    }

    private SpanData span() {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (spans.getFinishedSpanItems().isEmpty()) {
            assertTrue(System.nanoTime() < deadline, "no span has ended");
            Thread.onSpinWait();
        }
        return spans.getFinishedSpanItems().get(0);
    }

    @Test
    void measuresToHeaders() throws IOException {
        serve("/items/", exchange -> {
            clock.advanceMillis(250);
            exchange.getResponseHeaders().set("X-Worker", "mine");
            exchange.getResponseHeaders().set("X-Service-Time", "99");
            byte[] body = "ok".getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, body.length);
            clock.advanceMillis(1000);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        Client.Reply reply = get("/items/7");
        assertEquals("ok", reply.body());
        assertEquals("0.300000", reply.header("X-Queueing-Delay"));
        assertEquals("0.250000", reply.header("X-Service-Time"));
        assertEquals("/items/", reply.header("X-Route"));
        assertTrue(reply.header("X-Worker").matches(ProcessHandle.current().pid() + "\\.[0-9]+"));
        SpanData span = span();
        assertEquals("GET /items/", span.getName());
        assertEquals(NOW + 1_250_000_000, span.getEndEpochNanos());
    }

    @Test
    void selectsRoute() throws IOException {
        serve("/", exchange -> {
            String query = String.valueOf(exchange.getRequestURI().getQuery());
            if (query.contains("attribute")) {
                exchange.setAttribute(SojournHttpFilter.ROUTE_ATTRIBUTE, "/a/{id}");
                assertEquals("/a/{id}", exchange.getAttribute(SojournHttpFilter.ROUTE_ATTRIBUTE));
            }
            if (query.contains("header")) {
                exchange.getResponseHeaders().set("X-Route", "/b");
            }
            exchange.sendResponseHeaders(204, -1);
            exchange.close();
        });
        assertEquals("/a/{id}", get("/7?attribute,header").header("X-Route"));
        assertEquals("/b", get("/7?header").header("X-Route"));
        assertNull(get("/7").header("X-Route"));
    }

    @Test
    void handlerCanRespondInAnotherThread() throws IOException {
        serve("/", exchange -> pool.execute(() -> {
            try {
                clock.advanceMillis(250);
                exchange.sendResponseHeaders(503, -1);
                exchange.close();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }));
        Client.Reply reply = get("/7");
        assertEquals(503, reply.status());
        assertEquals("0.250000", reply.header("X-Service-Time"));
        assertEquals("503", span().getAttributes().asMap().entrySet().stream()
                .filter(each -> each.getKey().getKey().equals("error.type"))
                .findFirst()
                .orElseThrow()
                .getValue());
    }

    @Test
    void closedExchangeEndsItsSpan() throws IOException {
        serve("/", exchange -> pool.execute(exchange::close));
        assertThrows(AssertionError.class, () -> get("/7"));
        assertEquals("GET", span().getName());
    }

    @Test
    void exceptionReachesServerAndSpan() throws IOException {
        serve("/", exchange -> {
            throw new IOException("on purpose");
        });
        // The server closes the connection without a response.
        assertThrows(AssertionError.class, () -> get("/7"));
        assertEquals("exception", span().getEvents().get(1).getName());
    }
}
