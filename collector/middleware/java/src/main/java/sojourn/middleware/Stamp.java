package sojourn.middleware;

/**
 * What the headers of a request say about the instant at which the proxy sent it.
 *
 * @param micros whole microseconds since the Unix epoch; 0 without a valid stamp
 * @param reason why there is no valid stamp; null if there is one
 */
record Stamp(long micros, Reason reason) {

    /** Why a stamp is refused. */
    enum Reason {
        /** No header, or a blank one. */
        MISSING("missing"),
        /** Several values: a proxy has appended its stamp instead of replacing a client's. */
        LIST("unparsable"),
        NOT_A_NUMBER("unparsable"),
        /** The number of digits belongs to no unit. */
        UNIT("unparsable"),
        /** Later than this machine's clock by more than the limit. */
        FUTURE("future"),
        /** Older than the limit. */
        STALE("stale");

        private final String status;

        Reason(String status) {
            this.status = status;
        }
    }

    static Stamp at(long micros) {
        return new Stamp(micros, null);
    }

    static Stamp refused(Reason reason) {
        return new Stamp(0, reason);
    }

    boolean valid() {
        return reason == null;
    }

    /** Returns the value of the span attribute {@code queueing.status}. */
    String status() {
        return reason == null ? "ok" : reason.status;
    }
}
