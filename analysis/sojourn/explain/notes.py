"""What a reader must know before believing or despairing, and the step that mends it."""

from __future__ import annotations

from sojourn.explain.result import SplitResult
from sojourn.words import printable


def notes(result: SplitResult) -> list[str]:
    """One sentence or two per finding, most important first."""
    found = []
    none = result.sources.get("none", 0)
    known = result.audit.app_known
    if known is not None and known < 0.5:
        found.append(
            f"The app said nothing of its own on {1 - known:.0%} of its answers, so waiting and working cannot be told "
            "apart there. To add it: wrap the app in the middleware (collector/middleware), which answers "
            "X-Queueing-Delay and X-Service-Time, and include sojourn_proxy.conf where nginx proxies."
        )
    elif none and none > 0.01 * result.requests:
        found.append(
            f"{none:,} requests have no answer from the app (504, 499, refused, or never proxied). "
            "Give --spans to learn what its workers did for them."
        )
    if result.sources.get("duration"):
        found.append(
            f"{result.sources['duration']:,} queueing delays come from durations alone (header time - service time): "
            "no valid stamp reached the app. Check that X-Request-Start is sent and passes every hop."
        )
    if result.audit.garbled:
        found.append(
            f"{result.audit.garbled:,} answers had timing headers that are not durations; they count as absent."
        )
    found.extend(
        f"The clock of {printable(row['upstream'], 60)} is known to ±{row['uncertainty'] * 1000:.0f} ms only: its "
        "queue was never seen empty in this window."
        for row in result.clock.iter_rows(named=True)
        if row["requests"] >= 100 and not row["idle"]
    )
    return found
