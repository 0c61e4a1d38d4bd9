"""Alerts of Prometheus on services and their objectives."""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.model.verdict import HEALTHY_QUEUEING

from sojourn_dashboards.alerts import WASTED
from sojourn_dashboards.prometheus_rules import (
    ABANDONED_SHARE,
    QUEUEING_P90,
    QUEUEING_P90_MEDIAN,
    QUEUEING_SHARE,
    SATURATION,
    WASTED_SHARE,
    missed_share,
)
from sojourn_dashboards.promql import QUEUEING, increase_of

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
_WAITING = f"sum by (service) (sojourn_requests_waiting) >= {LEAST_WAITING:g}"
_ABANDONED = f"{increase_of('sojourn_abandoned_requests_total', '10m')} >= {LEAST_ABANDONED}"

OBJECTIVE_ALERTS = (
    _burn("SojournObjectiveFastBurn", 14.4, "1h", "5m", "critical", 2),
    _burn("SojournObjectiveBurn", 6, "6h", "30m", "critical", 5),
    _burn("SojournObjectiveSlowBurn", 1, "3d", "6h", "warning", 10),
)
SERVICE_ALERTS = (
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
        "SojournSignalRefused",
        "max by (service, reason) (sojourn_signal_refused) == 1",
        "30m",
        "warning",
        "Signal refused",
        "no number of workers can be given for {{ $labels.service }}: {{ $labels.reason }}",
        "For 30 min the exporter has refused workers needed (all methods but live), saturation, offered load and time "
        "to drain, because the recent requests contradict what these assume. Autoscalers without a live number use the "
        "queueing delay instead, and the alerts on saturation do not fire.",
    ),
    Alert(
        "SojournLiveRefused",
        "max by (service, reason) (sojourn_live_refused) == 1",
        "15m",
        "warning",
        "Live number refused",
        "no live number of workers can be given for {{ $labels.service }}: {{ $labels.reason }}",
        "For 15 min an exporter with --status has refused the live number of workers needed. Autoscalers scale up on "
        "the queueing delay instead, and remove no worker.",
    ),
    Alert(
        "SojournImbalance",
        f'max by (service) (sojourn_waiting_ratio{{account="imbalance"}}) > {IMBALANCE:g}\nand on (service) {_WAITING}',
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
)
