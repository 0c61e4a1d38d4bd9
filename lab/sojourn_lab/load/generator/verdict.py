"""Thresholds beyond which a run measures the generator instead of the system under test."""

from __future__ import annotations

from sojourn_lab.load.plan import Plan, Summary
from sojourn_lab.scenario.load import ClosedLoad

LAG_FLOOR = 0.010
"""Seconds of lag that are always allowed at p99: asyncio's timers fire up to 1 ms late by design, nginx's clock
moves in steps of 1 ms, and the kernel may give the processor to other processes for a few slices of 3 ms. That is
noise, which passes. A generator that is the bottleneck falls behind further with every request."""

LAG_SHARE = 0.05
"""The share of the median response time that the lag's p99 may reach. Were every request that late, a mean would
move by 5 %, half of the tightest tolerance a scenario here is judged by; with 99 % of them below it, far less."""

ACHIEVED_SHARE = 0.98
"""An open loop must send at least this share of what its schedule intended within the window."""


def lag_limit(median_response: float | None) -> float:
    """Return the largest lag, in seconds, that a run may have at its 99th percentile."""
    return max(LAG_FLOOR, LAG_SHARE * (median_response or 0.0))


def void_reasons(plan: Plan, summary: Summary) -> list[str]:
    """Return the reasons, as sentences, that the figures cannot be trusted; empty if they can."""
    reasons: list[str] = []
    limit = lag_limit(summary.latency.uncorrected.p50)
    lags = (("requests left", summary.schedule_lag.p99), ("the event loop was", summary.loop_lag.p99))
    for what, lag in lags:
        if lag is not None and lag > limit:
            reasons.append(
                f"the generator was late: {what} {lag * 1000:.1f} ms late at p99, more than "
                f"{limit * 1000:.1f} ms (it used {summary.cpu:.0%} of a core)"
            )
    if refused := summary.errors.get("no_local_port"):
        most = "" if plan.local_ports is None else f": it may send from {plan.local_ports}"
        reasons.append(f"the generator ran out of local ports: {refused} requests had no free port{most}")
    if summary.dropped:
        reasons.append(f"the generator dropped {summary.dropped} requests: {plan.max_in_flight} were in flight already")
    if isinstance(plan.load, ClosedLoad):
        if summary.offered == 0:
            reasons.append("no request was sent in the measured window: it is shorter than a response")
    elif summary.offered == 0:
        reasons.append("the schedule has no instant in the measured window")
    elif summary.sent < ACHIEVED_SHARE * summary.offered:
        reasons.append(
            f"the generator sent {summary.sent} of {summary.offered} intended requests in time, "
            f"less than {ACHIEVED_SHARE:.0%}"
        )
    return reasons
