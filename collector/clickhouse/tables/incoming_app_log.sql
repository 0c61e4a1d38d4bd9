-- The app's own log, a line of JSON for each request when its work is done: {"request_id", "service_time", "start"} and, if
-- known, "route" and "worker". Nothing is stored here; the views of incoming/app_log.sql parse each line once.
-- Distributed by cityHash64(line).
CREATE TABLE IF NOT EXISTS incoming_app_log${local} ${on_cluster}
(
    line String COMMENT 'as the app wrote it, without the newline',
    ${line_columns}${guard}
)
ENGINE = Null;
