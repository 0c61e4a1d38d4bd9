package sojourn.middleware;

import java.time.Duration;
import java.util.List;
import sojourn.middleware.Stamp.Reason;

/**
 * Reads the stamp of a request.
 *
 * <p>Proxies stamp in several units. The prefix {@code t=} has no meaning: the number of digits before the point defines
 * the unit, strictly. A value that does not fit is refused with a reason; no value is guessed or clamped.
 */
final class StampReader {

    /** The headers of a stamp. The second one is read only if the first one is missing or blank. */
    static final List<String> HEADERS = List.of("X-Request-Start", "X-Queue-Start");

    private final long maxAgeMicros;
    private final long maxFutureMicros;

    /** Takes the limits of a stamp's distance from now; a stamp exactly at a limit is accepted. */
    StampReader(Duration maxAge, Duration maxFuture) {
        maxAgeMicros = micros(maxAge);
        maxFutureMicros = micros(maxFuture);
    }

    private static long micros(Duration limit) {
        return Math.addExact(Math.multiplyExact(limit.getSeconds(), 1_000_000L), limit.getNano() / 1000);
    }

    /**
     * Returns the stamp of the first header that is not missing, or the reason why that header is refused. A later header
     * never replaces a refused one, because a client can send any header that the proxy does not overwrite.
     *
     * @param nowMicros the wall clock, microseconds since the Unix epoch
     */
    Stamp read(RequestView request, long nowMicros) {
        for (String name : HEADERS) {
            Stamp stamp = judged(request, name, nowMicros);
            if (stamp.reason() != Reason.MISSING) {
                return stamp;
            }
        }
        return Stamp.refused(Reason.MISSING);
    }

    private Stamp judged(RequestView request, String name, long nowMicros) {
        String value = request.header(name);
        if (value == null) {
            return Stamp.refused(Reason.MISSING);
        }
        if (request.isRepeated(name)) {
            return Stamp.refused(Reason.LIST);
        }
        Stamp stamp = parse(value);
        if (stamp.valid() && stamp.micros() > nowMicros + maxFutureMicros) {
            return Stamp.refused(Reason.FUTURE);
        }
        if (stamp.valid() && stamp.micros() < nowMicros - maxAgeMicros) {
            return Stamp.refused(Reason.STALE);
        }
        return stamp;
    }

    /** Returns the instant of one value, floored to microseconds, or the reason why the value is none; its age is not judged. */
    static Stamp parse(String value) {
        int begin = 0;
        int end = value.length();
        while (begin < end && isBlank(value.charAt(begin))) {
            begin++;
        }
        while (end > begin && isBlank(value.charAt(end - 1))) {
            end--;
        }
        if (begin == end) {
            return Stamp.refused(Reason.MISSING);
        }
        // Two joined stamps come from a proxy that appends; reading either one would be a guess.
        int comma = value.indexOf(',', begin);
        if (comma >= 0 && comma < end) {
            return Stamp.refused(Reason.LIST);
        }
        if (value.startsWith("t=", begin)) {
            begin += 2;
        }
        int point = digitsFrom(value, begin, end);
        int after = point < end && value.charAt(point) == '.' ? digitsFrom(value, point + 1, end) : point;
        boolean emptyPart = point == begin || after == point + 1;
        if (emptyPart || after != end) {
            return Stamp.refused(Reason.NOT_A_NUMBER);
        }
        return inMicros(value, begin, point, end);
    }

    private static Stamp inMicros(String value, int begin, int point, int end) {
        int whole = point - begin;
        int fraction = Math.max(end - point - 1, 0);
        int most = switch (whole) {
            case 10 -> 9;
            case 13 -> 6;
            case 16, 19 -> 0;
            default -> -1;
        };
        if (fraction > most || value.charAt(begin) == '0') {
            return Stamp.refused(Reason.UNIT);
        }
        // Sixteen digits are microseconds: of the digits before and after the point, or zeros.
        long micros = 0;
        for (int place = 0; place < 16; place++) {
            int at = place < whole ? begin + place : begin + place + 1;
            int digit = at < end ? value.charAt(at) - '0' : 0;
            micros = micros * 10 + digit;
        }
        return Stamp.at(micros);
    }

    private static int digitsFrom(String value, int begin, int end) {
        int at = begin;
        while (at < end && value.charAt(at) >= '0' && value.charAt(at) <= '9') {
            at++;
        }
        return at;
    }

    private static boolean isBlank(char letter) {
        return letter == ' ' || letter == '\t';
    }
}
