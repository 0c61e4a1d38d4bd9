"""Whether the figures are the system's, by the thresholds that hold for every generator of the lab."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn_lab.generator.verdict import ACHIEVED_SHARE, lag_limit
from sojourn_lab.kinds.websocket.plan import Connection, ConnectionSummary


def void_reasons(summary: ConnectionSummary, connections: Sequence[Connection], median: float | None) -> list[str]:
    """Return, in plain sentences, why the figures cannot be trusted; `median` is that of the response, s."""
    limit = lag_limit(median)
    loop = None if summary.loop_lag is None else summary.loop_lag.p99
    lags = (("connections began", summary.late.p99), ("the event loop was", loop))
    reasons = [
        f"the generator was late: {what} {lag * 1000:.1f} ms late at p99, more than {limit * 1000:.1f} ms"
        for what, lag in lags
        if lag is not None and lag > limit
    ]
    if summary.dropped:
        reasons.append(f"the generator dropped {summary.dropped} connections: it had nobody left to make them")
    begun = sum(each.began < summary.window.until + limit for each in connections)
    if not summary.offered:
        reasons.append("the schedule has no instant in the ramp")
    elif begun < ACHIEVED_SHARE * summary.offered:
        reasons.append(
            f"the generator began {begun} of {summary.offered} intended connections in time, less than"
            f" {ACHIEVED_SHARE:.0%}"
        )
    return reasons
