package sojourn.middleware;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;

/**
 * Where histograms of the queueing delay and the service time go, for Prometheus.
 *
 * <p>{@code MicrometerOutput.of(registry)} returns one with a given registry of Micrometer.
 */
public abstract class Prometheus {

    private static final AtomicBoolean WARNED = new AtomicBoolean();

    private static final Prometheus NONE = new Prometheus() {
        @Override
        Recorder recorder(String service, String delayName, BiConsumer<String, Throwable> warn) {
            return new Recorder() {
                @Override
                public Runnable enter() {
                    return () -> {};
                }

                @Override
                public void record(Exchange exchange) {}
            };
        }
    };

    Prometheus() {}

    /**
     * Returns the output to the global registry of Micrometer, {@code Metrics.globalRegistry}. Without Micrometer on the
     * class path nothing is recorded, and one warning is logged.
     *
     * @return the output to the global registry
     */
    public static Prometheus global() {
        ClassLoader loader = Prometheus.class.getClassLoader();
        try {
            Class.forName("io.micrometer.core.instrument.Metrics", false, loader);
            // By name, so that this class can be loaded without Micrometer.
            Class<?> output = Class.forName("sojourn.middleware.MicrometerOutput", true, loader);
            return (Prometheus) output.getDeclaredMethod("ofGlobal").invoke(null);
        } catch (ReflectiveOperationException | LinkageError error) {
            if (WARNED.compareAndSet(false, true)) {
                Logger logger = System.getLogger("sojourn.middleware");
                logger.log(Level.WARNING, "Micrometer cannot be used: no metrics for Prometheus are recorded", error);
            }
            return NONE;
        }
    }

    /**
     * Returns the output that records nothing.
     *
     * @return the default
     */
    public static Prometheus none() {
        return NONE;
    }

    /**
     * Returns what records the requests of one filter.
     *
     * @param service value of the label
     * @param delayName name of the histogram of the queueing delay
     * @param warn logs a failure, once
     */
    abstract Recorder recorder(String service, String delayName, BiConsumer<String, Throwable> warn);

    /** Records the requests of one filter. */
    interface Recorder {

        /** Counts one request among those in progress; returns what ends it. */
        Runnable enter();

        /** Records a request that has ended. */
        void record(Exchange exchange);
    }
}
