-- On a cluster only: what 101 changed, under the plain names.
ALTER TABLE rollup_minute ${on_cluster}
    DROP COLUMN IF EXISTS clock_upper,
    DROP COLUMN IF EXISTS clock_lower,
    DROP COLUMN IF EXISTS clock_connect,
    DROP COLUMN IF EXISTS clock_requests,
    DROP COLUMN IF EXISTS clock_fine,
    ADD COLUMN IF NOT EXISTS network_seconds Float64 AFTER service_seconds,
    ADD COLUMN IF NOT EXISTS network_by_response Map(Int16, Float64) AFTER service_by_response;

ALTER TABLE requests ${on_cluster}
    DROP COLUMN IF EXISTS unattributed,
    DROP COLUMN IF EXISTS queueing_delay,
    ADD COLUMN IF NOT EXISTS half_tick Float64 ALIAS if(ifNull(toUnixTimestamp64Micro(proxy_start) % 1000, 1) = 0, 0.0005, 0),
    MODIFY COLUMN queueing_by_stamp Nullable(Float64) ALIAS app_start - half_tick - retries;

CREATE TABLE IF NOT EXISTS requests_split ${on_cluster} AS requests_split_local
ENGINE = Distributed(${cluster}, currentDatabase(), requests_split_local);
