package sojourn.middleware;

import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpServletResponseWrapper;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Collection;

/**
 * Sets the figures each time that the response may be committed next; the last values before the commit are sent.
 *
 * <p>A container commits in any write that fills its buffer, reaches the content length or is large, each by its own rule, so
 * that the figures are set before every write. After a small write they are kept for {@link #FRESH_NANOS}, which limits the
 * cost of a response that is written byte by byte.
 */
final class MeasuredResponse extends HttpServletResponseWrapper implements ResponseHeaders {

    /** Bytes or characters. */
    private static final int SMALL = 512;

    private static final long FRESH_NANOS = 50_000;

    /** Servlet 6.1 and later: {@code sendRedirect(String, int, boolean)}; null before. */
    private static final MethodHandle SEND_REDIRECT = sendRedirectOrNull();

    private final Exchange exchange;
    private boolean committed;
    private boolean hasFigures;
    private long setAt;
    private MeasuredStream stream;
    private MeasuredWriter writer;

    MeasuredResponse(HttpServletResponse response, Exchange exchange) {
        super(response);
        this.exchange = exchange;
    }

    private static MethodHandle sendRedirectOrNull() {
        try {
            MethodType type = MethodType.methodType(void.class, String.class, int.class, boolean.class);
            return MethodHandles.publicLookup().findVirtual(HttpServletResponse.class, "sendRedirect", type);
        } catch (ReflectiveOperationException beforeServlet61) {
            return null;
        }
    }

    private HttpServletResponse target() {
        return (HttpServletResponse) getResponse();
    }

    /** Sets the figures of this moment, unless the response is committed. */
    void setFigures() {
        if (committed) {
            return;
        }
        HttpServletResponse target = target();
        if (target.isCommitted()) {
            committed = true;
            return;
        }
        exchange.set(this, target.getStatus());
        hasFigures = true;
        setAt = exchange.now();
    }

    /** Sets the figures before a write of bytes or characters, unless they are fresh enough. */
    void beforeWrite(int size) {
        if (committed) {
            return;
        }
        boolean fresh = hasFigures && size < SMALL && exchange.now() - setAt < FRESH_NANOS;
        if (!fresh) {
            setFigures();
        }
    }

    // Headers of the figures go to the container itself.

    @Override
    public Collection<String> values(String name) {
        return target().getHeaders(name);
    }

    @Override
    public String contentType() {
        return target().getContentType();
    }

    @Override
    public void set(String name, String value) {
        target().setHeader(name, value);
    }

    @Override
    public void add(String name, String value) {
        target().addHeader(name, value);
    }

    // Values of the app under the names of the figures are not sent, if the response has the figures.

    @Override
    public void setHeader(String name, String value) {
        if (!exchange.answers() || !Figures.isMeasured(name)) {
            super.setHeader(name, value);
        }
    }

    @Override
    public void addHeader(String name, String value) {
        if (!exchange.answers() || !Figures.isMeasured(name)) {
            super.addHeader(name, value);
        }
    }

    @Override
    public void setIntHeader(String name, int value) {
        if (!exchange.answers() || !Figures.isMeasured(name)) {
            super.setIntHeader(name, value);
        }
    }

    @Override
    public void addIntHeader(String name, int value) {
        if (!exchange.answers() || !Figures.isMeasured(name)) {
            super.addIntHeader(name, value);
        }
    }

    // What may commit the response, or what the container treats as its end.

    @Override
    public ServletOutputStream getOutputStream() throws IOException {
        ServletOutputStream target = super.getOutputStream();
        if (stream == null || stream.target() != target) {
            stream = new MeasuredStream(target, this);
        }
        return stream;
    }

    @Override
    public PrintWriter getWriter() throws IOException {
        PrintWriter target = super.getWriter();
        if (writer == null || writer.target() != target) {
            writer = new MeasuredWriter(target, this);
        }
        return writer;
    }

    @Override
    public void flushBuffer() throws IOException {
        setFigures();
        super.flushBuffer();
    }

    @Override
    public void reset() {
        super.reset();
        hasFigures = false;
    }

    @Override
    public void sendError(int status) throws IOException {
        setFigures();
        super.sendError(status);
    }

    @Override
    public void sendError(int status, String message) throws IOException {
        setFigures();
        super.sendError(status, message);
    }

    @Override
    public void sendRedirect(String location) throws IOException {
        setFigures();
        super.sendRedirect(location);
    }

    /** Overrides the method of Servlet 6.1; in earlier versions it is not called. */
    public void sendRedirect(String location, int status, boolean clearBuffer) throws IOException {
        setFigures();
        try {
            SEND_REDIRECT.invokeExact(target(), location, status, clearBuffer);
        } catch (IOException | RuntimeException | Error error) {
            throw error;
        } catch (Throwable unexpected) {
            throw new IllegalStateException(unexpected);
        }
    }
}
