"""The one place where the lab asks the analysis package; everything else works on what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sojourn.errors import SojournError

from sojourn_lab.errors import LabError


def case_split(access_log: Path, spans: Sequence[Path], case: str, since: float, until: float) -> dict[str, Any]:
    """Return `sojourn split --json` for one case's window (unix seconds); LabError if it cannot be had."""
    # Imported late, because it brings Polars and DuckDB: `lab list` and the generator do without.
    import sojourn  # noqa: PLC0415

    try:
        result = sojourn.split([access_log], spans=list(spans), since=since, until=until, where={"service": case})
        figures: dict[str, Any] = result.to_dict()
    except Exception as error:
        raise _failure(f"the split of case {case}", error) from error
    return figures


def write_whole_run(
    access_log: Path, spans: Sequence[Path], parquet: Path, html: Path, *, title: str, run: str
) -> None:
    """Write requests.parquet and report.html of the whole log, warm-ups included; LabError if that fails.

    `run` is how the report names its source: the log itself still lies under a temporary name.
    """
    import sojourn  # noqa: PLC0415
    import sojourn.report  # noqa: PLC0415

    try:
        result = sojourn.split([access_log], spans=list(spans), by=("service", "upstream"), all_columns=True)
        result.names = (run,)
        if result.by_total["service"] > 1:
            loads = result.by_total["service"]
            result.notes.insert(
                0, f"This run holds {loads} loads one after another: read it by service, not as a whole."
            )
        result.write_parquet(parquet)
        sojourn.report.write_html(result, html, title=title)
    except Exception as error:
        raise _failure("the report of the run", error) from error


def _failure(what: str, error: Exception) -> LabError:
    """Return what to say; whatever went wrong here, the measurement is made and must not be lost to it."""
    kind = "" if isinstance(error, SojournError) else f"{type(error).__name__}: "
    return LabError(f"{what} failed: {kind}{error}")
