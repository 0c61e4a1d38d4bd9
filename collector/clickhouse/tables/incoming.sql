-- Lines of logs as they are, from any shipper: INSERT INTO incoming (line) FORMAT LineAsString. Nothing is stored here; the
-- views of incoming/lines.sql parse each line once. A line is never lost: it becomes a row of requests or a row of dead_letters,
-- whatever it contains, and it cannot cause an INSERT to fail.
-- Distributed by cityHash64(line).
CREATE TABLE IF NOT EXISTS incoming${local} ${on_cluster}
(
    line String COMMENT 'as nginx wrote it, without the newline',
    ${line_columns}${guard}
)
ENGINE = Null;
