"""One request by its id or that of its trace: the log row, its split, its attempts, its spans."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard
from sojourn.model.components import SERVER_ERROR

from sojourn_dashboards.datasource import sql
from sojourn_dashboards.filters import box, value_of
from sojourn_dashboards.frame import add_row, dashboard
from sojourn_dashboards.panels import bars, columns, trace

ID = value_of("request_id")

# Not bound to a range: a link to a request is kept longer than a range is looked at. There is an index on either id,
# which a condition on both with OR would not use. A trace may have several requests.
ROW = sql(
    """
    SELECT * FROM requests_split
    WHERE request_id != '' AND request_id GLOBAL IN
        (SELECT request_id FROM requests WHERE request_id = @id@
        UNION ALL SELECT request_id FROM requests WHERE trace_id = @id@)
    ORDER BY time LIMIT 20
    """,
    id=ID,
)

LOG_ROW = sql(
    """
    SELECT toString(time) AS "ended", pair.1 AS "field", pair.2 AS "value"
    FROM (@row@)
    ARRAY JOIN
        [
            ('request id', request_id), ('service', toString(service)), ('route', toString(route)),
            ('method', toString(method)), ('uri', uri), ('host', toString(host)), ('status', toString(status)),
            ('began', toString(start)), ('ended', toString(time)), ('response time, s', toString(request_time)),
            ('stamp sent to the app', ifNull(toString(request_start), '')), ('stamp', toString(stamp)),
            ('attempts', toString(attempts)), ('backend', toString(upstream)), ('worker', toString(worker)),
            ('queueing delay as the app said, s', ifNull(toString(app_queueing_delay), '')),
            ('service time as the app said, s', ifNull(toString(app_service_time), '')),
            ('queueing delay from', queue_source),
            ('queue by durations, s', ifNull(toString(round(queue_by_duration, 6)), '')),
            ('clock offset, s', toString(round(clock_offset, 6))),
            ('client', remote_addr), ('proxy', toString(proxy)), ('trace id', trace_id), ('span id', span_id),
            ('connection', ifNull(toString(connection), '')), ('bytes sent', ifNull(toString(bytes_sent), '')),
            ('read from', toString(source))
        ] AS pair
    WHERE pair.2 != ''
    """,
    row=ROW,
)

SPLIT = sql(
    """
    SELECT toString(time) AS "ended", upload AS "upload", retries AS "retries", queueing_delay AS "queueing delay",
        service_time AS "service time", network AS "network", transfer AS "transfer", redirected AS "redirected",
        send AS "send", unattributed AS "unattributed"
    FROM (@row@)
    """,
    row=ROW,
)

ATTEMPTS = sql(
    """
    SELECT toString(time) AS "ended", i AS "attempt", attempt_addr[i] AS "backend", attempt_status[i] AS "status",
        toFloat64(attempt_connect[i]) AS "connect", toFloat64(attempt_header[i]) AS "header",
        toFloat64(attempt_response[i]) AS "response"
    FROM (@row@) ARRAY JOIN arrayEnumerate(attempt_addr) AS i ORDER BY "ended", i
    """,
    row=ROW,
)

# The spans of the request, and the others of its trace.
SPAN_ROWS = sql(
    """
    SELECT *, seconds FROM spans
    WHERE (@id@ IN (request_id, trace_id) AND @id@ != '')
        OR trace_id IN (SELECT trace FROM requests WHERE request_id = @id@ AND request_id != '' AND trace != '')
    ORDER BY start LIMIT 1 BY trace_id, span_id LIMIT 1000
    """,
    id=ID,
)

SPANS = sql(
    """
    SELECT start AS "began", seconds AS "took", toString(name) AS "span", toString(kind) AS "kind",
        toString(service) AS "service", toString(worker) AS "worker", status_code AS "status",
        toFloat64(queueing_delay) AS "queueing delay", toFloat64(service_time) AS "service time",
        toFloat64(clock_offset) AS "clock offset", toString(queueing_status) AS "queueing", status_message AS "message",
        span_id AS "span id", parent_span_id AS "parent"
    FROM (@spans@) ORDER BY start
    """,
    spans=SPAN_ROWS,
)

# nginx has no spans of its own: its row in the log makes two, the request and the wait in it.
TREE = sql(
    """
    SELECT * FROM
    (
    SELECT trace_id AS traceID, span_id AS spanID, parent_span_id AS parentSpanID, toString(name) AS operationName,
        toString(service) AS serviceName, start AS startTime, seconds * 1000 AS duration,
        arrayMap(key -> map('key', toString(key), 'value', attributes[key]), mapKeys(attributes)) AS tags,
        arrayMap(key -> map('key', toString(key), 'value', resource[key]), mapKeys(resource)) AS serviceTags,
        if(error, 2, 0) AS statusCode
    FROM (@spans@)
    UNION ALL
    SELECT trace_id, part.1, part.2, part.3, concat('nginx ', proxy), toDateTime64(part.4, 9, 'UTC'), part.5 * 1000,
        [map('key', 'http.response.status_code', 'value', toString(status))], [map('key', 'host.name', 'value',
            toString(proxy))],
        if(status >= @error@, 2, 0)
    FROM
    (
        SELECT *, arrayJoin(arrayConcat(
            [(span_id, '', concat(method, ' ', route), start, toFloat64(request_time))],
            if(queueing_delay > 0 AND proxy_start IS NOT NULL,
                [(concat(span_id, '-queueing'), span_id, 'queueing delay',
                    assumeNotNull(proxy_start) + toIntervalMicrosecond(toInt64(retries * 1000000)),
                    assumeNotNull(queueing_delay))], []))) AS part
        FROM (@row@) WHERE trace_id != '' AND span_id != ''
    )
    )
    ORDER BY startTime
    """,
    spans=SPAN_ROWS,
    row=ROW,
    error=str(SERVER_ERROR),
)

NO_ROW = "no record with this request id or trace id is stored"
NO_SPANS = "no span of this request is stored: the app may not export any, or the request may not have been sampled"


def request() -> Dashboard:
    """Return the dashboard with uid ``sojourn-request``."""
    board = dashboard(
        "sojourn-request",
        "One request",
        "A request by its id or by the id of its trace: what nginx logged, what it went to, what the app recorded.",
        [box("request_id", "Request id", "As in the log, the header X-Request-ID and the span; or the id of a trace.")],
    )
    add_row(
        board,
        "In nginx's log",
        bars(
            SPLIT,
            "ended",
            "Split",
            "Response time from the first byte nginx read to the last it wrote, by what it went to. The parts add up "
            "to it. One bar for each record with this id or of this trace.",
            "s",
            empty=NO_ROW,
            width=24,
            height=6,
        ),
        columns(
            LOG_ROW,
            "Record",
            "The record nginx wrote when the request ended, as it is stored.",
            "none",
            empty=NO_ROW,
            height=12,
        ),
        columns(
            ATTEMPTS,
            "Attempts",
            "Backends that nginx tried, in order: seconds to the connection, to the response's header and to its "
            "end. Status 0: no response.",
            "s",
            empty=NO_ROW,
            height=12,
            units={"attempt": "none", "status": "none", "ended": "string", "backend": "string"},
        ),
    )
    add_row(
        board,
        "In its spans",
        trace(
            TREE,
            "Span tree",
            "The spans of the request's trace, by the app's clock, under the request itself and its wait for a "
            "worker, which are made from nginx's record and by nginx's clock.",
            "ms",
            empty=NO_SPANS,
            width=24,
            height=12,
        ),
        columns(
            SPANS,
            "Spans",
            "From when the app began (its own clock) to the end of the answer's body, with what the middleware "
            "noted of queueing.",
            "none",
            empty=NO_SPANS,
            width=24,
            units={
                "began": "dateTimeAsIso",
                "took": "s",
                "queueing delay": "s",
                "service time": "s",
                "clock offset": "s",
            },
        ),
    )
    return board
