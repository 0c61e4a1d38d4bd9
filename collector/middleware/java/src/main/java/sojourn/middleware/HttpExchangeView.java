package sojourn.middleware;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpsExchange;
import java.util.List;
import java.util.function.Function;

/** A request of the JDK's own HTTP server. */
final class HttpExchangeView implements RequestView {

    private final HttpExchange exchange;
    private final Function<? super HttpExchange, String> routeFunction;
    private volatile Object routeAttribute;

    HttpExchangeView(HttpExchange exchange, Function<? super HttpExchange, String> routeFunction) {
        this.exchange = exchange;
        this.routeFunction = routeFunction;
    }

    Object routeAttribute() {
        return routeAttribute;
    }

    void setRouteAttribute(Object value) {
        routeAttribute = value;
    }

    @Override
    public String header(String name) {
        return exchange.getRequestHeaders().getFirst(name);
    }

    @Override
    public boolean isRepeated(String name) {
        List<String> values = exchange.getRequestHeaders().get(name);
        return values.size() > 1;
    }

    @Override
    public String route() {
        String chosen = routeFunction.apply(exchange);
        if (chosen != null && !chosen.isEmpty()) {
            return chosen;
        }
        Object attribute = routeAttribute;
        return attribute == null ? null : attribute.toString();
    }

    @Override
    public String pattern() {
        String path = exchange.getHttpContext().getPath();
        return "/".equals(path) ? null : path;
    }

    @Override
    public String method() {
        return exchange.getRequestMethod();
    }

    @Override
    public String path() {
        return exchange.getRequestURI().getRawPath();
    }

    @Override
    public String scheme() {
        return exchange instanceof HttpsExchange ? "https" : "http";
    }

    @Override
    public String protocol() {
        return exchange.getProtocol();
    }

    @Override
    public String serverName() {
        String host = header("Host");
        if (host == null || host.isEmpty()) {
            return exchange.getLocalAddress().getAddress().getHostAddress();
        }
        int colon = portColon(host);
        return colon < 0 ? host : host.substring(0, colon);
    }

    @Override
    public int serverPort() {
        String host = header("Host");
        if (host == null || host.isEmpty()) {
            return exchange.getLocalAddress().getPort();
        }
        int colon = portColon(host);
        String port = colon < 0 ? "" : host.substring(colon + 1);
        return port.matches("[0-9]{1,5}") ? Integer.parseInt(port) : 0;
    }

    /** Returns the index of the colon before the port; negative without one. An IPv6 address ends with a bracket. */
    private static int portColon(String host) {
        int colon = host.lastIndexOf(':');
        return colon > host.lastIndexOf(']') ? colon : -1;
    }
}
