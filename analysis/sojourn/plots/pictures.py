"""The picture of a kind, from the analysis it belongs to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

import polars as pl

from sojourn.analyses import question, report_columns
from sojourn.analyses.depth.sequence import sequence_picture
from sojourn.analyses.question import ReportContext
from sojourn.analyses.queue_source import explained
from sojourn.analyses.split import pictures
from sojourn.analyses.split.result import SplitResult
from sojourn.analyses.split.run import split_from
from sojourn.model.column_errors import near_names, not_read
from sojourn.model.errors import SojournError
from sojourn.model.frame import is_extra
from sojourn.model.groups import GROUPS
from sojourn.model.verdict import SLO
from sojourn.plots.kinds import CONCURRENCY, KINDS, OF, OWN, SPLIT, Kind, check_options
from sojourn.plots.panels import Drawing, panels_picture
from sojourn.present.limits import Limits, limited
from sojourn.present.section import Chart, Picture
from sojourn.sources.frame_measures import FrameMeasures
from sojourn.sources.opening import RequestsLike

# Kinds of charts that show no queueing delay.
RESPONSES_ALONE = ("goodput", "capacity", "throughput", "clock")


def picture(
    requests: RequestsLike | Mapping[str, RequestsLike],
    kind: str,
    *,
    by: str | None = None,
    of: str | None = None,
    workers: int | Mapping[str, int] | None = None,
    slo: float = SLO,
    band: bool = False,
    xlim: Limits | None = None,
    ylim: Limits | None = None,
) -> Picture:
    """Return a chart with its title, its caption, and its finding.

    Args:
        requests: the result of ``sojourn.split``, sources, or a frame; or several of them by name, for kinds that show
            several logs. Charts of the split query a store, other charts fetch its rows.
        kind: one of ``KINDS``.
        by: the column of groups, or of victims and culprits (None: route); of a distribution a column with a panel for
            each value (None: no panels); of a ridgeline also ``concurrency``.
        of: one of ``OF``: the time of a heatmap (None: response), or the only one of ``ccdf`` and ``percentiles``
            (None: all three; of several logs response).
        workers: number of workers per backend, or one number for all; None: derived from the worker values.
        slo: objective for p99 of the response time, s.
        band: draw the 95 % confidence band of ``ccdf`` or ``percentiles``.
        xlim: limits of the horizontal axis, (low, high) in its unit, or instants; None for an end: as the data.
        ylim: limits of the vertical axis.

    Raises:
        SojournError: the kind or the column does not exist, the kind has no such option, or the requests do not allow
            the chart.
    """
    if kind not in KINDS:
        near = near_names(kind, KINDS)
        hint = f"did you mean {near[0]!r}? Choose" if near else "choose"
        raise SojournError(f"{kind!r} is not a chart; {hint} from {', '.join(KINDS)}")
    options = {"by": by, "of": of, "band": band or None, "logs": requests if isinstance(requests, Mapping) else None}
    check_options(kind, options)
    several = requests if isinstance(requests, Mapping) else {"": requests}
    logs = {name: split_from(each, columns=columns_of(KINDS[kind], by) or ()) for name, each in several.items()}
    for name, result in logs.items():
        if not pictures.any_served(result):
            nothing = "there are no requests to draw" + (f" in {name}" if name else "")
            raise SojournError(nothing + (" other than upgraded connections (101)" if result.requests else ""))
    result = next(iter(logs.values()))
    chosen = KINDS[kind]
    divided = by is not None and chosen.panels
    if len(logs) > 1 or divided or band or (of and chosen.band) or (kind == "hexbin" and (xlim or ylim)):
        for each in logs.values():
            if by is not None and by != CONCURRENCY:
                _checked(each, by)
        drawn = panels_picture(logs, kind, Drawing(by, of, band, xlim, ylim))
    else:
        drawn = _picture(result, chosen, kind, by or "route", of or "response", workers, slo)
        drawn = replace(drawn, chart=functools.partial(_limited, drawn.chart, xlim, ylim))
    if kind in RESPONSES_ALONE or (kind == "heatmap" and of in (None, "response")):
        return drawn
    return pictures.marked(drawn, next((each for each in logs.values() if each.mark), result))


def _limited(chart: Callable[[], Chart], xlim: Limits | None, ylim: Limits | None) -> Chart:
    return limited(chart(), x=xlim, y=ylim)


def columns_of(kind: Kind, by: str | None) -> tuple[str, ...] | None:
    """Return the columns that a chart needs besides those of the split; None: it needs no rows of a store."""
    group = by if by is not None and by != CONCURRENCY else "route"
    if kind.section == SPLIT and group in GROUPS:
        return None
    return (*(report_columns() if kind.section != SPLIT else ()), group)


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
    if kind.key == "heatmap":
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
