package sojourn.middleware;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Metrics;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.Collections;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiConsumer;
import java.util.stream.LongStream;

/**
 * Histograms and the requests in progress for Prometheus, in a registry of Micrometer (1.13 and later).
 *
 * <p>A registry of Prometheus exports them with the names, labels and buckets of {@code sojourn export}.
 */
public final class MicrometerOutput extends Prometheus {

    /** Those of every exporter of Sojourn. A summary of seconds cannot have them: Micrometer rounds its values up. */
    private static final Duration[] BUCKETS = LongStream.of(
                    1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
                    10_000_000, 30_000_000, 60_000_000)
            .mapToObj(micros -> Duration.of(micros, ChronoUnit.MICROS))
            .toArray(Duration[]::new);

    private static final String DELAY_HELP =
            "Time that requests waited for a worker; negative values count in the lowest bucket, and not in the sum.";
    private static final String SERVICE_TIME = "sojourn_service_time_seconds";
    private static final String SERVICE_TIME_HELP = "Time from the app's start to its response headers.";
    private static final String NEGATIVE = "sojourn_negative_queueing_delays_total";
    private static final String NEGATIVE_HELP =
            "Requests whose queueing delay was negative: the clocks differ, or one changed.";
    private static final String NEGATIVE_SECONDS = "sojourn_negative_queueing_delay_seconds_total";
    private static final String NEGATIVE_SECONDS_HELP =
            "Sum of the negative queueing delays, without sign; histogram sum less this is the exact sum.";

    private static final String IN_PROGRESS = "sojourn_requests_in_progress";
    private static final String IN_PROGRESS_HELP =
            "Requests that the app has started and not finished, without WebSockets and server-sent events.";

    private static final int MOST_ROUTES = 100;
    private static final String OTHER = "other";

    /** The routes of each registry, which all filters with this registry share. */
    private static final Map<MeterRegistry, Set<String>> ROUTES = Collections.synchronizedMap(new WeakHashMap<>());

    /** The requests in progress of each registry, by service. */
    private static final Map<MeterRegistry, Map<String, AtomicLong>> REQUESTS =
            Collections.synchronizedMap(new WeakHashMap<>());

    private final MeterRegistry registry;

    private MicrometerOutput(MeterRegistry registry) {
        this.registry = registry;
    }

    /**
     * Returns the output to a registry.
     *
     * @param registry such as {@code PrometheusMeterRegistry}, or the bean of Spring Boot
     * @return the output
     */
    public static Prometheus of(MeterRegistry registry) {
        return new MicrometerOutput(Objects.requireNonNull(registry, "registry"));
    }

    static Prometheus ofGlobal() {
        return new MicrometerOutput(Metrics.globalRegistry);
    }

    @Override
    Recorder recorder(String service, String delayName, BiConsumer<String, Throwable> warn) {
        Set<String> routes = ROUTES.computeIfAbsent(registry, each -> ConcurrentHashMap.newKeySet());
        AtomicLong requests = REQUESTS.computeIfAbsent(registry, each -> new ConcurrentHashMap<>())
                .computeIfAbsent(service, each -> new AtomicLong());
        MeterRecorder recorder = new MeterRecorder(registry, routes, requests, service, delayName, warn);
        recorder.registerRequests();
        // PromQL subtracts nothing from a series that does not exist.
        recorder.count(NEGATIVE, NEGATIVE_HELP, 0);
        recorder.count(NEGATIVE_SECONDS, NEGATIVE_SECONDS_HELP, 0);
        return recorder;
    }

    /** The meters of one filter. All filters with the same registry share the meters of the same name and labels. */
    private record MeterRecorder(
            MeterRegistry registry,
            Set<String> routes,
            AtomicLong requests,
            String service,
            String delayName,
            BiConsumer<String, Throwable> warn)
            implements Recorder {

        /** Registers the gauge. A registry that has it already keeps it, with the same number. */
        void registerRequests() {
            try {
                Gauge.builder(IN_PROGRESS, requests, AtomicLong::get)
                        .description(IN_PROGRESS_HELP)
                        .tags(Tags.of("service", service))
                        .register(registry);
            } catch (RuntimeException error) {
                warn.accept("the requests in progress are not exported", error);
            }
        }

        @Override
        public Runnable enter() {
            requests.incrementAndGet();
            return requests::decrementAndGet;
        }

        @Override
        public void record(Exchange exchange) {
            String route = routeLabel(exchange.route());
            Tags tags = Tags.of("service", service, "route", route, "status_class", statusClass(exchange.status()));
            if (exchange.stamp.valid()) {
                long delay = exchange.delayNanos() - exchange.clockOffsetNanos();
                // The sum of a histogram must not decrease: the counters have what the clocks disagree by.
                observe(delayName, DELAY_HELP, tags, Math.max(delay, 0));
                if (delay < 0) {
                    count(NEGATIVE, NEGATIVE_HELP, 1);
                    count(NEGATIVE_SECONDS, NEGATIVE_SECONDS_HELP, -delay / 1e9);
                }
            }
            long serviceNanos = exchange.serviceNanos();
            if (serviceNanos >= 0) {
                observe(SERVICE_TIME, SERVICE_TIME_HELP, tags, serviceNanos);
            }
        }

        private String routeLabel(String route) {
            if (route == null || route.isEmpty()) {
                return "";
            }
            String label = Figures.printable(route);
            if (routes.contains(label)) {
                return label;
            }
            synchronized (routes) {
                if (routes.size() < MOST_ROUTES) {
                    routes.add(label);
                }
                return routes.contains(label) ? label : OTHER;
            }
        }

        private static String statusClass(int status) {
            return status < 100 || status > 599 ? "" : status / 100 + "xx";
        }

        private void observe(String name, String help, Tags tags, long nanos) {
            try {
                Timer.builder(name)
                        .description(help)
                        .tags(tags)
                        .serviceLevelObjectives(BUCKETS)
                        .register(registry)
                        .record(nanos, TimeUnit.NANOSECONDS);
            } catch (RuntimeException | LinkageError error) {
                warn.accept("the metric " + name + " is not recorded", error);
            }
        }

        private void count(String name, String help, double amount) {
            try {
                Counter.builder(name).description(help).tag("service", service).register(registry).increment(amount);
            } catch (RuntimeException | LinkageError error) {
                warn.accept("the metric " + name + " is not recorded", error);
            }
        }
    }
}
