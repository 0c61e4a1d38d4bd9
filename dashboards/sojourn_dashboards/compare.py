"""Two runs side by side: two services in one range, or one service at two times, each from its own start."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard
from sojourn.store.waits import WAITS

from sojourn_dashboards.datasource import sql
from sojourn_dashboards.distributions import by_nines
from sojourn_dashboards.filters import box, names, number_of, value_of
from sojourn_dashboards.frame import add_row, dashboard
from sojourn_dashboards.panels import against, columns
from sojourn_dashboards.sketches import ACCURACY, merged
from sojourn_dashboards.waits import MEAN, SUMS_OF_WAITS
from sojourn_dashboards.waits import SHARE as SHARE_OF_QUEUEING

# A run begins where its box says, else where the dashboard's range does; and takes as long as is said, else the range.
LENGTH = f"ifNull({number_of('minutes')} * 60, dateDiff('second', $__fromTime, $__toTime))"


def _run(letter: str) -> str:
    """Return SQL: the rows of one run."""
    start = begin(letter)
    service = f"if({value_of(f'service_{letter}')} = '-', '', {value_of(f'service_{letter}')})"
    return f"service = {service} AND minute >= {start} AND minute < {start} + toIntervalSecond({LENGTH})"


def begin(letter: str) -> str:
    """Return SQL: the minute in which a run begins."""
    box_ = value_of(f"start_{letter}")
    return f"toStartOfMinute(ifNull(parseDateTimeBestEffortOrNull({box_}, 'UTC'), $__fromTime))"


def _both(select: str, *more: str) -> str:
    """Return SQL: a full join of the two runs on the minutes since their start; ``select`` refers to a.… and b.…."""
    one = """
        SELECT dateDiff('minute', @begin@, minute) AS minutes, sum(requests) AS n, sum(response_seconds) AS s_response,
            sum(queueing_seconds) AS s_queueing, sum(service_seconds) AS s_service @more@
        FROM rollup_minute FINAL WHERE @run@ GROUP BY minutes HAVING n > 0
    """
    return sql(
        """
        SELECT if(a.n > 0, a.minutes, b.minutes) AS "minutes", @select@
        FROM (@a@) AS a FULL JOIN (@b@) AS b ON a.minutes = b.minutes
        ORDER BY 1
        """,
        select=select,
        a=sql(one, begin=begin("a"), run=_run("a"), more="".join(f", {column}" for column in more)),
        b=sql(one, begin=begin("b"), run=_run("b"), more="".join(f", {column}" for column in more)),
    )


def _pairs(*expressions: tuple[str, str]) -> str:
    return ", ".join(
        f'if({run}.n > 0, {expression.replace("@", run)}, NULL) AS "{name} {run.upper()}"'
        for name, expression in expressions
        for run in ("a", "b")
    )


SPLIT = _both(
    _pairs(("queueing delay", "@.mean_queueing"), ("service time", "@.s_service / @.n")),
    SUMS_OF_WAITS,
    f"{MEAN} AS mean_queueing",
)
P99 = _both(_pairs(("response time", "@.q[3]")), f"{merged('response')} AS q")
SHARE = _both(
    _pairs(("queueing delay", "@.share_of_queueing")), SUMS_OF_WAITS, f"{SHARE_OF_QUEUEING} AS share_of_queueing"
)
RATE = _both(_pairs(("response time", "@.n / 60")))

SUMMARY = sql(
    """
    WITH runs AS
    (
        SELECT run, sum(requests) AS n, sum(response_seconds) AS s_response, sum(queueing_seconds) AS s_queueing,
            sum(service_seconds) AS s_service, sum(failed) - sum(abandoned) AS n_errors, sum(timeouts) AS n_timeouts,
            sum(abandoned) AS n_abandoned, @merged_response@ AS q,
            60 * uniqExact(minute) AS seconds, @waits@, @mean@ AS mean_queueing, @share@ AS share_of_queueing
        FROM
        (
            SELECT 'a' AS run, @columns@ FROM rollup_minute FINAL WHERE @run_a@
            UNION ALL
            SELECT 'b' AS run, @columns@ FROM rollup_minute FINAL WHERE @run_b@
        )
        GROUP BY run HAVING n > 0
    )
    SELECT measured.2 AS "measure", measured.3 AS "unit", maxIf(toNullable(measured.4), run = 'a') AS "A",
        maxIf(toNullable(measured.4), run = 'b') AS "B", "B" / "A" AS "B / A"
    FROM runs ARRAY JOIN
        [
            (1, 'requests', '', toFloat64(n)), (2, 'rate', '1/s', n / seconds), (3, 'mean response', 's',
                s_response / n),
            (4, 'p50 response', 's', q[1]), (5, 'p90 response', 's', q[2]), (6, 'p99 response', 's', q[3]),
            (7, 'p99.9 response', 's', q[4]), (8, 'mean queueing', 's', mean_queueing),
            (9, 'mean service', 's', s_service / n), (10, 'share of queueing', '', share_of_queueing),
            (11, '5xx', '', toFloat64(n_errors)), (12, 'timed out', '', toFloat64(n_timeouts)),
            (13, 'abandoned', '', toFloat64(n_abandoned))
        ] AS measured
    GROUP BY measured.1, "measure", "unit" ORDER BY measured.1
    """,
    columns=", ".join(
        [
            "minute, requests, response_seconds, queueing_seconds, service_seconds, failed, timeouts, abandoned",
            *(f"waits_{name}" for name in WAITS),
            "response_quantiles",
        ]
    ),
    waits=SUMS_OF_WAITS,
    mean=MEAN,
    share=SHARE_OF_QUEUEING,
    run_a=_run("a"),
    run_b=_run("b"),
    merged_response=merged("response"),
)

NOTHING = "no request in run A nor in run B: choose services, or starts within what is stored"


def compare() -> Dashboard:
    """Return the dashboard with uid ``sojourn-compare``."""
    when = "2026-01-31 12:00, or unix seconds, UTC; empty: where the range of the dashboard begins."
    board = dashboard(
        "sojourn-compare",
        "Runs compared",
        "Two load tests, or two times of one service, minute by minute from the start of each.",
        [
            names("service_a", "A: service", "The service of run A.", column="service", multi=False),
            box("start_a", "A: start", when),
            names("service_b", "B: service", "The service of run B.", column="service", multi=False),
            box("start_b", "B: start", when),
            box("minutes", "Minutes", "How long both runs are; empty: as long as the range of the dashboard."),
        ],
    )
    add_row(
        board,
        "Summary",
        columns(
            SUMMARY,
            "A and B",
            "Both runs over their whole length. The rate is over the minutes in which a request ended; quantiles "
            "are from merged sketches.",
            "none",
            empty=NOTHING,
            width=12,
            height=12,
            units={"B / A": "percentunit"},
        ),
        against(
            BY_NINES,
            "nines",
            "By nines",
            "Response time of each run: at 1 p90, at 2 p99, at 3 p99.9; upper edge of the histogram bucket, 12 % wide.",
            "s",
            empty=NOTHING,
            height=12,
            units={"nines": "none"},
            log=True,
        ),
    )
    add_row(
        board,
        "From the start of each",
        *(
            against(
                query,
                "minutes",
                title,
                description + " Against minutes since the start of the run.",
                unit,
                empty=NOTHING,
                units={"minutes": "none"},
            )
            for title, description, unit, query in (
                (
                    "Queueing delay and service time",
                    "Means over the requests that ended in the minute: waiting for a worker, and work.",
                    "s",
                    SPLIT,
                ),
                ("p99 of the response", f"Of the requests that ended in the minute; {ACCURACY}.", "s", P99),
                (
                    "Share of queueing",
                    "Of the response time of the requests whose wait is known.",
                    "percentunit",
                    SHARE,
                ),
                ("Rate", "Requests that ended, per second.", "reqps", RATE),
            )
        ),
    )
    return board


def _by_nines_of_both() -> str:
    one = {run: by_nines({"response": f"response time {run.upper()}"}, _run(run)) for run in ("a", "b")}
    return sql(
        """
        SELECT if(a.present = 1, a."nines", b."nines") AS "nines",
            if(a.present = 1, a."response time A", NULL) AS "response time A",
            if(b.present = 1, b."response time B", NULL) AS "response time B"
        FROM (SELECT *, 1 AS present FROM (@a@)) AS a FULL JOIN (SELECT *, 1 AS present FROM (@b@)) AS b
            ON a."nines" = b."nines"
        ORDER BY 1
        """,
        **one,
    )


BY_NINES = _by_nines_of_both()
