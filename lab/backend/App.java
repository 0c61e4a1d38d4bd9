// The lab's app for Java: the same as app.py, on the JDK's own HTTP server with a fixed pool of threads, behind the filter of
// the Java middleware, whose sources are compiled with it.
//
//   java App THREADS BACKLOG FILE             binds a free loopback port and writes it to FILE
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
import java.util.Locale;
import java.util.concurrent.Executors;
import java.util.regex.Pattern;
import sojourn.middleware.SojournHttpFilter;

public class App {
    static final boolean SILENT = "1".equals(System.getenv("LAB_SILENT"));
    static final double SLOWDOWN =
        Double.parseDouble(System.getenv().getOrDefault("LAB_SLOWDOWN", "1"));
    static final Pattern ROUTE = Pattern.compile("/[a-z0-9/_-]{1,60}");

    static void plain(HttpExchange exchange, int status, String text) throws IOException {
        byte[] body = (text + "\n").getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "text/plain");
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
        String route = query(exchange, "route", "/sleep/{seconds}");
        try {
            double seconds = Double.parseDouble(exchange.getRequestURI().getPath().substring("/sleep/".length()));
            int status = Integer.parseInt(query(exchange, "status", "200"));
            if (!(seconds >= 0 && seconds <= 86_400)) throw new NumberFormatException("seconds");
            if (status < 200 || status > 599) throw new NumberFormatException("status");
            if (!route.equals("/sleep/{seconds}") && !ROUTE.matcher(route).matches()) {
                plain(exchange, 400, "route must be a slash and a name");
                return;
            }
            long nanos = Math.round(seconds * SLOWDOWN * 1e9);
            Thread.sleep(nanos / 1_000_000, (int) (nanos % 1_000_000));
            if (!SILENT) exchange.setAttribute(SojournHttpFilter.ROUTE_ATTRIBUTE, route);
            plain(exchange, status, String.format(Locale.ROOT, "slept %s s", seconds));
        } catch (NumberFormatException error) {
            plain(exchange, 400, "seconds must be a number from 0 to 86400, status one from 200 to 599");
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] arguments) throws IOException {
        var address = new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 0);
        var server = HttpServer.create(address, Integer.parseInt(arguments[1]));
        server.setExecutor(Executors.newFixedThreadPool(Integer.parseInt(arguments[0])));
        var sleeping = server.createContext("/sleep/", App::sleeper);
        server.createContext("/ready", exchange -> plain(exchange, 200, "ready"));
        var others = server.createContext("/", each -> plain(each, 404, "there is only /sleep/<seconds> and /ready"));
        if (!SILENT) {
            sleeping.getFilters().add(new SojournHttpFilter());
            others.getFilters().add(new SojournHttpFilter());
        }
        server.start();
        // Renamed into place, so that a reader never sees half a number.
        Path written = Path.of(arguments[2] + ".partial");
        Files.writeString(written, Integer.toString(server.getAddress().getPort()));
        Files.move(written, Path.of(arguments[2]), StandardCopyOption.ATOMIC_MOVE);
    }
}
