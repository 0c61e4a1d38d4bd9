"""Summarise the records of one case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from sojourn_lab.load.generator.verdict import lag_limit, void_reasons
from sojourn_lab.load.plan import ClientRecord, Latency, Plan, Quantiles, Summary, Useful, Window


def quantiles_of(seconds: Iterable[float]) -> Quantiles:
    """Return the mean and the exact quantiles of durations in seconds."""
    values = np.fromiter(seconds, dtype=np.float64)
    if not values.size:
        return Quantiles()
    p50, p90, p95, p99, p999 = np.quantile(values, [0.5, 0.9, 0.95, 0.99, 0.999]).tolist()
    return Quantiles(float(values.mean()), p50, p90, p99, p999, float(values.max()), p95)


def summary_of(
    plan: Plan,
    window: Window,
    *,
    records: list[ClientRecord],
    dropped: list[float],
    loop_lag: list[float],
    cpu: float,
) -> Summary:
    """Return the summary of one case.

    `records` and `dropped` are of the whole case (instants in unix seconds), `loop_lag` in seconds.
    A request belongs to the window its *intended* instant lies in: choosing by completion would leave
    out the slow ones that were still under way at the end.
    """
    inside = [record for record in records if window.since <= record.intended < window.until]
    dropped_inside = sum(window.since <= instant < window.until for instant in dropped)
    answered = [record for record in inside if record.error is None and record.done is not None]
    seconds = window.until - window.since
    latency = Latency(
        corrected=quantiles_of(record.done - record.intended for record in answered if record.done),
        uncorrected=quantiles_of(record.done - record.sent for record in answered if record.done),
    )
    in_time = window.until + lag_limit(latency.uncorrected.p50)
    first = [record for record in inside if record.attempt == 1]
    sent = sum(record.sent < in_time for record in first)
    summary = Summary(
        case=plan.case,
        window=window,
        requests=len(records),
        offered=len(first) + dropped_inside,
        sent=sent,
        dropped=dropped_inside,
        answered=len(answered),
        failed=sum(record.error is not None or (record.status or 0) >= 400 for record in inside),
        errors=dict(Counter(record.error for record in inside if record.error is not None)),
        statuses=dict(Counter(str(record.status) for record in inside if record.status is not None)),
        offered_rate=(len(first) + dropped_inside) / seconds,
        achieved_rate=sent / seconds,
        latency=latency,
        schedule_lag=quantiles_of(record.sent - record.intended for record in inside),
        loop_lag=quantiles_of(loop_lag),
        cpu=cpu,
        void=[],
        useful=useful_of(records, dropped_inside, window),
    )
    summary.void = void_reasons(plan, summary)
    return summary


def useful_of(records: list[ClientRecord], dropped: int, window: Window) -> Useful:
    """Return the outcome of the requests first intended in the window; `dropped` of them were never sent."""
    begun = {record.id: record.intended for record in records if record.attempt == 1}
    inside = {name for name, intended in begun.items() if window.since <= intended < window.until}
    served: dict[str, float] = {}
    attempts = 0
    for record in records:
        if record.id not in inside:
            continue
        attempts += 1
        if record.error is None and record.status is not None and record.status < 400 and record.done is not None:
            served[record.id] = record.done - begun[record.id]
    count = len(inside) + dropped
    return Useful(
        wanted=count,
        served=len(served),
        share=len(served) / count if count else None,
        rate=len(served) / (window.until - window.since),
        attempts=attempts / len(inside) if inside else None,
        latency=quantiles_of(served.values()),
    )
