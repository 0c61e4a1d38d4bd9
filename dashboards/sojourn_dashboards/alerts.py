"""Alert rules, provisioned. Each is a query for one number per label set, and a threshold on it.

``noDataState`` and ``execErrState`` are argued rule by rule: no rows must not look like health where rows are due, and
a query that fails must not look like the fault it asks about.
"""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.model.verdict import SLO

from sojourn_dashboards.datasource import TABLE, UID, ClickHouseQuery, sql
from sojourn_dashboards.sketches import merged
from sojourn_dashboards.waits import SHARE as SHARE_OF_QUEUEING
from sojourn_dashboards.waits import SUMS_OF_WAITS

SHARE = 0.5  # of the response time: above it, waiting outweighs all else
GROWTH = 1.5  # times as many waiting as five minutes before
FILLED = 0.5  # of the backlog, at the lowest of five minutes
GAP = 0.001  # of the lines of a file, arrived and missing
UNSPANNED = 0.001  # of the requests of a service: without a span, though they usually have one
UNCERTAINTY = 0.05  # s
REFUSED = 0.001  # of the lines that arrived
SAMPLES_MISSING = 45  # s
SILENCE = 600  # s
WASTED = 0.05  # of the workers' time
FULL = 0.8  # of the capacity

WHOLE_MINUTES = "minute >= toStartOfMinute($__fromTime) AND minute < toStartOfMinute($__toTime)"

QUEUEING = sql(
    """
    SELECT service, @share@ AS share
    FROM
    (
        SELECT service, sum(requests) AS n, @waits@, @merged_response@ AS q
        FROM rollup_minute FINAL WHERE @minutes@ GROUP BY service
    )
    WHERE n >= 100 AND q[3] > @slo@ AND share IS NOT NULL
    """,
    share=SHARE_OF_QUEUEING,
    waits=SUMS_OF_WAITS,
    minutes=WHOLE_MINUTES,
    slo=str(SLO),
    merged_response=merged("response"),
)

# Requests waiting on average (Little 1961), now and before. A log has only requests that ended, so what still waits is
# not in it yet: the growth seen is never more than the real one.
GROWING = sql(
    """
    SELECT service, after / greatest(before, 1) AS growth
    FROM
    (
        SELECT service, greatest(sum(one.n_workers), 1) AS n_workers, sum(one.s_before) / 300 AS before,
            sum(one.s_after) / 300 AS after
        FROM
        (
            SELECT service, upstream, uniqExactMerge(workers) AS n_workers,
                sumIf(queueing_seconds, minute < toStartOfMinute($__toTime) - INTERVAL 5 MINUTE) AS s_before,
                sumIf(queueing_seconds, minute >= toStartOfMinute($__toTime) - INTERVAL 5 MINUTE) AS s_after
            FROM rollup_minute FINAL
            WHERE minute >= toStartOfMinute($__toTime) - INTERVAL 10 MINUTE AND minute < toStartOfMinute($__toTime)
            GROUP BY service, upstream
        ) AS one
        GROUP BY service
    )
    WHERE after > n_workers
    """,
)

LISTEN = """
SELECT machine, socket, min(depth / greatest(backlog, 1)) AS filled
FROM listen_queue WHERE $__timeFilter(time) GROUP BY machine, socket
"""

MISSING = """
SELECT source, sum(missing) / greatest(sum(arrived) + sum(missing), 1) AS gap
FROM reconciliation WHERE hour >= toStartOfHour($__fromTime) AND hour <= $__toTime GROUP BY source
"""

# Hosts whose logs are sampled, and were within the last day.
AGENT_SILENT = """
SELECT host, dateDiff('second', max(arrived), $__toTime) AS seconds
FROM log_files WHERE file = '' AND slot >= $__fromTime GROUP BY host
"""

UNREAD = """
SELECT source, sum(overdue) AS bytes
FROM log_files_read WHERE until >= $__fromTime GROUP BY source
"""

# Of the requests on routes with spans; a handful is no matter for a night.
SPANS = """
SELECT service, lost / n AS share
FROM
(
    SELECT service, sum(missing) AS lost, sum(requests) AS n
    FROM spans_missing WHERE $__timeFilter(minute) AND missing IS NOT NULL GROUP BY service
)
WHERE lost >= 10
"""

DAMAGED = """
SELECT table, count() AS parts FROM broken_parts GROUP BY table
"""

CLOCK = """
SELECT proxy, upstream, argMax(uncertainty, hour) AS seconds
FROM clock_offsets WHERE hour >= toStartOfHour($__fromTime) AND hour <= $__toTime AND requests >= 100
GROUP BY proxy, upstream
"""

DEAD = """
SELECT sumIf(lines, kind = 'dead_letters') / sum(lines) AS share
FROM lines_received WHERE $__timeFilter(minute) HAVING sum(lines) >= 100
"""

SILENT = """
SELECT dateDiff('second', max(minute), $__toTime) AS seconds
FROM lines_received WHERE $__timeFilter(minute) HAVING count() > 0
"""

# A few requests that were given up on are no trouble, whatever share of a quiet service's work they are.
WASTED_WORK = sql(
    """
    SELECT service, s_wasted / (s_wasted + s_worked) AS share
    FROM
    (
        SELECT service, sum(wasted) AS s_wasted, sum(worked) AS s_worked, sum(gone) AS n
        FROM wasted_minute WHERE @minutes@ GROUP BY service
    )
    WHERE n >= 5 AND s_wasted > 0
    """,
    minutes=WHOLE_MINUTES,
)

# Only services with a stored capacity.
NEAR_CAPACITY = """
SELECT r.service AS service, r.n / 300 / c.rate AS share
FROM
(
    SELECT service, sum(requests) AS n
    FROM rollup_minute FINAL
    WHERE minute >= toStartOfMinute($__toTime) - INTERVAL 5 MINUTE AND minute < toStartOfMinute($__toTime)
    GROUP BY service
) AS r
INNER JOIN (SELECT service, rate FROM capacity FINAL WHERE rate > 0) AS c USING (service)
"""


@dataclass(frozen=True)
class Rule:
    """One alert rule.

    ``seconds``: how far back the query looks. ``above``: the threshold. ``hold``: how long the value must remain above.
    ``panel``: the dashboard and the title of the panel that shows it.
    """

    uid: str
    title: str
    query: str
    seconds: int
    above: float
    hold: str
    panel: tuple[str, str]
    severity: str
    no_data: str
    summary: str
    description: str


RULES = (
    # No data means no requests, or none over the SLO.
    Rule(
        "sojourn-queueing",
        "Queueing over the SLO",
        QUEUEING,
        660,
        SHARE,
        "5m",
        ("verdict", "Mean response time, split"),
        "critical",
        "OK",
        "p99 of {{ .Labels.service }} is over the SLO, and waiting is {{ humanizePercentage .Values.A.Value }} of it",
        f"Over ten minutes, 99 % of the responses took more than {SLO} s and more than {SHARE * 100:.0f} % of all "
        f"response time was "
        "waiting for a worker. More or faster workers help; faster code helps only as far as it frees workers.",
    ),
    # As above.
    Rule(
        "sojourn-growing",
        "Queue growing",
        GROWING,
        660,
        GROWTH,
        "3m",
        ("load", "Concurrency"),
        "critical",
        "OK",
        "the queue of {{ .Labels.service }} grew {{ humanize .Values.A.Value }} times in five minutes",
        "More requests wait than there are workers, and 50 % more than five minutes before: they arrive faster "
        "than they are answered. Without less load or more workers they will time out.",
    ),
    # No data means that no request with a span was given up.
    Rule(
        "sojourn-wasted",
        "Wasted work",
        WASTED_WORK,
        360,
        WASTED,
        "10m",
        ("explain", "Share of work wasted"),
        "warning",
        "OK",
        "{{ humanizePercentage .Values.A.Value }} of the work of {{ .Labels.service }} is for disconnected clients",
        f"For ten minutes more than {WASTED * 100:.0f} % of the workers' time went to requests that nginx or the "
        "client had given up. Waiting requests lack that time, so more of them will be given up.",
    ),
    # No data means that no capacity is stored.
    Rule(
        "sojourn-capacity",
        "Near capacity",
        NEAR_CAPACITY,
        360,
        FULL,
        "5m",
        ("explain", "Share of capacity"),
        "warning",
        "OK",
        "{{ .Labels.service }} is at {{ humanizePercentage .Values.A.Value }} of its capacity",
        f"For five minutes the load was above {FULL * 100:.0f} % of the rate at which the service's objective breaks. "
        "Queueing grows fast from here, and the remaining instances cannot carry the load if one is lost.",
    ),
    # The sampler is optional: no data does not mean a full queue.
    Rule(
        "sojourn-listen",
        "Listen queue filling",
        LISTEN,
        300,
        FILLED,
        "1m",
        ("load", "Filled"),
        "critical",
        "OK",
        "the listen queue of {{ .Labels.socket }} on {{ .Labels.machine }} is {{ humanizePercentage .Values.A.Value "
        "}} full",
        f"For five minutes every sample of the accept queue was at least {FILLED * 100:.0f} % full. When it is full, "
        "the kernel drops handshakes, clients retry after seconds, and the app's log does not show it.",
    ),
    # A gap is detected when a later line of the file arrives. Without one, the rule on silence fires.
    Rule(
        "sojourn-reconciliation",
        "Reconciliation gap",
        MISSING,
        7200,
        GAP,
        "15m",
        ("pipeline", "Lines missing by file"),
        "warning",
        "OK",
        "{{ humanizePercentage .Values.A.Value }} of the lines of {{ .Labels.source }} have not arrived",
        "More than one in a thousand log lines of the last hours are neither requests nor dead letters in the store, "
        "although later lines of the file arrived: they are lost.",
    ),
    # No data means that no logs are sampled.
    Rule(
        "sojourn-agent",
        "Agent silent",
        AGENT_SILENT,
        86400,
        SAMPLES_MISSING,
        "0m",
        ("pipeline", "Files of the logs"),
        "critical",
        "OK",
        "no sample of the logs of {{ .Labels.host }} has arrived for {{ humanizeDuration .Values.A.Value }}",
        "The samples of the logs on a host arrive every ten seconds, by the agent that ships its lines. None has "
        "arrived: the agent does not run or cannot reach the store, or the sampler (sojourn store files) has ended.",
    ),
    Rule(
        "sojourn-unread",
        "Lines not read",
        UNREAD,
        86400,
        0,
        "1m",
        ("pipeline", "Files of the logs"),
        "warning",
        "OK",
        "{{ humanize1024 .Values.A.Value }}B of {{ .Labels.source }} are not read",
        "The agent has not read, or the store has not acknowledged, what nginx wrote into a log more than a minute "
        "before the last sample. If the file is removed before it is read to its end, its lines are lost.",
    ),
    # No data means that no service has spans, or that none is missing.
    Rule(
        "sojourn-spans",
        "Spans missing",
        SPANS,
        7200,
        UNSPANNED,
        "5m",
        ("pipeline", "Requests without a span"),
        "warning",
        "OK",
        "{{ humanizePercentage .Values.A.Value }} of the requests of {{ .Labels.service }} have lost their span",
        "In the last two hours more than one request in a thousand has the headers of the app's middleware and no "
        "span, above the usual share of its service: the spans were lost between the app and the store.",
    ),
    # No data means that no part is put aside.
    Rule(
        "sojourn-damaged",
        "Store damaged",
        DAMAGED,
        3600,
        0,
        "1m",
        ("pipeline", "Parts put aside"),
        "critical",
        "OK",
        "{{ humanize .Values.A.Value }} parts of the table {{ .Labels.table }} are in no answer",
        "The store's engine has put aside parts of a table, most often because it could not read them when it started. "
        "Figures lack what they held until it is loaded again: sojourn store doctor names the files.",
    ),
    # No data means no pair with enough requests.
    Rule(
        "sojourn-clock",
        "Clock uncertainty",
        CLOCK,
        7200,
        UNCERTAINTY,
        "30m",
        ("pipeline", "Clock uncertainty by pair"),
        "warning",
        "OK",
        "the clock of {{ .Labels.upstream }} against {{ .Labels.proxy }} is known only to {{ humanizeDuration "
        ".Values.A.Value }}",
        f"The bounds on the app's clock lie more than {UNCERTAINTY} s from its estimate: queueing delays by the stamp "
        "are no better than that. queue_by_duration, in the view requests_split, needs no clock.",
    ),
    # No data means that no lines arrive: the rule on silence fires.
    Rule(
        "sojourn-dead-letters",
        "Lines refused",
        DEAD,
        900,
        REFUSED,
        "5m",
        ("pipeline", "Refused, by reason"),
        "warning",
        "OK",
        "{{ humanizePercentage .Values.A.Value }} of the lines are refused",
        "In 15 minutes more than one line in a thousand was refused. Refused lines are in dead_letters with their "
        "reason. Usual causes: a log format that differs from the record, or another log in the same path.",
    ),
    # No line within a day: Grafana reports its own state NoData.
    Rule(
        "sojourn-silence",
        "Nothing arrives",
        SILENT,
        86400,
        SILENCE,
        "5m",
        ("pipeline", "Lines that arrive"),
        "warning",
        "NoData",
        "nothing has arrived for {{ humanizeDuration .Values.A.Value }}",
        "No line, valid or refused, reached the store for ten minutes, while some did within the last day: no "
        "traffic, no agent, or no connection to the store.",
    ),
)


def provisioning(panels: dict[str, dict[str, int]]) -> dict[str, object]:
    """Return the content of Grafana's alert rule file. ``panels``: dashboard -> title -> id."""
    rules = [_provisioned(rule, panels) for rule in RULES]
    return {
        "apiVersion": 1,
        "groups": [{"orgId": 1, "name": "sojourn", "folder": "Sojourn", "interval": "1m", "rules": rules}],
    }


def _provisioned(rule: Rule, panels: dict[str, dict[str, int]]) -> dict[str, object]:
    name, title = rule.panel
    query = ClickHouseQuery(rule.query.strip(), TABLE, "A").to_json() | {"intervalMs": 60000, "maxDataPoints": 43200}
    threshold = {
        "refId": "B",
        "type": "threshold",
        "datasource": {"type": "__expr__", "uid": "__expr__"},
        "expression": "A",
        "conditions": [{"evaluator": {"type": "gt", "params": [rule.above]}}],
        "intervalMs": 1000,
        "maxDataPoints": 43200,
    }
    return {
        "uid": rule.uid,
        "title": rule.title,
        "condition": "B",
        "for": rule.hold,
        "noDataState": rule.no_data,
        "execErrState": "Error",
        "isPaused": False,
        "dashboardUid": f"sojourn-{name}",
        "panelId": panels[name][title],
        "labels": {"severity": rule.severity, "product": "sojourn"},
        # Grafana replaces what looks like an environment variable here: no dollar in any of these.
        "annotations": {
            "summary": rule.summary,
            "description": rule.description,
            "runbook_url": "/d/sojourn-runbook/runbook",
        },
        "data": [
            {"refId": "A", "relativeTimeRange": {"from": rule.seconds, "to": 0}, "datasourceUid": UID, "model": query},
            {"refId": "B", "relativeTimeRange": {"from": 0, "to": 0}, "datasourceUid": "__expr__", "model": threshold},
        ],
    }
