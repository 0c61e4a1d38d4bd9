-- On a cluster only: the plain names are Distributed tables over the local ones, so every query and every INSERT reads as
-- it does on one machine. A record delivered twice has the same request id, so it meets itself on one shard, and there
-- it collapses. Rollups are made on every shard from its own rows; merged, they are those of the whole.
CREATE TABLE IF NOT EXISTS requests ${on_cluster} AS requests_local
ENGINE = Distributed(${cluster}, currentDatabase(), requests_local, cityHash64(request_id));

CREATE TABLE IF NOT EXISTS spans ${on_cluster} AS spans_local
ENGINE = Distributed(${cluster}, currentDatabase(), spans_local, cityHash64(trace_id));

CREATE TABLE IF NOT EXISTS dead_letters ${on_cluster} AS dead_letters_local
ENGINE = Distributed(${cluster}, currentDatabase(), dead_letters_local, cityHash64(raw));

CREATE TABLE IF NOT EXISTS listen_queue ${on_cluster} AS listen_queue_local
ENGINE = Distributed(${cluster}, currentDatabase(), listen_queue_local, cityHash64(machine, socket));

CREATE TABLE IF NOT EXISTS pipeline_metrics ${on_cluster} AS pipeline_metrics_local
ENGINE = Distributed(${cluster}, currentDatabase(), pipeline_metrics_local, cityHash64(agent, file));

-- Filled on every shard by views of its own; read only through these names.
CREATE TABLE IF NOT EXISTS arrivals ${on_cluster} AS arrivals_local
ENGINE = Distributed(${cluster}, currentDatabase(), arrivals_local);

CREATE TABLE IF NOT EXISTS touched_minutes ${on_cluster} AS touched_minutes_local
ENGINE = Distributed(${cluster}, currentDatabase(), touched_minutes_local);

CREATE TABLE IF NOT EXISTS rollup_minute ${on_cluster} AS rollup_minute_local
ENGINE = Distributed(${cluster}, currentDatabase(), rollup_minute_local);
