"""The tier in which requests that pass two tiers spend their time: `sojourn tiers` of the case's own traces.

kind, sentence           the finding, as a key and as a sentence
behind                   1 if the finding is a queue in the tier behind the app, else 0
another_instance_helps   1 or 0: whether one more instance of the app helps; None if unknown
share                    share of the app's time that is spent waiting for the tier behind
tier.<service>           requests (`visits`), and mean seconds of `queueing`, of `self` (its own work), of `span`
app                      by the app's own log: mean `service_time` and `queueing_delay`, s
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
from sojourn.analyses.tiers.analysis import tiers
from sojourn.sources.traces import read_traces

from sojourn_lab.results.analyses.data import CaseData


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case; see the module."""
    rows = data.rows
    traces = read_traces(list(data.spans))
    # The files have the spans of the whole run: its other cases and the warm-ups are left out.
    spans = traces.spans.filter(pl.col("trace_id").is_in(rows["trace_id"].to_list()))
    result = tiers(replace(traces, spans=spans), rows.lazy(), service="app")
    finding = result.finding
    services = {
        each.service: {
            "visits": each.visits,
            "queueing": each.queueing["mean"],
            "self": each.self_time["mean"],
            "span": each.span["mean"],
        }
        for each in result.services
    }
    return {
        "kind": finding.kind,
        "sentence": finding.sentence,
        "behind": int(finding.kind in ("shared_dependency", "dependency_queue")),
        "another_instance_helps": None
        if finding.another_instance_helps is None
        else int(finding.another_instance_helps),
        "share": finding.share,
        "tier": services,
        "app": {name: _mean(rows, name) for name in ("service_time", "queueing_delay")},
    }


def _mean(rows: pl.DataFrame, name: str) -> float | None:
    mean = rows[name].mean()
    return float(mean) if isinstance(mean, int | float) else None
