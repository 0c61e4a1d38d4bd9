-- Lines of log-files*.jsonl, which `sojourn store files` writes: {"time", "clock", "files"}. Nothing is stored here; the views of
-- incoming/log_files.sql parse each line once.
-- Distributed by cityHash64(line).
CREATE TABLE IF NOT EXISTS incoming_log_files${local} ${on_cluster}
(
    line String COMMENT 'a sample of the files of the logs',
    ${line_columns}${guard}
)
ENGINE = Null;
