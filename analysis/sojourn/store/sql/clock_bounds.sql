-- What the requests of a pair allow its clock offset to be (sojourn.explain.clock): answered at the first attempt only.
SELECT
    proxy,
    upstream,
    any(facts.pair) AS pair,
    min(app_start - ifNull(connect, 0)) AS upper,
    max(app_start + app_service - header) AS lower,
    min(ifNull(connect, 0)) AS round_trip,
    min(toUnixTimestamp64Micro(assumeNotNull(proxy_start)) % 1000 = 0
        AND toInt64(round(assumeNotNull(header) * 1e6)) % 1000 = 0) AS coarse,
    count() AS requests
FROM facts
WHERE answered AND attempts = 1 AND app_start IS NOT NULL AND app_service IS NOT NULL
GROUP BY proxy, upstream
