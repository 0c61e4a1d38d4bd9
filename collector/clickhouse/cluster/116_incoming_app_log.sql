-- On a cluster only: 115 under its plain name.
CREATE TABLE IF NOT EXISTS incoming_app_log ${on_cluster} AS incoming_app_log_local
ENGINE = Distributed(${cluster}, currentDatabase(), incoming_app_log_local, cityHash64(line));
