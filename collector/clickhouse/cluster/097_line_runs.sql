-- On a cluster only: the columns of 096 under the plain names, and all runs of one file on one shard.
ALTER TABLE requests ${on_cluster}
    ADD COLUMN IF NOT EXISTS position UInt64 AFTER source,
    ADD COLUMN IF NOT EXISTS line_bytes UInt32 AFTER position;

ALTER TABLE dead_letters ${on_cluster}
    ADD COLUMN IF NOT EXISTS line_bytes UInt32 AFTER position;

CREATE TABLE IF NOT EXISTS line_runs ${on_cluster} AS line_runs_local
ENGINE = Distributed(${cluster}, currentDatabase(), line_runs_local, cityHash64(source));
