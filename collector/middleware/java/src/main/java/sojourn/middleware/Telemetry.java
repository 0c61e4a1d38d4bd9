package sojourn.middleware;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;

/**
 * Where spans and the histogram of the queueing delay go.
 *
 * <p>{@code OpenTelemetryOutput.of(openTelemetry)} returns one with a given instance of OpenTelemetry.
 */
public abstract class Telemetry {

    private static final Telemetry NONE = new Telemetry() {
        @Override
        Recording start(Exchange exchange) {
            return null;
        }

        @Override
        Runnable enter(RequestView request) {
            return () -> {};
        }
    };

    Telemetry() {}

    /**
     * Returns the telemetry of the app: the current span of each request, if an instrumentation has started one, and the
     * global instance of OpenTelemetry, once the app or an agent has set it. Without OpenTelemetry on the class path nothing
     * is recorded.
     *
     * @return the default
     */
    public static Telemetry automatic() {
        ClassLoader loader = Telemetry.class.getClassLoader();
        try {
            Class.forName("io.opentelemetry.api.GlobalOpenTelemetry", false, loader);
        } catch (ClassNotFoundException | LinkageError absent) {
            return NONE;
        }
        try {
            // By name, so that this class can be loaded without OpenTelemetry.
            Class<?> output = Class.forName("sojourn.middleware.OpenTelemetryOutput", true, loader);
            return (Telemetry) output.getDeclaredMethod("global").invoke(null);
        } catch (ReflectiveOperationException | LinkageError error) {
            Logger logger = System.getLogger("sojourn.middleware");
            logger.log(Level.WARNING, "OpenTelemetry cannot be used: no spans are recorded", error);
            return NONE;
        }
    }

    /**
     * Returns the telemetry that records nothing.
     *
     * @return headers only
     */
    public static Telemetry none() {
        return NONE;
    }

    /** Returns the span of a request that begins; null if nothing is recorded. */
    abstract Recording start(Exchange exchange);

    /** Counts one request among those in progress; returns what ends it. */
    abstract Runnable enter(RequestView request);

    /** The recording of one request. */
    interface Recording {

        /** Makes the span current in this thread; returns what restores the previous one. */
        Runnable attach();

        /** Ends the request, with what the app has thrown, or null. */
        void end(Throwable error);
    }
}
