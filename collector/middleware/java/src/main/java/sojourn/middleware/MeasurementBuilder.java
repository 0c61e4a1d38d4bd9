package sojourn.middleware;

import java.time.Duration;
import java.util.Objects;
import java.util.function.Function;

/**
 * The options of a filter.
 *
 * @param <R> the class of the requests
 * @param <B> the builder itself
 */
public abstract class MeasurementBuilder<R, B extends MeasurementBuilder<R, B>> {

    private static final Duration LONGEST = Duration.ofDays(36_500);

    private Duration maxAge = Duration.ofHours(1);
    private Duration maxFuture = Duration.ofSeconds(10);
    private Duration clockOffset = Duration.ZERO;
    private Function<? super R, String> route = request -> null;
    private boolean serverTiming;
    private Telemetry telemetry = Telemetry.automatic();
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
     * Corrects span and histogram by the difference of the clocks. The header is never corrected. The default is zero.
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
     * Sets where spans and the histogram go. The default is {@link Telemetry#automatic()}.
     *
     * @param destination of spans and histogram
     * @return this builder
     */
    public B telemetry(Telemetry destination) {
        telemetry = Objects.requireNonNull(destination, "telemetry");
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
        return new Measurement(maxAge, maxFuture, clockOffset, serverTiming, telemetry, clock, workers);
    }
}
