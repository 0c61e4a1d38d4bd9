package sojourn.middleware;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Options of the filter: of the builder and of init-params. */
class SojournFilterTest {

    private final ManualClock clock = new ManualClock(1_767_225_600_000_000_000L);

    private Server tomcat(SojournFilter filter, Map<String, String> initParameters) throws IOException {
        Server.App app = new Server.App();
        app.filters = List.of(filter);
        app.initParameters = initParameters;
        app.contextPath = "/shop";
        app.servlets.put("/items/*", new HttpServlet() {
            @Override
            protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
                response.getWriter().print("ok");
            }
        });
        return Server.tomcat(app);
    }

    private Client.Reply get(Server server, long millisAgo) throws IOException {
        return new Client(server.port()).get("/shop/items/7", "X-Request-Start", clock.stamp(millisAgo));
    }

    @Test
    void readsInitParameters() throws IOException {
        Map<String, String> parameters =
                Map.of("maxAge", "2.5", "maxFuture", "1", "clockOffset", "-0.25", "serverTiming", "true", "telemetry", "false");
        try (Server server = tomcat(SojournFilter.builder().clock(clock).build(), parameters)) {
            assertEquals("2.500000", get(server, 2500).header("X-Queueing-Delay"));
            assertNull(get(server, 2501).header("X-Queueing-Delay"));
            assertEquals("-1.000000", get(server, -1000).header("X-Queueing-Delay"));
            assertNull(get(server, -1001).header("X-Queueing-Delay"));
            assertEquals("app;dur=0.000", get(server, -1000).header("Server-Timing"));
        }
    }

    @ParameterizedTest
    @CsvSource({
        "maxAge,an hour", "maxAge,-1", "maxFuture,NaN", "maxAge,1e30", "clockOffset,''", "serverTiming,yes", "alwaysAnswer,1",
        "telemetry,1", "max-age,3"
    })
    void rejectsInvalidInitParameter(String name, String value) {
        Map<String, String> parameters = Map.of(name, value);
        IOException refused = assertThrows(IOException.class, () -> tomcat(new SojournFilter(), parameters).close());
        assertTrue(refused.getMessage().contains("did not start"), refused.toString());
    }

    @Test
    void rejectsInvalidOptions() {
        SojournFilter.Builder builder = SojournFilter.builder();
        assertThrows(IllegalArgumentException.class, () -> builder.maxAge(Duration.ofNanos(-1)));
        assertThrows(IllegalArgumentException.class, () -> builder.maxFuture(Duration.ofSeconds(Long.MAX_VALUE)));
        assertThrows(IllegalArgumentException.class, () -> builder.clockOffset(Duration.ofDays(-36_501)));
        assertThrows(NullPointerException.class, () -> builder.route(null));
        assertThrows(NullPointerException.class, () -> builder.telemetry(null));
    }

    @Test
    void contextPathBelongsToRoute() throws IOException {
        try (Server server = tomcat(new SojournFilter(), Map.of())) {
            assertEquals("/shop/items/*", get(server, 0).header("X-Route"));
        }
    }

    @Test
    void routeFunctionDecides() throws IOException {
        SojournFilter filter = SojournFilter.builder()
                .route(request -> request.getPathInfo().equals("/7") ? "/items/{id}" : "")
                .build();
        try (Server server = tomcat(filter, Map.of())) {
            assertEquals("/items/{id}", get(server, 0).header("X-Route"));
            assertEquals("/shop/items/*", new Client(server.port()).get("/shop/items/8", "X-Request-Start", "junk").header("X-Route"));
        }
    }

    @Test
    void failureOfRouteFunctionIsLoggedOnceAndReachesNoRequest() throws IOException {
        List<LogRecord> records = new ArrayList<>();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                records.add(record);
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger logger = Logger.getLogger("sojourn.middleware");
        logger.addHandler(handler);
        logger.setUseParentHandlers(false);
        SojournFilter filter = SojournFilter.builder()
                .route(request -> {
                    throw new IllegalStateException("on purpose");
                })
                .build();
        try (Server server = tomcat(filter, Map.of())) {
            for (int count = 0; count < 3; count++) {
                Client.Reply reply = get(server, 0);
                assertEquals("ok", reply.body());
                assertEquals("/shop/items/*", reply.header("X-Route"));
            }
        } finally {
            logger.removeHandler(handler);
            logger.setUseParentHandlers(true);
        }
        assertEquals(1, records.size());
        assertEquals("on purpose", records.get(0).getThrown().getMessage());
    }
}
