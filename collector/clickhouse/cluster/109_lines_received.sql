-- On a cluster only: the table of 108 under its plain name.
DROP TABLE IF EXISTS arrivals ${on_cluster};

CREATE TABLE IF NOT EXISTS lines_received ${on_cluster} AS lines_received_local
ENGINE = Distributed(${cluster}, currentDatabase(), lines_received_local);
