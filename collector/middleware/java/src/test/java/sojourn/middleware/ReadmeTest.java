package sojourn.middleware;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The program of the README, run as a process of its own. */
class ReadmeTest {

    private static final long DEADLINE_SECONDS = 40;

    @Test
    void programExportsWhatReadmeLists(@TempDir Path folder) throws Exception {
        String readme = Files.readString(Path.of("README.md"));
        Matcher block = Pattern.compile("```java\n// Shop.java\n(.*?)```", Pattern.DOTALL).matcher(readme);
        assertTrue(block.find(), "README.md has no block Shop.java");
        int port = freePort();
        Path file = folder.resolve("Shop.java");
        Files.writeString(file, block.group(1).replace("8000", Integer.toString(port)));
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Path output = folder.resolve("output");
        Process process = new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"), file.toString())
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
        try {
            Client client = connected(port, process, output);
            long stamp = Instant.now().toEpochMilli() - 2000;
            assertEquals("/users", client.get("/users/7", "X-Request-Start", "t=" + stamp).header("X-Route"));
            String[] labels = {"service", "shop", "route", "/users", "status_class", "2xx"};
            Exposition exported = recorded(client, labels);
            assertEquals(1.0, exported.value("sojourn_queueing_delay_seconds_count", labels));

            Matcher sample = Pattern.compile("\n    (sojourn_\\w+_bucket\\{.*\\} )1\n").matcher(readme);
            assertTrue(sample.find(), "README.md has no sample");
            assertTrue(client.get("/metrics").body().contains("\n" + sample.group(1)));
            Set<String> listed = Pattern.compile("^\\| `(sojourn_\\w+)` \\|", Pattern.MULTILINE)
                    .matcher(readme)
                    .results()
                    .map((MatchResult row) -> row.group(1))
                    .collect(Collectors.toCollection(TreeSet::new));
            Set<String> names = exported.values().keySet().stream()
                    .map(series -> series.name().replaceAll("_(bucket|count|sum|max)$", ""))
                    .collect(Collectors.toCollection(TreeSet::new));
            assertEquals(listed, names);
        } finally {
            process.destroyForcibly().waitFor();
        }
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    private static Client connected(int port, Process process, Path output) throws IOException, InterruptedException {
        Client client = new Client(port);
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE_SECONDS);
        while (true) {
            try {
                client.get("/metrics");
                return client;
            } catch (IOException notYet) {
                assertTrue(process.isAlive() && System.nanoTime() < deadline, Files.readString(output));
                Thread.sleep(50);
            }
        }
    }

    private static Exposition recorded(Client client, String... labels) throws IOException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE_SECONDS);
        while (true) {
            Exposition exported = Exposition.parsed(client.get("/metrics").body());
            if (exported.value("sojourn_service_time_seconds_count", labels) != null) {
                return exported;
            }
            assertTrue(System.nanoTime() < deadline, exported.toString());
        }
    }
}
