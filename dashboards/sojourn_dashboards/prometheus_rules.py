"""Recording rules: figures per service and per objective, and the groups of the rule file.

Names follow Prometheus's convention ``level:metric:operations``: the level is the labels that remain, ``_per_`` divides
two metrics, and an operation names its window. https://prometheus.io/docs/practices/rules/
"""

from __future__ import annotations

from dataclasses import dataclass

from sojourn_dashboards.promql import (
    QUEUEING,
    RESPONSE,
    SERVICE,
    exact_queueing_rate,
    or_zero,
    quantile_of,
    rate_of,
    share_of,
    workers,
)

OBJECTIVE_WINDOWS = ("5m", "30m", "1h", "6h", "3d")
QUANTILES = (0.5, 0.9, 0.99)

REQUESTS_RATE = "service:sojourn_requests:rate5m"
QUEUEING_RATE = f"service:{QUEUEING}_sum:rate5m"
RESPONSE_RATE = f"service:{RESPONSE}_sum:rate5m"
SERVICE_RATE = f"service:{SERVICE}_sum:rate5m"
QUEUEING_P90 = f"service:{QUEUEING}:p90_5m"
QUEUEING_P90_MEDIAN = f"service:{QUEUEING}:p90_5m_median1h"
QUEUEING_SHARE = "service:sojourn_queueing_per_response_seconds:ratio_rate5m"
ABANDONED_SHARE = "service:sojourn_abandoned_per_response_seconds:ratio_rate5m"
WASTED_SHARE = "service:sojourn_wasted_per_busy_seconds:ratio_rate5m"
SATURATION = "service:sojourn_offered_load_per_workers:ratio"


def missed_share(window: str) -> str:
    """Return the name of the rule: the share of an objective's requests that missed it, over ``window``."""
    return f"service_objective:sojourn_objective_missed_per_requests:ratio_rate{window}"


@dataclass(frozen=True)
class Recording:
    """One recording rule: name, PromQL, and what the series means (one sentence, with its unit)."""

    name: str
    expr: str
    meaning: str


def _service_rules() -> list[Recording]:
    requests = rate_of("sojourn_requests_total", "5m")
    wasted = rate_of("sojourn_wasted_seconds_total", "5m")
    rules = [
        Recording(REQUESTS_RATE, requests, "Requests per second that ended."),
        Recording(
            RESPONSE_RATE,
            rate_of(f"{RESPONSE}_sum", "5m"),
            "Seconds of response time per second: mean requests in system (Little 1961).",
        ),
        Recording(
            QUEUEING_RATE,
            exact_queueing_rate("5m"),
            "Seconds of queueing delay per second, negative delays subtracted: mean requests waiting (Little 1961).",
        ),
        Recording(
            SERVICE_RATE,
            rate_of(f"{SERVICE}_sum", "5m"),
            "Seconds of service time per second: mean workers in service, without bodies and work after the answer.",
        ),
    ]
    parts = (
        (RESPONSE, RESPONSE_RATE, "response time"),
        (QUEUEING, QUEUEING_RATE, "queueing delay"),
        (SERVICE, SERVICE_RATE, "service time"),
    )
    for histogram, total, name in parts:
        exactly = ", negative delays subtracted" if histogram == QUEUEING else ""
        rules.append(
            Recording(
                f"service:{histogram}:mean5m",
                share_of(total, rate_of(f"{histogram}_count", "5m")),
                f"Mean {name}, s{exactly}.",
            )
        )
        rules += [
            Recording(
                f"service:{histogram}:p{quantile * 100:g}_5m",
                quantile_of(histogram, quantile, "5m"),
                f"{quantile * 100:g} % of the requests have at most this {name}, s; interpolated within a bucket.",
            )
            for quantile in QUANTILES
        ]
    return [
        *rules,
        Recording(
            QUEUEING_P90_MEDIAN,
            f"quantile_over_time(0.5, {QUEUEING_P90}[1h])",
            "Median over one hour of the p90 of the queueing delay, s: the usual queue.",
        ),
        Recording(
            QUEUEING_SHARE,
            share_of(QUEUEING_RATE, RESPONSE_RATE),
            "Queueing delay as a share of all response time.",
        ),
        Recording(
            "service:sojourn_retries_per_requests:ratio_rate5m",
            share_of(or_zero(rate_of("sojourn_retries_total", "5m"), requests), requests),
            "Upstream attempts before the one that answered, per request.",
        ),
        Recording(
            ABANDONED_SHARE,
            share_of(or_zero(rate_of("sojourn_abandoned_seconds_total", "5m"), RESPONSE_RATE), RESPONSE_RATE),
            "Seconds of abandoned requests at the upstream as a share of all response time.",
        ),
        Recording(
            WASTED_SHARE,
            share_of(wasted, f"({wasted} + {SERVICE_RATE})"),
            "Worker time for abandoned requests as a share of the workers' busy time; only with spans.",
        ),
        Recording(
            SATURATION,
            share_of("sum by (service) (sojourn_offered_load_workers)", workers()),
            "Offered load per worker, of all exporters together; at 1 or more the queue grows without limit.",
        ),
    ]


def _objective_rules() -> list[Recording]:
    labels = "service, objective"
    rules = []
    for window in OBJECTIVE_WINDOWS:
        requests = rate_of("sojourn_objective_requests_total", window, labels)
        met = or_zero(rate_of("sojourn_objective_met_total", window, labels), requests)
        rules.append(
            Recording(
                missed_share(window),
                f"1 - {share_of(met, requests)}",
                f"Share of an objective's requests that missed it, over {window}.",
            )
        )
    return rules


RECORDINGS: dict[str, tuple[Recording, ...]] = {
    "sojourn_services": tuple(_service_rules()),
    "sojourn_objectives": tuple(_objective_rules()),
}
"""Group of the rule file -> its recording rules, in the order in which they are evaluated."""
