"""The pictures of a run: a sequence chart of each case, and the animated queues of all cases side by side."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from sojourn import Requests
from sojourn.analyses.depth.charts_sequence import sequence_chart
from sojourn.analyses.split.run import split_requests
from sojourn.model.formatting import printable
from sojourn.movie.film import MOST, film_of
from sojourn.movie.scenes import scene_of
from sojourn.movie.write import write_film
from sojourn.present.chart_libraries import vl_convert
from sojourn.timeline.request_timelines import timelines_with_workers

from sojourn_lab.errors import LabError
from sojourn_lab.results.run_schema import CaseResult, Run

MOVIE = "queue.html"


def write_pictures(run: Run, requests: Requests | None, folder: Path) -> None:
    """Write the pictures that the scenario names: `sequence-<case>.svg` and queue.html; LabError if that fails."""
    names = run.scenario.pictures
    if not names or requests is None:
        return
    try:
        of_cases = {
            case.name: timelines_with_workers(case_rows(requests, case), workers=_workers(case), most=MOST)
            for case in run.cases
        }
        if "sequence" in names:
            for name, timelines in of_cases.items():
                write_sequence(timelines.table, folder / f"sequence-{name}.svg", title=name)
        if "queue" in names:
            scenes = [
                scene_of(name, each.table, first=each.first, workers=each.workers) for name, each in of_cases.items()
            ]
            write_film(film_of(scenes, title=run.scenario.title), folder / MOVIE)
    except Exception as error:
        raise LabError(f"the pictures of the run failed: {type(error).__name__}: {error}") from error


def case_rows(requests: Requests, case: CaseResult) -> pl.LazyFrame:
    """Return the split rows of one case, warm-up included."""
    return split_requests(requests, where={"service": case.name}).rows


def _workers(case: CaseResult) -> int | None:
    """Return the workers of each backend of a case; None for a case without a topology."""
    return case.topology.served_at_once // case.topology.backends if case.topology else None


def write_sequence(timelines: pl.DataFrame, path: Path, *, title: str) -> None:
    """Write the sequence chart of request timelines as SVG."""
    # A control character in a text would crash the drawing engine; the other texts are numbers and constants.
    chart = sequence_chart(timelines, printable(title, 80)).configure(background="white")
    path.write_text(vl_convert.vegalite_to_svg(chart.to_dict()), encoding="utf-8")
