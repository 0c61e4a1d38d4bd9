-- On a cluster only: the tables of 090 under their plain names. All rows of one service's minute meet on one shard.
CREATE TABLE IF NOT EXISTS blame_minute ${on_cluster} AS blame_minute_local
ENGINE = Distributed(${cluster}, currentDatabase(), blame_minute_local, cityHash64(service, minute));

CREATE TABLE IF NOT EXISTS explained_minutes ${on_cluster} AS explained_minutes_local
ENGINE = Distributed(${cluster}, currentDatabase(), explained_minutes_local, toUInt64(minute));

CREATE TABLE IF NOT EXISTS capacity ${on_cluster} AS capacity_local
ENGINE = Distributed(${cluster}, currentDatabase(), capacity_local, cityHash64(service));
