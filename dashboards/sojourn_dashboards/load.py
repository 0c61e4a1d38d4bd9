"""Depth, concurrency and utilisation: requests in system, and how busy the workers are."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from sojourn_dashboards.datasource import sql
from sojourn_dashboards.filters import ROLLUP, rollup_variables
from sojourn_dashboards.frame import dashboard
from sojourn_dashboards.panels import Shown, columns, lines, to_requests

# Seconds of the whole minutes in an interval: not those outside the range, nor the one that is not over yet.
WHOLE = ROLLUP + " AND minute <= now() - INTERVAL 60 SECOND"
SECONDS = (
    "60 * (intDiv(toUnixTimestamp(least(t + toIntervalSecond($__interval_s) - 1, $__toTime, now() - 60)), 60)"
    " - intDiv(toUnixTimestamp(greatest(t, $__fromTime)) + 59, 60) + 1)"
)


# Worker numbers are unique within a backend only: workers are counted by backend.
def _per_second(selected: str) -> str:
    return sql(
        """
        SELECT t, @selected@
        FROM
        (
            SELECT t, @seconds@ AS seconds, sum(one.n) AS n, sum(one.n_lost) AS n_lost,
                sum(one.s_response) AS s_response,
                sum(one.s_queueing) AS s_queueing, sum(one.s_service) AS s_service, sum(one.n_workers) AS n_workers
            FROM
            (
                SELECT $__timeInterval(minute) AS t, upstream, sum(requests) AS n,
                    sum(errors) + sum(abandoned) AS n_lost,
                    sum(response_seconds) AS s_response, sum(queueing_seconds) AS s_queueing,
                    sum(service_seconds) AS s_service, uniqExactMerge(workers) AS n_workers
                FROM rollup_minute FINAL WHERE @where@ GROUP BY t, upstream
            ) AS one
            GROUP BY t
        )
        WHERE seconds > 0 ORDER BY t
        """,
        selected=selected,
        seconds=SECONDS,
        where=WHOLE,
    )


RATES = _per_second('(n - n_lost) / seconds AS "answered", n_lost / seconds AS "failed or abandoned"')
CONCURRENCY = _per_second(
    's_queueing / seconds AS "waiting", s_service / seconds AS "in service", '
    '(s_response - s_queueing - s_service) / seconds AS "elsewhere"'
)
WORKERS = _per_second('s_service / seconds AS "busy workers", n_workers AS "workers seen"')
UTILISATION = _per_second('if(n_workers > 0, s_service / seconds / n_workers, NULL) AS "utilisation"')

DEPTH = """
SELECT $__timeInterval(time) AS t, concat(machine, ' ', socket, ':', toString(port)) AS place,
    max(depth) AS "waiting to be accepted", max(backlog) AS "backlog"
FROM listen_queue WHERE $__timeFilter(time)
GROUP BY t, place ORDER BY t, place
"""

FILLED = """
SELECT $__timeInterval(time) AS t, concat(machine, ' ', socket, ':', toString(port)) AS place,
    max(depth / greatest(backlog, 1)) AS "Value"
FROM listen_queue WHERE $__timeFilter(time)
GROUP BY t, place ORDER BY t, place
"""

BACKENDS = sql(
    """
    SELECT if(service = '', '-', service) AS "service", if(upstream = '', '-', upstream) AS "backend",
        n / seconds AS "rate", n_workers AS "workers seen", s_service / seconds AS "busy workers",
        if(n_workers > 0, s_service / seconds / n_workers, NULL) AS "utilisation",
        s_queueing / seconds AS "waiting", s_queueing / n AS "mean queueing"
    FROM
    (
        SELECT service, upstream, sum(requests) AS n, sum(queueing_seconds) AS s_queueing,
            sum(service_seconds) AS s_service,
            uniqExactMerge(workers) AS n_workers,
            60 * (intDiv(toUnixTimestamp(least($__toTime, now() - 60)), 60)
                - intDiv(toUnixTimestamp($__fromTime) + 59, 60) + 1) AS seconds
        FROM rollup_minute FINAL WHERE @where@ GROUP BY service, upstream
    )
    WHERE n > 0 AND seconds > 0 ORDER BY s_service DESC LIMIT 200
    """,
    where=WHOLE,
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
    board.with_row(Row("Requests"))
    board.with_panel(
        lines(
            Shown(
                "Rate",
                "Requests that ended per second; 5xx and 499 on top of the answered ones. Upgraded connections "
                "(101) are "
                "not counted.",
                "reqps",
                links={"": to_requests()},
            ),
            RATES,
            stacked=True,
        )
    )
    board.with_panel(
        lines(
            Shown(
                "Concurrency",
                "Mean requests in system, by state: seconds of response time per second (Little 1961). A request's "
                "seconds count in the interval in which it ended, so an interval should be longer than a response.",
                "short",
                links={"": to_requests()},
            ),
            CONCURRENCY,
            stacked=True,
        )
    )
    board.with_row(Row("Workers"))
    board.with_panel(
        lines(
            Shown(
                "Busy workers",
                "Mean busy workers (seconds of service time per second), and the number of workers that answered in "
                "the interval. Time spent sending the body of an answer is not counted.",
                "short",
            ),
            WORKERS,
        )
    )
    board.with_panel(
        lines(
            Shown(
                "Utilisation",
                "Busy workers over workers seen. Near 1 queueing grows without bound; workers "
                "without an answer are not counted, which raises this figure.",
                "percentunit",
            ),
            UTILISATION,
        )
    )
    board.with_row(Row("Listen queues"))
    board.with_panel(
        lines(
            Shown(
                "Depth against backlog",
                "Connections that the kernel has completed and the app has not accepted, the highest sample "
                "of the interval, and the kernel's limit.",
                "short",
                NO_SAMPLES,
            ),
            DEPTH,
        )
    )
    board.with_panel(
        lines(
            Shown(
                "Filled",
                "Depth over backlog, the highest sample of the interval. At 1 the kernel drops handshakes.",
                "percentunit",
                NO_SAMPLES,
            ),
            FILLED,
        )
    )
    board.with_row(Row("By backend"))
    board.with_panel(
        columns(
            Shown(
                "Backends",
                "Each backend over the whole range, the busiest first: rate, workers that answered, how many of them "
                "were busy and how many requests waited on average.",
                "none",
                width=24,
                height=9,
                units={
                    "rate": "reqps",
                    "workers seen": "locale",
                    "busy workers": "short",
                    "utilisation": "percentunit",
                    "waiting": "short",
                    "mean queueing": "s",
                },
            ),
            BACKENDS,
        )
    )
    return board
