package sojourn.middleware;

import com.sun.net.httpserver.Filter;
import com.sun.net.httpserver.HttpExchange;
import java.io.IOException;
import java.util.function.Function;

/**
 * Filter of the JDK's own HTTP server ({@code com.sun.net.httpserver}) that answers every request with its queueing delay and
 * service time.
 *
 * <p>Queueing delay: from the proxy's stamp to the call of this filter in a thread of the server's executor. Service time:
 * from that call to {@code sendResponseHeaders}. Add it to each context, before all other filters:
 * {@code context.getFilters().add(0, new SojournHttpFilter())}.
 */
public final class SojournHttpFilter extends Filter {

    /** Attribute of the exchange in which a handler can set the template of its route: {@code sojourn.route}. */
    public static final String ROUTE_ATTRIBUTE = "sojourn.route";

    private final Measurement measurement;
    private final Function<? super HttpExchange, String> routeFunction;

    /** Creates a filter with the default options. */
    public SojournHttpFilter() {
        this(builder());
    }

    private SojournHttpFilter(Builder builder) {
        this.measurement = builder.measurement();
        this.routeFunction = builder.routeFunction();
    }

    /**
     * Returns a builder with the default options.
     *
     * @return a new builder
     */
    public static Builder builder() {
        return new Builder();
    }

    @Override
    public String description() {
        return "queueing delay and service time of every response";
    }

    @Override
    public void doFilter(HttpExchange httpExchange, Chain chain) throws IOException {
        if (httpExchange instanceof MeasuredHttpExchange) {
            chain.doFilter(httpExchange);
            return;
        }
        HttpExchangeView view = new HttpExchangeView(httpExchange, routeFunction);
        Exchange exchange = measurement.begin(view);
        if (exchange == null) {
            chain.doFilter(httpExchange);
            return;
        }
        MeasuredHttpExchange measured = new MeasuredHttpExchange(httpExchange, view, exchange);
        Runnable detach = exchange.attach();
        Throwable thrown = null;
        try {
            chain.doFilter(measured);
        } catch (IOException | RuntimeException | Error error) {
            thrown = error;
            throw error;
        } finally {
            detach.run();
            measured.handlerReturned(thrown);
        }
    }

    /** The options of a {@link SojournHttpFilter}. */
    public static final class Builder extends MeasurementBuilder<HttpExchange, Builder> {

        private Builder() {}

        @Override
        Builder self() {
            return this;
        }

        /**
         * {@inheritDoc}
         *
         * <p>Without a function, the route is the exchange's attribute {@link #ROUTE_ATTRIBUTE}, else the header
         * {@code X-Route} that the handler has set, else the path of the context.
         */
        @Override
        public Builder route(Function<? super HttpExchange, String> function) {
            return super.route(function);
        }

        /**
         * Returns a filter with these options.
         *
         * @return a new filter
         */
        public SojournHttpFilter build() {
            return new SojournHttpFilter(this);
        }
    }
}
