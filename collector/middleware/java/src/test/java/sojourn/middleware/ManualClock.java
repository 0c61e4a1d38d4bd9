package sojourn.middleware;

import java.util.concurrent.atomic.AtomicLong;

/** Two clocks that tests set by hand, so that every figure is known in advance. */
final class ManualClock implements Clock {

    private final AtomicLong wall;
    private final AtomicLong monotonic = new AtomicLong(5_000_000_000L);

    ManualClock(long wallNanos) {
        wall = new AtomicLong(wallNanos);
    }

    @Override
    public long wallNanos() {
        return wall.get();
    }

    @Override
    public long monotonicNanos() {
        return monotonic.get();
    }

    /** Sets the wall clock alone. */
    void setWallNanos(long nanos) {
        wall.set(nanos);
    }

    void advanceNanos(long nanos) {
        wall.addAndGet(nanos);
        monotonic.addAndGet(nanos);
    }

    void advanceMillis(long millis) {
        advanceNanos(millis * 1_000_000);
    }

    /** Returns a stamp in microseconds that lies before the wall clock. */
    String stamp(long millisAgo) {
        return "t=" + (wall.get() / 1000 - millisAgo * 1000);
    }
}
