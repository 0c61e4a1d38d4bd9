"""Alerts of Prometheus, and the rule file: the recording rules first, because alerts read them.

An alert compares; without a sample it does not fire. What must not look like health without samples has an alert of its
own: an exporter that is down, a log that is missing, a log without new records.
"""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.model.verdict import HEALTHY_QUEUEING

from sojourn_dashboards.alerts import REFUSED, SILENCE, UNCERTAINTY, WASTED
from sojourn_dashboards.prometheus_rules import (
    ABANDONED_SHARE,
    QUEUEING_P90,
    QUEUEING_P90_MEDIAN,
    QUEUEING_SHARE,
    RECORDINGS,
    SATURATION,
    WASTED_SHARE,
    missed_share,
)
from sojourn_dashboards.promql import QUEUEING, increase_of

RUNBOOK = "/d/sojourn-runbook/runbook"

CEILING = 0.9  # share of requests: a lenient objective's burn rate cannot reach 14.4, and this share fires instead
MISSED = 10  # requests that missed an objective in the long window, at least
TIMES = 3  # the usual p90 of the queueing delay
LEAST_QUEUE = 0.1  # s, p90
LEAST_REQUESTS = 100  # with a known queueing delay, in 5 min
NEAR, OVER = 0.9, 1.0  # offered load per worker
IMBALANCE = 0.3  # of the waiting
LEAST_WAITING = 1.0  # requests, mean
ABANDONED = 0.1  # of all response time
LEAST_ABANDONED = 5  # requests in 10 min
OFFSET = 0.1  # s, beyond its uncertainty
NEGATIVE = 0.01  # of the queueing delays
LEAST_NEGATIVE = 10  # in 15 min
LAG = 60  # s
UNREAD = 16 * 2**20  # bytes
LEAST_BEFORE = 360  # requests in the 6 h before the silence: one a minute
OTHERS = 0.01  # of the requests
LEAST_LINES = 100  # in 15 min


@dataclass(frozen=True)
class Alert:
    """One alert.

    ``hold``, ``keep``: how long the condition must hold before the alert fires, and how long the alert fires on after
    it; empty for none. ``section``: heading in runbook.md.
    """

    name: str
    expr: str
    hold: str
    severity: str
    section: str
    summary: str
    description: str
    keep: str = ""


def _burn(name: str, factor: float, long: str, short: str, severity: str, consumed: int) -> Alert:
    """Return an alert on two windows (Google, The Site Reliability Workbook, 2018, chapter 5).

    The long window says that much of the error budget is gone, the short one that it still goes.
    """
    limit = (
        f"on (objective) group_left () clamp_max({factor:g} * (1 - max by (objective) (sojourn_objective_ratio)), "
        f"{CEILING:g})"
    )
    labels = "service, objective"
    speed = f"more than {factor:g} times faster" if factor > 1 else "faster"
    requests = increase_of("sojourn_objective_requests_total", long, labels)
    return Alert(
        name,
        f"{missed_share(long)} > {limit}\n"
        f"and on ({labels}) {missed_share(short)} > {limit}\n"
        f"and on ({labels}) {missed_share(long)} * {requests} >= {MISSED}",
        "",
        severity,
        "Objective burning",
        f"{{{{ $value | humanizePercentage }}}} of the requests of {{{{ $labels.service }}}} missed the objective "
        f"{{{{ $labels.objective }}}} over {_spoken(long)}",
        f"Over {_spoken(long)} and over {_spoken(short)} the error budget of 30 days burned {speed} than it may "
        f"({consumed} % of it in {_spoken(long)}), or more than {CEILING * 100:.0f} % of the requests missed the "
        f"objective. At least {MISSED} requests missed it over {_spoken(long)}.",
    )


def _spoken(window: str) -> str:
    """Return a range of PromQL with its unit as in a text."""
    unit = {"m": "min", "h": "h", "d": "d"}[window[-1]]
    return f"{window[:-1]} {unit}"


# The queue that is usual: the median of the hour that ended half an hour ago, or of the hour around this time
# yesterday, whichever is larger. A median ignores short queues, and a daily peak is usual. Without either there is no
# alert.
_USUAL = (
    f"(({QUEUEING_P90_MEDIAN} offset 30m > {QUEUEING_P90_MEDIAN} offset 23h30m)"
    f" or {QUEUEING_P90_MEDIAN} offset 23h30m or {QUEUEING_P90_MEDIAN} offset 30m)"
)
_NEGATIVES = increase_of("sojourn_negative_queueing_delays_total", "15m", "service, upstream")
_DELAYS = increase_of(f"{QUEUEING}_count", "15m", "service, upstream")
_WAITING = f"sum by (service) (sojourn_requests_waiting) >= {LEAST_WAITING:g}"
_ABANDONED = f"{increase_of('sojourn_abandoned_requests_total', '10m')} >= {LEAST_ABANDONED}"
_EXPORTER = "job, instance"

ALERTS = (
    _burn("SojournObjectiveFastBurn", 14.4, "1h", "5m", "critical", 2),
    _burn("SojournObjectiveBurn", 6, "6h", "30m", "critical", 5),
    _burn("SojournObjectiveSlowBurn", 1, "3d", "6h", "warning", 10),
    Alert(
        "SojournUnusualQueue",
        f"{QUEUEING_P90} > {LEAST_QUEUE:g}\n"
        f"and on (service) {QUEUEING_P90} > {TIMES} * {_USUAL}\n"
        f"and on (service) {QUEUEING_SHARE} > {HEALTHY_QUEUEING:g}\n"
        f"and on (service) {increase_of(f'{QUEUEING}_count', '5m')} >= {LEAST_REQUESTS}",
        "5m",
        "warning",
        "Queue where there was none",
        "one in ten requests of {{ $labels.service }} waits {{ $value | humanizeDuration }} or longer",
        f"The p90 of the queueing delay is above {LEAST_QUEUE:g} s and more than {TIMES} times the usual one: the "
        "median of the hour that ended 30 min ago, or of the hour around this time yesterday, whichever is larger. "
        f"Queueing is more than {HEALTHY_QUEUEING * 100:.0f} % of the response time, and at least {LEAST_REQUESTS} "
        "requests in 5 min have a known queueing delay.",
        "10m",
    ),
    Alert(
        "SojournOverloaded",
        f"{SATURATION} >= {OVER:g}\nand on (service) {_WAITING}",
        "5m",
        "critical",
        "Saturation",
        "{{ $labels.service }} gets {{ $value | humanizePercentage }} of the load that its workers can serve",
        "For 5 min requests brought at least as many seconds of work as the workers have, and at least "
        f"{LEAST_WAITING:g} request waited on average. The queue grows until load falls or workers are added.",
    ),
    Alert(
        "SojournNearSaturation",
        f"{SATURATION} > {NEAR:g}",
        "15m",
        "warning",
        "Saturation",
        "the workers of {{ $labels.service }} are loaded to {{ $value | humanizePercentage }}",
        f"For 15 min the offered load was above {NEAR * 100:.0f} % of the workers. Queueing grows fast from here, and "
        "the remaining workers cannot carry the load if an instance is lost.",
    ),
    Alert(
        "SojournImbalance",
        f"max by (service) (sojourn_waiting_imbalance_ratio) > {IMBALANCE:g}\nand on (service) {_WAITING}",
        "10m",
        "warning",
        "Imbalance",
        "{{ $value | humanizePercentage }} of the waiting for {{ $labels.service }} is beside free workers",
        f"For 10 min more than {IMBALANCE * 100:.0f} % of the waiting took place while another backend of the service "
        f"had a free worker, and at least {LEAST_WAITING:g} request waited on average. Another balancer removes that "
        "waiting without more workers.",
        "5m",
    ),
    Alert(
        "SojournWastedWork",
        f"{WASTED_SHARE} > {WASTED:g}\nand on (service) {_ABANDONED}",
        "10m",
        "warning",
        "Wasted work",
        "{{ $value | humanizePercentage }} of the work of {{ $labels.service }} is for disconnected clients",
        f"For 10 min more than {WASTED * 100:.0f} % of the workers' busy time went to requests that nginx or the "
        f"client had abandoned, at least {LEAST_ABANDONED} of them. Waiting requests lack that time.",
    ),
    Alert(
        "SojournAbandonedRequests",
        f"{ABANDONED_SHARE} > {ABANDONED:g}\nand on (service) {_ABANDONED}",
        "10m",
        "warning",
        "Abandoned requests",
        "{{ $value | humanizePercentage }} of the response time of {{ $labels.service }} ends without an answer",
        f"For 10 min more than {ABANDONED * 100:.0f} % of all response time was spent at the upstream by requests that "
        f"nginx (504) or the client (499) abandoned, at least {LEAST_ABANDONED} of them.",
    ),
    Alert(
        "SojournClockOffset",
        f"abs(sojourn_clock_offset_seconds) > {OFFSET:g} + sojourn_clock_offset_uncertainty_seconds",
        "30m",
        "warning",
        "Clock offset",
        "the clock of {{ $labels.upstream }} is {{ $value | humanizeDuration }} off nginx's",
        f"For 30 min the app's clock differed from nginx's by more than {OFFSET:g} s beyond the uncertainty of the "
        "estimate. Queueing delays are corrected by the estimate; a change of the clock is not noticed at once.",
    ),
    Alert(
        "SojournClockUncertainty",
        f"sojourn_clock_offset_uncertainty_seconds > {UNCERTAINTY:g}",
        "30m",
        "warning",
        "Clock uncertainty",
        "the clock of {{ $labels.upstream }} is known only to {{ $value | humanizeDuration }}",
        f"For 30 min the bounds on the app's clock were more than {UNCERTAINTY:g} s from its estimate: queueing delays "
        "by the stamp are no better than that.",
    ),
    Alert(
        "SojournNegativeQueueingDelays",
        f"{_NEGATIVES} / {_DELAYS} > {NEGATIVE:g}\nand on (service, upstream) {_NEGATIVES} >= {LEAST_NEGATIVE}",
        "15m",
        "warning",
        "Clock offset",
        "{{ $value | humanizePercentage }} of the queueing delays at {{ $labels.upstream }} are negative",
        f"For 15 min more than {NEGATIVE * 100:.0f} % of the requests, at least {LEAST_NEGATIVE} in 15 min, began at "
        "the app before nginx sent them: the clocks differ by more than the known offset.",
    ),
    # By the series that a target served within a day, or by its job: the name of the job is the user's choice.
    Alert(
        "SojournExporterDown",
        "up == 0\nand on (job, instance) (last_over_time(sojourn_export_window_requests[1d]) "
        'or up{job=~".*sojourn.*"})',
        "5m",
        "warning",
        "Log not read",
        "the exporter {{ $labels.instance }} does not answer",
        "Prometheus has not reached the exporter for 5 min. Its figures are missing, and so are the alerts on them.",
    ),
    Alert(
        "SojournLogMissing",
        "sojourn_log_missing == 1",
        "5m",
        "warning",
        "Log not read",
        "the log {{ $labels.log }} does not exist at {{ $labels.instance }}",
        "For 5 min a log that the exporter is configured to read did not exist.",
    ),
    Alert(
        "SojournLogLag",
        f"sojourn_log_lag_seconds > {LAG}",
        "5m",
        "warning",
        "Log not read",
        "records reach the exporter {{ $labels.instance }} {{ $value | humanizeDuration }} late",
        f"For 5 min every record was read more than {LAG} s after the end of its request. Gauges and alerts describe "
        "the past by as much.",
    ),
    Alert(
        "SojournLogUnread",
        f"sojourn_log_unread_bytes > {UNREAD}",
        "10m",
        "warning",
        "Log not read",
        "{{ $value | humanize1024 }}B of {{ $labels.log }} are not read yet",
        f"For 10 min more than {UNREAD // 2**20} MiB of a log were written and not read: the exporter is slower than "
        "nginx writes, or it has stopped reading.",
    ),
    Alert(
        "SojournLogSilent",
        f"time() - sojourn_log_last_record_timestamp_seconds > {SILENCE}\n"
        f"and on ({_EXPORTER}) {increase_of('sojourn_requests_total', '6h', _EXPORTER)} >= {LEAST_BEFORE}",
        "5m",
        "warning",
        "Log not read",
        "the latest record at {{ $labels.instance }} is {{ $value | humanizeDuration }} old",
        f"No request has ended in the logs for {SILENCE // 60} min, although the last 6 h had at least {LEAST_BEFORE} "
        "requests, one a minute.",
    ),
    Alert(
        "SojournLinesRefused",
        f"{increase_of('sojourn_log_refused_lines_total', '15m', _EXPORTER)}"
        f" / {increase_of('sojourn_log_lines_total', '15m', _EXPORTER)} > {REFUSED:g}\n"
        f"and on ({_EXPORTER}) {increase_of('sojourn_log_lines_total', '15m', _EXPORTER)} >= {LEAST_LINES}",
        "5m",
        "warning",
        "Lines refused",
        "{{ $value | humanizePercentage }} of the lines at {{ $labels.instance }} are refused",
        f"In 15 min more than {REFUSED * 100:g} % of at least {LEAST_LINES} lines were no records. "
        "sojourn_log_refused_lines_total has the reasons.",
    ),
    Alert(
        "SojournOtherLabels",
        f"{increase_of('sojourn_other_label_total', '1h', f'{_EXPORTER}, label')}"
        f" / on ({_EXPORTER}) group_left () {increase_of('sojourn_requests_total', '1h', _EXPORTER)} > {OTHERS:g}",
        "30m",
        "warning",
        "Too many label values",
        "{{ $value | humanizePercentage }} of the requests are counted under {{ $labels.label }} other",
        f"Over 1 h the label had more values than its limit for more than {OTHERS * 100:.0f} % of the requests, which "
        "are counted together under the value other.",
    ),
)


def anchor(heading: str) -> str:
    """Return the anchor of a heading of the runbook."""
    return heading.lower().replace(" ", "-")


def rule_file() -> dict[str, object]:
    """Return the content of the rule file that Prometheus reads."""
    groups: list[dict[str, object]] = [
        {
            "name": group,
            "interval": "1m",
            "rules": [{"record": rule.name, "expr": rule.expr} for rule in rules],
        }
        for group, rules in RECORDINGS.items()
    ]
    return {"groups": [*groups, {"name": "sojourn_alerts", "interval": "1m", "rules": list(map(_rule, ALERTS))}]}


def _rule(alert: Alert) -> dict[str, object]:
    durations = {"for": alert.hold, "keep_firing_for": alert.keep}
    return {
        "alert": alert.name,
        "expr": alert.expr,
        **{key: value for key, value in durations.items() if value},
        "labels": {"severity": alert.severity, "product": "sojourn"},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"{RUNBOOK}#{anchor(alert.section)}",
        },
    }
