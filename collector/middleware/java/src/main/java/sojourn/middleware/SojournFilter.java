package sojourn.middleware;

import jakarta.servlet.DispatcherType;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.FilterConfig;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletRequestWrapper;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.ServletResponseWrapper;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.Enumeration;
import java.util.function.Function;

/**
 * Servlet filter that answers every request with its queueing delay and service time.
 *
 * <p>Queueing delay: from the proxy's stamp to the call of this filter. Service time: from that call to the commit of the
 * response. Register it before all other filters, for {@code /*}, with support of asynchronous requests and for the
 * dispatches {@code REQUEST}, {@code ASYNC} and {@code ERROR}. If several are registered, only the outer one measures.
 *
 * <p>Options come from a {@link Builder}, or from the init-params {@code maxAge}, {@code maxFuture} and {@code clockOffset}
 * (seconds, with decimals), {@code serverTiming}, {@code alwaysAnswer}, {@code telemetry} and {@code prometheus}
 * ({@code true} or {@code false}), {@code service} and {@code prometheusName} of a filter that the container creates.
 */
public final class SojournFilter implements Filter {

    /** Attribute of the request in which an app can set the template of its route: {@code sojourn.route}. */
    public static final String ROUTE_ATTRIBUTE = "sojourn.route";

    private static final String EXCHANGE_ATTRIBUTE = "sojourn.middleware.exchange";

    private final Builder builder;
    private volatile Measurement measurement;

    /** Creates a filter with the default options and those of its init-params. */
    public SojournFilter() {
        this(builder());
    }

    private SojournFilter(Builder builder) {
        this.builder = builder;
        this.measurement = builder.measurement();
    }

    /**
     * Returns a builder with the default options.
     *
     * @return a new builder
     */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * Reads the init-params; those that are present replace options of the builder.
     *
     * @param config of the filter
     * @throws ServletException if a parameter is unknown or its value invalid
     */
    @Override
    public void init(FilterConfig config) throws ServletException {
        Enumeration<String> names = config.getInitParameterNames();
        while (names.hasMoreElements()) {
            String name = names.nextElement();
            String value = config.getInitParameter(name);
            try {
                builder.set(name, value.trim());
            } catch (IllegalArgumentException | ArithmeticException error) {
                String filter = "filter " + config.getFilterName() + ": init-param " + name + "=" + value;
                throw new ServletException(filter + ": " + error.getMessage(), error);
            }
        }
        measurement = builder.measurement();
    }

    @Override
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        if (!(request instanceof HttpServletRequest httpRequest) || !(response instanceof HttpServletResponse httpResponse)) {
            chain.doFilter(request, response);
            return;
        }
        Object earlier = request.getAttribute(EXCHANGE_ATTRIBUTE);
        if (earlier == null) {
            measure(httpRequest, httpResponse, chain);
        } else if (earlier instanceof Exchange exchange && isLaterDispatch(request.getDispatcherType())) {
            continueWith(exchange, httpRequest, httpResponse, chain);
        } else {
            // Inside another filter of this kind, a forward or an include.
            chain.doFilter(request, response);
        }
    }

    private static boolean isLaterDispatch(DispatcherType type) {
        return type == DispatcherType.ASYNC || type == DispatcherType.ERROR;
    }

    private void measure(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        Exchange exchange = measurement.begin(new ServletRequestView(request, builder.routeFunction()));
        if (exchange == null) {
            chain.doFilter(request, response);
            return;
        }
        request.setAttribute(EXCHANGE_ATTRIBUTE, exchange);
        MeasuredResponse measuredResponse = new MeasuredResponse(response, exchange);
        MeasuredRequest measuredRequest = new MeasuredRequest(request, measuredResponse, exchange);
        Runnable detach = exchange.attach();
        Throwable thrown = null;
        try {
            chain.doFilter(measuredRequest, measuredResponse);
        } catch (IOException | ServletException | RuntimeException | Error error) {
            thrown = error;
            throw error;
        } finally {
            detach.run();
            // An asynchronous response belongs to another thread by now; its listener ends the request.
            if (!measuredRequest.isAsync()) {
                measuredResponse.setFigures();
                exchange.finish(finalStatus(measuredResponse, thrown), thrown);
            }
        }
    }

    private static int finalStatus(HttpServletResponse response, Throwable thrown) {
        // The container has not set its status for an exception yet.
        boolean willFail = thrown != null && !response.isCommitted();
        return willFail ? HttpServletResponse.SC_INTERNAL_SERVER_ERROR : response.getStatus();
    }

    /** Serves a later dispatch of a request: the asynchronous one, or that of an error page. */
    private static void continueWith(
            Exchange exchange, HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        if (request.getDispatcherType() == DispatcherType.ERROR) {
            exchange.keepRoute();
        }
        // A container begins an error page, and some a dispatch, with the request and the response of its own.
        MeasuredResponse measuredResponse = measuredOf(response);
        if (measuredResponse == null) {
            measuredResponse = new MeasuredResponse(response, exchange);
            response = measuredResponse;
        }
        MeasuredRequest measuredRequest = measuredOf(request);
        if (measuredRequest == null) {
            measuredRequest = new MeasuredRequest(request, measuredResponse, exchange);
            request = measuredRequest;
        }
        measuredRequest.beginDispatch();
        Runnable detach = exchange.attach();
        try {
            chain.doFilter(request, response);
        } finally {
            detach.run();
            if (!measuredRequest.isAsync()) {
                measuredResponse.setFigures();
            }
        }
    }

    private static MeasuredResponse measuredOf(ServletResponse response) {
        ServletResponse each = response;
        while (!(each instanceof MeasuredResponse) && each instanceof ServletResponseWrapper wrapper) {
            each = wrapper.getResponse();
        }
        return each instanceof MeasuredResponse measured ? measured : null;
    }

    private static MeasuredRequest measuredOf(ServletRequest request) {
        ServletRequest each = request;
        while (!(each instanceof MeasuredRequest) && each instanceof ServletRequestWrapper wrapper) {
            each = wrapper.getRequest();
        }
        return each instanceof MeasuredRequest measured ? measured : null;
    }

    /** The options of a {@link SojournFilter}. */
    public static final class Builder extends MeasurementBuilder<HttpServletRequest, Builder> {

        private Builder() {}

        @Override
        Builder self() {
            return this;
        }

        /**
         * {@inheritDoc}
         *
         * <p>Without a function, the route is the request's attribute {@link #ROUTE_ATTRIBUTE}, else the pattern that
         * Spring MVC has matched, else the header {@code X-Route} that the app has set, else the mapping of the servlet.
         */
        @Override
        public Builder route(Function<? super HttpServletRequest, String> function) {
            return super.route(function);
        }

        /**
         * Returns a filter with these options.
         *
         * @return a new filter
         */
        public SojournFilter build() {
            return new SojournFilter(this);
        }

        private void set(String name, String value) {
            switch (name) {
                case "maxAge" -> maxAge(seconds(value));
                case "maxFuture" -> maxFuture(seconds(value));
                case "clockOffset" -> clockOffset(seconds(value));
                case "serverTiming" -> serverTiming(bool(value));
                case "alwaysAnswer" -> alwaysAnswer(bool(value));
                case "telemetry" -> telemetry(bool(value) ? Telemetry.automatic() : Telemetry.none());
                case "prometheus" -> prometheus(bool(value) ? Prometheus.global() : Prometheus.none());
                case "service" -> service(value);
                case "prometheusName" -> prometheusName(value);
                default -> throw new IllegalArgumentException("use maxAge, maxFuture, clockOffset, serverTiming, "
                        + "alwaysAnswer, telemetry, prometheus, service or prometheusName");
            }
        }

        private static Duration seconds(String value) {
            try {
                return Duration.ofNanos(new BigDecimal(value).movePointRight(9).longValueExact());
            } catch (NumberFormatException | ArithmeticException error) {
                throw new IllegalArgumentException("must be a number of seconds", error);
            }
        }

        private static boolean bool(String value) {
            return switch (value) {
                case "true" -> true;
                case "false" -> false;
                default -> throw new IllegalArgumentException("must be true or false");
            };
        }
    }
}
