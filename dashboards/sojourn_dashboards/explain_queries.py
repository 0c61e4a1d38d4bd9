"""Queries of the dashboard Explained."""

from __future__ import annotations

from sojourn_dashboards.datasource import sql
from sojourn_dashboards.filters import BACKEND, PLACE, chosen, number_of
from sojourn_dashboards.load import BUSY_KINDS, SECONDS, WHOLE

# The cause of a wait: a route, or one of the two accounts without a route.
CULPRIT = "multiIf(account != 'blamed', concat('(', account, ')'), culprit = '', '-', culprit)"
WAITS = f"$__timeFilter(minute) AND {PLACE} AND {chosen('victim', 'route')}"
# The box, or the value in the store; without either, no limit.
BEARS = f"coalesce({number_of('capacity')}, nullIf(c.rate, 0))"

BLAME_OVER_TIME = sql(
    """
    SELECT t, if(who IN (SELECT who FROM (
            SELECT @who@ AS who, sum(seconds) AS s FROM blame_minute FINAL WHERE @waits@
            GROUP BY who ORDER BY s DESC, who LIMIT 10)), who, '(other)') AS culprits, sum(s_waited) AS "Value"
    FROM
    (
        SELECT $__timeInterval(minute) AS t, @who@ AS who, sum(seconds) AS s_waited
        FROM blame_minute FINAL WHERE @waits@ AND seconds != 0 GROUP BY t, who
    )
    GROUP BY t, culprits ORDER BY t, culprits
    """,
    who=CULPRIT,
    waits=WAITS,
)

HELD_OVER_TIME = sql(
    """
    SELECT $__timeInterval(minute) AS t, if(phase = 'at_least', '(at least)', phase) AS phases, sum(seconds) AS "Value"
    FROM held_minute FINAL WHERE @load@ AND seconds != 0 GROUP BY t, phases ORDER BY t, phases
    """,
    load=BACKEND,
)

CULPRITS = sql(
    """
    SELECT b.who AS "waited for", b.s_waited AS "seconds", b.s_waited / b.everything AS "share of waiting",
        if(r.n > 0, r.n / r.everything, NULL) AS "share of requests"
    FROM
    (
        SELECT @who@ AS who, sum(seconds) AS s_waited, sum(sum(seconds)) OVER () AS everything
        FROM blame_minute FINAL WHERE @waits@ AND seconds != 0 GROUP BY who
    ) AS b
    LEFT JOIN
    (
        SELECT if(route = '', '-', route) AS who, sum(requests) AS n, sum(sum(requests)) OVER () AS everything
        FROM rollup_minute FINAL WHERE @load@ GROUP BY who
    ) AS r USING (who)
    ORDER BY b.s_waited DESC, b.who LIMIT 200
    """,
    who=CULPRIT,
    waits=WAITS,
    load=BACKEND,
)

PAIRS = sql(
    """
    SELECT if(name = '', '-', name) AS "who waited", who AS "waited for", s_waited AS "seconds",
        s_waited / everything AS "share of waiting"
    FROM
    (
        SELECT victim AS name, @who@ AS who, sum(seconds) AS s_waited, sum(sum(seconds)) OVER () AS everything
        FROM blame_minute FINAL WHERE @waits@ AND seconds != 0 GROUP BY name, who
    )
    ORDER BY s_waited DESC, name, who LIMIT 200
    """,
    who=CULPRIT,
    waits=WAITS,
)

WASTED_OVER_TIME = sql(
    """
    SELECT t, name, s_wasted / (s_wasted + s_worked) AS "Value"
    FROM
    (
        SELECT $__timeInterval(minute) AS t, if(service = '', '-', service) AS name, sum(wasted) AS s_wasted,
            sum(worked) AS s_worked
        FROM wasted_minute WHERE $__timeFilter(minute) AND @services@ GROUP BY t, name
    )
    WHERE s_wasted + s_worked > 0 ORDER BY t, name
    """,
    services=chosen("service", "service"),
)

UNKNOWN_WORK = sql(
    """
    SELECT n_unknown / n_gone AS value
    FROM
    (
        SELECT sum(gone) AS n_gone, sum(unknown) AS n_unknown
        FROM wasted_minute WHERE $__timeFilter(minute) AND @services@
    )
    WHERE n_gone > 0
    """,
    services=chosen("service", "service"),
)

WASTED_ROUTES = sql(
    """
    SELECT if(name = '', '-', name) AS "route", n AS "given up on", s_wasted AS "seconds wasted", longest AS "longest"
    FROM
    (
        SELECT route AS name, count() AS n, sum(wasted) AS s_wasted, max(wasted) AS longest
        FROM wasted_work WHERE $__timeFilter(time) AND @place@ AND @routes@ GROUP BY name
    )
    ORDER BY s_wasted DESC, name LIMIT 200
    """,
    place=PLACE,
    routes=chosen("route", "route"),
)

WAIT_BY_UTILISATION = sql(
    """
    SELECT round(busy_share * 20) / 20 AS "utilisation", sum(wait * rate) / sum(rate) AS "queueing delay"
    FROM
    (
        SELECT utilisation AS busy_share, mean_wait AS wait, throughput AS rate
        FROM saturation_minute WHERE @load@ AND busy_is = 'held' AND workers > 0 AND throughput > 0
    )
    GROUP BY "utilisation" ORDER BY "utilisation"
    """,
    load=BACKEND,
)

THROUGHPUT_BY_CONCURRENCY = sql(
    """
    SELECT exp10(round(log10(present) * 10) / 10) AS "requests in system", avg(rate) AS "throughput",
        max(rate) AS "highest"
    FROM
    (
        SELECT minute, sum(concurrency) AS present, sum(throughput) AS rate
        FROM saturation_minute WHERE @load@ GROUP BY minute
    )
    WHERE present > 0 GROUP BY "requests in system" ORDER BY "requests in system"
    """,
    load=BACKEND,
)


def _against_capacity(selected: str, grouped: str, condition: str = "1 = 1") -> str:
    return sql(
        """
        SELECT @selected@
        FROM
        (
            SELECT r.t AS t, r.name AS name, r.n AS n, @limit_rate@ AS limit_rate
            FROM
            (
                SELECT $__timeInterval(minute) AS t, service AS name, sum(requests) AS n
                FROM rollup_minute FINAL WHERE @where@ GROUP BY t, name
            ) AS r
            LEFT JOIN (SELECT service AS name, rate FROM capacity FINAL) AS c USING (name)
        )
        WHERE @seconds@ > 0 AND @condition@ GROUP BY @grouped@ ORDER BY @grouped@
        """,
        selected=selected,
        grouped=grouped,
        condition=condition,
        limit_rate=BEARS,
        where=WHOLE,
        seconds=SECONDS,
    )


AGAINST_CAPACITY = _against_capacity(f't, sum(n) / any({SECONDS}) AS "throughput", sum(limit_rate) AS "capacity"', "t")
SHARE_OF_CAPACITY = _against_capacity(
    f"t, if(name = '', '-', name) AS service, sum(n) / any({SECONDS}) / any(limit_rate) AS \"Value\"",
    "t, service",
    "limit_rate > 0",
)

SATURATION = sql(
    """
    SELECT if(name = '', '-', name) AS "service", if(place = '', '-', place) AS "backend", n / minutes / 60 AS "rate",
        n_workers AS "workers", s_busy / minutes / 60 AS "busy workers",
        if(n_workers > 0, s_busy / minutes / 60 / n_workers, NULL) AS "utilisation", busiest AS "busiest minute",
        busy_kinds AS "busy is", if(n > 0, s_queueing / n, NULL) AS "mean queueing"
    FROM
    (
        SELECT service AS name, upstream AS place, sum(throughput) * 60 AS n, max(workers) AS n_workers,
            sum(busy) * 60 AS s_busy, max(utilisation) AS busiest, sum(waiting) * 60 AS s_queueing,
            count() AS minutes, @kinds@ AS busy_kinds
        FROM saturation_minute WHERE @load@ GROUP BY name, place
    )
    ORDER BY s_busy DESC, name, place LIMIT 200
    """,
    load=BACKEND,
    kinds=BUSY_KINDS,
)
