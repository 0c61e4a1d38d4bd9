"""Is it the queue or the code? The verdict, the split over time, the tail, routes and backends."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard
from sojourn.present.palette import OTHER, QUEUEING, SERVICE

from sojourn_dashboards.filters import rollup_variables, slo_box
from sojourn_dashboards.frame import add_row, dashboard
from sojourn_dashboards.panels import bars, columns, lines, number, to_requests
from sojourn_dashboards.sketches import ACCURACY, HISTOGRAM_ACCURACY
from sojourn_dashboards.verdict_queries import (
    LOST_OVER_TIME,
    RESPONSE,
    SHARE_OVER_TIME,
    SPLIT_OVER_TIME,
    TAIL,
    VERDICT,
    by,
    one,
)
from sojourn_dashboards.waits import SHARE

SENTENCES = {
    "queueing": ("It is a queue, not the code", QUEUEING),
    "service": ("It is the app, not a queue in front of it", SERVICE),
    "mixed": ("No single cause", OTHER),
    "body": ("It is the body of the answer", OTHER),
    "before": ("It is the time before the app", OTHER),
    "after": ("It is the time after the app", OTHER),
    "retries": ("It is earlier attempts", OTHER),
    "unknown": ("Unknown", OTHER),
    "healthy": ("Healthy", "#009E73"),
}


TABLE_UNITS = {
    "requests": "locale",
    "rate": "reqps",
    "mean response": "s",
    "p99 response": "s",
    "share of queueing": "percentunit",
    "mean queueing": "s",
    "p99 queueing": "s",
    "mean service": "s",
    "p99 service": "s",
    "5xx": "locale",
    "timed out": "locale",
    "abandoned": "locale",
    "unmeasured": "locale",
}


def verdict() -> Dashboard:
    """Return the dashboard with uid ``sojourn-verdict``."""
    distributions = "/d/sojourn-distributions/distributions?${__url_time_range}&${service:queryparam}"
    board = dashboard(
        "sojourn-verdict",
        "Is it the queue or the code?",
        "Response time behind nginx, split into waiting for a worker and work.",
        [*rollup_variables(), slo_box()],
    )
    add_row(
        board,
        "Verdict",
        number(
            VERDICT,
            "Verdict",
            "The cause with at least 60 % of all seconds of response time. Healthy: p99 within the SLO and at "
            "most 20 % queueing. Queueing delay is taken from the stamp, corrected by the clock offset of its "
            "hour; from durations where there is no stamp. Unknown: much time was spent where the app did not report "
            "what it did, or answers are from an app server's own log, which does not have the wait before it.",
            "string",
            width=6,
            height=4,
            mappings=SENTENCES,
        ),
        *(
            number(one(expression, *more), title, description, unit, width=3, height=4, links={"": to_requests()})
            for title, expression, unit, description, *more in NUMBERS
        ),
    )
    add_row(
        board,
        "Over time",
        lines(
            SPLIT_OVER_TIME,
            "Mean response time, split",
            "From the first byte nginx read to the last it wrote, by what it went to, averaged "
            "over the requests that ended in the interval. The three add up to the response time exactly.",
            "s",
            links={"": to_requests()},
            stacked=True,
        ),
        lines(
            SHARE_OVER_TIME,
            "Share over time",
            "Seconds waited for a worker as a share of the seconds of response time, of the requests that ended in the "
            "interval and whose wait is known.",
            "percentunit",
            links={"": to_requests()},
        ),
        bars(
            TAIL,
            "requests",
            "What the slowest 1 % are made of",
            "Mean seconds a request spent on each part: of all requests, and of those in and above the histogram "
            "bucket (12 % wide) of the p99 of the response time. Quantiles of parts do not add up; this does.",
            "s",
            units={"how many": "locale"},
        ),
        lines(
            LOST_OVER_TIME,
            "Timed out, abandoned, failed",
            "Requests that ended in the interval with 504 (nginx gave up), 499 (the client gave up) or another 5xx.",
            "locale",
            links={"": to_requests()},
            bars=True,
        ),
    )
    add_row(
        board,
        "By route and by backend",
        columns(
            by("route", "route"),
            "By route",
            "Each route of the range, the one with most seconds of queueing first. Means are seconds over "
            f"requests; p99 from histograms, {HISTOGRAM_ACCURACY}.",
            "none",
            width=24,
            height=9,
            units=TABLE_UNITS,
            links={"route": ("Distributions of this route", distributions + "&var-route=${__value.raw:percentencode}")},
        ),
        columns(
            by("upstream", "backend"),
            "By backend",
            "Each app server by its address, the one with most seconds of queueing first; - stands "
            "for requests that reached no server.",
            "none",
            width=24,
            height=9,
            units=TABLE_UNITS,
            links={
                "backend": (
                    "Distributions of this backend",
                    distributions + "&var-upstream=${__value.raw:percentencode}",
                )
            },
        ),
    )
    return board


NUMBERS = (
    (
        "Share of queueing",
        SHARE,
        "percentunit",
        "Seconds waited for a worker as a share of the seconds of response time, of the requests whose wait is known.",
    ),
    (
        "p99 of the response",
        "q_response[3]",
        "s",
        f"99 % of the responses took at most this, from nginx's first byte read to its last written; {ACCURACY}.",
        RESPONSE,
    ),
    ("Requests", "n", "locale", "Requests that ended in the range, upgraded connections (101) not counted."),
    ("Timed out", "n_timeouts / n", "percentunit", "Share of requests nginx gave up on (504)."),
    ("Abandoned", "n_abandoned / n", "percentunit", "Share of requests the client gave up on (499)."),
    (
        "Unmeasured",
        "n_unmeasured / n",
        "percentunit",
        "Share of requests that were answered while the app said nothing of its own: no service time, no queueing "
        "delay.",
    ),
)
