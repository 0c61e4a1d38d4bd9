"""The pictures of a run: a sequence chart of each case, and all its queues moving side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sojourn_lab.document import CaseResult, Run
from sojourn_lab.errors import LabError

if TYPE_CHECKING:
    import polars as pl
    from sojourn import Requests

MOVIE = "queue.html"


def write_pictures(run: Run, requests: Requests | None, folder: Path) -> None:
    """Write what the scenario asks for: `sequence-<case>.svg` and queue.html; LabError if that fails."""
    wanted = run.scenario.pictures
    if not wanted or requests is None:
        return
    try:
        scenes = {case.name: case_stays(requests, case) for case in run.cases}
        if "sequence" in wanted:
            for name, stays in scenes.items():
                write_sequence(stays, folder / f"sequence-{name}.svg", title=name)
        if "queue" in wanted:
            from sojourn.movie import write_movie  # noqa: PLC0415

            workers = {case.name: case.topology.backends * case.topology.workers for case in run.cases if case.topology}
            write_movie(scenes, folder / MOVIE, title=run.scenario.title, workers=workers)
    except Exception as error:
        raise LabError(f"the pictures of the run failed: {type(error).__name__}: {error}") from error


def case_stays(requests: Requests, case: CaseResult) -> pl.DataFrame:
    """Return the stays of one case, warm-up included; columns of `sojourn.explain.stays.STAY`."""
    from sojourn.explain.split import split_requests  # noqa: PLC0415
    from sojourn.explain.stays import stays  # noqa: PLC0415
    from sojourn.movie import MOST  # noqa: PLC0415

    return stays(split_requests(requests, where={"service": case.name}).rows, most=MOST)


def write_sequence(stays: pl.DataFrame, path: Path, *, title: str) -> None:
    """Write the sequence chart of some stays as SVG."""
    import vl_convert  # noqa: PLC0415
    from sojourn.charts.sequence import sequence_chart  # noqa: PLC0415
    from sojourn.words import printable  # noqa: PLC0415

    # A control character in a text would end the drawing engine; all others here are numbers and our own words.
    chart = sequence_chart(stays, printable(title, 80)).configure(background="white")
    path.write_text(vl_convert.vegalite_to_svg(chart.to_dict()), encoding="utf-8")
