// The cost that the Java filter adds to a request: a trivial servlet's code is called with and without the filter, many times inside
// one request to Tomcat, with the request and the response of Tomcat itself.
//
//   java MiddlewareBench CALLS ROUNDS FILE    prints microseconds of processor time per call for each round: without, with

import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Collections;
import java.util.Locale;
import org.apache.catalina.startup.Tomcat;
import sojourn.middleware.SojournFilter;

public final class MiddlewareBench {
    private static final int WARM_UP = 5;

    static final class Measuring extends HttpServlet {
        private static final long serialVersionUID = 1;
        private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
        private final int calls;
        private final int rounds;

        Measuring(int calls, int rounds) {
            this.calls = calls;
            this.rounds = rounds;
        }

        private static void serve(ServletRequest request, ServletResponse response) throws IOException {
            response.setContentType("text/plain");
            response.getWriter().print("ok\n");
        }

        private double micros(HttpServletRequest request, HttpServletResponse response, SojournFilter filter)
                throws IOException, ServletException {
            FilterChain chain = Measuring::serve;
            long begin = THREADS.getCurrentThreadCpuTime();
            for (int call = 0; call < calls; call++) {
                if (filter == null) {
                    chain.doFilter(request, response);
                } else {
                    filter.doFilter(request, response, chain);
                }
                // As before the next request: no header, no body, no attribute.
                response.reset();
                for (String name : Collections.list(request.getAttributeNames())) {
                    request.removeAttribute(name);
                }
            }
            return (THREADS.getCurrentThreadCpuTime() - begin) / 1e3 / calls;
        }

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException, ServletException {
            var filter = new SojournFilter();
            var text = new StringBuilder();
            for (int round = -WARM_UP; round < rounds; round++) {
                double bare = micros(request, response, null);
                double measured = micros(request, response, filter);
                if (round >= 0) text.append(String.format(Locale.ROOT, "%.6f %.6f%n", bare, measured));
            }
            filter.doFilter(request, response, Measuring::serve);
            String delay = response.getHeader("X-Queueing-Delay");
            if (delay == null || !"/items/*".equals(response.getHeader("X-Route"))) {
                throw new ServletException("the filter has set no headers");
            }
            response.reset();
            response.getWriter().print(text);
        }
    }

    public static void main(String[] arguments) throws Exception {
        var tomcat = new Tomcat();
        tomcat.setBaseDir(arguments[2]);
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        var context = tomcat.addContext("", arguments[2]);
        Tomcat.addServlet(context, "measuring", new Measuring(Integer.parseInt(arguments[0]), Integer.parseInt(arguments[1])));
        context.addServletMappingDecoded("/items/*", "measuring");
        tomcat.start();
        long now = System.currentTimeMillis();
        var request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + tomcat.getConnector().getLocalPort() + "/items/12345"))
                .header("X-Request-Start", String.format(Locale.ROOT, "t=%d.%03d", now / 1000, now % 1000))
                .header("X-Request-ID", "4bf92f3577b34da6a3ce929d0e0e4736")
                .build();
        System.out.print(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
        tomcat.stop();
        tomcat.destroy();
        System.exit(0);
    }
}
