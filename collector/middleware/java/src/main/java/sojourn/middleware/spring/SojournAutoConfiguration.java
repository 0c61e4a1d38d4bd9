package sojourn.middleware.spring;

import io.micrometer.core.instrument.MeterRegistry;
import io.opentelemetry.api.OpenTelemetry;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.Filter;
import java.lang.System.Logger.Level;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import sojourn.middleware.MicrometerOutput;
import sojourn.middleware.OpenTelemetryOutput;
import sojourn.middleware.Prometheus;
import sojourn.middleware.SojournFilter;
import sojourn.middleware.Telemetry;

/** Registers {@link SojournFilter} before all other filters of a servlet application. */
@AutoConfiguration
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
@ConditionalOnClass({Filter.class, FilterRegistrationBean.class})
@ConditionalOnProperty(prefix = "sojourn", name = "enabled", havingValue = "true", matchIfMissing = true)
@EnableConfigurationProperties(SojournProperties.class)
public class SojournAutoConfiguration {

    /** Creates the configuration. */
    public SojournAutoConfiguration() {}

    /**
     * Returns the registration of the filter, unless the app has a filter of its own.
     *
     * @param properties of the filter
     * @param customizers of the filter, in their order
     * @return the registration
     */
    @Bean
    @ConditionalOnMissingBean(value = SojournFilter.class, parameterizedContainer = FilterRegistrationBean.class)
    public FilterRegistrationBean<SojournFilter> sojournFilter(
            SojournProperties properties, ObjectProvider<SojournFilterCustomizer> customizers) {
        SojournFilter.Builder builder = SojournFilter.builder()
                .maxAge(properties.getMaxAge())
                .maxFuture(properties.getMaxFuture())
                .clockOffset(properties.getClockOffset())
                .serverTiming(properties.isServerTiming())
                .alwaysAnswer(properties.isAlwaysAnswer())
                .prometheusName(properties.getPrometheusName());
        if (properties.getService() != null) {
            builder.service(properties.getService());
        }
        if (properties.isPrometheus()) {
            // A bean below replaces the global registry, unless there is no Micrometer; then there is a warning.
            builder.prometheus(Prometheus.global());
        }
        customizers.orderedStream().forEach(customizer -> customizer.customize(builder));
        if (!properties.isTelemetry()) {
            builder.telemetry(Telemetry.none());
        }
        FilterRegistrationBean<SojournFilter> registration = new FilterRegistrationBean<>(builder.build());
        registration.setName("sojourn");
        registration.setOrder(properties.getFilterOrder());
        registration.setDispatcherTypes(DispatcherType.REQUEST, DispatcherType.ASYNC, DispatcherType.ERROR);
        return registration;
    }

    /** Uses the app's bean of OpenTelemetry, which need not be the global instance. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(OpenTelemetry.class)
    static class OpenTelemetryConfiguration {

        @Bean
        @Order(Ordered.HIGHEST_PRECEDENCE)
        SojournFilterCustomizer sojournOpenTelemetry(ObjectProvider<OpenTelemetry> openTelemetry) {
            return builder -> openTelemetry.ifUnique(bean -> builder.telemetry(OpenTelemetryOutput.of(bean)));
        }
    }

    /** Uses the app's bean of MeterRegistry. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterRegistry.class)
    @ConditionalOnProperty(prefix = "sojourn", name = "prometheus", havingValue = "true")
    static class MicrometerConfiguration {

        @Bean
        @Order(Ordered.HIGHEST_PRECEDENCE)
        SojournFilterCustomizer sojournMicrometer(ObjectProvider<MeterRegistry> registries) {
            MeterRegistry registry = registries.getIfUnique();
            if (registry == null) {
                System.getLogger("sojourn.middleware")
                        .log(Level.WARNING, "sojourn.prometheus: there is no single or primary bean of MeterRegistry");
            }
            return builder -> builder.prometheus(registry == null ? Prometheus.none() : MicrometerOutput.of(registry));
        }
    }
}
