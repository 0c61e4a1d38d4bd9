"""Series of the dashboard *Queueing delay (Prometheus)*, from the raw metrics: it needs no recording rules.

A queueing delay here is that of the histogram, in which a negative one counts as 0: the counter of negative delays has
no route to select by.
"""

from __future__ import annotations

from sojourn_dashboards.prometheus import BACKEND, GROUP, SERVICE, WINDOW, Series
from sojourn_dashboards.promql import QUEUEING, RESPONSE, increase_of, or_zero, quantile_of, rate_of, share_of, workers
from sojourn_dashboards.promql import SERVICE as SERVICE_TIME

OBJECTIVE = "service, objective"
EXPORTER = "instance"
LONGEST = 3600  # s, of the time to drain; infinite cannot be drawn


def _rate(counter: str, by: str = "", where: str = GROUP) -> str:
    return rate_of(counter, WINDOW, by, where)


# --- objectives


def _met(window: str) -> str:
    requests = rate_of("sojourn_objective_requests_total", window, OBJECTIVE, SERVICE)
    return share_of(or_zero(rate_of("sojourn_objective_met_total", window, OBJECTIVE, SERVICE), requests), requests)


def _burn(window: str) -> str:
    return f"(1 - {_met(window)}) / on (objective) group_left () (1 - max by (objective) (sojourn_objective_ratio))"


def _of_each_service(gauge: str) -> str:
    """Return PromQL: a gauge of an objective, for each service that the objective applies to."""
    pairs = f"group by ({OBJECTIVE}) (sojourn_objective_requests_total{{{SERVICE}}})"
    return f"max by (objective) ({gauge}) * on (objective) group_right () {pairs}"


OBJECTIVES = (
    Series("threshold", _of_each_service("sojourn_objective_threshold_seconds")),
    Series("wanted", _of_each_service("sojourn_objective_ratio")),
    Series("met in 1 h", _met("1h")),
    Series("met in 6 h", _met("6h")),
    Series("burn rate, 1 h", _burn("1h")),
    Series("burn rate, 6 h", _burn("6h")),
    Series("burn rate, 3 d", _burn("3d")),
)
MET = (Series("{{service}} {{objective}}", _met(WINDOW)),)
BURN_RATES = (
    Series("{{service}} {{objective}}, 5 min", _burn("5m")),
    Series("{{service}} {{objective}}, 1 h", _burn("1h")),
    Series("{{service}} {{objective}}, 6 h", _burn("6h")),
)

# --- where the time goes

_REQUESTS = _rate(f"{RESPONSE}_count")
_PARTS = {
    "queueing delay": _rate(f"{QUEUEING}_sum"),
    "service time": _rate(f"{SERVICE_TIME}_sum"),
    "retries": _rate("sojourn_retry_seconds_total"),
}


def _at_least_zero(part: str) -> str:
    return or_zero(part, _REQUESTS)


COMPOSITION = (
    *(Series(name, share_of(_at_least_zero(part), _REQUESTS)) for name, part in _PARTS.items()),
    Series(
        "everything else",
        share_of(f"({_rate(f'{RESPONSE}_sum')} - {' - '.join(map(_at_least_zero, _PARTS.values()))})", _REQUESTS),
    ),
)
QUEUEING_SHARE = (Series("share of queueing", share_of(_PARTS["queueing delay"], _rate(f"{RESPONSE}_sum"))),)


def quantiles(histogram: str) -> tuple[Series, ...]:
    """Return p50, p90 and p99 of a histogram; with exemplars, once."""
    return tuple(
        Series(f"p{quantile * 100:g}", quantile_of(histogram, quantile, WINDOW, "", GROUP), exemplars=quantile == 0.99)
        for quantile in (0.5, 0.9, 0.99)
    )


HEATMAP = (Series("{{le}}", increase_of(f"{QUEUEING}_bucket", WINDOW, "le", GROUP)),)

# --- load and workers

CONCURRENCY = (
    Series("waiting", f"sum(sojourn_requests_waiting{{{BACKEND}}})"),
    Series("in service", f"sum(sojourn_requests_in_service{{{BACKEND}}})"),
    Series("in system", f"sum(sojourn_requests_in_system{{{BACKEND}}})"),
    Series("workers", workers("", BACKEND)),
    Series("waiting by Little's law", _rate(f"{QUEUEING}_sum", "", BACKEND)),
)
UTILISATION = (
    Series(
        "{{service}} utilisation",
        share_of(f"sum by (service) (sojourn_requests_in_service{{{BACKEND}}})", workers("service", BACKEND)),
    ),
    Series(
        "{{service}} saturation",
        share_of(f"sum by (service) (sojourn_offered_load_workers{{{SERVICE}}})", workers("service", SERVICE)),
    ),
)
WORKERS_NEEDED = (
    Series(
        "{{service}} {{objective}}: {{method}}",
        f"sum by (service, objective, method) (sojourn_workers_needed{{{SERVICE}}})",
    ),
    Series("{{service}} workers", workers("service", SERVICE)),
    Series("{{service}} offered load", f"sum by (service) (sojourn_offered_load_workers{{{SERVICE}}})"),
)
WITHIN = "within the objective"
SCALING = (
    Series("offered load", f"sum(sojourn_offered_load_workers{{{SERVICE}}})"),
    Series("requests in progress", f"sum(sojourn_requests_in_progress{{{SERVICE}}})"),
    Series("workers", workers("", SERVICE)),
    Series(
        "workers needed, live",
        f'sum(max by (service, {EXPORTER}) (sojourn_workers_needed{{{SERVICE},method="live"}}))',
    ),
    Series(WITHIN, f"min({_met(WINDOW)})"),
)
LIVE_REFUSED = (Series("{{service}} {{reason}}", f"max by (service, reason) (sojourn_live_refused{{{SERVICE}}})"),)
REFUSED = (Series("{{service}} {{reason}}", f"max by (service, reason) (sojourn_signal_refused{{{SERVICE}}})"),)
BOTTLENECK = (Series("{{service}} {{resource}}", f"max by (service, resource) (sojourn_bottleneck{{{SERVICE}}}) > 0"),)
DRAIN = (Series("{{service}}", f"clamp_max(max by (service) (sojourn_seconds_to_drain{{{SERVICE}}}), {LONGEST})"),)
FREE_WORKERS = (
    Series("{{service}} {{account}}", f"max by (service, account) (sojourn_waiting_ratio{{{SERVICE}}}) > 0"),
)

# --- routes and backends

_ROUTE = "service, route"


def _of_route(counter: str) -> str:
    return increase_of(counter, "$__range", _ROUTE, GROUP)


_TOP = f"topk(20, {_of_route(f'{QUEUEING}_sum')})"
ROUTES = (
    Series("queueing seconds", _TOP),
    *(
        Series(name, f"{expr} and on ({_ROUTE}) {_TOP}")
        for name, expr in (
            ("requests", _of_route(f"{RESPONSE}_count")),
            ("mean queueing", share_of(_of_route(f"{QUEUEING}_sum"), _of_route(f"{QUEUEING}_count"))),
            ("share of queueing", share_of(_of_route(f"{QUEUEING}_sum"), _of_route(f"{RESPONSE}_sum"))),
        )
    ),
)
BACKENDS = (
    Series("{{upstream}}", share_of(_rate(f"{QUEUEING}_sum", "upstream"), _rate(f"{QUEUEING}_count", "upstream"))),
)

# --- retries, abandoned requests

STATUSES = (Series("{{status}}", rate_of("sojourn_requests_total", WINDOW, "status", BACKEND)),)
RETRIES = (Series("retries per request", share_of(_at_least_zero(_rate("sojourn_retries_total")), _REQUESTS)),)
ABANDONED = (
    Series("abandoned", _rate("sojourn_abandoned_requests_total")),
    Series("all requests", _REQUESTS),
)
LOST_WORKERS = (
    Series("abandoned", _rate("sojourn_abandoned_seconds_total")),
    Series("wasted", _rate("sojourn_wasted_seconds_total")),
)

# --- the measurement

SOURCES = (Series("{{source}}", rate_of("sojourn_queue_source_total", WINDOW, "source", SERVICE)),)
_NEGATIVES = _rate("sojourn_negative_queueing_delays_total", "upstream", BACKEND)
NEGATIVES = (Series("{{upstream}}", share_of(_NEGATIVES, _rate(f"{QUEUEING}_count", "upstream", BACKEND))),)
CLOCKS = (
    Series("{{upstream}} offset", f"max by (upstream) (sojourn_clock_offset_seconds{{{BACKEND}}})"),
    Series("{{upstream}} ±", f"max by (upstream) (sojourn_clock_offset_uncertainty_seconds{{{BACKEND}}})"),
)
LAG = (
    Series("{{instance}} lag", f"max by ({EXPORTER}) (sojourn_log_lag_seconds)"),
    Series("{{instance}} last record", f"time() - max by ({EXPORTER}) (sojourn_log_last_record_timestamp_seconds)"),
    Series("{{instance}} state", f"time() - min by ({EXPORTER}) (sojourn_state_timestamp_seconds)"),
)
UNREAD = (
    Series("{{instance}} {{log}}", f"max by ({EXPORTER}, log) (sojourn_log_unread_bytes)"),
    Series("{{log}} lost", increase_of("sojourn_log_lost_bytes_total", WINDOW, "log")),
)
LINES = (
    Series("{{log}} read", rate_of("sojourn_log_lines_total", WINDOW, "log")),
    Series("refused: {{reason}}", rate_of("sojourn_log_refused_lines_total", WINDOW, "reason")),
    Series("repeated", rate_of("sojourn_log_repeated_records_total", WINDOW, "")),
    Series("ahead of the clock", rate_of("sojourn_log_records_ahead_total", WINDOW, "")),
)
LOGS = (
    Series("{{log}} missing", "max by (log) (sojourn_log_missing)"),
    Series("{{log}} not opened", "max by (log) (sojourn_log_unopened)"),
    Series("{{log}} rotations", increase_of("sojourn_log_rotations_total", WINDOW, "log")),
)
OTHER_LABELS = (Series("{{label}}", rate_of("sojourn_other_label_total", WINDOW, "label")),)
WINDOW_REQUESTS = (Series("{{instance}}", f"max by ({EXPORTER}) (sojourn_export_window_requests)"),)
