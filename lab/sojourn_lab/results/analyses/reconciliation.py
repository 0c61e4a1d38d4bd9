"""What nginx knows of, against what the app knows of: requests that failed where the app's own log never saw them.

at_nginx     requests of the window in nginx's log
reached      those of which the app has a span
failed       status 500 and above (502 from a cap on connections, 503, 504), and 499
unseen       failed, without a span: in no log of the app's
seen_failed  failed, with a span
unseen_share unseen / at_nginx
by_status    status -> unseen requests
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn_lab.errors import LabError
from sojourn_lab.results.analyses.data import CaseData

if TYPE_CHECKING:
    import polars as pl


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case; LabError where the app server writes no spans."""
    if not data.spans:
        raise LabError("the app servers of this run write no spans, so there is nothing to reconcile nginx's log with")
    return reconciled(data.rows)


def reconciled(rows: pl.DataFrame) -> dict[str, Any]:
    """Return the figures of split rows with spans joined: see the module."""
    import polars as pl  # noqa: PLC0415

    seen = pl.col("span_seconds").is_not_null()
    failed = (pl.col("status") >= 500) | (pl.col("status") == 499)
    counts = rows.select(
        at_nginx=pl.len(),
        reached=seen.sum(),
        failed=failed.sum(),
        unseen=(failed & ~seen).sum(),
        seen_failed=(failed & seen).sum(),
    ).row(0, named=True)
    by_status = rows.filter(failed & ~seen).group_by("status").len().sort("status")
    share = counts["unseen"] / counts["at_nginx"] if counts["at_nginx"] else None
    return {**counts, "unseen_share": share, "by_status": {str(status): n for status, n in by_status.rows()}}
