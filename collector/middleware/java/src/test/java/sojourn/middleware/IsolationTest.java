package sojourn.middleware;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.Test;

/** The filters without the libraries that are optional. */
class IsolationTest {

    /** Returns a class loader of the tests' class path without the jars whose paths contain one of the words. */
    private static URLClassLoader without(String... words) throws MalformedURLException {
        List<URL> urls = new ArrayList<>();
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (Arrays.stream(words).noneMatch(entry::contains)) {
                urls.add(Path.of(entry).toUri().toURL());
            }
        }
        return new URLClassLoader(urls.toArray(URL[]::new), ClassLoader.getPlatformClassLoader());
    }

    @SuppressWarnings("unchecked")
    private static String run(Class<? extends Callable<String>> task, ClassLoader loader) throws Exception {
        Thread thread = Thread.currentThread();
        ClassLoader previous = thread.getContextClassLoader();
        thread.setContextClassLoader(loader);
        try {
            Constructor<?> isolated = Class.forName(task.getName(), true, loader).getDeclaredConstructor();
            isolated.setAccessible(true);
            return ((Callable<String>) isolated.newInstance()).call();
        } finally {
            thread.setContextClassLoader(previous);
        }
    }

    /** Serves one request by Jetty; Tomcat cannot be loaded twice in a process. */
    static final class InJetty implements Callable<String> {
        @Override
        public String call() throws IOException {
            Server.App app = new Server.App();
            app.filters = List.of(new SojournFilter());
            app.initParameters = Map.of("telemetry", "true", "prometheus", "true");
            app.servlets.put("/", new HttpServlet() {
                @Override
                protected void doGet(HttpServletRequest request, HttpServletResponse response) {
                    response.setStatus(HttpServletResponse.SC_NO_CONTENT);
                }
            });
            try (Server server = Server.jetty(app)) {
                return String.valueOf(new Client(server.port()).get("/", "X-Request-Start", "junk").header("X-Worker"));
            }
        }
    }

    /** Serves one request by the JDK's server. */
    static final class InHttpServer implements Callable<String> {
        @Override
        public String call() throws IOException {
            HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
            server.createContext("/", exchange -> {
                        exchange.sendResponseHeaders(204, -1);
                        exchange.close();
                    })
                    .getFilters()
                    .add(new SojournHttpFilter());
            server.start();
            try {
                return String.valueOf(new Client(server.getAddress().getPort()).get("/", "X-Request-Start", "junk").header("X-Worker"));
            } finally {
                server.stop(0);
            }
        }
    }

    private static final String FIRST_WORKER = ProcessHandle.current().pid() + ".1";

    @Test
    void servletFilterNeedsNeitherOpenTelemetryNorMicrometerNorSpring() throws Exception {
        try (URLClassLoader loader = without("opentelemetry", "micrometer", "spring");
                Warnings warnings = new Warnings()) {
            assertThrows(ClassNotFoundException.class, () -> loader.loadClass("io.opentelemetry.api.OpenTelemetry"));
            assertThrows(ClassNotFoundException.class, () -> loader.loadClass("io.micrometer.core.instrument.Metrics"));
            assertEquals(FIRST_WORKER, run(InJetty.class, loader));
            assertEquals(FIRST_WORKER, run(InJetty.class, loader));
            // The option prometheus is on.
            assertEquals(1, warnings.messages().size(), warnings.messages().toString());
            assertTrue(warnings.messages().get(0).contains("Micrometer"));
        }
    }

    @Test
    void httpServerFilterNeedsOnlyTheJdk() throws Exception {
        try (URLClassLoader loader = without("opentelemetry", "micrometer", "spring", "tomcat", "jetty", "servlet")) {
            assertThrows(ClassNotFoundException.class, () -> loader.loadClass("jakarta.servlet.Filter"));
            assertEquals(FIRST_WORKER, run(InHttpServer.class, loader));
        }
    }
}
