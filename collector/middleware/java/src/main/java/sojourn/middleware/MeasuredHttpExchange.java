package sojourn.middleware;

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpContext;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpPrincipal;
import com.sun.net.httpserver.HttpsExchange;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import java.util.Collection;
import java.util.List;
import javax.net.ssl.SSLSession;

/** Sets the figures when the headers of a response are sent. It is an HttpsExchange for handlers that expect one. */
final class MeasuredHttpExchange extends HttpsExchange implements ResponseHeaders {

    private final HttpExchange target;
    private final HttpExchangeView view;
    private final Exchange exchange;
    private boolean headersSent;
    private boolean returned;

    MeasuredHttpExchange(HttpExchange target, HttpExchangeView view, Exchange exchange) {
        this.target = target;
        this.view = view;
        this.exchange = exchange;
    }

    /** Ends the request, unless its handler responds later in another thread. */
    void handlerReturned(Throwable thrown) {
        boolean ended;
        synchronized (this) {
            returned = true;
            ended = headersSent;
        }
        if (ended || thrown != null) {
            exchange.finish(ended ? 0 : 500, thrown);
        }
    }

    @Override
    public void sendResponseHeaders(int status, long length) throws IOException {
        if (target.getResponseCode() == -1) {
            // The handler's own values under the names of the figures are not sent.
            if (exchange.answers()) {
                target.getResponseHeaders().keySet().removeIf(Figures::isMeasured);
            }
            exchange.set(this, status);
        }
        target.sendResponseHeaders(status, length);
        boolean late;
        synchronized (this) {
            headersSent = true;
            late = returned;
        }
        if (late) {
            exchange.finish(0, null);
        }
    }

    @Override
    public Collection<String> values(String name) {
        List<String> values = target.getResponseHeaders().get(name);
        return values == null ? List.of() : values;
    }

    @Override
    public String contentType() {
        return target.getResponseHeaders().getFirst("Content-Type");
    }

    @Override
    public void set(String name, String value) {
        target.getResponseHeaders().set(name, value);
    }

    @Override
    public void add(String name, String value) {
        target.getResponseHeaders().add(name, value);
    }

    @Override
    public Object getAttribute(String name) {
        // The server keeps the other attributes for a whole context; a route belongs to one request.
        return SojournHttpFilter.ROUTE_ATTRIBUTE.equals(name) ? view.routeAttribute() : target.getAttribute(name);
    }

    @Override
    public void setAttribute(String name, Object value) {
        if (SojournHttpFilter.ROUTE_ATTRIBUTE.equals(name)) {
            view.setRouteAttribute(value);
        } else {
            target.setAttribute(name, value);
        }
    }

    @Override
    public SSLSession getSSLSession() {
        return target instanceof HttpsExchange https ? https.getSSLSession() : null;
    }

    @Override
    public Headers getRequestHeaders() {
        return target.getRequestHeaders();
    }

    @Override
    public Headers getResponseHeaders() {
        return target.getResponseHeaders();
    }

    @Override
    public URI getRequestURI() {
        return target.getRequestURI();
    }

    @Override
    public String getRequestMethod() {
        return target.getRequestMethod();
    }

    @Override
    public HttpContext getHttpContext() {
        return target.getHttpContext();
    }

    @Override
    public void close() {
        target.close();
        // A handler in another thread can close an exchange to which it has not responded.
        exchange.finish(0, null);
    }

    @Override
    public InputStream getRequestBody() {
        return target.getRequestBody();
    }

    @Override
    public OutputStream getResponseBody() {
        return target.getResponseBody();
    }

    @Override
    public InetSocketAddress getRemoteAddress() {
        return target.getRemoteAddress();
    }

    @Override
    public int getResponseCode() {
        return target.getResponseCode();
    }

    @Override
    public InetSocketAddress getLocalAddress() {
        return target.getLocalAddress();
    }

    @Override
    public String getProtocol() {
        return target.getProtocol();
    }

    @Override
    public void setStreams(InputStream input, OutputStream output) {
        target.setStreams(input, output);
    }

    @Override
    public HttpPrincipal getPrincipal() {
        return target.getPrincipal();
    }
}
