-- What the requests of a pair allow its clock offset to be, window by window (sojourn.components.clock_offsets): answered at the
-- first attempt only, at the instant at which the app read its clock. Everything in us.
SELECT
    proxy,
    upstream,
    any(number) AS pair,
    intDiv(read, {width:Int64}) AS window,
    min(read) AS earliest,
    max(read) AS latest,
    min(toInt64(round((app_start - connecting) * 1e6))) AS upper,
    max(toInt64(round((app_start + app_service - header) * 1e6))) AS lower,
    min(toInt64(round(connecting * 1e6))) AS round_trip,
    min(proxy_us % 1000 = 0 AND toInt64(round(header * 1e6)) % 1000 = 0) AS coarse,
    count() AS requests
FROM (
    SELECT
        proxy,
        upstream,
        facts.pair AS number,
        assumeNotNull(facts.app_start) AS app_start,
        assumeNotNull(facts.app_service) AS app_service,
        assumeNotNull(facts.header) AS header,
        ifNull(facts.connect, 0) AS connecting,
        toUnixTimestamp64Micro(assumeNotNull(proxy_start)) AS proxy_us,
        proxy_us + toInt64(round((header - app_service) * 1e6)) AS read
    FROM facts
    WHERE answered AND attempts = 1 AND facts.app_start IS NOT NULL AND facts.app_service IS NOT NULL
)
WHERE $within
GROUP BY proxy, upstream, window
