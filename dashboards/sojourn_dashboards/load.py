"""Depth, concurrency and utilisation: requests in system, and how busy the workers are."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from sojourn_dashboards.datasource import sql
from sojourn_dashboards.filters import BACKEND, ROLLUP, rollup_variables
from sojourn_dashboards.frame import add_row, dashboard
from sojourn_dashboards.panels import columns, lines, to_requests

# Seconds of the whole minutes in an interval: not those outside the range, nor the one that is not over yet.
OVER = " AND minute <= now() - INTERVAL 60 SECOND"
WHOLE = ROLLUP + OVER
SECONDS = (
    "60 * (intDiv(toUnixTimestamp(least(t + toIntervalSecond($__interval_s) - 1, $__toTime, now() - 60)), 60)"
    " - intDiv(toUnixTimestamp(greatest(t, $__fromTime)) + 59, 60) + 1)"
)
# How the busy workers of several minutes are known, as text.
BUSY_KINDS = "arrayStringConcat(arraySort(groupUniqArray(busy_is)), ', ')"


def _per_second(selected: str) -> str:
    return sql(
        """
        SELECT t, @selected@
        FROM
        (
            SELECT t, @seconds@ AS seconds, sum(requests) AS n, sum(failed) AS n_lost,
                sum(response_seconds) AS s_response, sum(queueing_seconds) AS s_queueing,
                sum(service_seconds) AS s_service
            FROM (SELECT $__timeInterval(minute) AS t, * FROM rollup_minute FINAL WHERE @where@)
            GROUP BY t
        )
        WHERE seconds > 0 ORDER BY t
        """,
        selected=selected,
        seconds=SECONDS,
        where=WHOLE,
    )


# Seconds for which the workers of each backend were busy, whether that is a lower bound, and its workers: their number
# where it is explained, else those seen. Worker numbers are unique within a backend only.
BUSY = f"""
sum(busy) * 60 AS s_busy, maxIf(workers, busy_is != 'service only') AS n_known, max(busy_is != 'held') AS bounded,
{BUSY_KINDS} AS busy_kinds
"""
WORKERS_OF = "if(n_known > 0, n_known, n_seen)"


def _of_workers(selected: str) -> str:
    return sql(
        """
        SELECT t, @selected@
        FROM
        (
            SELECT t, @seconds@ AS seconds, sum(s_busy) AS s_busy, max(bounded) AS bounded, sum(@workers@) AS n_workers
            FROM
            (
                SELECT $__timeInterval(minute) AS t, upstream, @busy@ FROM saturation_minute WHERE @where@
                GROUP BY t, upstream
            ) AS b
            LEFT JOIN
            (
                SELECT $__timeInterval(minute) AS t, upstream, uniqExactMerge(workers) AS n_seen
                FROM rollup_minute FINAL WHERE @where@ GROUP BY t, upstream
            ) AS r USING (t, upstream)
            GROUP BY t
        )
        WHERE seconds > 0 ORDER BY t
        """,
        selected=selected,
        seconds=SECONDS,
        workers=WORKERS_OF,
        busy=BUSY,
        where=BACKEND + OVER,
    )


def _bounded(name: str, value: str) -> str:
    """Return SQL: a column of this name, and one for values that are lower bounds."""
    return f'if(bounded, NULL, {value}) AS "{name}", if(bounded, {value}, NULL) AS "{name}, at least"'


RATES = _per_second('(n - n_lost) / seconds AS "answered", n_lost / seconds AS "failed or abandoned"')
CONCURRENCY = _per_second(
    's_queueing / seconds AS "waiting", s_service / seconds AS "in service", '
    '(s_response - s_queueing - s_service) / seconds AS "elsewhere"'
)
WORKERS = _of_workers(f'{_bounded("busy workers", "s_busy / seconds")}, n_workers AS "workers"')
UTILISATION = _of_workers(_bounded("utilisation", "if(n_workers > 0, s_busy / seconds / n_workers, NULL)"))


def _listen_queues(selected: str) -> str:
    return f"""
SELECT $__timeInterval(time) AS t, concat(machine, ' ', socket, ':', toString(port)) AS place,
    {selected}
FROM listen_queue WHERE $__timeFilter(time)
GROUP BY t, place ORDER BY t, place
"""  # noqa: S608 - columns of this module


DEPTH = _listen_queues('max(depth) AS "waiting to be accepted", max(backlog) AS "backlog"')
FILLED = _listen_queues('max(depth / greatest(backlog, 1)) AS "Value"')

BACKENDS = sql(
    """
    SELECT if(service = '', '-', service) AS "service", if(upstream = '', '-', upstream) AS "backend",
        n / seconds AS "rate", @workers@ AS "workers", s_busy / seconds AS "busy workers",
        if("workers" > 0, s_busy / seconds / "workers", NULL) AS "utilisation", busy_kinds AS "busy is",
        s_queueing / seconds AS "waiting", s_queueing / n AS "mean queueing"
    FROM
    (
        SELECT service, upstream, sum(requests) AS n, sum(queueing_seconds) AS s_queueing,
            uniqExactMerge(workers) AS n_seen,
            60 * (intDiv(toUnixTimestamp(least($__toTime, now() - 60)), 60)
                - intDiv(toUnixTimestamp($__fromTime) + 59, 60) + 1) AS seconds
        FROM rollup_minute FINAL WHERE @where@ GROUP BY service, upstream
    ) AS r
    LEFT JOIN
    (
        SELECT service, upstream, @busy@ FROM saturation_minute WHERE @backend@ GROUP BY service, upstream
    ) AS b USING (service, upstream)
    WHERE n > 0 AND seconds > 0 ORDER BY s_busy DESC, service, upstream LIMIT 200
    """,
    workers=WORKERS_OF,
    busy=BUSY,
    where=WHOLE,
    backend=BACKEND + OVER,
)

NO_SAMPLES = "no sample of a listen queue in this range: the sampler may not be running"


def load() -> Dashboard:
    """Return the dashboard with uid ``sojourn-load``."""
    board = dashboard(
        "sojourn-load",
        "Depth, concurrency, utilisation",
        "Requests in system, and the utilisation of the workers.",
        rollup_variables(),
    )
    add_row(
        board,
        "Requests",
        lines(
            RATES,
            "Rate",
            "Requests that ended per second; 5xx and 499 on top of the answered ones. Upgraded connections (101) are "
            "not counted.",
            "reqps",
            links={"": to_requests()},
            stacked=True,
        ),
        lines(
            CONCURRENCY,
            "Concurrency",
            "Mean requests in system, by state: seconds of response time per second (Little 1961). A request's "
            "seconds count in the interval in which it ended, so an interval should be longer than a response.",
            "short",
            links={"": to_requests()},
            stacked=True,
        ),
    )
    add_row(
        board,
        "Workers",
        lines(
            WORKERS,
            "Busy workers",
            "Mean busy workers, and the number of workers, of all routes. At least: sojourn store explain has not "
            "computed a minute of the interval, so that only service time until the headers counts, or more may "
            "have held the workers than the log shows.",
            "short",
        ),
        lines(
            UTILISATION,
            "Utilisation",
            "Busy workers over workers, of all routes. Near 1 queueing grows without bound. At least: as for busy "
            "workers; workers without an answer are then not counted, which raises this figure.",
            "percentunit",
        ),
    )
    add_row(
        board,
        "Listen queues",
        lines(
            DEPTH,
            "Depth against backlog",
            "Connections that the kernel has completed and the app has not accepted, the highest sample "
            "of the interval, and the kernel's limit.",
            "short",
            empty=NO_SAMPLES,
        ),
        lines(
            FILLED,
            "Filled",
            "Depth over backlog, the highest sample of the interval. At 1 the kernel drops handshakes.",
            "percentunit",
            empty=NO_SAMPLES,
        ),
    )
    add_row(
        board,
        "By backend",
        columns(
            BACKENDS,
            "Backends",
            "Each backend over the whole range, the busiest first: rate, workers, how many of them were busy, of "
            "all routes, and how many requests waited on average. Busy is: held time where sojourn store explain "
            "has computed it, otherwise service time until the headers only.",
            "none",
            width=24,
            height=9,
            units={
                "rate": "reqps",
                "workers": "locale",
                "busy workers": "short",
                "utilisation": "percentunit",
                "waiting": "short",
                "mean queueing": "s",
            },
        ),
    )
    return board
