"""Where the time of requests that pass two tiers is made: `sojourn tiers` of the case's own traces.

kind, sentence           the finding, in a word and in plain ones
behind                   1 where it is that the time is made by a queue in the tier behind, else 0
another_instance_helps   1 or 0: what it says of one more instance of the app; None where it cannot tell
share                    of the app's time that is spent waiting for the tier behind
tier.<service>           requests (`visits`), and mean seconds of `queueing`, of `self` (its own work), of `span`
app                      what the app's own log says: mean `service_time` and `queueing_delay`, s
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sojourn_lab.results.analyses.data import CaseData

if TYPE_CHECKING:
    import polars as pl


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case; see the module."""
    import polars as pl  # noqa: PLC0415
    from sojourn.analyses.tiers.analysis import tiers  # noqa: PLC0415 - brings Polars
    from sojourn.sources.traces import read_traces  # noqa: PLC0415

    rows = data.rows
    traces = read_traces(list(data.spans))
    # The files have the spans of the whole run: the sums would be of all its cases, and of their warm-ups.
    ours = traces.spans.filter(pl.col("trace_id").is_in(rows["trace_id"].to_list()))
    found = tiers(replace(traces, spans=ours), rows.lazy(), service="app")
    finding = found.finding
    told = {
        each.service: {
            "visits": each.visits,
            "queueing": each.queueing["mean"],
            "self": each.self_time["mean"],
            "span": each.span["mean"],
        }
        for each in found.services
    }
    return {
        "kind": finding.kind,
        "sentence": finding.sentence,
        "behind": int(finding.kind in ("shared_dependency", "dependency_queue")),
        "another_instance_helps": None
        if finding.another_instance_helps is None
        else int(finding.another_instance_helps),
        "share": finding.share,
        "tier": told,
        "app": {name: _mean(rows, name) for name in ("service_time", "queueing_delay")},
    }


def _mean(rows: pl.DataFrame, name: str) -> float | None:
    found = rows[name].mean()
    return float(found) if isinstance(found, int | float) else None
