package sojourn.middleware;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.metrics.SdkMeterProvider;
import io.opentelemetry.sdk.metrics.data.LongPointData;
import io.opentelemetry.sdk.testing.exporter.InMemoryMetricReader;
import jakarta.servlet.AsyncContext;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpUpgradeHandler;
import jakarta.servlet.http.WebConnection;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The requests in progress, in real servers. */
class InProgressTest {

    private static final String NAME = "sojourn_requests_in_progress";

    private final PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    private final InMemoryMetricReader reader = InMemoryMetricReader.create();
    private final OpenTelemetrySdk sdk = OpenTelemetrySdk.builder()
            .setMeterProvider(SdkMeterProvider.builder().registerMetricReader(reader).build())
            .build();
    private final CountDownLatch release = new CountDownLatch(1);
    private final ExecutorService threads = Executors.newCachedThreadPool();

    @AfterEach
    void end() throws InterruptedException {
        release.countDown();
        threads.shutdown();
        assertTrue(threads.awaitTermination(20, TimeUnit.SECONDS));
        sdk.close();
    }

    private void hold() {
        try {
            assertTrue(release.await(20, TimeUnit.SECONDS));
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Responds by the path. */
    private final class Held extends HttpServlet {

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            String path = request.getRequestURI();
            switch (path) {
                case "/events" -> {
                    response.setContentType("Text/Event-Stream;charset=utf-8");
                    response.getOutputStream().print("data: first\n\n");
                    response.flushBuffer();
                    hold();
                }
                case "/streamed" -> {
                    response.setContentType("text/plain");
                    response.getOutputStream().print("first");
                    response.flushBuffer();
                    hold();
                }
                case "/async" -> {
                    AsyncContext context = request.startAsync();
                    threads.execute(() -> {
                        hold();
                        context.complete();
                    });
                }
                case "/error" -> {
                    hold();
                    throw new IllegalStateException("an error of the app");
                }
                default -> hold();
            }
        }
    }

    /** A connection of another protocol. */
    public static final class Upgraded implements HttpUpgradeHandler {

        @Override
        public void init(WebConnection connection) {}

        @Override
        public void destroy() {}
    }

    private Server server(String kind) throws IOException {
        Server.App app = new Server.App();
        app.servlets.put("/upgrade", new HttpServlet() {
            @Override
            protected void doGet(HttpServletRequest request, HttpServletResponse response)
                    throws IOException, jakarta.servlet.ServletException {
                response.setStatus(101);
                response.setHeader("Upgrade", "other");
                response.setHeader("Connection", "Upgrade");
                request.upgrade(Upgraded.class);
            }
        });
        app.servlets.put("/*", new Held());
        app.filters = List.of(SojournFilter.builder()
                .prometheus(MicrometerOutput.of(registry))
                .telemetry(OpenTelemetryOutput.of(sdk))
                .service("shop")
                .build());
        return kind.equals("tomcat") ? Server.tomcat(app) : Server.jetty(app);
    }

    private double gauge() {
        return Exposition.parsed(registry.scrape()).value(NAME, "service", "shop");
    }

    private Map<Attributes, Long> points() {
        Map<Attributes, Long> values = new HashMap<>();
        reader.collectAllMetrics().stream()
                .filter(metric -> metric.getName().equals("http.server.active_requests"))
                .flatMap(metric -> metric.getLongSumData().getPoints().stream())
                .forEach((LongPointData point) -> values.put(point.getAttributes(), point.getValue()));
        return values;
    }

    private static void eventually(BooleanSupplier condition, String what) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < deadline, "waited 20 s for " + what);
            Thread.sleep(5);
        }
    }

    private void expect(int requests) throws InterruptedException {
        eventually(() -> gauge() == requests, requests + " requests in progress");
        eventually(
                () -> points().values().stream().mapToLong(each -> each).sum() == requests,
                requests + " active requests");
    }

    private static Socket opened(int port, String path, String... headers) throws IOException {
        Socket socket = new Socket(InetAddress.getLoopbackAddress(), port);
        socket.setSoTimeout(20_000);
        String head = "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + String.join("", headers) + "\r\n";
        socket.getOutputStream().write(head.getBytes(StandardCharsets.US_ASCII));
        return socket;
    }

    /** Reads the response until it has a text. */
    private static void read(Socket socket, String text) throws IOException {
        InputStream stream = socket.getInputStream();
        StringBuilder received = new StringBuilder();
        while (received.indexOf(text) < 0) {
            int next = stream.read();
            assertTrue(next >= 0, () -> "the response is " + received);
            received.append((char) next);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"tomcat", "jetty"})
    void requestsThatTheAppHoldsAreInProgress(String kind) throws Exception {
        try (Server server = server(kind)) {
            expect(0);
            try (Socket held = opened(server.port(), "/held");
                    Socket async = opened(server.port(), "/async");
                    Socket streamed = opened(server.port(), "/streamed");
                    Socket failing = opened(server.port(), "/error")) {
                expect(4);
                release.countDown();
                read(held, "200");
                read(async, "200");
                read(streamed, "first");
                read(failing, "500");
                expect(0);
            }
            assertEquals(1, points().size(), () -> "series: " + points());
            assertEquals("{http.request.method=\"GET\", url.scheme=\"http\"}", points().keySet().iterator().next().toString());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"tomcat", "jetty"})
    void requestOfAClientThatHasLeftEndsWithTheApp(String kind) throws Exception {
        try (Server server = server(kind)) {
            try (Socket held = opened(server.port(), "/held");
                    Socket async = opened(server.port(), "/async")) {
                expect(2);
            }
            release.countDown();
            expect(0);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"tomcat", "jetty"})
    void serverSentEventsAreNotInProgress(String kind) throws Exception {
        try (Server server = server(kind);
                Socket events = opened(server.port(), "/events")) {
            read(events, "data: first");
            assertEquals(0, gauge());
            try (Socket held = opened(server.port(), "/held")) {
                expect(1);
                release.countDown();
                read(held, "200");
            }
            expect(0);
        }
    }

    @Test
    void upgradedConnectionIsNotInProgress() throws Exception {
        try (Server server = server("tomcat");
                Socket upgraded = opened(server.port(), "/upgrade", "Connection: Upgrade\r\nUpgrade: other\r\n")) {
            read(upgraded, "101");
            expect(0);
        }
    }

    @Test
    void requestsOfTheServerOfTheJdkAreInProgress() throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(threads);
        server.createContext("/", exchange -> {
            boolean events = exchange.getRequestURI().getPath().equals("/events");
            if (events) {
                exchange.getResponseHeaders().set("Content-Type", "text/event-stream");
                exchange.sendResponseHeaders(200, 0);
                exchange.getResponseBody().write("data: first\n\n".getBytes(StandardCharsets.US_ASCII));
                exchange.getResponseBody().flush();
            }
            hold();
            if (exchange.getRequestURI().getPath().equals("/error")) {
                throw new IOException("an error of the app");
            }
            if (!events) {
                exchange.sendResponseHeaders(204, -1);
            }
            exchange.close();
        })
                .getFilters()
                .add(SojournHttpFilter.builder()
                        .prometheus(MicrometerOutput.of(registry))
                        .telemetry(OpenTelemetryOutput.of(sdk))
                        .service("shop")
                        .build());
        server.start();
        int port = server.getAddress().getPort();
        try (Socket events = opened(port, "/events")) {
            read(events, "data: first");
            expect(0);
            try (Socket left = opened(port, "/held");
                    Socket failing = opened(port, "/error")) {
                expect(2);
            }
            try (Socket held = opened(port, "/held")) {
                expect(3);
                release.countDown();
                read(held, "204");
            }
            expect(0);
        } finally {
            server.stop(0);
        }
    }

    @Test
    void filtersOfOneRegistryShareTheGaugeOfAService() {
        for (String service : List.of("shop", "shop", "stock")) {
            MicrometerOutput.of(registry).recorder(service, "delay", (what, error) -> {}).enter();
        }
        Exposition exported = Exposition.parsed(registry.scrape());
        assertEquals(2, exported.value(NAME, "service", "shop"));
        assertEquals(1, exported.value(NAME, "service", "stock"));
    }
}
