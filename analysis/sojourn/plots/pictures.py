"""The picture of a kind, from the analysis it belongs to."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sojourn.analyses import question
from sojourn.analyses.depth.sequence import sequence_picture
from sojourn.analyses.question import ReportContext
from sojourn.analyses.queue_source import explained
from sojourn.analyses.split import pictures
from sojourn.analyses.split.result import SplitResult
from sojourn.model.column_errors import not_read
from sojourn.model.errors import SojournError
from sojourn.model.frame import is_extra
from sojourn.model.groups import GROUPS
from sojourn.model.verdict import SLO
from sojourn.plots.kinds import CONCURRENCY, KINDS, OF, OWN, SPLIT, Kind
from sojourn.present.section import Picture
from sojourn.sources.frame_measures import FrameMeasures

# Kinds of charts that show no queueing delay.
RESPONSES_ALONE = ("goodput", "capacity", "throughput", "clock")


def picture(
    result: SplitResult,
    kind: str,
    *,
    by: str = "route",
    of: str = "response",
    workers: int | Mapping[str, int] | None = None,
    slo: float = SLO,
) -> Picture:
    """Return a chart with its title, its caption, and its finding.

    Args:
        result: the result of ``sojourn.split``; charts of the split query a store, other charts fetch its rows.
        kind: one of ``KINDS``.
        by: the column of groups, or of victims and culprits; for a ridgeline also ``concurrency``.
        of: one of ``OF``, for a heatmap.
        workers: number of workers per backend, or one number for all; None: derived from the worker values.
        slo: objective for p99 of the response time, s.

    Raises:
        SojournError: the kind or the column does not exist, or the requests do not allow the chart.
    """
    if kind not in KINDS:
        raise SojournError(f"{kind!r} is not a chart; choose from {', '.join(KINDS)}")
    if of not in OF:
        raise SojournError(f"of: {of!r} is not one of {', '.join(OF)}")
    if not pictures.any_served(result):
        raise SojournError(
            "there are no requests to draw" + (" other than upgraded connections (101)" if result.requests else "")
        )
    drawn = _picture(result, KINDS[kind], kind, by, of, workers, slo)
    if kind in RESPONSES_ALONE or (kind == "heatmap" and of == "response"):
        return drawn
    return pictures.marked(drawn, result)


def _picture(
    result: SplitResult,
    kind: Kind,
    name: str,
    by: str,
    of: str,
    workers: int | Mapping[str, int] | None,
    slo: float,
) -> Picture:
    if kind.section == SPLIT:
        return _of_split(result, kind, by, of, workers)
    if kind.section == OWN:
        return sequence_picture(result.rows)
    if kind.by:
        _checked(result, by)
    context = ReportContext(result, by if kind.by else "route", workers, slo)
    section = context.section(question(kind.section))
    assert section is not None  # noqa: S101 - every kind is of a question that these requests allow
    match = next((each for each in section.pictures if each.key == kind.key), None)
    if match is None:
        nothing = SojournError(f"there is nothing to draw as {name}: {section.sentence.rstrip('.')}")
        raise explained(nothing, result)
    return match


def _of_split(result: SplitResult, kind: Kind, by: str, of: str, workers: int | Mapping[str, int] | None) -> Picture:
    if kind.key in pictures.PICTURES:
        return pictures.PICTURES[kind.key](result)
    if kind.of:
        return pictures.heat_over_time(result, OF[of])
    if kind.key == "ridgeline" and by == CONCURRENCY:
        return pictures.ridgeline_by_concurrency(result, workers)
    make = pictures.split_by if kind.key == "split-by" else pictures.ridgeline_by
    if by in GROUPS:
        return make(result, by)
    # A store can group by some columns; for others its rows are read.
    _checked(result, by)
    return make(result, by, FrameMeasures(result.rows))


def _checked(result: SplitResult, column: str) -> None:
    if column in GROUPS:
        return
    if column not in (names := result.rows.collect_schema().names()):
        raise SojournError(not_read(column, names))
    if is_extra(column):
        has_value = result.rows.select(pl.col(column).is_not_null().any()).collect(engine="streaming").item()
        if not has_value:
            raise SojournError(f"no request has a value for {column!r}: the log has no such key")
