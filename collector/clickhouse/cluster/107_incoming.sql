-- On a cluster only: whichever node takes a line, it goes to the shard of its hash. A line that is delivered twice is
-- parsed twice on one shard, where its row collapses.
CREATE TABLE IF NOT EXISTS incoming ${on_cluster} AS incoming_local
ENGINE = Distributed(${cluster}, currentDatabase(), incoming_local, cityHash64(line));

CREATE TABLE IF NOT EXISTS incoming_spans ${on_cluster} AS incoming_spans_local
ENGINE = Distributed(${cluster}, currentDatabase(), incoming_spans_local, cityHash64(line));

CREATE TABLE IF NOT EXISTS incoming_listen_queue ${on_cluster} AS incoming_listen_queue_local
ENGINE = Distributed(${cluster}, currentDatabase(), incoming_listen_queue_local, cityHash64(line));

CREATE TABLE IF NOT EXISTS incoming_pipeline_metrics ${on_cluster} AS incoming_pipeline_metrics_local
ENGINE = Distributed(${cluster}, currentDatabase(), incoming_pipeline_metrics_local, cityHash64(line));
