-- How a request in types becomes a row of requests: times as differences, which are small, and a request id as two numbers. The
-- expressions are the reverse of the columns of requests.
CREATE MATERIALIZED VIEW IF NOT EXISTS rows_to_requests${local} ${on_cluster} TO requests${local}
DEFINER = CURRENT_USER SQL SECURITY DEFINER AS
WITH
    toUnixTimestamp64Micro(time) - reinterpretAsInt64(request_time) AS started,
    length(request_id) = 32 AND lower(hex(unhex(request_id))) = request_id AS is_hexadecimal,
    if(empty(attempt_header), NULL, attempt_header[-1]) AS header_time,
    -- Another id, or none: then the proxy, connection and number of the request distinguish two records of one instant.
    -- Without these, two records that are alike to the last byte are one.
    request_id != '' OR (proxy != '' AND connection IS NOT NULL AND connection_requests IS NOT NULL) AS is_identified,
    sipHash64(
        request_id, length(attempt_addr), proxy, isNull(connection), ifNull(connection, 0), isNull(connection_requests),
        ifNull(connection_requests, 0), request_time, status, if(is_identified, '', toString(tuple(
            method, host, uri, protocol, remote_addr, worker, stamp, trace_id, span_id, bytes_sent, request_length,
            request_start, proxy_start, upstream_cache_status, limit_req_status, attempt_addr, attempt_status, attempt_connect, attempt_header,
            attempt_response, redirects_after, app_queueing_delay, app_service_time)))) AS hash_of_all
SELECT
    time,
    request_time,
    toUnixTimestamp64Micro(proxy_start) - started AS proxy_start_after,
    toUnixTimestamp64Micro(request_start) - ifNull(toUnixTimestamp64Micro(proxy_start), started) AS request_start_after,
    proxy_queue,
    status,
    service,
    route,
    proxy,
    worker,
    stamp,
    upstream_cache_status,
    limit_req_status,
    method,
    protocol,
    host,
    uri,
    remote_addr,
    if(is_hexadecimal, reinterpretAsUInt64(unhex(left(request_id, 16))), 0) AS id_first,
    toUInt16(length(attempt_addr)) AS attempts,
    if(is_hexadecimal, bitXor(reinterpretAsUInt64(unhex(substring(request_id, 17))), ${identity_hash}), hash_of_all) AS record,
    NOT is_hexadecimal AS id_is_text,
    if(is_hexadecimal, '', request_id) AS id_text,
    trace_id,
    span_id,
    bytes_sent,
    request_length,
    connection,
    connection_requests,
    attempt_addr,
    attempt_status,
    attempt_connect,
    redirects_after,
    arrayMap((h, r) -> if(r IS NULL, h, r - h), attempt_header, attempt_response) AS attempt_after_header,
    arrayMap(r -> request_time - r, attempt_response) AS attempt_not_response,
    ifNull(header_time - app_service_time, 0) - app_queueing_delay AS app_rest,
    app_service_time,
    app_garbled,
    dropped,
    vantage,
    time_step,
    source,
    ingested
FROM incoming_rows${local};
