// The lab's app for Java: the same as app.py, on the JDK's own HTTP server with a fixed pool of threads.
//
//   java App.java THREADS BACKLOG FILE        binds a free loopback port and writes it to FILE
//   /sleep/<seconds>?status=N&route=/NAME     holds a thread that long
//   /ready                                    answered without the headers of Sojourn

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;

public class App {
    static final boolean SILENT = "1".equals(System.getenv("LAB_SILENT"));
    static final double SLOWDOWN =
        Double.parseDouble(System.getenv().getOrDefault("LAB_SLOWDOWN", "1"));
    static final Pattern ROUTE = Pattern.compile("/[a-z0-9/_-]{1,60}");

    // The measurements of one request: begun first in a handler, set as headers just before the answer leaves.
    static final class Measured {
        // Seconds, milliseconds, microseconds or nanoseconds: the number of digits decides, the prefix t= says nothing.
        static final Pattern STAMP = Pattern.compile(
            "(?:t=)?([1-9]\\d{9}(?:\\.\\d{1,9})?|[1-9]\\d{12}(?:\\.\\d{1,6})?|[1-9]\\d{15}(?:\\d{3})?)");

        final long started = System.nanoTime();
        final long nowUs = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
        final Long stampUs;

        Measured(HttpExchange exchange) {
            List<String> values = exchange.getRequestHeaders().getOrDefault("X-Request-Start", List.of());
            stampUs = stampOf(String.join(",", values), nowUs);
        }

        // Microseconds, or null: a doubled, unreadable, old or future stamp is refused, never guessed.
        static Long stampOf(String value, long nowUs) {
            var match = STAMP.matcher(value);
            if (!match.matches()) return null;
            long us = Long.parseLong((match.group(1).replace(".", "") + "000000").substring(0, 16));
            return us > nowUs + 10_000_000L || us < nowUs - 3_600_000_000L ? null : us;
        }

        void addHeaders(HttpExchange exchange) {
            var headers = exchange.getResponseHeaders();
            if (stampUs != null) headers.set("X-Queueing-Delay", seconds((nowUs - stampUs) / 1e6));
            headers.set("X-Service-Time", seconds((System.nanoTime() - started) / 1e9));
            headers.set("X-Worker", ProcessHandle.current().pid() + "." + Thread.currentThread().getName());
        }

        static String seconds(double value) {
            return String.format(Locale.ROOT, "%.6f", value);
        }
    }

    static void plain(HttpExchange exchange, Measured measured, int status, String text) throws IOException {
        byte[] body = (text + "\n").getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "text/plain");
        if (measured != null && !SILENT) measured.addHeaders(exchange);
        exchange.sendResponseHeaders(status, body.length);
        try (var out = exchange.getResponseBody()) {
            out.write(body);
        }
    }

    static String query(HttpExchange exchange, String name, String otherwise) {
        String text = exchange.getRequestURI().getQuery();
        for (String part : (text == null ? "" : text).split("&")) {
            if (part.startsWith(name + "=")) return part.substring(name.length() + 1);
        }
        return otherwise;
    }

    static void sleeper(HttpExchange exchange) throws IOException {
        var measured = new Measured(exchange);
        String route = query(exchange, "route", "/sleep/{seconds}");
        try {
            double seconds = Double.parseDouble(exchange.getRequestURI().getPath().substring("/sleep/".length()));
            int status = Integer.parseInt(query(exchange, "status", "200"));
            if (!(seconds >= 0 && seconds <= 86_400)) throw new NumberFormatException("seconds");
            if (status < 200 || status > 599) throw new NumberFormatException("status");
            if (!route.equals("/sleep/{seconds}") && !ROUTE.matcher(route).matches()) {
                plain(exchange, measured, 400, "route must be a slash and a name");
                return;
            }
            long nanos = Math.round(seconds * SLOWDOWN * 1e9);
            Thread.sleep(nanos / 1_000_000, (int) (nanos % 1_000_000));
            if (!SILENT) exchange.getResponseHeaders().set("X-Route", route);
            plain(exchange, measured, status, String.format(Locale.ROOT, "slept %s s", seconds));
        } catch (NumberFormatException error) {
            plain(exchange, measured, 400, "seconds must be a number from 0 to 86400, status one from 200 to 599");
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] arguments) throws IOException {
        var address = new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 0);
        var server = HttpServer.create(address, Integer.parseInt(arguments[1]));
        var number = new AtomicInteger();
        server.setExecutor(Executors.newFixedThreadPool(
            Integer.parseInt(arguments[0]), task -> new Thread(task, "" + number.incrementAndGet())));
        server.createContext("/sleep/", App::sleeper);
        server.createContext("/ready", exchange -> plain(exchange, null, 200, "ready"));
        server.createContext("/", exchange -> plain(exchange, null, 404, "there is only /sleep/<seconds> and /ready"));
        server.start();
        // Renamed into place, so that a reader never sees half a number.
        Path written = Path.of(arguments[2] + ".partial");
        Files.writeString(written, Integer.toString(server.getAddress().getPort()));
        Files.move(written, Path.of(arguments[2]), StandardCopyOption.ATOMIC_MOVE);
    }
}
