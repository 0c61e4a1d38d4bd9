"""Dashboards, alerts and recording rules as code. ``python -m sojourn_dashboards`` writes the files."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from sojourn_dashboards.compare import compare
from sojourn_dashboards.distributions import distributions
from sojourn_dashboards.explain import explain
from sojourn_dashboards.load import load
from sojourn_dashboards.pipeline import pipeline
from sojourn_dashboards.prometheus_board import prometheus
from sojourn_dashboards.request import request
from sojourn_dashboards.runbook import runbook
from sojourn_dashboards.search import search
from sojourn_dashboards.verdict import verdict

DASHBOARDS: dict[str, Callable[[], Dashboard]] = {
    "verdict": verdict,
    "distributions": distributions,
    "load": load,
    "explain": explain,
    "requests": search,
    "request": request,
    "compare": compare,
    "pipeline": pipeline,
    "prometheus": prometheus,
    "runbook": runbook,
}

ONLY_OF_DASHBOARDS = ("asDropdown", "icon", "includeVars", "keepTime", "placement", "tags", "tooltip", "type")
ONLY_OF_INTERVALS = ("auto", "auto_min", "auto_count")


def model(name: str) -> dict[str, Any]:
    """Return a dashboard as Grafana's classic JSON model: every panel and row with an id of its own, counted from 1."""
    built = DASHBOARDS[name]().build()
    for number, panel in enumerate(built.panels or [], start=1):
        panel.id_val = number
    document: dict[str, Any] = json.loads(json.dumps(built, cls=JSONEncoder))
    for variable in document["templating"].get("list") or []:
        _without(variable, *ONLY_OF_INTERVALS)
    for panel in document["panels"]:
        if panel["type"] == "table":
            _without(panel["options"], "footer")
        for link in panel.get("fieldConfig", {}).get("defaults", {}).get("links") or []:
            _without(link, *ONLY_OF_DASHBOARDS)
    for link in document["links"]:
        _without(link, "placement")  # it would move them out of sight, into a menu
    return document


def _without(part: dict[str, Any], *keys: str) -> None:
    """Take out what the SDK gives by default and Grafana's own schema does not know, there."""
    for key in keys:
        part.pop(key, None)
