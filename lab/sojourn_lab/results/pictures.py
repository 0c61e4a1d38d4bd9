"""The pictures of a run: a sequence chart of each case, and all its queues moving side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sojourn_lab.errors import LabError
from sojourn_lab.results.run_schema import CaseResult, Run

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
        from sojourn.movie.film import MOST  # noqa: PLC0415
        from sojourn.timeline.request_timelines import timelines_with_workers  # noqa: PLC0415

        found = {
            case.name: timelines_with_workers(case_rows(requests, case), workers=_workers(case), most=MOST)
            for case in run.cases
        }
        if "sequence" in wanted:
            for name, timelines in found.items():
                write_sequence(timelines.table, folder / f"sequence-{name}.svg", title=name)
        if "queue" in wanted:
            from sojourn.movie.film import film_of  # noqa: PLC0415
            from sojourn.movie.scenes import scene_of  # noqa: PLC0415
            from sojourn.movie.write import write_film  # noqa: PLC0415

            scenes = [
                scene_of(name, each.table, first=each.first, workers=each.workers) for name, each in found.items()
            ]
            write_film(film_of(scenes, title=run.scenario.title), folder / MOVIE)
    except Exception as error:
        raise LabError(f"the pictures of the run failed: {type(error).__name__}: {error}") from error


def case_rows(requests: Requests, case: CaseResult) -> pl.LazyFrame:
    """Return the split rows of one case, warm-up included."""
    from sojourn.analyses.split.run import split_requests  # noqa: PLC0415

    return split_requests(requests, where={"service": case.name}).rows


def _workers(case: CaseResult) -> int | None:
    """Return the workers of each of a case's backends, where it says."""
    return case.topology.workers * case.topology.threads if case.topology else None


def write_sequence(timelines: pl.DataFrame, path: Path, *, title: str) -> None:
    """Write the sequence chart of some stays as SVG."""
    import vl_convert  # noqa: PLC0415
    from sojourn.analyses.depth.charts_sequence import sequence_chart  # noqa: PLC0415
    from sojourn.model.formatting import printable  # noqa: PLC0415

    # A control character in a text would end the drawing engine; all others here are numbers and our own words.
    chart = sequence_chart(timelines, printable(title, 80)).configure(background="white")
    path.write_text(vl_convert.vegalite_to_svg(chart.to_dict()), encoding="utf-8")
