"""How much of the requests is queueing, by those whose wait is known, in SQL."""

from __future__ import annotations

HAS_WAIT = "queueing_delay IS NOT NULL"
IN_PART = "proxied AND queueing_delay IS NULL AND NOT of_app"

WAITS = {
    "proxied": "toFloat64(proxied)",
    "measured": f"toFloat64({HAS_WAIT})",
    "measured_seconds": f"if({HAS_WAIT} OR NOT proxied, request_time, 0)",
    "queueing": "ifNull(queueing_delay, 0)",
    "part_seconds": f"if({IN_PART}, request_time, 0)",
    "part_queueing": f"if({IN_PART}, proxy_queue + ifNull(connect, 0), 0)",
    "part_queue": f"if({IN_PART}, proxy_queue, 0)",
}
"""Name -> SQL over a row of the split, as ``sojourn.sources.coverage_rows.wait_columns``; sums, or means, of them are
what ``sojourn.model.coverage.Waits`` has."""
