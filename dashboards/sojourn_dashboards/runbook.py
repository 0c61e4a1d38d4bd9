"""The runbook, beside the alerts it is for."""

from __future__ import annotations

from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard

from sojourn_dashboards.frame import dashboard
from sojourn_dashboards.panels import words

PAGE = Path(__file__).parents[1] / "runbook.md"


def runbook() -> Dashboard:
    """Return the dashboard with uid ``sojourn-runbook``: the page ``dashboards/runbook.md``."""
    board = dashboard("sojourn-runbook", "Runbook", "What each alert means, how to tell, and what to do.", [])
    return board.with_panel(
        words(
            "Runbook",
            "What each alert means, how to tell, and what to do.",
            PAGE.read_text(encoding="utf-8"),
            40,
        )
    )
