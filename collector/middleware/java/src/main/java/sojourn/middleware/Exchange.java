package sojourn.middleware;

import java.util.ArrayList;
import java.util.List;

/**
 * The measurements of one request and its response. A failure to measure is logged and never reaches the request.
 *
 * <p>Safe for use by several threads: an asynchronous request is finished by another thread than the one that began it.
 */
final class Exchange {

    private static final Runnable NOTHING = () -> {};

    final RequestView request;
    final Stamp stamp;
    final String worker;
    final long startWallNanos;
    final long startNanos;
    private final Measurement measurement;
    private final WorkerNumbers workers;
    private final int borrowed;
    private final String delayText;
    private Telemetry.Recording span;
    private boolean routeIsFinal;
    private String route;
    private String ownRoute;
    private String shownPattern;
    private String shownTiming;
    private long serviceNanos = -1;
    private int status;
    private boolean finished;
    private Runnable leavesMetrics = NOTHING;
    private Runnable leavesTelemetry = NOTHING;

    Exchange(
            Measurement measurement,
            RequestView request,
            Stamp stamp,
            long wallNanos,
            long monotonicNanos,
            WorkerNumbers workers) {
        this.measurement = measurement;
        this.request = request;
        this.stamp = stamp;
        this.startWallNanos = wallNanos;
        this.startNanos = monotonicNanos;
        this.workers = workers;
        this.delayText = stamp.valid() ? Figures.seconds(delayNanos()) : null;
        boolean virtual = WorkerNumbers.isVirtualThread();
        this.borrowed = virtual ? workers.borrow() : 0;
        this.worker = virtual ? WorkerNumbers.name(borrowed) : workers.ofThread();
    }

    void start(Telemetry telemetry) {
        try {
            span = telemetry.start(this);
        } catch (RuntimeException | LinkageError error) {
            measurement.warn("a span could not be started", error);
        }
    }

    /** Counts the request among those in progress. */
    void enter(Prometheus.Recorder metrics, Telemetry telemetry) {
        try {
            leavesMetrics = metrics.enter();
            leavesTelemetry = telemetry.enter(request);
        } catch (RuntimeException | LinkageError error) {
            measurement.warn("the requests in progress are not counted", error);
        }
    }

    /** Counts the request among those in progress no longer. Only the first call counts. */
    private void leave() {
        Runnable first = leavesMetrics;
        Runnable second = leavesTelemetry;
        leavesMetrics = NOTHING;
        leavesTelemetry = NOTHING;
        try {
            first.run();
            second.run();
        } catch (RuntimeException | LinkageError error) {
            measurement.warn("the requests in progress are not counted", error);
        }
    }

    /** Returns whether the response lasts until its client leaves: another protocol, or server-sent events. */
    private static boolean lasts(ResponseHeaders headers, int currentStatus) {
        if (currentStatus == 101) {
            return true;
        }
        String type = headers.contentType();
        return type != null && type.split(";", 2)[0].trim().equalsIgnoreCase("text/event-stream");
    }

    /** Returns start minus stamp in nanoseconds, negative if the clocks disagree; meaningful with a valid stamp only. */
    long delayNanos() {
        return startWallNanos - stamp.micros() * 1000;
    }

    /** Returns how far this machine's wall clock is ahead of the proxy's, in nanoseconds. */
    long clockOffsetNanos() {
        return measurement.clockOffsetNanos;
    }

    /** Returns the time from the start to the response headers in nanoseconds; negative if no response has had headers. */
    synchronized long serviceNanos() {
        return serviceNanos;
    }

    /** Returns the route of the response headers; null if unknown. */
    synchronized String route() {
        if (route != null) {
            return route;
        }
        return ownRoute != null ? ownRoute : shownPattern;
    }

    /** Returns the status of the response; 0 if unknown. */
    synchronized int status() {
        return status;
    }

    /**
     * Returns whether the response has the figures: the request has a stamp, valid or not, or the option says so. Without a
     * stamp there is no proxy that removes them before the client.
     */
    boolean answers() {
        return measurement.alwaysAnswer || stamp.reason() != Stamp.Reason.MISSING;
    }

    /** Returns the monotonic clock, in nanoseconds. */
    long now() {
        return measurement.clock.monotonicNanos();
    }

    /**
     * Sets the headers of a response that may be committed next. The last call before the commit decides.
     *
     * @param currentStatus of the response
     */
    synchronized void set(ResponseHeaders headers, int currentStatus) {
        try {
            status = currentStatus;
            serviceNanos = now() - startNanos;
            lookForRoute();
            if (delayText != null) {
                headers.set(Figures.QUEUEING_DELAY, delayText);
            }
            if (answers()) {
                headers.set(Figures.SERVICE_TIME, Figures.seconds(serviceNanos));
                headers.set(Figures.WORKER, worker);
            }
            setRoute(headers, answers());
            if (measurement.serverTiming) {
                setServerTiming(headers);
            }
            if (lasts(headers, currentStatus)) {
                leave();
            }
        } catch (RuntimeException | LinkageError error) {
            measurement.warn("a response leaves without its measurements", error);
        }
    }

    private void lookForRoute() {
        if (routeIsFinal) {
            return;
        }
        try {
            String known = request.route();
            if (known != null && !known.isEmpty()) {
                route = known;
            }
        } catch (RuntimeException | LinkageError error) {
            measurement.warn("the route of a request could not be read", error);
        }
    }

    /** Finds the route, and sets its header if the response has the figures. */
    private void setRoute(ResponseHeaders headers, boolean answers) {
        if (route != null) {
            if (answers) {
                headers.set(Figures.ROUTE, Figures.printable(route));
            }
            return;
        }
        String own = null;
        for (String value : headers.values(Figures.ROUTE)) {
            if (!answers || !value.equals(shownPattern)) {
                own = value;
            }
        }
        if (own != null) {
            // Set by the app, which knows it better than the server's pattern.
            if (answers && shownPattern != null) {
                headers.set(Figures.ROUTE, own);
            }
            shownPattern = null;
            ownRoute = own;
            return;
        }
        ownRoute = null;
        String pattern = request.pattern();
        if (pattern != null) {
            shownPattern = Figures.printable(pattern);
            if (answers) {
                headers.set(Figures.ROUTE, shownPattern);
            }
        }
    }

    private void setServerTiming(ResponseHeaders headers) {
        String app = "app;dur=" + Figures.millis(serviceNanos);
        boolean shown = stamp.valid() && delayNanos() >= 0;
        String timing = shown ? "queue;dur=" + Figures.millis(delayNanos()) + ", " + app : app;
        // What an earlier call has set is replaced, and what the app has set is kept.
        List<String> others = new ArrayList<>(headers.values(Figures.SERVER_TIMING));
        others.remove(shownTiming);
        shownTiming = timing;
        others.add(timing);
        headers.set(Figures.SERVER_TIMING, others.get(0));
        for (String value : others.subList(1, others.size())) {
            headers.add(Figures.SERVER_TIMING, value);
        }
    }

    /** Keeps the route known so far: an error page has one of its own, which is not the request's. */
    synchronized void keepRoute() {
        lookForRoute();
        routeIsFinal = true;
    }

    /** Makes the span of the request current in this thread; returns what restores the previous one. */
    Runnable attach() {
        Telemetry.Recording current;
        synchronized (this) {
            current = finished ? null : span;
        }
        if (current == null) {
            return NOTHING;
        }
        try {
            return current.attach();
        } catch (RuntimeException | LinkageError error) {
            measurement.warn("a span could not be made current", error);
            return NOTHING;
        }
    }

    /**
     * Ends the request; only the first call counts.
     *
     * @param finalStatus of the response; 0 keeps the one that the headers had
     * @param error that the app has thrown; null if none
     */
    synchronized void finish(int finalStatus, Throwable error) {
        if (finished) {
            return;
        }
        finished = true;
        if (finalStatus != 0) {
            status = finalStatus;
        }
        routeIsFinal = true;
        leave();
        try {
            if (span != null) {
                span.end(error);
            }
        } catch (RuntimeException | LinkageError failure) {
            measurement.warn("a span could not be recorded", failure);
        } finally {
            measurement.record(this);
            if (borrowed != 0) {
                workers.giveBack(borrowed);
            }
        }
    }

    /** Logs a failure to measure this request. */
    void warn(String event, Throwable error) {
        measurement.warn(event, error);
    }
}
