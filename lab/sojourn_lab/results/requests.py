"""Calls of the analysis package: reading, splitting and predicting the requests of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import sojourn
from sojourn import Requests
from sojourn.analyses.split.run import split_requests
from sojourn.analyses.whatif.analysis import whatif
from sojourn.model.errors import SojournError

from sojourn_lab.errors import LabError


def run_requests(access_log: Path, spans: Sequence[Path]) -> Requests:
    """Return every request of the run, read once for all later uses; LabError if that fails."""
    with _failures_of("reading the run's log"):
        return sojourn.read(access_log, spans=list(spans))


def case_split(requests: Requests, case: str, since: float | None = None, until: float | None = None) -> dict[str, Any]:
    """Return `sojourn split --json` for one case's window (unix seconds); LabError if that fails.

    Without a window: for the whole case, warm-up included.
    """
    with _failures_of(f"the split of case {case}"):
        return split_requests(requests, since=since, until=until, where={"service": case}).to_dict()


def case_what_if(requests: Requests, case: str, change: dict[str, Any], cores: int | None = None) -> dict[str, Any]:
    """Return `sojourn whatif --json` for one change to a whole case, warm-up included; LabError if that fails.

    `cores`: of the machine; None: not used.
    """
    with _failures_of(f"the prediction from case {case}"):
        rows = split_requests(requests, where={"service": case}).rows
        return whatif(rows, [{key: str(value) for key, value in change.items()}], cores=cores).to_dict()


def queueing_delays(requests: Requests, case: str) -> dict[str, float]:
    """Return the queueing delay (s) of every request of a case that has one, by request id; LabError if that fails."""
    with _failures_of(f"the queueing delays of case {case}"):
        rows = split_requests(requests, where={"service": case}).rows
        return dict(rows.select("request_id", "queue").drop_nulls().collect().iter_rows())


def logged(requests: Requests, case: str) -> bool:
    """Return whether the log has any row of a case."""
    count: int = requests.rows.filter(pl.col("service") == case).select(pl.len()).collect().item()
    return count > 0


def write_parquet(requests: Requests, parquet: Path) -> None:
    """Write the split of the whole log, warm-ups included, to requests.parquet; LabError if that fails."""
    with _failures_of("requests.parquet of the run"):
        split_requests(requests).write_parquet(parquet)


@contextlib.contextmanager
def _failures_of(what: str) -> Iterator[None]:
    """Raise any error as a LabError: the measurement is complete and must survive any failure of its analysis."""
    try:
        yield
    except Exception as error:
        kind = "" if isinstance(error, SojournError) else f"{type(error).__name__}: "
        raise LabError(f"{what} failed: {kind}{error}") from error
