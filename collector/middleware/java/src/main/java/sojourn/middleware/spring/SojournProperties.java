package sojourn.middleware.spring;

import java.time.Duration;
import java.time.temporal.ChronoUnit;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.convert.DurationUnit;
import org.springframework.core.Ordered;

/** The properties {@code sojourn.*}. A duration without a unit is in seconds. */
@ConfigurationProperties("sojourn")
public class SojournProperties {

    private boolean enabled = true;

    @DurationUnit(ChronoUnit.SECONDS)
    private Duration maxAge = Duration.ofHours(1);

    @DurationUnit(ChronoUnit.SECONDS)
    private Duration maxFuture = Duration.ofSeconds(10);

    @DurationUnit(ChronoUnit.SECONDS)
    private Duration clockOffset = Duration.ZERO;

    private boolean serverTiming;
    private boolean alwaysAnswer;
    private boolean telemetry = true;
    private boolean prometheus;
    private String service;
    private String prometheusName = "sojourn_queueing_delay_seconds";
    private int filterOrder = Ordered.HIGHEST_PRECEDENCE;

    /** Creates the default properties. */
    public SojournProperties() {}

    /**
     * Returns whether the filter is registered.
     *
     * @return true by default
     */
    public boolean isEnabled() {
        return enabled;
    }

    /**
     * Sets whether the filter is registered.
     *
     * @param enabled whether it is
     */
    public void setEnabled(boolean enabled) {
        this.enabled = enabled;
    }

    /**
     * Returns the maximum age of a stamp.
     *
     * @return one hour by default
     */
    public Duration getMaxAge() {
        return maxAge;
    }

    /**
     * Sets the maximum age of a stamp.
     *
     * @param maxAge zero or more
     */
    public void setMaxAge(Duration maxAge) {
        this.maxAge = maxAge;
    }

    /**
     * Returns how far a stamp may be ahead of this machine's clock.
     *
     * @return ten seconds by default
     */
    public Duration getMaxFuture() {
        return maxFuture;
    }

    /**
     * Sets how far a stamp may be ahead of this machine's clock.
     *
     * @param maxFuture zero or more
     */
    public void setMaxFuture(Duration maxFuture) {
        this.maxFuture = maxFuture;
    }

    /**
     * Returns how far this machine's clock is ahead of the proxy's.
     *
     * @return zero by default
     */
    public Duration getClockOffset() {
        return clockOffset;
    }

    /**
     * Sets how far this machine's clock is ahead of the proxy's.
     *
     * @param clockOffset negative if it is behind
     */
    public void setClockOffset(Duration clockOffset) {
        this.clockOffset = clockOffset;
    }

    /**
     * Returns whether {@code Server-Timing} is sent.
     *
     * @return false by default
     */
    public boolean isServerTiming() {
        return serverTiming;
    }

    /**
     * Sets whether {@code Server-Timing} is sent.
     *
     * @param serverTiming whether it is
     */
    public void setServerTiming(boolean serverTiming) {
        this.serverTiming = serverTiming;
    }

    /**
     * Returns whether responses to requests without a stamp have the figures, too.
     *
     * @return false by default
     */
    public boolean isAlwaysAnswer() {
        return alwaysAnswer;
    }

    /**
     * Sets whether responses to requests without a stamp have the figures, too.
     *
     * @param alwaysAnswer whether they do
     */
    public void setAlwaysAnswer(boolean alwaysAnswer) {
        this.alwaysAnswer = alwaysAnswer;
    }

    /**
     * Returns whether spans and the histogram are recorded, if OpenTelemetry is there.
     *
     * @return true by default
     */
    public boolean isTelemetry() {
        return telemetry;
    }

    /**
     * Sets whether spans and the histogram are recorded, if OpenTelemetry is there.
     *
     * @param telemetry whether they are
     */
    public void setTelemetry(boolean telemetry) {
        this.telemetry = telemetry;
    }

    /**
     * Returns whether histograms are recorded in the application's registry of Micrometer.
     *
     * @return false by default
     */
    public boolean isPrometheus() {
        return prometheus;
    }

    /**
     * Sets whether histograms are recorded in the application's registry of Micrometer.
     *
     * @param prometheus whether they are
     */
    public void setPrometheus(boolean prometheus) {
        this.prometheus = prometheus;
    }

    /**
     * Returns the label {@code service} of the histograms.
     *
     * @return null by default, for the environment's {@code OTEL_SERVICE_NAME}
     */
    public String getService() {
        return service;
    }

    /**
     * Sets the label {@code service} of the histograms.
     *
     * @param service name of the service
     */
    public void setService(String service) {
        this.service = service;
    }

    /**
     * Returns the name of the queueing delay's histogram.
     *
     * @return {@code sojourn_queueing_delay_seconds} by default
     */
    public String getPrometheusName() {
        return prometheusName;
    }

    /**
     * Sets the name of the queueing delay's histogram.
     *
     * @param prometheusName a name that Prometheus allows
     */
    public void setPrometheusName(String prometheusName) {
        this.prometheusName = prometheusName;
    }

    /**
     * Returns the order of the filter among the others.
     *
     * @return {@link Ordered#HIGHEST_PRECEDENCE} by default
     */
    public int getFilterOrder() {
        return filterOrder;
    }

    /**
     * Sets the order of the filter among the others.
     *
     * @param filterOrder a lower one is called earlier
     */
    public void setFilterOrder(int filterOrder) {
        this.filterOrder = filterOrder;
    }
}
