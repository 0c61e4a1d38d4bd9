"""Search for single requests: names, status, request id, response time, queueing, service time."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard
from sojourn.model.components import CLIENT_GONE

from sojourn_dashboards.datasource import sql
from sojourn_dashboards.filters import box, chosen, limit, names, number_of, one_of, rollup_variables, value_of
from sojourn_dashboards.frame import add_row, dashboard
from sojourn_dashboards.panels import columns, lines, number, to_request

IDS = ("any", "present", "missing")
FACETS = " AND ".join(
    ["$__timeFilter_ms(time)"]
    + [chosen(name, name) for name in ("service", "route", "upstream", "method")]
    + [
        chosen("toString(status)", "status"),
        f"({value_of('has_id')} = 'any' OR ({value_of('has_id')} = 'present') = (request_id NOT IN ('', '-')))",
        limit(f"toFloat64(request_time) >= {number_of('min_response')}", "min_response"),
        limit(f"queueing_delay > {number_of('min_queueing')}", "min_queueing"),
        limit(f"service_time >= {number_of('min_service')}", "min_service"),
        limit(f"service_time <= {number_of('max_service')}", "max_service"),
    ]
)
# The key of a row, in the order of the table.
KEY = "service, route, time, record"

# Keys first, then columns: sorting does not read all columns of ten million rows.
MATCHES = sql(
    """
    SELECT time AS "ended", request_id AS "request id", service AS "service", route AS "route", method AS "method",
        status AS "status", upstream AS "backend", attempts AS "attempts", toFloat64(request_time) AS "response time",
        queueing_delay AS "queueing delay", service_time AS "service time",
        "response time" - ifNull(queueing_delay, 0) - ifNull(service_time, 0) AS "everything else", uri AS "uri"
    FROM requests_split
    WHERE $__timeFilter_ms(time)
        AND (@key@) IN (SELECT @key@ FROM requests_split WHERE @facets@ ORDER BY request_time DESC LIMIT 100)
    ORDER BY request_time DESC, time LIMIT 100
    """,
    key=KEY,
    facets=FACETS,
)

HOW_MANY = sql("SELECT count() AS value FROM requests_split WHERE @facets@", facets=FACETS)

WHEN = sql(
    """
    SELECT $__timeInterval(time) AS t, multiIf(status = @gone@, '@gone@',
        concat(toString(intDiv(status, 100)), 'xx')) AS class,
        count() AS "Value"
    FROM requests_split WHERE @facets@ GROUP BY t, class ORDER BY t, class
    """,
    facets=FACETS,
    gone=str(CLIENT_GONE),
)

NONE = "no request matches; limits are numbers of seconds, such as 0.3"


def search() -> Dashboard:
    """Return the dashboard with uid ``sojourn-requests``."""
    board = dashboard(
        "sojourn-requests",
        "Requests",
        "Search for single requests in nginx's log by name, status and duration.",
        [
            *rollup_variables(),
            names("method", "Method", "Request method.", table="requests", time="time"),
            names("status", "Status", "Status nginx answered; 499: the client gave up.", table="requests", time="time"),
            one_of("has_id", "Request id", "Whether the record has a request id.", IDS),
            box("min_response", "Response ≥, s", "Minimum response time in seconds; empty: any."),
            box("min_queueing", "Queueing >, s", "Minimum queueing delay in seconds, such as 0.3; empty: any."),
            box("min_service", "Service ≥, s", "Service time from, in seconds, 0.1 say; empty: any."),
            box("max_service", "Service ≤, s", "Service time to, in seconds, 0.25 say; empty: any."),
        ],
        since="now-1h",
    )
    add_row(
        board,
        "Matches",
        number(
            HOW_MANY,
            "Matching requests",
            "Number of matching requests that ended in the range. Rows are read one by one: keep the range "
            "short where there are many.",
            "locale",
            empty=NONE,
            width=4,
        ),
        lines(
            WHEN,
            "When",
            "Matching requests by end time and class of status.",
            "locale",
            empty=NONE,
            width=20,
            bars=True,
        ),
        columns(
            MATCHES,
            "Slowest",
            "The 100 of them with the longest response time. Queueing delay: by the stamp, by durations where "
            "there is none; service time: by the app; the rest is upload, retries, network, transfer and sending.",
            "none",
            empty=NONE,
            width=24,
            height=16,
            links=to_request(),
            units={
                "ended": "dateTimeAsIso",
                "response time": "s",
                "queueing delay": "s",
                "service time": "s",
                "everything else": "s",
            },
        ),
    )
    return board
