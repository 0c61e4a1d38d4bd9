"""The queue that `sojourn infer` reads from the plain log of a case, beside the one that its app measured.

`inferred` sees plain.log alone: nginx's `combined` with $request_time, $upstream_response_time, $upstream_addr and
$msec. `measured` is the queueing delay of the same requests, by the stamp and the app's header.

    requests         requests of the case, warm-up included
    verdict, reason  of the inference: inferred, lower_bound or refused
    accepted         1 where the verdict is `inferred`, otherwise 0; `refused`: 1 where it is `refused`
    workers          inferred number of workers; `workers_set`: the smallest and largest possible
    measured         mean, p50 and p99 of the wait, s; `response`: mean time at the app, s
    inferred         mean, p50 and p99 of the wait, s; null where it was refused
    error            of the mean, in parts of the mean response time: (inferred - measured) / response
    p99_error        of p99: inferred / measured - 1; null where p99 is below SHORT
    accepted_error, accepted_p99_error    their absolute values where accepted, otherwise 0
"""

from __future__ import annotations

from typing import Any

import polars as pl
import sojourn
from sojourn.components.inferred.backends import BackendInference

from sojourn_lab.errors import LabError
from sojourn_lab.results.analyses.data import CaseData
from sojourn_lab.runtime.proxy import PLAIN_LOG_NAME

SHORT = 0.02
"""Seconds. A p99 below it is compared in milliseconds, not in per cent: it is little more than the stamps' error."""


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case; see the module. LabError without `plain_log`, or with several backends."""
    log = data.folder / PLAIN_LOG_NAME
    if not log.exists():
        raise LabError("the analysis `inferred` needs `plain_log = true` in the topology")
    rows = data.rows_between()
    starts = rows["start"].dt.epoch("us").to_numpy() / 1e6
    backends = sojourn.infer(log, since=float(starts.min()) - 0.001, until=float(starts.max()) + 0.001).backends
    if len(backends) != 1:
        raise LabError(f"the analysis `inferred` needs one backend, not {len(backends)}")
    return compared(backends[0], rows)


def compared(backend: BackendInference, rows: pl.DataFrame) -> dict[str, Any]:
    """Return an inferred queue beside the measured one of split rows; see the module."""
    measured = rows["queueing_delay"].drop_nulls()
    response = float((rows["response"].fill_null(0.0)).mean() or 0.0)  # type: ignore[arg-type]
    mean, p99 = float(measured.mean() or 0.0), float(measured.quantile(0.99, "linear") or 0.0)  # type: ignore[arg-type]
    result = backend.to_dict()
    accepted = result["verdict"] == "inferred"
    error = p99_error = None
    if (wait := result["wait"]) is not None:
        error = (wait["mean"] - mean) / response if response else None
        p99_error = wait["p99"] / p99 - 1.0 if p99 >= SHORT else None
    return {
        "requests": backend.requests,
        "verdict": result["verdict"],
        "reason": result["reason"],
        "accepted": int(accepted),
        "refused": int(result["verdict"] == "refused"),
        "workers": result["workers"],
        "workers_set": result["workers_set"],
        "measured": {"mean": mean, "p50": float(measured.median() or 0.0), "p99": p99, "response": response},  # type: ignore[arg-type]
        "inferred": wait,
        "error": error,
        "p99_error": p99_error,
        "accepted_error": abs(error or 0.0) if accepted else 0.0,
        "accepted_p99_error": abs(p99_error or 0.0) if accepted else 0.0,
    }
