"""What is known of the wait, from sums of ``rollup_minute``: unknown is not zero (``sojourn.model.coverage.Waits``)."""

from __future__ import annotations

from sojourn.model.coverage import FEW_OF_APP
from sojourn.store.waits import WAITS

SUMS_OF_WAITS = ", ".join(f"sum(waits_{name}) AS w_{name}" for name in WAITS)
"""Columns of a query over ``rollup_minute``; the expressions below refer to them."""

IN_PART = "w_part_queue > 0"
HAS_WAITS = f"(w_measured > 0 OR w_proxied = 0 OR {IN_PART})"
SECONDS = f"w_measured_seconds + if({IN_PART}, w_part_seconds, 0)"
QUEUEING = f"w_queueing + if({IN_PART}, w_part_queueing, 0)"

SHARE = f"if({HAS_WAITS} AND {SECONDS} > 0, ({QUEUEING}) / ({SECONDS}), NULL)"
"""The share of queueing in the response time, of the requests whose wait is known; NULL: of none."""

MEAN = f"if({HAS_WAITS}, s_queueing / n, NULL)"
"""Mean queueing delay over all ``n`` requests, of ``s_queueing`` seconds; NULL where no wait is known."""

HAS_PART = "(w_measured > 0 OR w_proxied = 0 OR w_part_seconds > 0)"
"""Whether some wait is known, be it only what the proxy saw of it: bars of a sum show that as the queueing delay."""

APP_ALONE = f"n_app_alone > {FEW_OF_APP} * n"
"""Whether so many requests are in logs of app servers that figures of all would mix two kinds of times."""
