package sojourn.middleware;

import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import java.util.regex.Pattern;

/**
 * The options of a filter.
 *
 * @param <R> the class of the requests
 * @param <B> the builder itself
 */
public abstract class MeasurementBuilder<R, B extends MeasurementBuilder<R, B>> {

    private static final Duration LONGEST = Duration.ofDays(36_500);
    private static final Pattern METRIC_NAME = Pattern.compile("[a-zA-Z_:][a-zA-Z0-9_:]*");

    private Duration maxAge = Duration.ofHours(1);
    private Duration maxFuture = Duration.ofSeconds(10);
    private Duration clockOffset = Duration.ZERO;
    private Function<? super R, String> route = request -> null;
    private boolean serverTiming;
    private boolean alwaysAnswer;
    private Telemetry telemetry = Telemetry.automatic();
    private Prometheus prometheus = Prometheus.none();
    private String service;
    private String prometheusName = "sojourn_queueing_delay_seconds";
    private Map<String, String> environment = System.getenv();
    private Clock clock = Clock.SYSTEM;
    private WorkerNumbers workers = WorkerNumbers.PROCESS;

    MeasurementBuilder() {}

    abstract B self();

    /**
     * Limits the age of a stamp; an older stamp is refused as stale. The default is one hour.
     *
     * @param limit zero or more
     * @return this builder
     * @throws IllegalArgumentException if the limit is negative or longer than 36500 days
     */
    public B maxAge(Duration limit) {
        maxAge = limit("maxAge", limit);
        return self();
    }

    /**
     * Limits how far a stamp may be ahead of this machine's clock; one further ahead is refused. The default is 10 seconds.
     *
     * @param limit zero or more
     * @return this builder
     * @throws IllegalArgumentException if the limit is negative or longer than 36500 days
     */
    public B maxFuture(Duration limit) {
        maxFuture = limit("maxFuture", limit);
        return self();
    }

    private static Duration limit(String name, Duration limit) {
        if (limit.isNegative() || limit.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(name + " must be from 0 to " + LONGEST.toDays() + " days, not " + limit);
        }
        return limit;
    }

    /**
     * Corrects span and histograms by the difference of the clocks. The header is never corrected. The default is zero.
     *
     * @param offset how far this machine's wall clock is ahead of the proxy's; negative if it is behind
     * @return this builder
     * @throws IllegalArgumentException if the offset is longer than 36500 days
     */
    public B clockOffset(Duration offset) {
        if (offset.abs().compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException("clockOffset must be within " + LONGEST.toDays() + " days, not " + offset);
        }
        clockOffset = offset;
        return self();
    }

    /**
     * Sets a function from a request to the template of its route, such as {@code /users/{id}}. It is called before the
     * headers of the response leave. For null or an empty text, the route is determined as if there were no function.
     *
     * @param function the function; an exception that it throws is logged once
     * @return this builder
     */
    public B route(Function<? super R, String> function) {
        route = Objects.requireNonNull(function, "route");
        return self();
    }

    /**
     * Sends the figures as {@code Server-Timing}, too, for the developer tools of browsers. The default is false.
     *
     * @param on whether it is sent
     * @return this builder
     */
    public B serverTiming(boolean on) {
        serverTiming = on;
        return self();
    }

    /**
     * Sends the figures in responses to requests without a stamp, too. The default is false: without a stamp there is no
     * proxy that removes them before the client.
     *
     * @param on whether they are sent
     * @return this builder
     */
    public B alwaysAnswer(boolean on) {
        alwaysAnswer = on;
        return self();
    }

    /**
     * Sets where spans and the histogram go. The default is {@link Telemetry#automatic()}.
     *
     * @param destination of spans and histogram
     * @return this builder
     */
    public B telemetry(Telemetry destination) {
        telemetry = Objects.requireNonNull(destination, "telemetry");
        return self();
    }

    /**
     * Sets where histograms for Prometheus go. The default is {@link Prometheus#none()}.
     *
     * @param destination of the histograms, such as {@code MicrometerOutput.of(registry)}
     * @return this builder
     */
    public B prometheus(Prometheus destination) {
        prometheus = Objects.requireNonNull(destination, "prometheus");
        return self();
    }

    /**
     * Sets the label {@code service} of the histograms for Prometheus. The default is the environment's
     * {@code OTEL_SERVICE_NAME}, or empty.
     *
     * @param name of the service
     * @return this builder
     */
    public B service(String name) {
        service = Objects.requireNonNull(name, "service");
        return self();
    }

    /**
     * Sets the name of the queueing delay's histogram for Prometheus. The default is
     * {@code sojourn_queueing_delay_seconds}. Micrometer adds {@code _seconds} to a name that does not end with it.
     *
     * @param name such as {@code http_request_queue_duration_seconds}
     * @return this builder
     * @throws IllegalArgumentException if Prometheus does not allow the name
     */
    public B prometheusName(String name) {
        if (!METRIC_NAME.matcher(name).matches()) {
            throw new IllegalArgumentException(
                    "prometheusName must have letters, digits, _ and : only, and no digit first, not " + name);
        }
        prometheusName = name;
        return self();
    }

    B environment(Map<String, String> variables) {
        environment = variables;
        return self();
    }

    B clock(Clock source) {
        clock = source;
        return self();
    }

    B workers(WorkerNumbers numbers) {
        workers = numbers;
        return self();
    }

    Function<? super R, String> routeFunction() {
        return route;
    }

    Measurement measurement() {
        String label = service != null ? service : environment.getOrDefault("OTEL_SERVICE_NAME", "");
        return new Measurement(
                maxAge,
                maxFuture,
                clockOffset,
                serverTiming,
                alwaysAnswer,
                telemetry,
                prometheus,
                label,
                prometheusName,
                clock,
                workers);
    }
}
