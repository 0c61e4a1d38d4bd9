package sojourn.middleware.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import jakarta.servlet.http.HttpServletResponse;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.beans.BeanWrapperImpl;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.web.servlet.context.ServletWebServerApplicationContext;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import sojourn.middleware.SojournFilter;

/** The filter as Spring Boot configures it, in real applications. */
class SpringBootTest {

    private final HttpClient client = HttpClient.newHttpClient();
    private ConfigurableApplicationContext context;

    @RestController
    static class Controller {

        @GetMapping("/users/{id}")
        String user(@PathVariable("id") String id) {
            return "user " + id;
        }

        @GetMapping("/later/{id}")
        Callable<String> later(@PathVariable("id") String id) {
            return () -> {
                Thread.sleep(50);
                return "later " + id;
            };
        }

        @GetMapping("/refuses/{id}")
        void refuses(HttpServletResponse response) throws IOException {
            response.sendError(409);
        }

        @GetMapping("/throws/{id}")
        void throwing() {
            throw new IllegalStateException("on purpose");
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @Import(Controller.class)
    static class App {}

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @Import(Controller.class)
    static class CustomizedApp {

        static final InMemorySpanExporter SPANS = InMemorySpanExporter.create();

        @Bean
        SojournFilterCustomizer route() {
            return builder -> builder.route(request -> "/customized").serverTiming(true);
        }

        @Bean(destroyMethod = "close")
        OpenTelemetry openTelemetry() {
            return OpenTelemetrySdk.builder()
                    .setTracerProvider(SdkTracerProvider.builder()
                            .addSpanProcessor(SimpleSpanProcessor.create(SPANS))
                            .build())
                    .build();
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    @Import(Controller.class)
    static class OwnFilterApp {

        @Bean
        SojournFilter own() {
            return SojournFilter.builder().route(request -> "/own").build();
        }
    }

    private void start(Class<?> app, Map<String, Object> properties) {
        SpringApplication application = new SpringApplication(app);
        application.setLogStartupInfo(false);
        application.setBannerMode(org.springframework.boot.Banner.Mode.OFF);
        application.setRegisterShutdownHook(false);
        Map<String, Object> all = new java.util.HashMap<>(properties);
        all.put("server.port", "0");
        all.put("server.address", "127.0.0.1");
        all.put("logging.level.root", "off");
        all.put("spring.main.lazy-initialization", "true");
        application.setDefaultProperties(all);
        context = application.run();
    }

    @AfterEach
    void stop() {
        if (context != null) {
            context.close();
        }
    }

    private HttpResponse<String> get(String path) throws IOException, InterruptedException {
        int port = ((ServletWebServerApplicationContext) context).getWebServer().getPort();
        long stamp = Instant.now().minusSeconds(2).toEpochMilli();
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
                .header("X-Request-Start", "t=" + stamp)
                .timeout(Duration.ofSeconds(20))
                .build();
        return client.send(request, HttpResponse.BodyHandlers.ofString());
    }

    private static String header(HttpResponse<String> response, String name) {
        assertTrue(response.headers().allValues(name).size() <= 1, response.headers().toString());
        return response.headers().firstValue(name).orElse(null);
    }

    private static void assertMeasured(HttpResponse<String> response, String route) {
        double delay = Double.parseDouble(header(response, "X-Queueing-Delay"));
        assertTrue(delay >= 2 && delay < 22, response.headers().toString());
        assertNotNull(header(response, "X-Service-Time"));
        assertTrue(header(response, "X-Worker").startsWith(ProcessHandle.current().pid() + "."));
        assertEquals(route, header(response, "X-Route"));
    }

    @Test
    void everyResponseIsMeasuredWithItsRoute() throws Exception {
        start(App.class, Map.of());
        HttpResponse<String> user = get("/users/7");
        assertEquals("user 7", user.body());
        assertMeasured(user, "/users/{id}");
        assertNull(header(user, "Server-Timing"));

        HttpResponse<String> later = get("/later/7");
        assertEquals("later 7", later.body());
        assertMeasured(later, "/later/{id}");
        assertTrue(Double.parseDouble(header(later, "X-Service-Time")) >= 0.05);

        HttpResponse<String> refused = get("/refuses/7");
        assertEquals(409, refused.statusCode());
        assertMeasured(refused, "/refuses/{id}");
        HttpResponse<String> thrown = get("/throws/7");
        assertEquals(500, thrown.statusCode());
        assertMeasured(thrown, "/throws/{id}");
        HttpResponse<String> unknown = get("/unknown");
        assertEquals(404, unknown.statusCode());
        assertMeasured(unknown, "/**");
    }

    @Test
    void propertiesCustomizerAndOpenTelemetryAreUsed() throws Exception {
        start(CustomizedApp.class, Map.of("sojourn.max-age", "1", "sojourn.clock-offset", "100ms"));
        HttpResponse<String> response = get("/users/7");
        assertNull(header(response, "X-Queueing-Delay"));
        assertEquals("/customized", header(response, "X-Route"));
        assertTrue(header(response, "Server-Timing").startsWith("app;dur="));
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (CustomizedApp.SPANS.getFinishedSpanItems().isEmpty()) {
            assertTrue(System.nanoTime() < deadline, "no span has ended");
            Thread.onSpinWait();
        }
        assertEquals("GET /customized", CustomizedApp.SPANS.getFinishedSpanItems().get(0).getName());
    }

    private static final Map<String, Object> ENDPOINT = Map.of(
            "management.endpoints.web.exposure.include", "prometheus",
            "sojourn.prometheus", "true",
            "sojourn.service", "shop",
            "sojourn.prometheus-name", "http_request_queue_duration_seconds");

    @Test
    void propertySelectsRegistryOfActuator() throws Exception {
        start(App.class, ENDPOINT);
        get("/users/7");
        get("/unknown");
        String labels = "{route=\"/users/{id}\",service=\"shop\",status_class=\"2xx\"}";
        String scraped;
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        do {
            assertTrue(System.nanoTime() < deadline, "no request is recorded");
            HttpResponse<String> response = get("/actuator/prometheus");
            assertEquals(200, response.statusCode());
            scraped = response.body();
        } while (!scraped.contains("sojourn_service_time_seconds_count" + labels + " 1\n"));
        assertTrue(scraped.contains("http_request_queue_duration_seconds_count" + labels + " 1\n"), scraped);
        String bucket = "http_request_queue_duration_seconds_bucket" + labels.replaceAll("}$", ",le=");
        assertTrue(scraped.contains(bucket + "\"1.0\"} 0\n"), scraped);
        assertTrue(scraped.contains(bucket + "\"30.0\"} 1\n"), scraped);
        assertTrue(scraped.contains("sojourn_negative_queueing_delays_total{service=\"shop\"} 0"), scraped);
    }

    @Test
    void nothingIsRecordedWithoutProperty() throws Exception {
        start(App.class, Map.of("management.endpoints.web.exposure.include", "prometheus"));
        get("/users/7");
        String scraped = get("/actuator/prometheus").body();
        assertTrue(scraped.contains("jvm_"), scraped);
        assertFalse(scraped.contains("sojourn_"), scraped);
    }

    @Test
    void propertyWithoutRegistryIsOneWarning() throws Exception {
        String metrics = "org.springframework.boot.actuate.autoconfigure.metrics.";
        String excluded = String.join(
                ",",
                metrics + "CompositeMeterRegistryAutoConfiguration",
                metrics + "export.prometheus.PrometheusMetricsExportAutoConfiguration",
                metrics + "export.simple.SimpleMetricsExportAutoConfiguration");
        PrintStream before = System.err;
        ByteArrayOutputStream log = new ByteArrayOutputStream();
        System.setErr(new PrintStream(log, true, StandardCharsets.UTF_8));
        try {
            start(App.class, Map.of(
                    "sojourn.prometheus", "true",
                    "spring.autoconfigure.exclude", excluded,
                    "logging.level.sojourn.middleware", "warn"));
        } finally {
            System.setErr(before);
        }
        assertMeasured(get("/users/7"), "/users/{id}");
        String text = log.toString(StandardCharsets.UTF_8);
        assertEquals(2, text.split("MeterRegistry", -1).length, text);
    }

    @Test
    void filterCanBeDisabled() throws Exception {
        start(App.class, Map.of("sojourn.enabled", "false"));
        HttpResponse<String> response = get("/users/7");
        assertEquals("user 7", response.body());
        assertNull(header(response, "X-Worker"));
    }

    @Test
    void filterOfAppReplacesConfiguredOne() throws Exception {
        start(OwnFilterApp.class, Map.of());
        assertEquals("/own", header(get("/users/7"), "X-Route"));
        assertFalse(context.containsBean("sojournFilter"));
    }

    @Test
    void metadataHasEveryPropertyWithItsDefault() throws IOException {
        JsonObject metadata;
        try (InputStream file = SojournProperties.class.getResourceAsStream("/META-INF/spring-configuration-metadata.json")) {
            metadata = JsonParser.parseReader(new InputStreamReader(file, StandardCharsets.UTF_8)).getAsJsonObject();
        }
        BeanWrapperImpl properties = new BeanWrapperImpl(new SojournProperties());
        int described = 0;
        for (JsonElement each : metadata.getAsJsonArray("properties")) {
            JsonObject property = each.getAsJsonObject();
            String name = camelCase(property.get("name").getAsString().substring("sojourn.".length()));
            Class<?> type = properties.getPropertyType(name);
            assertNotNull(type, name);
            String wrapper = type == boolean.class ? "java.lang.Boolean" : "java.lang.Integer";
            assertEquals(type.isPrimitive() ? wrapper : type.getName(), property.get("type").getAsString());
            described++;
            Object value = properties.getPropertyValue(name);
            if (value == null) {
                assertFalse(property.has("defaultValue"), name);
                continue;
            }
            String expected = property.get("defaultValue").getAsString();
            Object parsed = value instanceof Duration ? Duration.parse("PT" + expected) : expected;
            assertEquals(value instanceof Duration ? value : String.valueOf(value), parsed, name);
        }
        // One more is the class of the bean.
        assertEquals(properties.getPropertyDescriptors().length - 1, described);
    }

    private static String camelCase(String name) {
        StringBuilder text = new StringBuilder();
        for (String part : name.split("-")) {
            text.append(text.isEmpty() ? part : part.substring(0, 1).toUpperCase() + part.substring(1));
        }
        return text.toString();
    }
}
