package sojourn.middleware;

import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.metrics.DoubleHistogram;
import io.opentelemetry.api.metrics.LongUpDownCounter;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.propagation.TextMapGetter;
import io.opentelemetry.context.propagation.TextMapPropagator;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.util.List;
import java.util.Objects;

/**
 * Spans and a histogram by OpenTelemetry (API 1.32 and later).
 *
 * <p>If the request already has a span, that span gets the attributes; otherwise the package starts a SERVER span with the
 * stable HTTP attributes, whose parent is {@code traceparent}.
 */
public final class OpenTelemetryOutput extends Telemetry {

    private static final String SCOPE = "sojourn.middleware";

    /** Seconds. Those of {@code http.server.request.duration}, finer below 5 ms and wider above 10 s. */
    private static final List<Double> BUCKETS = List.of(
            0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0,
            30.0, 60.0, 120.0);

    private final boolean global;
    private volatile Instruments instruments;

    private OpenTelemetryOutput(Instruments instruments) {
        this.global = instruments == null;
        this.instruments = instruments;
    }

    /**
     * Returns the telemetry with an instance of OpenTelemetry.
     *
     * @param openTelemetry the instance, whose propagators read the parent of a span; without any, {@code traceparent} is
     *     read
     * @return the telemetry
     */
    public static Telemetry of(OpenTelemetry openTelemetry) {
        return new OpenTelemetryOutput(new Instruments(Objects.requireNonNull(openTelemetry, "openTelemetry")));
    }

    static Telemetry global() {
        return new OpenTelemetryOutput(null);
    }

    private Instruments instruments() {
        Instruments current = instruments;
        if (current == null && global) {
            current = Instruments.ofGlobal();
            instruments = current;
        }
        return current;
    }

    @Override
    Runnable enter(RequestView request) {
        Instruments current = instruments();
        if (current == null) {
            return () -> {};
        }
        Attributes attributes = OpenTelemetrySpan.inProgress(request);
        current.inProgress.add(1, attributes);
        return () -> current.inProgress.add(-1, attributes);
    }

    @Override
    Telemetry.Recording start(Exchange exchange) {
        Instruments current = instruments();
        Context context = Context.current();
        Span span = Span.fromContext(context);
        boolean hasSpan = span.getSpanContext().isValid() && !span.getSpanContext().isRemote();
        if (hasSpan) {
            return new OpenTelemetrySpan(exchange, span, context, false, current == null ? null : current.histogram);
        }
        return current == null ? null : current.serverSpan(exchange, context);
    }

    /** The tracer, the propagator, the histogram and the counter of one instance of OpenTelemetry. */
    private static final class Instruments {

        private final Tracer tracer;
        private final TextMapPropagator propagator;
        private final DoubleHistogram histogram;
        private final LongUpDownCounter inProgress;

        Instruments(OpenTelemetry openTelemetry) {
            tracer = openTelemetry.getTracer(SCOPE);
            TextMapPropagator configured = openTelemetry.getPropagators().getTextMapPropagator();
            propagator = configured.fields().isEmpty() ? W3CTraceContextPropagator.getInstance() : configured;
            Meter meter = openTelemetry.getMeter(SCOPE);
            inProgress = meter.upDownCounterBuilder("http.server.active_requests")
                    .setUnit("{request}")
                    .setDescription("Number of active HTTP server requests")
                    .build();
            histogram = meter.histogramBuilder("queueing.delay")
                    .setUnit("s")
                    .setDescription("Time from the proxy's stamp to the start of the app")
                    .setExplicitBucketBoundariesAdvice(BUCKETS)
                    .build();
        }

        /** Returns the instruments of the global instance; null until the app has set one, which each request checks. */
        static Instruments ofGlobal() {
            return GlobalInstance.isSet() ? new Instruments(GlobalOpenTelemetry.get()) : null;
        }

        Telemetry.Recording serverSpan(Exchange exchange, Context current) {
            Context parent = propagator.extract(current, exchange.request, HeaderGetter.INSTANCE);
            Span span = OpenTelemetrySpan.started(tracer, exchange, parent);
            return new OpenTelemetrySpan(exchange, span, parent.with(span), true, histogram);
        }
    }

    /** Reads the headers of a request for a propagator. */
    private enum HeaderGetter implements TextMapGetter<RequestView> {
        INSTANCE;

        // Deprecated in new versions of the API, required by old ones.
        @Override
        @SuppressWarnings("deprecation")
        public Iterable<String> keys(RequestView request) {
            // No propagator of a trace's context lists the names.
            return List.of();
        }

        @Override
        public String get(RequestView request, String name) {
            return request == null ? null : request.header(name);
        }
    }

    /** Whether the global instance is set. GlobalOpenTelemetry.get() alone would set it, and the app could not any more. */
    private static final class GlobalInstance {

        private static final MethodHandle IS_SET = isSetOrNull();
        private static final Field FIELD = fieldOrNull();

        private static MethodHandle isSetOrNull() {
            try {
                return MethodHandles.publicLookup()
                        .findStatic(GlobalOpenTelemetry.class, "isSet", MethodType.methodType(boolean.class));
            } catch (ReflectiveOperationException olderVersion) {
                return null;
            }
        }

        private static Field fieldOrNull() {
            try {
                Field field = GlobalOpenTelemetry.class.getDeclaredField("globalOpenTelemetry");
                field.setAccessible(true);
                return field;
            } catch (ReflectiveOperationException | RuntimeException anotherVersion) {
                return null;
            }
        }

        /** Returns whether the Java agent is there: it replaces the methods of GlobalOpenTelemetry and sets no field. */
        private static boolean hasAgent() {
            try {
                String agent = "io.opentelemetry.javaagent.OpenTelemetryAgent";
                Class.forName(agent, false, ClassLoader.getSystemClassLoader());
                return true;
            } catch (ClassNotFoundException | LinkageError none) {
                return false;
            }
        }

        private static final boolean AGENT = hasAgent();

        static boolean isSet() {
            if (AGENT) {
                return true;
            }
            try {
                if (IS_SET != null) {
                    return (boolean) IS_SET.invokeExact();
                }
                return FIELD != null && FIELD.get(null) != null;
            } catch (Throwable unexpected) {
                throw new IllegalStateException(unexpected);
            }
        }
    }
}
