-- Which bytes of which log arrived. The lines of a file follow one another without a gap, so bytes that no stored line
-- covers belong to a missing line (see the view line_gaps). Position and length arrive with each line.
--
-- Lines of one file that follow one another and arrived in one insert, as one row. A refused line is a row of its own.
-- Lines that are delivered twice cover the same bytes twice, which changes nothing.
-- Distributed by cityHash64(source).
CREATE TABLE IF NOT EXISTS line_runs${local} ${on_cluster}
(
    source LowCardinality(String) COMMENT 'host and file; a rotated file has the name of its log',
    begin UInt64 CODEC(Delta, ZSTD(1)) COMMENT 'byte at which the first line begins',
    end UInt64 CODEC(Delta, ZSTD(1)) COMMENT 'byte after the newline of the last line',
    lines UInt32 CODEC(T64, ZSTD(1)),
    since DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)) COMMENT 'earliest time of its records; of a refused line: when it was refused',
    until DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)) COMMENT 'latest time of its records',
    refused Bool COMMENT 'a line of dead_letters',
    arrived DateTime('UTC') CODEC(Delta, ZSTD(1)) COMMENT 'when the store took it'
)
ENGINE = ${replicated}ReplacingMergeTree
ORDER BY (source, begin, end, since, refused)
SETTINGS replicated_deduplication_window = 0;
