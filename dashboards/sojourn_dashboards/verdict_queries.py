"""The queries of the dashboard with the verdict."""

from __future__ import annotations

from sojourn.model.verdict import CAUSE_SHARE, HEALTHY_QUEUEING

from sojourn_dashboards.datasource import sql
from sojourn_dashboards.filters import ROLLUP, SLO
from sojourn_dashboards.sketches import merged, quantile_of
from sojourn_dashboards.waits import APP_ALONE, HAS_PART, MEAN, SHARE, SUMS_OF_WAITS

# Sums over the range, and what a panel needs besides: sketches and histograms are what takes time to merge. Names of
# their own: ClickHouse puts an alias in place of a column of the same name.
SUMS = f"""
{SUMS_OF_WAITS}, sum(app_alone) AS n_app_alone,
sum(requests) AS n, sum(failed) - sum(abandoned) AS n_errors, sum(timeouts) AS n_timeouts,
sum(abandoned) AS n_abandoned, sum(unmeasured) AS n_unmeasured,
sum(response_seconds) AS s_response, sum(queueing_seconds) AS s_queueing,
sum(service_seconds) AS s_service, sum(upload_seconds) AS s_before, sum(transfer_seconds) AS s_body,
sum(send_seconds) AS s_after,
sum(retries_seconds) AS s_retries,
sum(unattributed_seconds) + sum(network_seconds) + sum(redirected_seconds) AS s_unknown
"""


def summed(*more: str) -> str:
    """Return SQL: one row of sums over the range, and ``more``."""
    return sql("SELECT @sums@ FROM rollup_minute FINAL WHERE @rollup@", sums=", ".join([SUMS, *more]), rollup=ROLLUP)


def one(expression: str, *more: str) -> str:
    """Return SQL: one value computed from the sums; no row where there is no request."""
    return sql("SELECT @it@ AS value FROM (@sums@) WHERE n > 0", it=expression, sums=summed(*more))


RESPONSE = f"{merged('response')} AS q_response"

VERDICT = sql(
    """
    SELECT multiIf(@app_alone@, 'unknown',
        p99 <= @slo@ AND shares[1] + shares[7] <= @healthy@ AND cause IN ('queueing', 'service', 'mixed'), 'healthy',
        cause) AS verdict
    FROM
    (
        SELECT
            n, n_app_alone, q_response[3] AS p99,
            arrayMap(s -> s / s_response,
                [s_queueing, s_service, s_before, s_body, s_after, s_retries, s_unknown]) AS shares,
            if(arrayMax(shares) >= @share@,
                ['queueing', 'service', 'before', 'body', 'after', 'retries', 'unknown'][
                    indexOf(shares, arrayMax(shares))],
                if(shares[7] > @healthy@, 'unknown', 'mixed'))
                AS cause
        FROM (@sums@) WHERE n > 0
    )
    """,
    app_alone=APP_ALONE,
    slo=SLO,
    healthy=str(HEALTHY_QUEUEING),
    share=str(CAUSE_SHARE),
    sums=summed(RESPONSE),
)

SPLIT_OVER_TIME = sql(
    """
    SELECT t, if(@has_part@, s_queueing / n, NULL) AS "queueing delay", s_service / n AS "service time",
        (s_response - s_queueing - s_service) / n AS "everything else"
    FROM
    (
        SELECT $__timeInterval(minute) AS t, sum(requests) AS n, sum(response_seconds) AS s_response,
            sum(queueing_seconds) AS s_queueing, sum(service_seconds) AS s_service, @waits@
        FROM rollup_minute FINAL WHERE @rollup@ GROUP BY t
    )
    WHERE n > 0 ORDER BY t
    """,
    has_part=HAS_PART,
    waits=SUMS_OF_WAITS,
    rollup=ROLLUP,
)

SHARE_OVER_TIME = sql(
    """
    SELECT t, @share@ AS "share of queueing"
    FROM (SELECT $__timeInterval(minute) AS t, @waits@ FROM rollup_minute FINAL WHERE @rollup@ GROUP BY t)
    WHERE "share of queueing" IS NOT NULL ORDER BY t
    """,
    share=SHARE,
    waits=SUMS_OF_WAITS,
    rollup=ROLLUP,
)

# The tail begins at the bucket of the response time in which the p99 lies; buckets are a twentieth of a decade wide.
TAIL = sql(
    """
    WITH
        sums AS
        (
            SELECT
                sumMap(response_histogram) AS counts, sumMap(queueing_by_response) AS of_queueing,
                sumMap(service_by_response) AS of_service, sumMap(network_by_response) AS of_network,
                sumMap(upload_by_response) AS of_upload,
                sumMap(retries_by_response) AS of_retries, sumMap(transfer_by_response) AS of_transfer,
                sumMap(redirected_by_response) AS of_redirected, sumMap(send_by_response) AS of_send,
                sumMap(unattributed_by_response) AS of_unattributed, @waits@
            FROM rollup_minute FINAL WHERE @rollup@
        ),
        edges AS
        (
            SELECT *, arraySort(mapKeys(counts)) AS buckets, arrayCumSum(arrayMap(b -> counts[b], buckets)) AS below,
                buckets[arrayFirstIndex(c -> c >= 0.99 * below[-1], below)] AS p99
            FROM sums WHERE notEmpty(counts)
        )
    SELECT if(tail, 'slowest 1 %', 'all requests') AS "requests",
        toUInt64(arraySum(mapValues(mapFilter((b, v) -> b >= since, counts)))) AS "how many",
        if(@has_part@, arraySum(mapValues(mapFilter((b, v) -> b >= since, of_queueing))) / "how many", NULL)
            AS "queueing delay",
        arraySum(mapValues(mapFilter((b, v) -> b >= since, of_service))) / "how many" AS "service time",
        arraySum(mapValues(mapFilter((b, v) -> b >= since, of_network))) / "how many" AS "network",
        arraySum(mapValues(mapFilter((b, v) -> b >= since, of_upload))) / "how many" AS "upload",
        arraySum(mapValues(mapFilter((b, v) -> b >= since, of_retries))) / "how many" AS "retries",
        arraySum(mapValues(mapFilter((b, v) -> b >= since, of_transfer))) / "how many" AS "transfer",
        arraySum(mapValues(mapFilter((b, v) -> b >= since, of_redirected))) / "how many" AS "redirected",
        arraySum(mapValues(mapFilter((b, v) -> b >= since, of_send))) / "how many" AS "send",
        arraySum(mapValues(mapFilter((b, v) -> b >= since, of_unattributed))) / "how many" AS "unattributed"
    FROM edges ARRAY JOIN [false, true] AS tail, [toInt16(-80), p99] AS since
    ORDER BY tail
    """,
    has_part=HAS_PART,
    waits=SUMS_OF_WAITS,
    rollup=ROLLUP,
)


def by(column: str, label: str) -> str:
    """Return SQL: a row for each value of a column, the one with most queueing first."""
    parts = ("response", "queueing", "service")
    return sql(
        """
        SELECT if(name = '', '-', name) AS "@label@", n AS "requests", n / seconds AS "rate",
            s_response / n AS "mean response", @response@ AS "p99 response",
            @share@ AS "share of queueing",
            @mean@ AS "mean queueing", @queueing@ AS "p99 queueing",
            s_service / n AS "mean service", @service@ AS "p99 service",
            n_errors AS "5xx", n_timeouts AS "timed out", n_abandoned AS "abandoned", n_unmeasured AS "unmeasured"
        FROM
        (
            SELECT @column@ AS name, dateDiff('second', $__fromTime, $__toTime) AS seconds, @sums@
            FROM rollup_minute FINAL WHERE @rollup@ GROUP BY name
        )
        WHERE n > 0 ORDER BY s_queueing DESC LIMIT 200
        """,
        share=SHARE,
        mean=MEAN,
        column=column,
        label=label,
        sums=", ".join([SUMS, *(f"sumMap({part}_histogram) AS h_{part}" for part in parts)]),
        rollup=ROLLUP,
        **{part: quantile_of(f"h_{part}", 0.99) for part in parts},
    )


LOST_OVER_TIME = sql(
    """
    SELECT $__timeInterval(minute) AS t, sum(timeouts) AS "timed out (504)", sum(abandoned) AS "abandoned (499)",
        sum(failed) - sum(abandoned) - sum(timeouts) AS "other 5xx"
    FROM rollup_minute FINAL WHERE @rollup@ GROUP BY t ORDER BY t
    """,
    rollup=ROLLUP,
)
