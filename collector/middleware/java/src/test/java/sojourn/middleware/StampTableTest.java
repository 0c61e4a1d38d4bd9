package sojourn.middleware;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The shared table of stamps, over a connection to Tomcat. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class StampTableTest {

    private static final Vectors TABLE = Vectors.read("request_start.json");
    private static final long NOW_US = TABLE.number("now_us");

    private final AtomicReference<Stamp> lastStamp = new AtomicReference<>();
    private final AtomicReference<SojournFilter> filter = new AtomicReference<>();
    private Server server;

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
                lastStamp.set(((Exchange) request.getAttribute("sojourn.middleware.exchange")).stamp);
            }
        });
        server = Server.tomcat(app);
    }

    @AfterAll
    void stop() {
        server.close();
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("cases")
    void readsStamp(Vectors.Case one) throws IOException {
        SojournFilter.Builder builder = SojournFilter.builder().clock(new ManualClock(NOW_US * 1000));
        JsonObject row = one.row();
        if (row.has("max_age")) {
            builder.maxAge(seconds(row.get("max_age")));
        }
        if (row.has("max_future")) {
            builder.maxFuture(seconds(row.get("max_future")));
        }
        filter.set(builder.build());
        List<String> headers = new ArrayList<>();
        for (JsonElement header : row.getAsJsonArray("headers")) {
            headers.add(header.getAsJsonArray().get(0).getAsString());
            headers.add(header.getAsJsonArray().get(1).getAsString());
        }

        Client.Reply reply = new Client(server.port()).get("/", headers.toArray(String[]::new));

        assertEquals(200, reply.status(), reply.body());
        Stamp stamp = lastStamp.get();
        String reason = one.text("reason");
        if (reason == null) {
            long start = row.get("start_us").getAsLong();
            assertEquals(Stamp.at(start), stamp);
            assertEquals(Figures.seconds((NOW_US - start) * 1000), reply.header("X-Queueing-Delay"));
        } else {
            assertEquals(Stamp.refused(Stamp.Reason.valueOf(reason.toUpperCase(Locale.ROOT))), stamp);
            assertNull(reply.header("X-Queueing-Delay"));
        }
        assertEquals("missing".equals(reason) ? null : "0.000000", reply.header("X-Service-Time"));
    }

    private static Duration seconds(JsonElement number) {
        return Duration.ofNanos(number.getAsBigDecimal().movePointRight(9).longValueExact());
    }
}
