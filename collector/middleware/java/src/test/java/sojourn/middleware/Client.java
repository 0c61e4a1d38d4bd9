package sojourn.middleware;

import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** A client that sends headers as they are, one request on a connection of its own. */
final class Client {

    private static final int TIMEOUT_MILLIS = 20_000;

    private final int port;

    Client(int port) {
        this.port = port;
    }

    /** A response; header names in lower case, the values of each in their order. */
    record Reply(int status, Map<String, List<String>> headers, String body) {

        /** Returns the only value of a header; null if absent. */
        String header(String name) {
            List<String> values = headers.getOrDefault(name.toLowerCase(Locale.ROOT), List.of());
            if (values.size() > 1) {
                throw new AssertionError(name + " is repeated: " + values);
            }
            return values.isEmpty() ? null : values.get(0);
        }

        List<String> values(String name) {
            return headers.getOrDefault(name.toLowerCase(Locale.ROOT), List.of());
        }
    }

    Reply get(String path, String... headers) throws IOException {
        return send("GET", path, headers);
    }

    /** Sends a request with headers as alternating names and values. */
    Reply send(String method, String path, String... headers) throws IOException {
        StringBuilder request = new StringBuilder(method + " " + path + " HTTP/1.1\r\n");
        if (!List.of(headers).contains("Host")) {
            request.append("Host: shop.example:8080\r\n");
        }
        for (int each = 0; each < headers.length; each += 2) {
            request.append(headers[each]).append(": ").append(headers[each + 1]).append("\r\n");
        }
        request.append("Connection: close\r\n\r\n");
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(TIMEOUT_MILLIS);
            socket.getOutputStream().write(request.toString().getBytes(StandardCharsets.UTF_8));
            return parsed(new String(socket.getInputStream().readAllBytes(), StandardCharsets.ISO_8859_1));
        }
    }

    private static Reply parsed(String text) {
        int end = text.indexOf("\r\n\r\n");
        if (end < 0) {
            throw new AssertionError("no response: " + text);
        }
        String[] lines = text.substring(0, end).split("\r\n");
        Map<String, List<String>> headers = new TreeMap<>();
        for (int line = 1; line < lines.length; line++) {
            String[] parts = lines[line].split(":", 2);
            String name = parts[0].toLowerCase(Locale.ROOT);
            headers.computeIfAbsent(name, each -> new ArrayList<>()).add(parts[1].strip());
        }
        return new Reply(Integer.parseInt(lines[0].split(" ")[1]), headers, text.substring(end + 4));
    }
}
