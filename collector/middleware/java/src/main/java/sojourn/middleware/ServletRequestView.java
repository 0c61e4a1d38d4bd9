package sojourn.middleware;

import jakarta.servlet.http.HttpServletMapping;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.MappingMatch;
import java.util.Enumeration;
import java.util.function.Function;

/** A request of a servlet container. */
final class ServletRequestView implements RequestView {

    /** {@code HandlerMapping.BEST_MATCHING_PATTERN_ATTRIBUTE} of Spring MVC. */
    private static final String SPRING_PATTERN = "org.springframework.web.servlet.HandlerMapping.bestMatchingPattern";

    private final HttpServletRequest request;
    private final Function<? super HttpServletRequest, String> routeFunction;

    ServletRequestView(HttpServletRequest request, Function<? super HttpServletRequest, String> routeFunction) {
        this.request = request;
        this.routeFunction = routeFunction;
    }

    @Override
    public String header(String name) {
        return request.getHeader(name);
    }

    @Override
    public boolean isRepeated(String name) {
        Enumeration<String> values = request.getHeaders(name);
        values.nextElement();
        return values.hasMoreElements();
    }

    @Override
    public String route() {
        String chosen = routeFunction.apply(request);
        if (chosen != null && !chosen.isEmpty()) {
            return chosen;
        }
        Object attribute = request.getAttribute(SojournFilter.ROUTE_ATTRIBUTE);
        if (attribute != null) {
            return attribute.toString();
        }
        Object spring = request.getAttribute(SPRING_PATTERN);
        return spring == null ? null : request.getContextPath() + spring;
    }

    @Override
    public String pattern() {
        HttpServletMapping mapping = request.getHttpServletMapping();
        MappingMatch match = mapping.getMappingMatch();
        boolean everything = match == null || match == MappingMatch.DEFAULT || "/*".equals(mapping.getPattern());
        if (everything) {
            return null;
        }
        String pattern = match == MappingMatch.CONTEXT_ROOT ? "/" : mapping.getPattern();
        return request.getContextPath() + pattern;
    }

    @Override
    public String method() {
        return request.getMethod();
    }

    @Override
    public String path() {
        return request.getRequestURI();
    }

    @Override
    public String scheme() {
        return request.getScheme();
    }

    @Override
    public String protocol() {
        return request.getProtocol();
    }

    @Override
    public String serverName() {
        return request.getServerName();
    }

    @Override
    public int serverPort() {
        return request.getServerPort();
    }
}
