"""What every dashboard has around its panels: uid, range, variables, links to the others, ids, UTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard, DashboardLink, Row
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DashboardLinkType

TAG = "sojourn"


def dashboard(uid: str, title: str, description: str, variables: Sequence[Any], *, since: str = "now-3h") -> Dashboard:
    """Create an empty dashboard."""
    others = (
        DashboardLink("Sojourn")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(False)
        .include_vars(True)
        .keep_time(True)
    )
    board = (
        Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .timezone("utc")
        .time(since, "now")
        .refresh("1m")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .readonly()
        .annotations([])
        .link(others)
    )
    for variable in variables:
        board.with_variable(variable)
    return board


def add_row(board: Dashboard, title: str, *panels: Any) -> None:
    """Add a row with a title, and its panels."""
    board.with_row(Row(title))
    for panel in panels:
        board.with_panel(panel)
