"""report.html of a run: what was asked, what came of it beside the article's figures, then the log's split."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sojourn_lab.document import Run
from sojourn_lab.errors import LabError

if TYPE_CHECKING:
    from sojourn import Requests


def write_report(run: Run, requests: Requests | None, folder: Path, *, name: str) -> None:
    """Write report.html into the run's folder; LabError if that fails. `name` is the folder's final name."""
    from sojourn.explain.split import split_requests  # noqa: PLC0415
    from sojourn.report import write_html  # noqa: PLC0415

    if requests is None:
        return
    try:
        result = split_requests(requests, by=("service", "upstream"))
        result.names = (name,)
        if result.by_total["service"] > 1:
            loads = result.by_total["service"]
            result.notes.insert(
                0, f"This run holds {loads} loads one after another: read it by service, not as a whole."
            )
        write_html(result, folder / "report.html", title=run.scenario.title)
    except Exception as error:
        raise LabError(f"the report of the run failed: {type(error).__name__}: {error}") from error
