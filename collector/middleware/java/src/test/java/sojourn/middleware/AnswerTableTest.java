package sojourn.middleware;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonObject;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The shared table of response headers, over connections to Tomcat and to the JDK's server. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class AnswerTableTest {

    private static final Vectors TABLE = Vectors.read("answer_headers.json");
    private static final String WORKER = ProcessHandle.current().pid() + ".1";

    private final AtomicReference<Vectors.Case> current = new AtomicReference<>();
    private final AtomicReference<ManualClock> clock = new AtomicReference<>();
    private final AtomicReference<SojournFilter> filter = new AtomicReference<>();
    private final AtomicReference<SojournHttpFilter> httpFilter = new AtomicReference<>();
    private Server tomcat;
    private com.sun.net.httpserver.HttpServer httpServer;

    static List<Vectors.Case> cases() {
        return TABLE.cases();
    }

    @BeforeAll
    void start() throws IOException {
        Server.App app = new Server.App();
        app.filters = List.of((request, response, chain) -> filter.get().doFilter(request, response, chain));
        app.servlets.put("/", new HttpServlet() {
            @Override
            protected void doGet(HttpServletRequest request, HttpServletResponse response) {
                clock.get().advanceNanos(current.get().row().get("service_ns").getAsLong());
                request.setAttribute("sojourn.route", current.get().text("route"));
            }
        });
        tomcat = Server.tomcat(app);
        httpServer = com.sun.net.httpserver.HttpServer.create(
                new java.net.InetSocketAddress(java.net.InetAddress.getLoopbackAddress(), 0), 0);
        var context = httpServer.createContext("/", exchange -> {
            clock.get().advanceNanos(current.get().row().get("service_ns").getAsLong());
            exchange.setAttribute("sojourn.route", current.get().text("route"));
            exchange.sendResponseHeaders(200, -1);
            exchange.close();
        });
        context.getFilters().add(com.sun.net.httpserver.Filter.beforeHandler("none", exchange -> {}));
        context.getFilters().add(0, new com.sun.net.httpserver.Filter() {
            @Override
            public String description() {
                return "the filter of the current case";
            }

            @Override
            public void doFilter(com.sun.net.httpserver.HttpExchange exchange, Chain chain) throws IOException {
                httpFilter.get().doFilter(exchange, chain);
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
    void setsHeadersInTomcat(Vectors.Case one) throws IOException {
        begin(one);
        filter.set(configured(SojournFilter.builder()).build());
        assertHeaders(one, tomcat.port());
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("cases")
    void setsHeadersInHttpServer(Vectors.Case one) throws IOException {
        begin(one);
        httpFilter.set(configured(SojournHttpFilter.builder()).build());
        assertHeaders(one, httpServer.getAddress().getPort());
    }

    private void begin(Vectors.Case one) {
        current.set(one);
        clock.set(new ManualClock(TABLE.number("now_ns")));
    }

    private <R, B extends MeasurementBuilder<R, B>> B configured(B builder) {
        return builder.clock(clock.get())
                .workers(new WorkerNumbers())
                .serverTiming(true)
                .alwaysAnswer(current.get().row().has("always_answer"));
    }

    private static void assertHeaders(Vectors.Case one, int port) throws IOException {
        String stamp = one.text("stamp");
        String[] headers = stamp == null ? new String[0] : new String[] {"X-Request-Start", stamp};
        Client.Reply reply = new Client(port).get("/", headers);
        Map<String, String> expected = new TreeMap<>();
        JsonObject row = one.row().getAsJsonObject("headers");
        row.entrySet().forEach(each -> expected.put(each.getKey(), each.getValue().getAsString()));
        // The table's worker is a process; here it is a process and its first thread.
        expected.computeIfPresent("X-Worker", (name, value) -> WORKER);
        expected.put("Server-Timing", one.text("server_timing"));
        Map<String, String> sent = new TreeMap<>();
        for (String name : List.of("X-Queueing-Delay", "X-Service-Time", "X-Worker", "X-Route", "Server-Timing")) {
            if (reply.header(name) != null) {
                sent.put(name, reply.header(name));
            }
        }
        assertEquals(expected, sent);
    }
}
