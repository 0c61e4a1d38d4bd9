-- Roles and their privileges, created by `sojourn store init DSN --roles` on a server. The embedded engine has no users.

-- Shippers of lines: they write and see nothing. Views that fill other tables run as the user who made them, so no right is needed there.
CREATE ROLE IF NOT EXISTS sojourn_writing ${on_cluster};

GRANT ${on_cluster} INSERT ON ${database}.incoming TO sojourn_writing;
GRANT ${on_cluster} INSERT ON ${database}.incoming_spans TO sojourn_writing;
GRANT ${on_cluster} INSERT ON ${database}.incoming_app_log TO sojourn_writing;
GRANT ${on_cluster} INSERT ON ${database}.incoming_listen_queue TO sojourn_writing;
GRANT ${on_cluster} INSERT ON ${database}.incoming_log_files TO sojourn_writing;
GRANT ${on_cluster} INSERT ON ${database}.incoming_pipeline_metrics TO sojourn_writing;
GRANT ${on_cluster} INSERT ON ${database}.incoming${local} TO sojourn_writing;
GRANT ${on_cluster} INSERT ON ${database}.incoming_spans${local} TO sojourn_writing;
GRANT ${on_cluster} INSERT ON ${database}.incoming_app_log${local} TO sojourn_writing;
GRANT ${on_cluster} INSERT ON ${database}.incoming_listen_queue${local} TO sojourn_writing;
GRANT ${on_cluster} INSERT ON ${database}.incoming_log_files${local} TO sojourn_writing;
GRANT ${on_cluster} INSERT ON ${database}.incoming_pipeline_metrics${local} TO sojourn_writing;

-- What is acknowledged is on its shard, and not in a queue of the node that took it. Without a cluster it means nothing.
CREATE SETTINGS PROFILE OR REPLACE sojourn_writing_settings ${on_cluster} SETTINGS
    distributed_foreground_insert = 1 CONST,
    max_partitions_per_insert_block = 0 CONST, -- a quiet log can span months in one batch, and Vector would retry for ever
    optimize_on_insert = 0 CONST -- merges remove duplicates, and FINAL; to remove them at once too takes a third of the time
TO sojourn_writing;

-- Dashboards and people: they read, within limits that one query cannot lift (a limit of 0 would be none, so 1 is the
-- least). Settings may be changed within the limits: Grafana and clients send some with every query.
CREATE ROLE IF NOT EXISTS sojourn_reading ${on_cluster};

GRANT ${on_cluster} SELECT, SHOW ON ${database}.* TO sojourn_reading;

CREATE SETTINGS PROFILE IF NOT EXISTS sojourn_reading_limits ${on_cluster} SETTINGS
    readonly = 2 CONST,
    max_execution_time = 60 MIN 1 MAX 300,
    max_memory_usage = 4000000000 MIN 1 MAX 8000000000,
    max_result_rows = 1000000 MIN 1 MAX 10000000,
    max_rows_to_read = 2000000000 MIN 1 MAX 20000000000,
    max_threads = 4 MIN 1 MAX 16, -- eight panels of a dashboard ask at once
    max_concurrent_queries_for_user = 32 MIN 1 MAX 32
TO sojourn_reading;

-- For `sojourn store init` and `sojourn store load`: everything, in this database only.
CREATE ROLE IF NOT EXISTS sojourn_migrating ${on_cluster};

GRANT ${on_cluster} SELECT, INSERT, ALTER, CREATE, DROP, TRUNCATE, OPTIMIZE, SHOW, SYSTEM VIEWS ON ${database}.* TO sojourn_migrating;
GRANT ${on_cluster} SELECT ON system.replicas TO sojourn_migrating;
-- The view broken_parts reads it with the rights of the user who made the view, so readers need no right on system tables.
GRANT ${on_cluster} SELECT ON system.detached_parts TO sojourn_migrating;
GRANT ${on_cluster} CLUSTER, REMOTE ON *.* TO sojourn_migrating;
