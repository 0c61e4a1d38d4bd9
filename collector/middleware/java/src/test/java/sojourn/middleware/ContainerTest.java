package sojourn.middleware;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.Filter;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.WriteListener;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpServletResponseWrapper;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/** The filter in a real servlet container; the clock moves only where a servlet moves it, so that every figure is exact. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class ContainerTest {

    private static final int TOGETHER = 3;
    private static final String HELLO = "hello";

    final ManualClock clock = new ManualClock(1_767_225_600_000_000_000L);
    private final AtomicInteger inService = new AtomicInteger();
    private final CyclicBarrier together = new CyclicBarrier(TOGETHER);
    private final ExecutorService pool = Executors.newCachedThreadPool();
    private Server server;
    private Client client;

    abstract Server start(Server.App app) throws IOException;

    /** A servlet for all methods. */
    @FunctionalInterface
    interface Service {
        void serve(HttpServletRequest request, HttpServletResponse response) throws IOException, ServletException;
    }

    private static HttpServlet servlet(Service service) {
        return new HttpServlet() {
            @Override
            protected void service(HttpServletRequest request, HttpServletResponse response)
                    throws IOException, ServletException {
                service.serve(request, response);
            }
        };
    }

    @BeforeAll
    void startServer() throws IOException {
        Server.App app = new Server.App();
        SojournFilter outer = SojournFilter.builder().clock(clock).serverTiming(true).build();
        SojournFilter inner = SojournFilter.builder().clock(clock).build();
        Filter counting = (request, response, chain) -> {
            inService.incrementAndGet();
            try {
                chain.doFilter(request, response);
            } finally {
                inService.decrementAndGet();
            }
        };
        app.filters = List.of(counting, outer, inner);
        app.errorPageStatus = 404;
        app.errorPage = "/error-page";
        addPlain(app);
        addAsync(app);
        server = start(app);
        client = new Client(server.port());
    }

    @AfterAll
    void stopServer() {
        server.close();
        pool.shutdown();
    }

    private void addPlain(Server.App app) {
        app.servlets.put("/hello", servlet((request, response) -> {
            clock.advanceMillis(250);
            response.setContentType("text/plain");
            response.getWriter().print(HELLO);
        }));
        app.servlets.put("/empty", servlet((request, response) -> {
            clock.advanceMillis(250);
            response.setStatus(Integer.parseInt(request.getParameter("status")));
        }));
        // The buffer is filled by pieces of a quarter, between which time passes: the fifth commits the response.
        app.servlets.put("/pieces/*", servlet((request, response) -> {
            int piece = response.getBufferSize() / 4;
            boolean writes = request.getPathInfo().equals("/writer");
            OutputStream stream = writes ? null : response.getOutputStream();
            PrintWriter writer = writes ? response.getWriter() : null;
            for (int count = 0; count < 12; count++) {
                clock.advanceMillis(100);
                if (writes) {
                    writer.print("x".repeat(piece));
                } else {
                    stream.write(new byte[piece]);
                }
            }
        }));
        app.servlets.put("/large", servlet((request, response) -> {
            clock.advanceMillis(250);
            response.getOutputStream().write(new byte[4 * response.getBufferSize()]);
            clock.advanceMillis(1000);
        }));
        app.servlets.put("/bytes/*", servlet((request, response) -> {
            int count = 2 * response.getBufferSize();
            boolean writes = request.getPathInfo().equals("/writer");
            for (int each = 0; each < count; each++) {
                clock.advanceNanos(1000);
                if (writes) {
                    response.getWriter().write('x');
                } else {
                    response.getOutputStream().write('x');
                }
            }
        }));
        app.servlets.put("/length", servlet((request, response) -> {
            response.setContentLength(HELLO.length());
            clock.advanceMillis(250);
            response.getOutputStream().print(HELLO);
            clock.advanceMillis(1000);
        }));
        app.servlets.put("/flush/*", servlet((request, response) -> {
            clock.advanceMillis(250);
            switch (request.getPathInfo()) {
                case "/buffer" -> response.flushBuffer();
                case "/stream" -> response.getOutputStream().flush();
                case "/writer" -> response.getWriter().flush();
                case "/check" -> assertFalse(response.getWriter().checkError());
                case "/close" -> response.getWriter().close();
                default -> throw new IllegalArgumentException(request.getPathInfo());
            }
            clock.advanceMillis(1000);
        }));
        app.servlets.put("/reset", servlet((request, response) -> {
            response.getWriter().print("discarded");
            response.setHeader("X-Discarded", "1");
            response.reset();
            clock.advanceMillis(250);
            response.getOutputStream().print(HELLO);
        }));
        app.servlets.put("/buffer-size", servlet((request, response) -> {
            response.setBufferSize(64_000);
            clock.advanceMillis(100);
            response.getOutputStream().write(new byte[40_000]);
            clock.advanceMillis(150);
        }));
        app.servlets.put("/error/*", servlet((request, response) -> {
            clock.advanceMillis(250);
            response.sendError(Integer.parseInt(request.getPathInfo().substring(1)), "refused");
        }));
        app.servlets.put("/error-page", servlet((request, response) -> {
            assertEquals(DispatcherType.ERROR, request.getDispatcherType());
            request.setAttribute("sojourn.route", "/of-the-error-page");
            clock.advanceMillis(500);
            response.getWriter().print("error page");
        }));
        app.servlets.put("/redirect", servlet((request, response) -> {
            clock.advanceMillis(250);
            response.sendRedirect("/hello");
        }));
        app.servlets.put("/throws", servlet((request, response) -> {
            clock.advanceMillis(250);
            throw new ServletException("on purpose");
        }));
        app.servlets.put("/forward", servlet((request, response) -> {
            clock.advanceMillis(250);
            request.getRequestDispatcher("/hello").forward(request, response);
        }));
        app.servlets.put("/include", servlet((request, response) -> {
            request.getRequestDispatcher("/hello").include(request, response);
            clock.advanceMillis(250);
        }));
        app.servlets.put("/route", servlet((request, response) -> {
            if (request.getParameter("attribute") != null) {
                request.setAttribute("sojourn.route", request.getParameter("attribute"));
            }
            if (request.getParameter("header") != null) {
                response.setHeader("X-Route", request.getParameter("header"));
            }
            if (request.getParameter("spring") != null) {
                String name = "org.springframework.web.servlet.HandlerMapping.bestMatchingPattern";
                request.setAttribute(name, request.getParameter("spring"));
            }
        }));
        app.servlets.put("/own-figures", servlet((request, response) -> {
            response.setHeader("X-Service-Time", "99");
            response.addHeader("x-queueing-delay", "99");
            response.addHeader("X-Worker", "mine");
            response.setIntHeader("X-Service-Time", 99);
            response.addIntHeader("X-Service-Time", 99);
            response.addHeader("Server-Timing", "db;dur=1");
            response.addHeader("Server-Timing", "cache;dur=2");
            response.setIntHeader("X-Other", 1);
            response.addIntHeader("X-Other", 2);
            response.flushBuffer();
        }));
        app.servlets.put("/together", servlet((request, response) -> {
            try {
                together.await(20, TimeUnit.SECONDS);
            } catch (InterruptedException | BrokenBarrierException | TimeoutException error) {
                throw new ServletException(error);
            }
        }));
        app.servlets.put("/", servlet((request, response) -> response.getWriter().print("default")));
    }

    private void addAsync(Server.App app) {
        // The app responds with the context's response, with the one of the call, or in a wrapper of its own.
        app.servlets.put("/async/*", servlet((request, response) -> {
            clock.advanceMillis(100);
            AsyncContext context = switch (request.getPathInfo()) {
                case "/arguments" -> request.startAsync(request, response);
                case "/wrapped" -> request.startAsync(
                        new HttpServletRequestWrapper(request), new HttpServletResponseWrapper(response));
                default -> request.startAsync();
            };
            assertEquals(request.getPathInfo().equals("/original"), context.hasOriginalRequestAndResponse());
            pool.execute(() -> {
                try {
                    clock.advanceMillis(400);
                    context.getResponse().getWriter().print(HELLO);
                    clock.advanceMillis(100);
                    request.getAsyncContext().complete();
                } catch (IOException error) {
                    throw new IllegalStateException(error);
                }
            });
        }));
        app.servlets.put("/async-flush", servlet((request, response) -> {
            AsyncContext context = request.startAsync();
            context.start(() -> {
                try {
                    clock.advanceMillis(250);
                    context.getResponse().flushBuffer();
                    clock.advanceMillis(1000);
                    context.complete();
                } catch (IOException error) {
                    throw new IllegalStateException(error);
                }
            });
        }));
        app.servlets.put("/async-dispatch", servlet((request, response) -> {
            if (request.getDispatcherType() == DispatcherType.ASYNC) {
                clock.advanceMillis(50);
                response.getWriter().print(HELLO);
                clock.advanceMillis(50);
                return;
            }
            AsyncContext context = request.startAsync();
            pool.execute(() -> {
                clock.advanceMillis(150);
                context.dispatch();
            });
        }));
        app.servlets.put("/async-timeout", servlet((request, response) -> {
            AsyncContext context = request.startAsync();
            context.setTimeout(200);
        }));
        app.servlets.put("/async-listener", servlet((request, response) -> {
            AsyncContext context = request.startAsync();
            context.setTimeout(0);
            assertEquals(0, context.getTimeout());
            clock.advanceMillis(250);
            context.getResponse().getOutputStream().setWriteListener(new WriteListener() {
                @Override
                public void onWritePossible() throws IOException {
                    ServletOutputStream stream = context.getResponse().getOutputStream();
                    if (stream.isReady()) {
                        stream.print(HELLO);
                        context.complete();
                    }
                }

                @Override
                public void onError(Throwable error) {
                    context.complete();
                }
            });
        }));
    }

    /** Waits until no servlet moves the clock any more: a response can end before its servlet. */
    @AfterEach
    void waitForServlets() {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (inService.get() > 0) {
            assertTrue(System.nanoTime() < deadline, "a servlet is still running");
            Thread.onSpinWait();
        }
    }

    Client.Reply get(String path) throws IOException {
        waitForServlets();
        Client.Reply reply = client.get(path, "X-Request-Start", clock.stamp(300));
        assertNotNull(reply.header("X-Worker"), reply.toString());
        return reply;
    }

    private void assertFigures(Client.Reply reply, String serviceTime) {
        assertEquals("0.300000", reply.header("X-Queueing-Delay"));
        assertEquals(serviceTime, reply.header("X-Service-Time"));
        String millis = String.valueOf(Math.round(Double.parseDouble(serviceTime) * 1000));
        assertEquals("queue;dur=300.000, app;dur=" + millis + ".000", reply.header("Server-Timing"));
    }

    @Test
    void measuresBufferedResponse() throws IOException {
        Client.Reply reply = get("/hello");
        assertFigures(reply, "0.250000");
        assertEquals(HELLO, reply.body());
        assertEquals("/hello", reply.header("X-Route"));
        assertTrue(Pattern.matches(ProcessHandle.current().pid() + "\\.[1-9][0-9]*", reply.header("X-Worker")));
    }

    @Test
    void measuresResponsesWithoutBody() throws IOException {
        assertFigures(get("/empty?status=204"), "0.250000");
        assertFigures(get("/empty?status=304"), "0.250000");
        Client.Reply head = client.send("HEAD", "/hello", "X-Request-Start", clock.stamp(300));
        assertFigures(head, "0.250000");
        assertEquals("", head.body());
    }

    @Test
    void serviceTimeOfStreamEndsWithCommit() throws IOException {
        assertCommittedByPieces(get("/pieces/stream"));
    }

    @Test
    void serviceTimeOfWriterEndsWithCommit() throws IOException {
        assertCommittedByPieces(get("/pieces/writer"));
    }

    private static void assertCommittedByPieces(Client.Reply reply) {
        // A container commits when its buffer of four pieces is full; Tomcat's characters have another buffer before it.
        double service = Double.parseDouble(reply.header("X-Service-Time"));
        assertTrue(service >= 0.4 && service <= 0.9, reply.headers().toString());
    }

    @Test
    void serviceTimeOfLargeResponseEndsWithItsWrite() throws IOException {
        assertFigures(get("/large"), "0.250000");
    }

    @Test
    void serviceTimeOfSingleBytesEndsAtMostFreshNanosBeforeCommit() throws IOException {
        for (String path : List.of("/bytes/stream", "/bytes/writer")) {
            Client.Reply reply = get(path);
            int size = bodySize(reply);
            double service = Double.parseDouble(reply.header("X-Service-Time"));
            // The buffer is half of the body, and each byte takes a microsecond.
            assertTrue(service > size / 2 * 0.9e-6 && service <= size * 1e-6, service + " s, " + size + " bytes");
        }
    }

    private static int bodySize(Client.Reply reply) {
        return (int) reply.body().chars().filter(letter -> letter == 'x').count();
    }

    @Test
    void serviceTimeEndsWithContentLength() throws IOException {
        Client.Reply reply = get("/length");
        assertEquals(HELLO, reply.body());
        // Jetty commits with the last byte of the content length, Tomcat at the end of the servlet.
        assertFigures(reply, "0.250000");
    }

    @Test
    void serviceTimeEndsWithFlush() throws IOException {
        for (String kind : List.of("buffer", "stream", "writer", "check", "close")) {
            Client.Reply reply = get("/flush/" + kind);
            assertFigures(reply, "0.250000");
            assertEquals("/flush/*", reply.header("X-Route"));
        }
    }

    @Test
    void survivesReset() throws IOException {
        Client.Reply reply = get("/reset");
        assertFigures(reply, "0.250000");
        assertNull(reply.header("X-Discarded"));
        assertEquals(HELLO, reply.body());
    }

    @Test
    void largerBufferDelaysCommit() throws IOException {
        Client.Reply reply = get("/buffer-size");
        double service = Double.parseDouble(reply.header("X-Service-Time"));
        assertTrue(service == 0.25 || service == 0.1, reply.headers().toString());
    }

    @Test
    void measuresErrorResponses() throws IOException {
        Client.Reply reply = get("/error/403");
        assertEquals(403, reply.status());
        assertFigures(reply, "0.250000");
    }

    @Test
    void errorPageBelongsToServiceTimeAndKeepsRoute() throws IOException {
        Client.Reply reply = get("/error/404");
        assertEquals(404, reply.status());
        assertEquals("error page", reply.body());
        assertFigures(reply, "0.750000");
        assertEquals("/error/*", reply.header("X-Route"));
    }

    @Test
    void measuresRedirect() throws IOException {
        Client.Reply reply = get("/redirect");
        assertEquals(302, reply.status());
        assertTrue(reply.header("Location").endsWith("/hello"));
        assertFigures(reply, "0.250000");
    }

    @Test
    void exceptionReachesContainer() throws IOException {
        assertEquals(500, client.get("/throws").status());
    }

    @Test
    void forwardAndIncludeAreOneRequest() throws IOException {
        Client.Reply forward = get("/forward");
        assertFigures(forward, "0.500000");
        assertEquals(HELLO, forward.body());
        assertEquals("/forward", forward.header("X-Route"));
        Client.Reply include = get("/include");
        assertFigures(include, "0.500000");
        assertEquals(HELLO, include.body());
    }

    @Test
    void selectsRoute() throws IOException {
        assertEquals("/a/{id}", get("/route?attribute=/a/%7Bid%7D&header=/b&spring=/c").header("X-Route"));
        assertEquals("/c", get("/route?header=/b&spring=/c").header("X-Route"));
        assertEquals("/b", get("/route?header=/b").header("X-Route"));
        assertEquals("/route", get("/route").header("X-Route"));
        assertNull(get("/default/7").header("X-Route"));
    }

    @Test
    void replacesFiguresOfAppAndKeepsItsServerTiming() throws IOException {
        Client.Reply reply = get("/own-figures");
        assertEquals("0.300000", reply.header("X-Queueing-Delay"));
        assertEquals("0.000000", reply.header("X-Service-Time"));
        assertTrue(reply.header("X-Worker").startsWith(ProcessHandle.current().pid() + "."));
        List<String> timing = List.of("db;dur=1", "cache;dur=2", "queue;dur=300.000, app;dur=0.000");
        assertEquals(timing, reply.values("Server-Timing"));
        assertEquals(List.of("1", "2"), reply.values("X-Other"));
    }

    @Test
    void headersOfAppRemainWithoutStamp() throws IOException {
        Client.Reply reply = client.get("/own-figures");
        assertNull(reply.header("X-Route"));
        assertEquals(List.of("99"), reply.values("X-Queueing-Delay"));
        assertEquals(List.of("99", "99"), reply.values("X-Service-Time"));
        assertEquals(List.of("mine"), reply.values("X-Worker"));
        assertEquals(List.of("db;dur=1", "cache;dur=2", "app;dur=0.000"), reply.values("Server-Timing"));
    }

    @Test
    void threadsOfParallelRequestsHaveDifferentNumbers() throws Exception {
        List<Future<Client.Reply>> replies = new ArrayList<>();
        for (int each = 0; each < TOGETHER; each++) {
            replies.add(pool.submit(() -> client.get("/together", "X-Request-Start", "junk")));
        }
        List<String> workers = new ArrayList<>();
        for (Future<Client.Reply> reply : replies) {
            workers.add(reply.get(20, TimeUnit.SECONDS).header("X-Worker"));
        }
        assertEquals(TOGETHER, workers.stream().distinct().count(), workers.toString());
    }

    @Test
    void asynchronousResponseIsMeasuredToItsCompletion() throws IOException {
        for (String kind : List.of("original", "arguments", "wrapped")) {
            Client.Reply reply = get("/async/" + kind);
            assertEquals(HELLO, reply.body());
            assertFigures(reply, "0.600000");
            assertEquals("/async/*", reply.header("X-Route"));
        }
    }

    @Test
    void asynchronousResponseIsMeasuredToItsFlush() throws IOException {
        assertFigures(get("/async-flush"), "0.250000");
    }

    @Test
    void asynchronousDispatchIsMeasuredToItsEnd() throws IOException {
        Client.Reply reply = get("/async-dispatch");
        assertEquals(HELLO, reply.body());
        assertFigures(reply, "0.250000");
    }

    @Test
    void asynchronousTimeoutIsMeasured() throws IOException {
        Client.Reply reply = get("/async-timeout");
        assertEquals(500, reply.status());
        assertFigures(reply, "0.000000");
    }

    @Test
    void writeListenerIsMeasured() throws IOException {
        Client.Reply reply = get("/async-listener");
        assertEquals(HELLO, reply.body());
        assertFigures(reply, "0.250000");
    }
}
