"""Requests that fail before the app: of synthetic rows first, then behind a real nginx with a cap on connections."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from lab_support import missed, sound_run
from sojourn_lab.results.analyses.reconciliation import reconciled
from sojourn_lab.runtime.nginx import Nginx

pytestmark = pytest.mark.alone


def test_failure_without_a_span_is_unseen() -> None:
    rows = pl.DataFrame(
        {"status": [200, 200, 502, 502, 503, 504, 499], "span_seconds": [1.0, 1, None, None, 1, 9, None]}
    )
    result = reconciled(rows)
    assert (result["at_nginx"], result["reached"], result["failed"]) == (7, 4, 5)
    assert (result["unseen"], result["seen_failed"]) == (3, 2)
    assert result["unseen_share"] == pytest.approx(3 / 7)
    assert result["by_status"] == {"499": 1, "502": 2}


def test_empty_log_has_no_share() -> None:
    rows = pl.DataFrame(schema={"status": pl.Int64, "span_seconds": pl.Float64})
    assert reconciled(rows)["unseen_share"] is None


@pytest.mark.scenario
@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_requests_refused_by_a_connection_cap_are_only_in_the_nginx_log(tmp_path: Path) -> None:
    run = sound_run(tmp_path, "connection-cap", "--duration", "4", "--seed", "32", "--set", "cases.*.load.rate=60")
    assert missed(run) == []
    capped = run["cases"][0]
    # The client had an error for each: none was lost or repeated.
    assert capped["client"]["statuses"]["502"] == capped["figures"]["reconciliation"]["unseen"] > 0
