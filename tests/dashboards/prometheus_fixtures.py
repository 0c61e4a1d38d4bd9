"""Metrics of two services with constant rates, so that every figure of a panel can be computed by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from dashboards_support import HOSTILE
from sojourn.export.metrics import BUCKETS, COUNTER, HISTOGRAM, METRICS, Metric
from sojourn.export.refusal import REASONS
from sojourn.timeline.contention.resources import BOTTLENECKS, CORES

HOURS = 1.5
SHORT = CORES
STEP = 15  # s
EXPORTER = {"job": "sojourn", "instance": "edge:9469"}


@dataclass(frozen=True)
class Group:
    """Requests with the same labels. ``waits``: (queueing delay, s; share of the requests)."""

    service: str
    route: str
    upstream: str
    rate: float  # requests/s
    waits: tuple[tuple[float, float], ...]
    service_time: float  # s
    retry: float = 0.0  # s a request
    abandoned: float = 0.0  # requests/s
    wasted: float = 0.0  # s/s
    negative: float = 0.0  # requests/s, each of -0.01 s


ELSE = 0.01  # s of every response that is neither waiting, service nor retries
# A quote would end the string in PromQL: Grafana does not escape it.
ROUTES = tuple(route for route in HOSTILE if '"' not in route)
GROUPS = (
    Group("shop", "/orders/:id", "10.0.0.1:8080", 8.0, ((0.02, 0.8), (0.3, 0.2)), 0.1, abandoned=0.2, wasted=0.05),
    Group("shop", "/search", "10.0.0.2:8080", 2.0, ((0.02, 0.5), (0.7, 0.5)), 0.2, retry=0.05, negative=0.1),
    Group("api", "/", "10.0.0.3:8080", 5.0, ((0.004, 1.0),), 0.02),
    *(Group("hostile", route, "10.0.0.4:8080", 0.5, ((0.02, 1.0),), 0.02) for route in ROUTES),
)
SERVICES = tuple(dict.fromkeys(group.service for group in GROUPS))
BACKENDS = tuple(dict.fromkeys((group.service, group.upstream) for group in GROUPS))
MET = {"shop": 0.95, "api": 1.0, "hostile": 1.0}  # of the objective "fast"
RATIO, THRESHOLD = 0.99, 0.3
WAITING = {"10.0.0.1:8080": 0.6, "10.0.0.2:8080": 0.7, "10.0.0.3:8080": 0.02, "10.0.0.4:8080": 0.08}
IN_SERVICE = {"10.0.0.1:8080": 0.8, "10.0.0.2:8080": 0.4, "10.0.0.3:8080": 0.1, "10.0.0.4:8080": 0.08}
WORKERS = {"10.0.0.1:8080": 1, "10.0.0.2:8080": 1, "10.0.0.3:8080": 4, "10.0.0.4:8080": 4}
NEEDED = {"live": 6, "replay": 3, "erlang_c": 4, "square_root": 5}
IN_PROGRESS = {"shop": 3.0, "api": 1.0, "hostile": 0.0}
LOAD = {"shop": 1.2, "api": 0.1, "hostile": 0.08}
REFUSED = ("hostile", "waits_not_reproduced")
DRAIN = {"shop": float("inf"), "api": 2.5, "hostile": 0.0}

Labels = dict[str, str]
# Value of a series at an instant: (rate or constant, whether it grows with time).
Row = tuple[str, Labels, float]


def _observations(group: Group, part: str) -> Iterator[tuple[float, float]]:
    """(value, s; rate, requests/s)."""
    for wait, share in group.waits:
        value = {
            "sojourn_queueing_delay_seconds": wait,
            "sojourn_service_time_seconds": group.service_time,
            "sojourn_response_time_seconds": wait + group.service_time + group.retry + ELSE,
        }[part]
        yield value, group.rate * share


def _histogram(metric: Metric) -> Iterator[Row]:
    for group in GROUPS:
        labels = {
            "service": group.service,
            "route": group.route,
            "upstream": group.upstream,
            "status_class": "2xx",
        }
        rows = list(_observations(group, metric.name))
        yield f"{metric.name}_sum", labels, sum(value * rate for value, rate in rows)
        yield f"{metric.name}_count", labels, sum(rate for _, rate in rows)
        for bound in (*BUCKETS, float("inf")):
            count = sum(rate for value, rate in rows if value <= bound)
            yield f"{metric.name}_bucket", labels | {"le": f"{bound:g}".replace("inf", "+Inf")}, count


def _counters() -> dict[str, list[tuple[Labels, float]]]:
    """Name -> labels and rate per second."""
    groups = [({"service": g.service, "route": g.route, "upstream": g.upstream}, g) for g in GROUPS]
    backends = [
        ({"service": service, "upstream": upstream}, [g for g in GROUPS if g.upstream == upstream])
        for service, upstream in BACKENDS
    ]
    services = [(service, sum(g.rate for g in GROUPS if g.service == service)) for service in SERVICES]
    log = {"log": "access.jsonl"}
    return {
        "sojourn_requests_total": [
            (labels | {"status": status}, share * sum(g.rate for g in members))
            for labels, members in backends
            for status, share in (("200", 0.9), ("504", 0.1))
        ],
        "sojourn_retries_total": [(labels, g.rate) for labels, g in groups if g.retry],
        "sojourn_retry_seconds_total": [(labels, g.rate * g.retry) for labels, g in groups if g.retry],
        "sojourn_abandoned_requests_total": [(labels, g.abandoned) for labels, g in groups if g.abandoned],
        "sojourn_abandoned_seconds_total": [(labels, g.abandoned * 2) for labels, g in groups if g.abandoned],
        "sojourn_wasted_seconds_total": [(labels, g.wasted) for labels, g in groups if g.wasted],
        "sojourn_negative_queueing_delays_total": [
            (labels, sum(g.negative for g in members)) for labels, members in backends if members[0].negative
        ],
        "sojourn_negative_queueing_delay_seconds_total": [
            (labels, 0.01 * sum(g.negative for g in members)) for labels, members in backends if members[0].negative
        ],
        "sojourn_queue_source_total": [
            ({"service": service, "source": source}, rate * share)
            for service, rate in services
            for source, share in (("stamp", 0.75), ("duration", 0.25))
        ],
        "sojourn_objective_requests_total": [({"service": s, "objective": "fast"}, rate) for s, rate in services],
        "sojourn_objective_met_total": [({"service": s, "objective": "fast"}, rate * MET[s]) for s, rate in services],
        "sojourn_other_label_total": [({"label": "route"}, 0.5)],
        "sojourn_log_lines_total": [(log, 20.0)],
        "sojourn_log_refused_lines_total": [({"reason": "invalid_json"}, 0.25)],
        "sojourn_log_repeated_records_total": [({}, 0.125)],
        "sojourn_log_records_ahead_total": [({}, 0.0625)],
        "sojourn_log_rotations_total": [(log, 1 / 600)],
        "sojourn_log_lost_bytes_total": [(log, 2.0)],
    }


def _gauges(now: float) -> dict[str, list[tuple[Labels, float]]]:
    """Name -> labels and value."""
    backends = [{"service": service, "upstream": upstream} for service, upstream in BACKENDS]
    objectives = [
        ({"service": service, "objective": "fast", "method": method}, float(workers))
        for service, (method, workers) in itertools.product(SERVICES, NEEDED.items())
    ]
    by_service = [{"service": service} for service in SERVICES]
    by_log = {"log": "access.jsonl"}
    workers_of = {s: sum(WORKERS[u] for service, u in BACKENDS if service == s) for s in SERVICES}
    return {
        "sojourn_state_timestamp_seconds": [(labels, now - 5) for labels in by_service],
        "sojourn_requests_in_system": [(b, WAITING[b["upstream"]] + IN_SERVICE[b["upstream"]]) for b in backends],
        "sojourn_requests_waiting": [(b, WAITING[b["upstream"]]) for b in backends],
        "sojourn_requests_in_service": [(b, IN_SERVICE[b["upstream"]]) for b in backends],
        "sojourn_workers": [(b, float(WORKERS[b["upstream"]])) for b in backends],
        "sojourn_utilisation_ratio": [(b, IN_SERVICE[b["upstream"]] / WORKERS[b["upstream"]]) for b in backends],
        "sojourn_waiting_ratio": [
            ({**labels, "account": account}, share)
            for labels in by_service
            for account, share in (("imbalance", 0.25), ("dispatch", 0.05))
        ],
        "sojourn_workers_needed": objectives,
        "sojourn_saturation": [({"service": s}, LOAD[s] / workers_of[s]) for s in SERVICES],
        "sojourn_offered_load_workers": [({"service": s}, LOAD[s]) for s in SERVICES],
        "sojourn_seconds_to_drain": [({"service": s}, DRAIN[s]) for s in SERVICES],
        "sojourn_signal_refused": [
            ({"service": s, "reason": reason}, float((s, reason) == REFUSED)) for s in SERVICES for reason in REASONS
        ],
        "sojourn_requests_in_progress": [({"service": s}, IN_PROGRESS[s]) for s in SERVICES],
        "sojourn_live_refused": [
            ({"service": s, "reason": reason}, float((s, reason) == REFUSED)) for s in SERVICES for reason in REASONS
        ],
        "sojourn_bottleneck": [
            ({"service": s, "resource": resource}, float(resource == SHORT))
            for s in SERVICES
            for resource in BOTTLENECKS
        ],
        "sojourn_objective_ratio": [({"objective": "fast"}, RATIO)],
        "sojourn_objective_threshold_seconds": [({"objective": "fast"}, THRESHOLD)],
        "sojourn_clock_offset_seconds": [(b, -0.002) for b in backends],
        "sojourn_clock_offset_uncertainty_seconds": [(b, 0.0005) for b in backends],
        "sojourn_log_last_record_timestamp_seconds": [({}, now - 2)],
        "sojourn_log_lag_seconds": [({}, 0.5)],
        "sojourn_log_unread_bytes": [(by_log, 4096.0)],
        "sojourn_log_missing": [(by_log, 0.0)],
        "sojourn_log_unopened": [(by_log, 0.0)],
        "sojourn_export_window_requests": [({}, 9000.0)],
    }


def openmetrics(until: int) -> Iterator[str]:
    """Every metric of the exporter every 15 s up to an instant (unix time), as text that promtool makes blocks of."""
    begin = until - int(HOURS * 3600)
    instants = range(begin, until + 1, STEP)
    gauges = {instant: _gauges(instant) for instant in (begin, until)}
    counters = _counters()
    assert {*counters, *gauges[until]} == {metric.name for metric in METRICS if metric.kind != HISTOGRAM}
    for metric in METRICS:
        if metric.kind == HISTOGRAM:
            rows = list(_histogram(metric))
        elif metric.kind == COUNTER:
            rows = [(metric.name, labels, rate) for labels, rate in counters[metric.name]]
        else:
            rows = [(metric.name, labels, value) for labels, value in gauges[until][metric.name]]
        assert {label for _, labels, _ in rows for label in labels} - {"le"} == set(metric.labels)
        grows = metric.kind != "gauge"
        moves = metric.name.endswith("timestamp_seconds")
        for name, labels, value in rows:
            series = name + "{" + ",".join(f"{key}={_quoted(text)}" for key, text in (labels | EXPORTER).items()) + "}"
            for instant in instants:
                at = value * (instant - begin) if grows else value + (instant - until if moves else 0)
                yield f"{series} {_number(at)} {instant}\n"
    yield f'up{{job="{EXPORTER["job"]}",instance="{EXPORTER["instance"]}"}} 1 {until}\n'
    yield "# EOF\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _number(value: float) -> str:
    return "+Inf" if value == float("inf") else repr(float(value))
