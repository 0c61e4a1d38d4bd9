-- On a cluster only: whichever node is asked, the answer is the same.
CREATE TABLE IF NOT EXISTS schema_migrations ${on_cluster} AS schema_migrations_local
ENGINE = Distributed(${cluster}, currentDatabase(), schema_migrations_local, version);
