-- On a cluster only: what 103 changed, under the plain names.
ALTER TABLE requests ${on_cluster}
    ADD COLUMN IF NOT EXISTS proxy_queue Decimal64(6) AFTER proxy_start,
    ADD COLUMN IF NOT EXISTS vantage LowCardinality(String) AFTER app_garbled,
    ADD COLUMN IF NOT EXISTS time_step Float64 DEFAULT 0.001 AFTER vantage;

ALTER TABLE requests_split ${on_cluster}
    ADD COLUMN IF NOT EXISTS proxy_queue Decimal64(6) AFTER proxy_start,
    ADD COLUMN IF NOT EXISTS vantage LowCardinality(String) AFTER app_garbled,
    ADD COLUMN IF NOT EXISTS time_step Float64 AFTER vantage;
