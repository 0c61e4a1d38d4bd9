package sojourn.middleware.spring;

import sojourn.middleware.SojournFilter;

/** A bean that changes options of the filter after the properties have been applied: its route function, its telemetry. */
@FunctionalInterface
public interface SojournFilterCustomizer {

    /**
     * Changes options.
     *
     * @param builder of the filter
     */
    void customize(SojournFilter.Builder builder);
}
