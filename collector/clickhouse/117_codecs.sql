-- Fewer bytes on disk for parts that are written from now on. Most times of a log are whole milliseconds: GCD divides the
-- values of a block by what they have in common. Measured per request, 500,000 requests: 52.2 bytes before, 47.5 after.
ALTER TABLE requests${local} ${on_cluster}
    MODIFY COLUMN time CODEC(GCD, Delta, ZSTD(3)),
    MODIFY COLUMN request_time CODEC(GCD, T64('bit'), ZSTD(1)),
    MODIFY COLUMN request_start CODEC(GCD, T64('bit'), ZSTD(1)),
    MODIFY COLUMN proxy_start CODEC(GCD, T64('bit'), ZSTD(1)),
    MODIFY COLUMN worker CODEC(ZSTD(3)),
    MODIFY COLUMN uri CODEC(ZSTD(6)),
    MODIFY COLUMN span_id CODEC(ZSTD(3)),
    MODIFY COLUMN attempt_addr CODEC(ZSTD(3)),
    MODIFY COLUMN attempt_status CODEC(ZSTD(3)),
    MODIFY COLUMN attempt_header CODEC(GCD, T64('bit'), ZSTD(1)),
    MODIFY COLUMN attempt_response CODEC(GCD, T64('bit'), ZSTD(1));
