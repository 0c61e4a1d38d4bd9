package sojourn.middleware;

import java.time.Instant;

/** The two clocks of a measurement: stamps are compared with the wall clock, durations come from the monotonic clock. */
interface Clock {

    Clock SYSTEM = new Clock() {
        @Override
        public long wallNanos() {
            Instant now = Instant.now();
            return now.getEpochSecond() * 1_000_000_000L + now.getNano();
        }

        @Override
        public long monotonicNanos() {
            return System.nanoTime();
        }
    };

    /** Returns nanoseconds since the Unix epoch. */
    long wallNanos();

    /** Returns nanoseconds since an arbitrary instant, unaffected by changes of the time of day. */
    long monotonicNanos();
}
