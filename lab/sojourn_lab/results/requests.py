"""Calls of the analysis package: reading, splitting and predicting the requests of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn.model.errors import SojournError

from sojourn_lab.errors import LabError

# The analysis is imported late, because it brings Polars and DuckDB: `lab list` and the generator do without.
if TYPE_CHECKING:
    from sojourn import Requests


def run_requests(access_log: Path, spans: Sequence[Path]) -> Requests:
    """Return every request of the run, read once for all later uses; LabError if that fails."""
    import sojourn  # noqa: PLC0415

    try:
        return sojourn.read(access_log, spans=list(spans))
    except Exception as error:
        raise _failure("reading the run's log", error) from error


def case_split(requests: Requests, case: str, since: float, until: float) -> dict[str, Any]:
    """Return `sojourn split --json` for one case's window (unix seconds); LabError if that fails."""
    from sojourn.analyses.split.run import split_requests  # noqa: PLC0415

    try:
        return split_requests(requests, since=since, until=until, where={"service": case}).to_dict()
    except Exception as error:
        raise _failure(f"the split of case {case}", error) from error


def case_response_time(requests: Requests, case: str) -> dict[str, float | None]:
    """Return `response_time` of `sojourn split --json` for a whole case, warm-up included; LabError if that fails."""
    from sojourn.analyses.split.run import split_requests  # noqa: PLC0415

    try:
        times: dict[str, float | None] = split_requests(requests, where={"service": case}).to_dict()["response_time"]
    except Exception as error:
        raise _failure(f"the split of case {case}", error) from error
    return times


def case_what_if(requests: Requests, case: str, change: dict[str, Any], cores: int | None = None) -> dict[str, Any]:
    """Return `sojourn whatif --json` for one change to a whole case, warm-up included; LabError if that fails.

    `cores`: of the machine; None: not used.
    """
    from sojourn.analyses.split.run import split_requests  # noqa: PLC0415
    from sojourn.analyses.whatif.analysis import whatif  # noqa: PLC0415

    try:
        rows = split_requests(requests, where={"service": case}).rows
        return whatif(rows, [{key: str(value) for key, value in change.items()}], cores=cores).to_dict()
    except Exception as error:
        raise _failure(f"the prediction from case {case}", error) from error


def queueing_delays(requests: Requests, case: str) -> dict[str, float]:
    """Return the queueing delay (s) of every request of a case that has one, by request id; LabError if that fails."""
    from sojourn.analyses.split.run import split_requests  # noqa: PLC0415

    try:
        rows = (
            split_requests(requests, where={"service": case}).rows.select("request_id", "queue").drop_nulls().collect()
        )
    except Exception as error:
        raise _failure(f"the queueing delays of case {case}", error) from error
    return dict(rows.iter_rows())


def logged(requests: Requests, case: str) -> bool:
    """Return whether the log has any row of a case."""
    import polars as pl  # noqa: PLC0415

    count: int = requests.rows.filter(pl.col("service") == case).select(pl.len()).collect().item()
    return count > 0


def write_parquet(requests: Requests, parquet: Path) -> None:
    """Write the split of the whole log, warm-ups included, to requests.parquet; LabError if that fails."""
    from sojourn.analyses.split.run import split_requests  # noqa: PLC0415

    try:
        split_requests(requests).write_parquet(parquet)
    except Exception as error:
        raise _failure("requests.parquet of the run", error) from error


def _failure(what: str, error: Exception) -> LabError:
    """Return the error as a LabError: the measurement is complete and must survive any failure of its analysis."""
    kind = "" if isinstance(error, SojournError) else f"{type(error).__name__}: "
    return LabError(f"{what} failed: {kind}{error}")
