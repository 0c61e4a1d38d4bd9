-- One row: counts over all requests, figures and checks over those that were served (upgraded connections left out).
SELECT
    count() AS requests,
    countIf(served) AS served_requests,
    min(start) AS first,
    max(time) AS last,
    sum(wasted) AS wasted,
    $sources,
    countIf(attempts > 1) AS several,
    $classes,
    $figures,
    $means,
    maxIf(abs($component_sum - request_time), served) AS error,
    $negative,
    countIf(served AND app_garbled) AS garbled,
    $differ AS differ,
    $ticks,
    minIf(request_time, served) AS shortest,
    minIf(start, served) AS first_served,
    maxIf(start, served) AS last_served
FROM split
