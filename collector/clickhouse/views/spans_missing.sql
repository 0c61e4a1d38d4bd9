-- Requests whose app answered with the headers of the middleware, and that have no span, by minute, service and file. missing:
-- how many of them are more than the service usually has; their spans were lost. 0 is normal. The last ten minutes are not there.
--
-- Only routes count of which some request had a span in the hour or the 24 hours before: a service without spans has no row. Usual is
-- the median of these 24 hours, and high what nine in ten of them do not exceed. The share of an hour is that of its median
-- minute, so that a loss of a few minutes is not usual; with fewer than 6,000 requests it is that of all its requests. missing is null
-- with fewer than 100 requests in those hours.
--
-- Where every request has a span, one without is missing: usual is 0, and at most 1 % of those hours' requests lack one. Where only
-- some have (head sampling), missing is the number above the usual one, if it exceeds high by more than chance explains: once in a
-- million minutes (Bernstein's inequality, with ln(10^6) = 14). A loss that lasts longer than half of the 24 hours is usual then.
CREATE OR REPLACE VIEW spans_missing ${on_cluster} SQL SECURITY INVOKER AS
WITH
    counted AS
    (
        SELECT minute, toStartOfHour(minute) AS hour, c.service AS service, c.route AS route, c.source AS source,
            c.requests AS requests, c.without_span AS without_span
        FROM spans_minute FINAL
        ARRAY JOIN counts AS c
    ),
    routes AS
    (
        SELECT hour, service, route
        FROM
        (
            SELECT hour, service, route, sum(matched) OVER (
                PARTITION BY service, route ORDER BY hour RANGE BETWEEN 86400 PRECEDING AND CURRENT ROW) AS matched_lately
            FROM (SELECT hour, service, route, sum(requests - without_span) AS matched FROM counted GROUP BY hour, service, route)
        )
        WHERE matched_lately > 0
    ),
    minutes AS
    (
        SELECT minute, hour, service, source, sum(c.requests) AS requests, sum(c.without_span) AS without_span
        FROM counted AS c
        GLOBAL INNER JOIN routes USING (hour, service, route)
        GROUP BY minute, hour, service, source
    ),
    hours AS
    (
        SELECT
            hour,
            service,
            sum(n) AS of_hour,
            sum(bare) AS bare_of_hour,
            if(of_hour < 6000, sum(bare) / of_hour, quantileExactWeighted(0.5)(bare / n, n)) AS share
        FROM (SELECT minute, hour, service, sum(requests) AS n, sum(without_span) AS bare FROM minutes GROUP BY minute, hour, service)
        GROUP BY hour, service
    ),
    usual_shares AS
    (
        SELECT
            hour,
            service,
            sum(of_hour) OVER before AS of_hours,
            quantileExactLow(0.5)(share) OVER before AS usual_share,
            if(usual_share = 0 AND sum(bare_of_hour) OVER before <= 0.01 * of_hours, 0, quantileExactLow(0.9)(share) OVER before) AS high_share
        FROM hours
        WINDOW before AS (PARTITION BY service ORDER BY hour RANGE BETWEEN 86400 PRECEDING AND 3600 PRECEDING)
    )
SELECT
    m.minute AS minute,
    m.service AS service,
    m.source AS source,
    m.requests AS requests,
    m.without_span AS without_span,
    if(u.of_hours < 100, NULL, u.usual_share) AS usual,
    if(u.of_hours < 100, NULL, u.high_share) AS high,
    if(high = 0, 0, 14 / 3 + sqrt(pow(14 / 3, 2) + 2 * 14 * m.requests * high * (1 - high))) AS chance,
    if(high IS NULL, NULL, toInt64(if(m.without_span > m.requests * high + chance, round(m.without_span - m.requests * usual), 0))) AS missing
FROM minutes AS m
GLOBAL INNER JOIN usual_shares AS u ON u.hour = m.hour AND u.service = m.service;
