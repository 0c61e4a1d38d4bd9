-- Lines of listen*.jsonl: {"time", "socket", "port", "depth", "limit"}, and "machine" where it is not the host. Nothing is
-- stored here; the views of incoming/listen_queue.sql parse each line once.
-- Distributed by cityHash64(line).
CREATE TABLE IF NOT EXISTS incoming_listen_queue${local} ${on_cluster}
(
    line String COMMENT 'a sample of an accept queue',
    ${line_columns}${guard}
)
ENGINE = Null;
