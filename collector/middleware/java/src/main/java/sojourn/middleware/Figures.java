package sojourn.middleware;

import java.nio.charset.StandardCharsets;

/** The names and the text of the headers that a response gets. */
final class Figures {

    static final String QUEUEING_DELAY = "X-Queueing-Delay";
    static final String SERVICE_TIME = "X-Service-Time";
    static final String WORKER = "X-Worker";
    static final String ROUTE = "X-Route";
    static final String SERVER_TIMING = "Server-Timing";

    private static final String HEX = "0123456789ABCDEF";

    private Figures() {}

    /** Returns whether a header is one of the three that only the middleware sets. */
    static boolean isMeasured(String name) {
        if (name == null) {
            return false;
        }
        return switch (name.length()) {
            case 16 -> QUEUEING_DELAY.equalsIgnoreCase(name);
            case 14 -> SERVICE_TIME.equalsIgnoreCase(name);
            case 8 -> WORKER.equalsIgnoreCase(name);
            default -> false;
        };
    }

    /** Returns nanoseconds as seconds with six decimals, rounded to microseconds. */
    static String seconds(long nanos) {
        return decimals(nanos, 1_000_000);
    }

    /** Returns nanoseconds as milliseconds with three decimals, rounded to microseconds. */
    static String millis(long nanos) {
        return decimals(nanos, 1_000);
    }

    private static String decimals(long nanos, int microsPerUnit) {
        long micros = (Math.abs(nanos) + 500) / 1000;
        String sign = nanos < 0 && micros > 0 ? "-" : "";
        String fraction = Long.toString(microsPerUnit + micros % microsPerUnit).substring(1);
        return sign + micros / microsPerUnit + "." + fraction;
    }

    /** Returns a route whose bytes outside printable ASCII are written as %XX. */
    static String printable(String route) {
        boolean plain = true;
        for (int at = 0; plain && at < route.length(); at++) {
            plain = isPrintable(route.charAt(at));
        }
        if (plain) {
            return route;
        }
        StringBuilder text = new StringBuilder();
        for (byte one : route.getBytes(StandardCharsets.UTF_8)) {
            if (isPrintable(one)) {
                text.append((char) one);
            } else {
                text.append('%').append(HEX.charAt((one >> 4) & 15)).append(HEX.charAt(one & 15));
            }
        }
        return text.toString();
    }

    private static boolean isPrintable(int letter) {
        return letter >= 0x20 && letter <= 0x7e;
    }
}
