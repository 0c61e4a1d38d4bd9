"""nginx's log reconciled with the app's spans: requests that failed before the app logged them.

at_nginx     requests of the window in nginx's log
reached      those for which the app has a span
failed       status 500 and above (502 from a cap on connections, 503, 504), and 499
unseen       failed, without a span: missing in the app's logs
seen_failed  failed, with a span
unseen_share unseen / at_nginx
by_status    status -> unseen requests
"""

from __future__ import annotations

from typing import Any

import polars as pl
from sojourn.model.components import failed as is_failed

from sojourn_lab.errors import LabError
from sojourn_lab.results.analyses.data import CaseData


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case; LabError where the app server writes no spans."""
    if not data.spans:
        raise LabError("the app servers of this run write no spans: use a server that does, such as gunicorn")
    return reconciled(data.rows)


def reconciled(rows: pl.DataFrame) -> dict[str, Any]:
    """Return the figures of split rows that are joined with spans; see the module."""
    has_span = pl.col("span_seconds").is_not_null()
    failed = is_failed(pl.col("status"))
    counts = rows.select(
        at_nginx=pl.len(),
        reached=has_span.sum(),
        failed=failed.sum(),
        unseen=(failed & ~has_span).sum(),
        seen_failed=(failed & has_span).sum(),
    ).row(0, named=True)
    by_status = rows.filter(failed & ~has_span).group_by("status").len().sort("status")
    share = counts["unseen"] / counts["at_nginx"] if counts["at_nginx"] else None
    return {**counts, "unseen_share": share, "by_status": {str(status): n for status, n in by_status.rows()}}
