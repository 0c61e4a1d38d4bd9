"""Names, labels and meanings of the exported metrics, in one table: exposition, OTLP and the reference page use it.

Names follow Prometheus's conventions: base units, ``_total`` for counters, ``_ratio`` for shares. Every label has few
values: beyond a limit, values are counted as ``other``. No client chooses a value: a path is no route.
"""

from __future__ import annotations

from dataclasses import dataclass

HISTOGRAM, COUNTER, GAUGE = "histogram", "counter", "gauge"

GROUP = ("service", "route", "upstream")
"""Labels by which requests are grouped."""

OTHER, UNKNOWN, UNNAMED = "other", "", "(unnamed)"
"""Value of a label beyond its limit; of a label that the log does not contain; of a route without a name."""

STATUS_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")

BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Default upper bounds of the classic histograms, s. Thresholds of objectives are added to them."""

NATIVE_SCHEMA = 3
"""Resolution of the native histograms: 8 buckets per factor of 2, each 9 % wider than the one before."""


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: as Prometheus shows it, with the suffix of its kind.
        kind: ``HISTOGRAM``, ``COUNTER`` or ``GAUGE``.
        labels: names of its labels.
        unit: ``s``, ``By`` or ``1``, as OTLP writes units (UCUM); ``{request}`` and the like for counts.
        help: one sentence; for a signal, with formula and source.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    unit: str
    help: str


RESPONSE_LABELS = (*GROUP, "status_class")
"""Labels of the histograms."""
_BACKEND = ("service", "upstream")

METRICS = (
    # Distributions
    Metric("sojourn_response_time_seconds", HISTOGRAM, RESPONSE_LABELS, "s",
           "Response time of requests as nginx measured it ($request_time)."),
    Metric("sojourn_queueing_delay_seconds", HISTOGRAM, RESPONSE_LABELS, "s",
           "Time that requests waited for a worker; negative values count in the lowest bucket, and not in the sum."),
    Metric("sojourn_service_time_seconds", HISTOGRAM, RESPONSE_LABELS, "s",
           "Time from the app's start to its response headers."),
    # Counters
    Metric("sojourn_requests_total", COUNTER, (*_BACKEND, "status"), "{request}",
           "Requests in the log."),
    Metric("sojourn_retries_total", COUNTER, GROUP, "{attempt}",
           "Upstream attempts before the one that answered."),
    Metric("sojourn_retry_seconds_total", COUNTER, GROUP, "s",
           "Time that requests spent in attempts before the one that answered."),
    Metric("sojourn_abandoned_requests_total", COUNTER, GROUP, "{request}",
           "Requests that nginx (504) or the client (499) abandoned while an upstream had them."),
    Metric("sojourn_abandoned_seconds_total", COUNTER, GROUP, "s",
           "Time that abandoned requests had been at the upstream when they were abandoned, waiting or in service."),
    Metric("sojourn_wasted_seconds_total", COUNTER, GROUP, "s",
           "Worker time spent on abandoned requests; only with the app's spans (--spans)."),
    Metric("sojourn_negative_queueing_delays_total", COUNTER, _BACKEND, "{request}",
           "Requests whose queueing delay was negative: the clocks differ, or one changed."),
    Metric("sojourn_negative_queueing_delay_seconds_total", COUNTER, _BACKEND, "s",
           "Sum of the negative queueing delays, without sign; histogram sum less this is the exact sum."),
    Metric("sojourn_queue_source_total", COUNTER, ("service", "source"), "{request}",
           "Proxied requests by what their queueing delay is known from: stamp, span, duration or none."),
    Metric("sojourn_objective_requests_total", COUNTER, ("service", "objective"), "{request}",
           "Requests to which an objective applies."),
    Metric("sojourn_objective_met_total", COUNTER, ("service", "objective"), "{request}",
           "Requests that met an objective."),
    Metric("sojourn_other_label_total", COUNTER, ("label",), "{request}",
           "Requests counted under the value other, because a label has too many values."),
    Metric("sojourn_log_lines_total", COUNTER, ("log",), "{line}",
           "Lines read."),
    Metric("sojourn_log_refused_lines_total", COUNTER, ("reason",), "{line}",
           "Lines that are no records, by reason."),
    Metric("sojourn_log_repeated_records_total", COUNTER, (), "{line}",
           "Records delivered more than once, which count once."),
    Metric("sojourn_log_records_ahead_total", COUNTER, (), "{line}",
           "Records more than 5 s ahead of the exporter's clock, which are in no other figure of requests; with "
           "--from-beginning, records further from all others than these span."),
    Metric("sojourn_log_rotations_total", COUNTER, ("log",), "{rotation}",
           "Times that a log was replaced or truncated."),
    # State of the backends, as of sojourn_state_timestamp_seconds
    Metric("sojourn_state_timestamp_seconds", GAUGE, ("service",), "s",
           "Instant up to which the log is complete, unix time: now less the longest response time of the last minute "
           "(at most 30 s), because a request is logged when it ends. Gauges of the state are as of this instant."),
    Metric("sojourn_requests_in_system", GAUGE, _BACKEND, "{request}",
           "Requests waiting or in service, mean over 10 s."),
    Metric("sojourn_requests_waiting", GAUGE, _BACKEND, "{request}",
           "Requests waiting for a worker, mean over 10 s; an abandoned one of unknown wait waits until then."),
    Metric("sojourn_requests_in_service", GAUGE, _BACKEND, "{request}",
           "Busy workers, mean over 10 s."),
    Metric("sojourn_workers", GAUGE, _BACKEND, "{worker}",
           "Workers: --workers, or distinct worker values in use at the same time in the recent window."),
    Metric("sojourn_utilisation_ratio", GAUGE, _BACKEND, "1",
           "Busy workers as a share of all workers, over 10 s; a lower bound while sojourn_signal_refused is 1."),
    Metric("sojourn_waiting_ratio", GAUGE, ("service", "account"), "1",
           "Share of the last minute's waiting that is not charged to requests, by account: dispatch (the request's "
           "own backend had a free worker), imbalance (another backend had one), bound and reserved (another process, "
           "or a worker for other routes), limit, pause, worker_started, absent, load_not_in_the_log."),
    # Signals to scale on
    Metric("sojourn_workers_needed", GAUGE, ("service", "objective", "method"), "{worker}",
           "Smallest number of workers that holds the objective for the recent requests, without clients' own retries "
           "(the same address, method and URI within a minute of a failure). replay: their arrivals and "
           "service times through c workers, first come first served, behind the requests that wait now; erlang_c: "
           "P(wait > t) = C(c, a) exp(-(c - a)t/S) (Erlang 1917); square_root: a + beta sqrt(a) with the beta of "
           "Halfin and Whitt (1981). Where services share cores or a dependency, replay only, and the objective is for "
           "all waiting, in the queue and inside; absent where no number of workers holds it. live (with --status): "
           "from requests that are counted when they begin, computed when the metrics are read: C(c, a) with the "
           "exponent of Allen and Cunneen, for the highest rate that the count is sure of, and workers for the queue "
           "that there is; never more than help where services share cores or a dependency."),
    Metric("sojourn_requests_in_progress", GAUGE, ("service",), "{request}",
           "Requests that have begun and not ended, now (with --status): waiting and in service, without long polls, "
           "WebSockets and requests of other services; absent while it is not known which of them remain open."),
    Metric("sojourn_live_refused", GAUGE, ("service", "reason"), "1",
           "With --status: 1 while workers needed by the method live are not computed, else 0: no_count (a page does "
           "not answer), too_few_counts (more proxies write the log than are counted), unlogged_requests, "
           "open_connections (new ones are not known yet from requests that wait), app_stalled (no request ends), "
           "log_late, app_saturated (the app counts, and all its workers are busy), no_service_time, window_too_short "
           "(service times are longer than a fifth of --hold), or a reason of sojourn_signal_refused."),
    Metric("sojourn_saturation", GAUGE, ("service",), "1",
           "Offered load per worker, a/c with a = arrival rate times mean service time (Erlang 1917): at 1 or more the "
           "queue grows without limit."),
    Metric("sojourn_offered_load_workers", GAUGE, ("service",), "{worker}",
           "Offered load a = arrival rate times mean service time, in erlangs: the workers that are busy on average."),
    Metric("sojourn_seconds_to_drain", GAUGE, ("service",), "s",
           "Time until the queue is empty if requests keep arriving at the recent rate: work waiting / (c - a), the "
           "fluid approximation (Newell 1971); +Inf where a >= c, 0 where no request waits."),
    Metric("sojourn_signal_refused", GAUGE, ("service", "reason"), "1",
           "1 while offered load, workers needed, saturation and time to drain are not given, else 0: "
           "waits_not_reproduced (the recent requests, replayed, wait for another time than they did), "
           "service_depends_on_load, limit_in_front, workers_absent, bound_to_processes, several_in_one_worker, or "
           "clocks_disagree (more than 1 % of the recent records are ahead of the exporter's clock). "
           "Scale on the queueing delay then."),
    Metric("sojourn_bottleneck", GAUGE, ("service", "resource"), "1",
           "1 for the resource that saturates first by the demands of the recent requests, else 0: workers; cores, "
           "which the services of a backend or a host share; dependency, which those of all backends share; places of "
           "a pool inside the app. More workers help where it is workers."),
    Metric("sojourn_objective_ratio", GAUGE, ("objective",), "1",
           "Share of requests that an objective wants to meet it."),
    Metric("sojourn_objective_threshold_seconds", GAUGE, ("objective",), "s",
           "Threshold of an objective."),
    # The measurement itself
    Metric("sojourn_clock_offset_seconds", GAUGE, _BACKEND, "s",
           "The app's clock less nginx's."),
    Metric("sojourn_clock_offset_uncertainty_seconds", GAUGE, _BACKEND, "s",
           "Half width of the interval that contains the clock offset."),
    Metric("sojourn_log_last_record_timestamp_seconds", GAUGE, (), "s",
           "End of the latest request in the logs, unix time."),
    Metric("sojourn_log_lag_seconds", GAUGE, (), "s",
           "Least time between the end of a request and the reading of its record, over the last minute: buffering, "
           "shipping, and a clock that differs."),
    Metric("sojourn_log_unread_bytes", GAUGE, ("log",), "By",
           "Bytes written and not read yet."),
    Metric("sojourn_log_missing", GAUGE, ("log",), "1",
           "1 while a log does not exist."),
    Metric("sojourn_log_unopened", GAUGE, ("log",), "1",
           "1 while a log exists and cannot be opened after a rotation: too many open files, or no read permission."),
    Metric("sojourn_log_lost_bytes_total", COUNTER, ("log",), "By",
           "Size of files that were replaced, truncated or removed before they could be opened: their requests are not "
           "counted."),
    Metric("sojourn_export_window_requests", GAUGE, (), "{request}",
           "Requests held for the gauges."),
)  # fmt: skip

BY_NAME = {metric.name: metric for metric in METRICS}
