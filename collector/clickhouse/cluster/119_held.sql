-- On a cluster only: the table of 118 under its plain name. All rows of one service's minute meet on one shard.
CREATE TABLE IF NOT EXISTS held_minute ${on_cluster} AS held_minute_local
ENGINE = Distributed(${cluster}, currentDatabase(), held_minute_local, cityHash64(service, minute));
