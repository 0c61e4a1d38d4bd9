-- On a cluster only: the table of 099 under its plain name.
CREATE TABLE IF NOT EXISTS clock_bounds ${on_cluster} AS clock_bounds_local
ENGINE = Distributed(${cluster}, currentDatabase(), clock_bounds_local);
