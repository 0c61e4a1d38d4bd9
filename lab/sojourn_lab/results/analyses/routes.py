"""Queueing delay and service time of each route, and the routes whose requests held the workers meanwhile.

    by.<route>       requests, and response_time, queueing_delay and service_time (s: mean, p50, p90, p99, p999, max) of
                     those that arrived in the window
    waits.<route>    of the whole case, warm-up included, because requests at the begin of the window wait for earlier
                     ones: `waited` (s) and, as shares of it, `dispatch`, `imbalance`, `blamed.<route>` and `unknown`
                     (requests whose service time is unknown), as in `sojourn blame`

A route whose requests did not wait has no shares.
"""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl
from sojourn.analyses.blame.analysis import BlameResult
from sojourn.analyses.blame.run import blame

from sojourn_lab.load.generator.summary import quantiles_of
from sojourn_lab.results.analyses.data import CaseData

MEASURES = {"response_time": "request_time", "queueing_delay": "queueing_delay", "service_time": "service_time"}


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case; see the module."""
    whole = data.rows_between().lazy()
    return {"by": by_route(data.rows), "waits": waits_of(blame(whole, by="route"))}


def by_route(rows: pl.DataFrame) -> dict[str, Any]:
    """Return the distributions of every route in split rows; requests without a route are left out."""
    routes: dict[str, Any] = {}
    for (route,), group in rows.group_by("route", maintain_order=True):
        if route is None:
            continue
        measures = {
            name: msgspec.to_builtins(quantiles_of(group[column].drop_nulls())) for name, column in MEASURES.items()
        }
        routes[str(route)] = {"requests": len(group), **measures}
    return dict(sorted(routes.items()))


def waits_of(result: BlameResult) -> dict[str, Any]:
    """Return, for every route, how long its requests waited (s) and the shares of each cause."""
    seconds = {(row["victim"], row["culprit"]): row["seconds"] for row in result.matrix.to_dicts()}
    culprits = sorted({culprit for _, culprit in seconds if culprit is not None})
    waits = {}
    for row in result.victims.to_dicts():
        name, waited = row["victim"], row["waited"]

        def share(part: float, waited: float = waited) -> float | None:
            return part / waited if waited > 0.0 else None

        waits[name] = {
            "waited": waited,
            "dispatch": share(row["dispatch"]),
            "imbalance": share(row["imbalance"]),
            "unknown": share(seconds.get((name, None), 0.0)),
            "blamed": {culprit: share(seconds.get((name, culprit), 0.0)) for culprit in culprits},
        }
    return waits
