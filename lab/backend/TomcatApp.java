// The lab's app for Tomcat: the same as app.py, in a servlet behind the filter of the Java middleware, whose sources are compiled
// with it.
//
//   java TomcatApp THREADS BACKLOG FILE       binds a free loopback port and writes it to FILE
//   /sleep/<seconds>?status=N&route=/NAME     holds a thread that long
//   /ready                                    answered without the headers of Sojourn

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;
import java.util.regex.Pattern;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;
import sojourn.middleware.SojournFilter;

public final class TomcatApp {
    static final boolean SILENT = "1".equals(System.getenv("LAB_SILENT"));
    static final double SLOWDOWN =
        Double.parseDouble(System.getenv().getOrDefault("LAB_SLOWDOWN", "1"));
    static final Pattern ROUTE = Pattern.compile("/[a-z0-9/_-]{1,60}");

    static void plain(HttpServletResponse response, int status, String text) throws IOException {
        response.setStatus(status);
        response.setContentType("text/plain");
        response.getWriter().print(text + "\n");
    }

    static final class Sleeper extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            String route = request.getParameter("route") == null ? "/sleep/{seconds}" : request.getParameter("route");
            String wanted = request.getParameter("status") == null ? "200" : request.getParameter("status");
            request.setAttribute(SojournFilter.ROUTE_ATTRIBUTE, "/sleep/{seconds}");
            try {
                double seconds = Double.parseDouble(String.valueOf(request.getPathInfo()).substring(1));
                int status = Integer.parseInt(wanted);
                if (!(seconds >= 0 && seconds <= 86_400)) throw new NumberFormatException("seconds");
                if (status < 200 || status > 599) throw new NumberFormatException("status");
                if (!route.equals("/sleep/{seconds}") && !ROUTE.matcher(route).matches()) {
                    plain(response, 400, "route must be a slash and a name");
                    return;
                }
                request.setAttribute(SojournFilter.ROUTE_ATTRIBUTE, route);
                long nanos = Math.round(seconds * SLOWDOWN * 1e9);
                Thread.sleep(nanos / 1_000_000, (int) (nanos % 1_000_000));
                plain(response, status, String.format(Locale.ROOT, "slept %s s", seconds));
            } catch (NumberFormatException error) {
                plain(response, 400, "seconds must be a number from 0 to 86400, status one from 200 to 599");
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }

    static final class Unknown extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            plain(response, 404, "there is only /sleep/<seconds> and /ready");
        }
    }

    static final class Ready extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            plain(response, 200, "ready");
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path file = Path.of(arguments[2]);
        var tomcat = new Tomcat();
        tomcat.setBaseDir(file.resolveSibling(file.getFileName() + ".tomcat").toString());
        tomcat.setPort(0);
        var connector = tomcat.getConnector();
        connector.setProperty("address", "127.0.0.1");
        connector.setProperty("maxThreads", arguments[0]);
        connector.setProperty("minSpareThreads", arguments[0]);
        connector.setProperty("acceptCount", arguments[1]);
        var context = tomcat.addContext("", file.toAbsolutePath().getParent().toString());
        Tomcat.addServlet(context, "sleeper", new Sleeper());
        context.addServletMappingDecoded("/sleep/*", "sleeper");
        Tomcat.addServlet(context, "unknown", new Unknown());
        context.addServletMappingDecoded("/", "unknown");
        Tomcat.addServlet(context, "ready", new Ready());
        context.addServletMappingDecoded("/ready", "ready");
        if (!SILENT) {
            var filter = new FilterDef();
            filter.setFilterName("sojourn");
            filter.setFilter(new SojournFilter());
            filter.setAsyncSupported("true");
            context.addFilterDef(filter);
            var map = new FilterMap();
            map.setFilterName("sojourn");
            map.addServletName("sleeper");
            map.addServletName("unknown");
            context.addFilterMap(map);
        }
        tomcat.start();
        // Renamed into place, so that a reader never sees half a number.
        Path written = Path.of(arguments[2] + ".partial");
        Files.writeString(written, Integer.toString(connector.getLocalPort()));
        Files.move(written, file, StandardCopyOption.ATOMIC_MOVE);
        tomcat.getServer().await();
    }
}
