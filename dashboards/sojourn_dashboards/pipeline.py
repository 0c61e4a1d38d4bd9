"""Pipeline health and reconciliation: do all lines of the logs arrive, what is refused and why, how fresh it is."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from sojourn_dashboards.datasource import sql
from sojourn_dashboards.frame import add_row, dashboard
from sojourn_dashboards.panels import columns, lines, number

IN_RANGE = "hour >= toStartOfHour($__fromTime) AND hour <= $__toTime"

# Of the gaps alone: the view reconciliation also reads the rows that are stored.
OUTSTANDING = """
SELECT (SELECT sum(lines) FROM line_gaps WHERE noticed <= $__toTime) AS value
FROM line_runs LIMIT 1
"""

RECONCILIATION = sql(
    """
    SELECT hour AS "hour", source AS "file", arrived AS "arrived", missing AS "missing", gaps AS "gaps",
        missing_bytes AS "missing bytes", outstanding AS "outstanding", lost AS "lost",
        missing_spans AS "missing spans"
    FROM reconciliation WHERE @range@ ORDER BY hour DESC, source LIMIT 500
    """,
    range=IN_RANGE,
)

# Those with lines to read, and the newest of each log.
FILES = """
SELECT source AS "file", size AS "bytes", unread AS "unread", overdue AS "overdue", if(gone, 'yes', 'no') AS "gone",
    until AS "written", silent AS "sampled"
FROM log_files_read WHERE until >= $__fromTime AND (unread > 0 OR (source, until) IN (
    SELECT source, max(until) FROM log_files_read GROUP BY source))
ORDER BY "unread" DESC, "file", "written" DESC LIMIT 200
"""

SPANS = sql(
    """
    SELECT $__timeInterval(minute) AS t, service, sum(missing) AS "Value"
    FROM spans_missing WHERE $__timeFilter(minute) AND missing IS NOT NULL GROUP BY t, service ORDER BY t, service
    """
)

STORED = sql(
    """
    SELECT hour AS "hour", source AS "file", requests AS "requests", dead_letters AS "dead letters",
        dead_letters / (requests + dead_letters) AS "refused"
    FROM stored_records WHERE @range@ ORDER BY hour DESC, source LIMIT 500
    """,
    range=IN_RANGE,
)

# touched is what a row's arrival sets; where a rollup was done it is 1970.
FRESHNESS = """
SELECT dateDiff('second', newest, now()) AS value
FROM (SELECT max(touched) AS newest FROM touched_minutes) WHERE newest > toDateTime(0)
"""

DUE = """
SELECT countIf(last_touched > last_computed) AS value
FROM (SELECT minute, max(touched) AS last_touched, max(computed) AS last_computed FROM touched_minutes GROUP BY minute)
HAVING count() > 0
"""

BROKEN = """
SELECT table AS "table", name AS "part", if(reason = '', 'detached by hand', reason) AS "reason",
    bytes_on_disk AS "bytes", since AS "since"
FROM broken_parts ORDER BY "since" DESC, "table", "part" LIMIT 200
"""

ARRIVED = """
SELECT $__timeInterval(minute) AS t, sumIf(lines, kind = 'requests') / $__interval_s AS "accepted",
    sumIf(lines, kind = 'dead_letters') / $__interval_s AS "refused"
FROM lines_received WHERE $__timeFilter(minute) GROUP BY t ORDER BY t
"""

REFUSED = """
SELECT $__timeInterval(time) AS t, reason, count() AS "Value"
FROM dead_letters FINAL WHERE $__timeFilter(time) GROUP BY t, reason ORDER BY t, reason
"""

REASONS = """
SELECT kind AS "kind", reason AS "reason", source AS "file", count() AS "lines", max(time) AS "last",
    substring(argMax(raw, time), 1, 2000) AS "the last of them"
FROM dead_letters FINAL WHERE $__timeFilter(time)
GROUP BY kind, reason, source ORDER BY "lines" DESC LIMIT 200
"""

SAMPLES = """
SELECT time AS "refused", kind AS "kind", reason AS "reason", source AS "file", position AS "byte",
    substring(raw, 1, 2000) AS "line"
FROM (SELECT * FROM dead_letters WHERE $__timeFilter(time) ORDER BY time DESC LIMIT 500)
ORDER BY time DESC LIMIT 1 BY kind, source, reason, position, raw LIMIT 100
"""

# Counters start again with their agent: one that fell counts as what it shows.
COUNTED = """
SELECT $__timeInterval(time) AS t, concat(agent, ' ', component) AS place, sum(step) / $__interval_s AS "Value"
FROM
(
    SELECT time, agent, component, if(value < before, value, value - before) AS step
    FROM
    (
        SELECT time, agent, component, value, lagInFrame(value, 1, value) OVER (
            PARTITION BY metric, agent, component, file, toString(mapFilter((k, v) -> k != 'pid', tags)) ORDER BY time
            ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS before
        FROM pipeline_metrics FINAL
        WHERE $__timeFilter(time) AND metric IN (@metrics@)
    )
)
GROUP BY t, place ORDER BY t, place
"""

# Vector renamed them in 2025; both names are read.
BUFFERS = """
SELECT $__timeInterval(time) AS t, concat(agent, ' ', component) AS place, max(value) AS "Value"
FROM pipeline_metrics WHERE $__timeFilter(time) AND metric IN (@metrics@)
GROUP BY t, place ORDER BY t, place
"""

CLOCKS = sql(
    """
    SELECT hour AS t, concat(proxy, ' to ', upstream) AS pair, uncertainty AS "Value"
    FROM clock_offsets WHERE @range@ ORDER BY t, pair
    """,
    range=IN_RANGE,
)

OFFSETS = sql(
    """
    SELECT proxy AS "proxy", upstream AS "backend", argMax(offset, hour) AS "offset", argMax(uncertainty,
        hour) AS "uncertainty",
        argMax(lower, hour) AS "at least", argMax(upper, hour) AS "at most", sum(requests) AS "from requests"
    FROM clock_offsets WHERE @range@ GROUP BY proxy, upstream ORDER BY "uncertainty" DESC LIMIT 200
    """,
    range=IN_RANGE,
)

NO_METRICS = "the agents reported nothing of themselves in this range"


def _of_agents(query: str, *metrics: str) -> str:
    return sql(query, metrics=", ".join(f"'{metric}'" for metric in metrics))


ERRORS = _of_agents(COUNTED, "component_errors_total")
DISCARDED = _of_agents(COUNTED, "component_discarded_events_total", "buffer_discarded_events_total")
BUFFER_BYTES = _of_agents(BUFFERS, "buffer_size_bytes", "buffer_byte_size")
BUFFER_EVENTS = _of_agents(BUFFERS, "buffer_size_events", "buffer_events")


def pipeline() -> Dashboard:
    """Return the dashboard with uid ``sojourn-pipeline``."""
    board = dashboard(
        "sojourn-pipeline",
        "Pipeline health",
        "From the lines of the logs to the rows that are stored: nothing lost, and what was refused.",
        [],
    )
    add_row(
        board,
        "Does everything arrive?",
        number(
            OUTSTANDING,
            "Outstanding lines",
            "Lines missing between lines that arrived, over all files since the beginning: bytes of a log that no "
            "line in the store covers. 0 is normal, also after an agent was killed. Any other figure is loss, or "
            "lines still under way.",
            "locale",
            empty="no agent has reported positions of lines",
            width=6,
            height=4,
        ),
        number(
            FRESHNESS,
            "Newest row",
            "Seconds since a row last arrived, whatever the range.",
            "s",
            empty="nothing has arrived yet",
            width=6,
            height=4,
        ),
        number(
            DUE,
            "Minutes to roll up",
            "Minutes for which rows arrived later than their rollup was computed; rollups follow every 15 seconds.",
            "locale",
            empty="nothing has arrived yet",
            width=6,
            height=4,
        ),
        number(
            sql("SELECT max(uncertainty) AS value FROM clock_offsets WHERE @range@ HAVING count() > 0", range=IN_RANGE),
            "Clock uncertainty",
            "The largest among all pairs of proxy and backend in the range: how far off an app's clock may "
            "be, one way or the other, after correction.",
            "s",
            empty="no pair could be estimated in this range",
            width=6,
            height=4,
        ),
        columns(
            RECONCILIATION,
            "Lines missing by file",
            "By file and hour: lines that arrived (each delivery counted), and lines missing between them, in the "
            "hour in which the gap was noticed. Bytes are exact; lines are bytes over the mean length of a line. Lost: "
            "records that arrived and are not stored any more, by the hour of the record. Missing spans: requests of "
            "the file that the app answered and whose span is lost.",
            "locale",
            empty="no line arrived in this range",
            width=14,
            height=9,
            units={"hour": "dateTimeAsIso", "file": "string", "missing bytes": "bytes"},
        ),
        columns(
            STORED,
            "What is there",
            "By file and hour: different requests by when they ended, different refused lines by when they "
            "were refused.",
            "locale",
            empty="nothing is stored in this range",
            width=10,
            height=9,
            units={"hour": "dateTimeAsIso", "file": "string", "refused": "percentunit"},
        ),
        lines(
            SPANS,
            "Requests without a span",
            "By service: requests whose app answered with the headers of the middleware, and whose span did not "
            "arrive, above the share that is usual for the service. 0 is normal. The last ten minutes are not there "
            "yet.",
            "locale",
            empty="no service has spans in this range, or none has them for an hour",
            width=24,
            height=6,
            bars=True,
        ),
        columns(
            FILES,
            "Files of the logs",
            "Bytes of each file on the hosts of the agents, how many of them an agent has not read or the store not "
            "acknowledged (unread), and of these what was written a minute before the last sample (overdue). Of a file "
            "that is gone, unread bytes are lost. Sampled: seconds since the last sample of the host arrived.",
            "bytes",
            empty="no logs are sampled (sojourn store files)",
            width=24,
            height=6,
            units={"file": "string", "gone": "string", "written": "dateTimeAsIso", "sampled": "s"},
        ),
        columns(
            BROKEN,
            "Parts put aside",
            "Parts of the store's tables that its engine cannot read, or that were detached by hand, whatever the "
            "range. What they held is in no answer unless it was loaded again: see sojourn store doctor.",
            "none",
            empty="every part of every table is in use",
            width=24,
            height=5,
            units={"bytes": "bytes", "since": "dateTimeAsIso"},
        ),
        lines(
            ARRIVED,
            "Lines that arrive",
            "Per second, by when they arrived, each delivery counted: accepted as requests, refused into dead letters.",
            "reqps",
            empty="nothing arrived in this range",
            width=24,
            stacked=True,
        ),
    )
    add_row(
        board,
        "Refused lines",
        lines(
            REFUSED,
            "Refused, by reason",
            "Different lines, by when they were refused.",
            "locale",
            empty="no line was refused in this range",
            height=9,
            bars=True,
        ),
        columns(
            REASONS,
            "Reasons",
            "Different lines by reason and file, and the last of them.",
            "none",
            empty="no line was refused in this range",
            height=9,
            units={"lines": "locale", "last": "dateTimeAsIso"},
        ),
        columns(
            SAMPLES,
            "Samples",
            "The last hundred lines refused, as they came; bytes that are no text are replaced, 2,000 characters at "
            "most.",
            "none",
            empty="no line was refused in this range",
            width=24,
            height=9,
            units={"refused": "dateTimeAsIso", "byte": "locale"},
        ),
    )
    add_row(
        board,
        "Agents",
        *(
            lines(query, title, description, unit, empty=NO_METRICS)
            for title, description, unit, query in (
                (
                    "Buffered bytes",
                    "What waits in an agent's buffers for the store, the highest sample of the interval.",
                    "bytes",
                    BUFFER_BYTES,
                ),
                (
                    "Buffered events",
                    "What waits in an agent's buffers for the store, in events.",
                    "short",
                    BUFFER_EVENTS,
                ),
                ("Errors", "Errors an agent counted, per second, by component.", "reqps", ERRORS),
                (
                    "Discarded",
                    "Events an agent threw away, per second, by component. Anything above zero that is not in dead "
                    "letters is loss.",
                    "reqps",
                    DISCARDED,
                ),
            )
        ),
    )
    add_row(
        board,
        "Clocks",
        lines(
            CLOCKS,
            "Clock uncertainty by pair",
            "How far off the estimate of an app's clock may be, hour by hour (Paxson 1998). Queueing delays by "
            "the stamp are corrected by that estimate; those by durations need no clock.",
            "s",
            empty="no pair could be estimated in this range",
        ),
        columns(
            OFFSETS,
            "Clock offsets",
            "The last estimate of each pair in the range: the app's clock less nginx's, and its bounds.",
            "s",
            empty="no pair could be estimated in this range",
            units={"proxy": "string", "backend": "string", "from requests": "locale"},
        ),
    )
    return board
