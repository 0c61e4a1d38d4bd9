package sojourn.middleware;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.sun.net.httpserver.HttpServer;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The shared table of metrics, over connections to Tomcat and to the JDK's server, as Micrometer exports them. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class PrometheusTableTest {

    private static final Vectors TABLE = Vectors.read("prometheus.json");

    private volatile JsonObject request;
    private volatile ManualClock clock;
    private volatile SojournFilter filter;
    private volatile SojournHttpFilter httpFilter;
    private Server tomcat;
    private HttpServer httpServer;

    static List<Vectors.Case> cases() {
        return TABLE.cases();
    }

    @BeforeAll
    void start() throws IOException {
        Server.App app = new Server.App();
        app.filters = List.of((servletRequest, response, chain) -> filter.doFilter(servletRequest, response, chain));
        app.servlets.put("/", new HttpServlet() {
            @Override
            protected void doGet(HttpServletRequest servletRequest, HttpServletResponse response) {
                clock.advanceNanos(request.get("service_ns").getAsLong());
                response.setStatus(request.get("status").getAsInt());
            }
        });
        tomcat = Server.tomcat(app);
        httpServer = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        var context = httpServer.createContext("/", exchange -> {
            clock.advanceNanos(request.get("service_ns").getAsLong());
            exchange.sendResponseHeaders(request.get("status").getAsInt(), -1);
            exchange.close();
        });
        context.getFilters().add(new com.sun.net.httpserver.Filter() {
            @Override
            public String description() {
                return "the filter of the current case";
            }

            @Override
            public void doFilter(com.sun.net.httpserver.HttpExchange exchange, Chain chain) throws IOException {
                httpFilter.doFilter(exchange, chain);
            }
        });
        httpServer.start();
    }

    @AfterAll
    void stop() {
        tomcat.close();
        httpServer.stop(0);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("cases")
    void exportsMetricsInTomcat(Vectors.Case one) throws IOException {
        PrometheusMeterRegistry registry = begin();
        filter = configured(SojournFilter.builder(), one, registry).build();
        assertMetrics(one, registry, tomcat.port());
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("cases")
    void exportsMetricsInHttpServer(Vectors.Case one) throws IOException {
        PrometheusMeterRegistry registry = begin();
        httpFilter = configured(SojournHttpFilter.builder(), one, registry).build();
        assertMetrics(one, registry, httpServer.getAddress().getPort());
    }

    private PrometheusMeterRegistry begin() {
        clock = new ManualClock(TABLE.number("now_ns"));
        return new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    }

    private <R, B extends MeasurementBuilder<R, B>> B configured(
            B builder, Vectors.Case one, PrometheusMeterRegistry registry) {
        Map<String, String> environment = texts(object(one.row(), "environment"));
        builder.clock(clock).environment(environment).prometheus(MicrometerOutput.of(registry)).route(each -> route());
        JsonObject options = object(one.row(), "options");
        for (String name : options.keySet()) {
            JsonElement value = options.get(name);
            switch (name) {
                case "clock_offset" -> builder.clockOffset(Duration.ofNanos(Math.round(value.getAsDouble() * 1e9)));
                case "service" -> builder.service(value.getAsString());
                case "prometheus_name" -> builder.prometheusName(value.getAsString());
                default -> throw new AssertionError("the table has an unknown option " + name);
            }
        }
        return builder;
    }

    private String route() {
        return request.has("route") ? request.get("route").getAsString() : null;
    }

    private static JsonObject object(JsonObject row, String key) {
        return row.has(key) ? row.getAsJsonObject(key) : new JsonObject();
    }

    private static Map<String, String> texts(JsonObject object) {
        Map<String, String> texts = new TreeMap<>();
        object.entrySet().forEach(each -> texts.put(each.getKey(), each.getValue().getAsString()));
        return texts;
    }

    /** Returns the entries; a repeated one has each number of its range instead of the {@code #} in its route. */
    private static List<JsonObject> unrolled(JsonArray entries) {
        List<JsonObject> all = new ArrayList<>();
        for (JsonElement entry : entries) {
            JsonArray range = entry.getAsJsonObject().getAsJsonArray("repeat");
            int first = range == null ? 1 : range.get(0).getAsInt();
            int last = range == null ? 1 : range.get(1).getAsInt();
            for (int number = first; number <= last; number++) {
                String text = range == null ? entry.toString() : entry.toString().replace("#", Integer.toString(number));
                all.add(JsonParser.parseString(text).getAsJsonObject());
            }
        }
        return all;
    }

    private static Exposition.Series series(JsonObject entry) {
        return new Exposition.Series(entry.get("name").getAsString(), texts(entry.getAsJsonObject("labels")));
    }

    private void assertMetrics(Vectors.Case one, PrometheusMeterRegistry registry, int port) throws IOException {
        List<JsonObject> requests = unrolled(one.row().getAsJsonArray("requests"));
        for (JsonObject each : requests) {
            request = each;
            clock.setWallNanos(TABLE.number("now_ns"));
            String[] headers = each.get("stamp").isJsonNull()
                    ? new String[0]
                    : new String[] {"X-Request-Start", each.get("stamp").getAsString()};
            new Client(port).get("/", headers);
        }
        Exposition exported = exportedAfter(requests.size(), registry);

        List<String> bounds = new ArrayList<>();
        TABLE.table().getAsJsonArray("bounds").forEach(each -> bounds.add(String.valueOf(each.getAsDouble())));
        bounds.add("+Inf");
        Map<Exposition.Series, List<Long>> expected = new HashMap<>();
        Map<Exposition.Series, List<Long>> buckets = new HashMap<>();
        Map<Exposition.Series, Exposition.Histogram> histograms = exported.histograms();
        histograms.forEach((series, histogram) -> buckets.put(series, histogram.buckets()));
        for (JsonObject each : unrolled(one.row().getAsJsonArray("histograms"))) {
            List<Long> counts = each.getAsJsonArray("buckets").asList().stream().map(JsonElement::getAsLong).toList();
            expected.put(series(each), counts);
            Exposition.Histogram histogram = histograms.get(series(each));
            if (histogram != null) {
                assertEquals(bounds, histogram.bounds());
                assertEquals(each.get("sum").getAsDouble(), histogram.sum(), 1e-9);
            }
        }
        assertEquals(expected, buckets);
        Map<Exposition.Series, Double> expectedCounters = new HashMap<>();
        one.row().getAsJsonArray("counters").forEach(each -> expectedCounters.put(
                series(each.getAsJsonObject()), each.getAsJsonObject().get("value").getAsDouble()));
        Map<Exposition.Series, Double> counters = new HashMap<>(exported.values());
        one.row().getAsJsonArray("gauges").forEach(each -> expectedCounters.put(
                series(each.getAsJsonObject()), each.getAsJsonObject().get("value").getAsDouble()));
        counters.keySet()
                .removeIf(series -> !series.name().endsWith("_total") && !series.name().endsWith("_in_progress"));
        assertEquals(expectedCounters, counters);
    }

    /** Returns what is exported once a number of requests has ended, which can be after their responses. */
    private static Exposition exportedAfter(int requests, PrometheusMeterRegistry registry) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (true) {
            Exposition exported = Exposition.parsed(registry.scrape());
            double observed = exported.values().entrySet().stream()
                    .filter(each -> each.getKey().name().equals("sojourn_service_time_seconds_count"))
                    .mapToDouble(Map.Entry::getValue)
                    .sum();
            if (observed >= requests) {
                return exported;
            }
            if (System.nanoTime() > deadline) {
                throw new AssertionError(observed + " of " + requests + " requests are recorded");
            }
            Thread.onSpinWait();
        }
    }

    @Test
    void helpTextsAndKindsAreThoseOfTheTable() throws IOException {
        PrometheusMeterRegistry registry = begin();
        filter = SojournFilter.builder().clock(clock).prometheus(MicrometerOutput.of(registry)).build();
        request = JsonParser.parseString("{\"service_ns\": 0, \"status\": 200}").getAsJsonObject();
        new Client(tomcat.port()).get("/", "X-Request-Start", clock.stamp(500));
        exportedAfter(1, registry);
        List<String> lines = registry.scrape().lines().toList();
        List<JsonElement> metrics = new ArrayList<>(TABLE.table().getAsJsonArray("metrics").asList());
        metrics.add(TABLE.table().get("in_progress"));
        for (JsonElement each : metrics) {
            String name = each.getAsJsonObject().get("name").getAsString();
            String help = "# HELP " + name + " " + each.getAsJsonObject().get("help").getAsString();
            String type = "# TYPE " + name + " " + each.getAsJsonObject().get("kind").getAsString();
            Stream<String> ofMetric = lines.stream().filter(line -> line.matches("# \\w+ " + name + " .*"));
            assertEquals(List.of(help, type), ofMetric.toList());
        }
    }
}
