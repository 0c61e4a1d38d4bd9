package sojourn.middleware;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Metrics;
import io.micrometer.core.instrument.config.MeterFilter;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import jakarta.servlet.AsyncContext;
import jakarta.servlet.Filter;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Histograms in registries of Micrometer, behind requests to Tomcat. */
class PrometheusTest {

    private static final String DELAY = "sojourn_queueing_delay_seconds";
    private static final String SERVICE_TIME = "sojourn_service_time_seconds";

    private final ManualClock clock = new ManualClock(1_767_225_600_000_000_000L);
    private final PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    private Server server;

    @AfterEach
    void stop() {
        server.close();
    }

    private SojournFilter.Builder builder() {
        return SojournFilter.builder().clock(clock).environment(Map.of());
    }

    private void start(Map<String, String> initParameters, Filter... filters) throws IOException {
        Server.App app = new Server.App();
        app.filters = List.of(filters);
        app.initParameters = initParameters;
        app.servlets.put("/items/*", new HttpServlet() {
            @Override
            protected void service(HttpServletRequest request, HttpServletResponse response)
                    throws IOException, ServletException {
                clock.advanceMillis(250);
                switch (request.getPathInfo()) {
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

    private void get(String path) throws IOException {
        Client.Reply reply = new Client(server.port()).get(path, "X-Request-Start", clock.stamp(300));
        assertEquals("0.300000", reply.header("X-Queueing-Delay"));
    }

    /** Returns count and sum of a histogram once it has a number of requests, which can be after their responses. */
    private static List<Double> point(PrometheusMeterRegistry registry, int count, String name, String... labels) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (true) {
            Exposition exported = Exposition.parsed(registry.scrape());
            Double observed = exported.value(name + "_count", labels);
            if (observed != null && observed >= count) {
                return List.of(observed, exported.value(name + "_sum", labels));
            }
            assertTrue(System.nanoTime() < deadline, registry.scrape());
            Thread.onSpinWait();
        }
    }

    private static String[] labels(String route, String statusClass) {
        return new String[] {"service", "", "route", route, "status_class", statusClass};
    }

    @Test
    void routeIsThatOfHeader() throws IOException {
        start(Map.of(), builder().prometheus(MicrometerOutput.of(registry)).build());
        get("/items/7");
        assertEquals(List.of(1.0, 0.3), point(registry, 1, DELAY, labels("/items/*", "2xx")));
        assertEquals(List.of(1.0, 0.25), point(registry, 1, SERVICE_TIME, labels("/items/*", "2xx")));
    }

    @Test
    void requestOfThrowingAppHasStatusOfItsResponse() throws IOException {
        start(Map.of(), builder().prometheus(MicrometerOutput.of(registry)).build());
        new Client(server.port()).get("/items/throws", "X-Request-Start", clock.stamp(300));
        assertEquals(List.of(1.0, 0.3), point(registry, 1, DELAY, labels("/items/*", "5xx")));
    }

    @Test
    void asynchronousRequestIsRecordedOnce() throws IOException {
        start(Map.of(), builder().prometheus(MicrometerOutput.of(registry)).build());
        get("/items/async");
        get("/items/7");
        assertEquals(List.of(2.0, 0.75), point(registry, 2, SERVICE_TIME, labels("/items/*", "2xx")));
        assertEquals(List.of(2.0, 0.6), point(registry, 2, DELAY, labels("/items/*", "2xx")));
    }

    @Test
    void filtersWithOneRegistryShareMetricsAndRoutes() throws IOException {
        Prometheus output = MicrometerOutput.of(registry);
        SojournFilter first = builder().prometheus(output).route(HttpServletRequest::getRequestURI).build();
        SojournFilter second =
                builder().prometheus(MicrometerOutput.of(registry)).route(HttpServletRequest::getRequestURI).build();
        start(Map.of(), (request, response, chain) -> {
            boolean even = ((HttpServletRequest) request).getRequestURI().matches(".*[02468]");
            (even ? first : second).doFilter(request, response, chain);
        });
        for (int number = 0; number < 103; number++) {
            get("/items/" + number);
        }
        assertEquals(3.0, point(registry, 3, DELAY, labels("other", "2xx")).get(0));
        get("/items/7");
        assertEquals(2.0, point(registry, 2, DELAY, labels("/items/7", "2xx")).get(0));
    }

    @Test
    void metersThatAppRemovesAreThereAgain() throws IOException {
        start(Map.of(), builder().prometheus(MicrometerOutput.of(registry)).build());
        get("/items/7");
        point(registry, 1, SERVICE_TIME, labels("/items/*", "2xx"));
        registry.clear();
        get("/items/7");
        assertEquals(List.of(1.0, 0.3), point(registry, 1, DELAY, labels("/items/*", "2xx")));
    }

    @Test
    void initParametersSelectGlobalRegistry() throws IOException {
        Metrics.addRegistry(registry);
        try {
            Map<String, String> parameters =
                    Map.of("prometheus", "true", "service", "shop", "prometheusName", "http_request_queue_duration_seconds");
            start(parameters, builder().build());
            get("/items/7");
            String[] labels = {"service", "shop", "route", "/items/*", "status_class", "2xx"};
            assertEquals(List.of(1.0, 0.3), point(registry, 1, "http_request_queue_duration_seconds", labels));
            Exposition exported = Exposition.parsed(registry.scrape());
            assertEquals(0.0, exported.value("sojourn_negative_queueing_delays_total", "service", "shop"));
            assertNull(exported.value("sojourn_negative_queueing_delays_total", "service", ""));
        } finally {
            Metrics.globalRegistry.clear();
            Metrics.removeRegistry(registry);
        }
    }

    @Test
    void failureIsOneWarningAndNoErrorOfRequest() throws IOException {
        MeterRegistry failing = registry;
        failing.config().meterFilter(new MeterFilter() {
            @Override
            public io.micrometer.core.instrument.Meter.Id map(io.micrometer.core.instrument.Meter.Id id) {
                if (id.getName().equals(DELAY)) {
                    throw new IllegalStateException("on purpose");
                }
                return id;
            }
        });
        try (Warnings warnings = new Warnings()) {
            start(Map.of(), builder().prometheus(MicrometerOutput.of(failing)).build());
            get("/items/7");
            get("/items/8");
            assertEquals(List.of(2.0, 0.5), point(registry, 2, SERVICE_TIME, labels("/items/*", "2xx")));
            assertEquals(1, warnings.messages().size(), warnings.messages().toString());
            assertTrue(warnings.messages().get(0).contains(DELAY));
        }
    }

    @Test
    void meterOfAppWithSameNameLeavesOthersRecorded() throws IOException {
        registry.gauge(DELAY, 1);
        start(Map.of(), builder().prometheus(MicrometerOutput.of(registry)).build());
        get("/items/7");
        assertEquals(List.of(1.0, 0.25), point(registry, 1, SERVICE_TIME, labels("/items/*", "2xx")));
        assertEquals(1.0, Exposition.parsed(registry.scrape()).value(DELAY));
    }

    @Test
    void nameThatPrometheusDoesNotAllowIsRefused() throws IOException {
        start(Map.of(), builder().build());
        SojournFilter.Builder builder = builder();
        for (String name : List.of("queue-time", "", "9_seconds")) {
            assertThrows(IllegalArgumentException.class, () -> builder.prometheusName(name));
        }
        assertNotNull(builder.prometheusName("shop:queue_seconds"));
    }
}
