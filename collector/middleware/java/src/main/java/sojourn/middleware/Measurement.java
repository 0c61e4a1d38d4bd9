package sojourn.middleware;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** The options of one filter, and the way to begin an exchange with them. */
final class Measurement {

    private static final Logger LOGGER = System.getLogger("sojourn.middleware");

    final Clock clock;
    final long clockOffsetNanos;
    final boolean serverTiming;
    final boolean alwaysAnswer;
    private final StampReader reader;
    private final Telemetry telemetry;
    private final Prometheus.Recorder metrics;
    private final WorkerNumbers workers;
    private final Set<String> warned = ConcurrentHashMap.newKeySet();

    Measurement(
            Duration maxAge,
            Duration maxFuture,
            Duration clockOffset,
            boolean serverTiming,
            boolean alwaysAnswer,
            Telemetry telemetry,
            Prometheus prometheus,
            String service,
            String prometheusName,
            Clock clock,
            WorkerNumbers workers) {
        this.reader = new StampReader(maxAge, maxFuture);
        this.clockOffsetNanos = clockOffset.toNanos();
        this.serverTiming = serverTiming;
        this.alwaysAnswer = alwaysAnswer;
        this.telemetry = telemetry;
        this.clock = clock;
        this.workers = workers;
        this.metrics = prometheus.recorder(service, prometheusName, this::warn);
    }

    /** Starts the clocks of one request; returns null, and logs a warning, if that fails. */
    Exchange begin(RequestView request) {
        try {
            long wall = clock.wallNanos();
            long monotonic = clock.monotonicNanos();
            Stamp stamp = reader.read(request, wall / 1000);
            Exchange exchange = new Exchange(this, request, stamp, wall, monotonic, workers);
            exchange.start(telemetry);
            exchange.enter(metrics, telemetry);
            return exchange;
        } catch (RuntimeException | LinkageError error) {
            warn("a request is served unmeasured", error);
            return null;
        }
    }

    /** Records the metrics of a request that has ended. */
    void record(Exchange exchange) {
        try {
            metrics.record(exchange);
        } catch (RuntimeException | LinkageError error) {
            warn("the metrics of a request are not recorded", error);
        }
    }

    /** Logs a failure to measure; the same failure of several requests is logged once. */
    void warn(String event, Throwable error) {
        if (warned.add(event)) {
            LOGGER.log(Level.WARNING, event + "; the same again will not be logged", error);
        }
    }
}
