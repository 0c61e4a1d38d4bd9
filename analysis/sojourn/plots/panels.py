"""Charts of distributions by a column and of several logs: panels on common axes, or lines in one chart."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import polars as pl

from sojourn.analyses.split import charts, charts_curves, pictures
from sojourn.analyses.split.analysis import split_of
from sojourn.analyses.split.bands import bands_of
from sojourn.analyses.split.charts_curves import LOG_COLOURS, Series, log_series, times_series
from sojourn.analyses.split.charts_heatmap import BINS, heat, heatmap, time_bins
from sojourn.analyses.split.charts_hexbin import hexbin, longest_pair, service_against_queueing
from sojourn.analyses.split.charts_ridgeline import ridgeline, ridges
from sojourn.analyses.split.charts_tail import tail_composition, tail_table
from sojourn.analyses.split.result import SplitResult
from sojourn.model.errors import ArgumentError
from sojourn.model.formatting import counted, printable
from sojourn.model.groups import TIMES
from sojourn.model.measures import LogBins
from sojourn.model.verdict import SLO
from sojourn.plots.kinds import KINDS
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import LINES
from sojourn.present.chart_sizes import WIDTH
from sojourn.present.limits import Limits, limited
from sojourn.present.section import Chart, Picture
from sojourn.sources.frame_measures import FrameMeasures
from sojourn.sources.open_requests import OpenedRequests

PANELS = 8  # values of a column
COLUMNS = 2
GAP = 60  # pixels between panels, with the labels of an axis
HEIGHT = 200
NO_VALUE = "–"
WITH_BAND = (
    "The band around a line contains the true value at each of its points with a probability of 95 %, also where "
    "requests depend on each other; it ends where fewer than 5 of 20 stretches of the log have such a request."
)


@dataclass(frozen=True)
class Panel:
    """The requests of one panel: a value of the column, the name of a log, or both; and their split."""

    title: str
    value: str
    log: str
    result: SplitResult


@dataclass(frozen=True)
class Drawing:
    """What a chart of panels shows.

    Attributes:
        by: the column of the panels; None: none.
        of: the time of a heatmap, or the only one of curves; None: response of a heatmap, all times of curves.
        band: whether curves have their bands.
        x, y: limits of the axes; None: as the data.
    """

    by: str | None = None
    of: str | None = None
    band: bool = False
    x: Limits | None = None
    y: Limits | None = None


def panels_picture(logs: Mapping[str, SplitResult], kind: str, drawing: Drawing) -> Picture:
    """Return a chart of several logs, of each value of a column, of one time only, or with its bands.

    Args:
        logs: name -> split, with readable rows that have the column; one without a name: the only one.
        kind: a kind of chart with ``panels`` or ``logs``.
        drawing: what to draw.

    Raises:
        SojournError: there are too many logs for distinct lines, or limits do not fit the axes.
    """
    if len(logs) > len(LOG_COLOURS):
        raise ArgumentError(f"{counted(len(logs), 'log')} in one chart: it has lines for {len(LOG_COLOURS)} at most")
    by = drawing.by if KINDS[kind].panels else None
    values, more = (("",), 0) if by is None else _values(logs, by)
    rows = [
        [Panel(_title(value, name, by), value, name, _part(result, by, value)) for name, result in logs.items()]
        for value in values
    ]
    rows = [[panel for panel in row if pictures.any_served(panel.result)] for row in rows]
    rows = [row for row in rows if row]
    if kind in CURVES:
        drawn = CURVES[kind](rows, drawing, len(logs) > 1)
        titles = ["" if by is None else _title(row[0].value, "", by) for row in rows]
    else:
        drawn = MAKERS[kind]([panel for row in rows for panel in row], drawing)
        titles = [panel.title for row in rows for panel in row]

    def chart() -> Chart:
        parts = [limited(make(), x=drawing.x, y=drawing.y) if kind != "hexbin" else make() for make in drawn]
        if len(parts) == 1 and not titles[0]:
            return parts[0]
        return _arranged(kind, parts, titles, common_y=by is None)

    return _described(rows, kind, drawing, more, chart)


def _values(logs: Mapping[str, SplitResult], by: str) -> tuple[tuple[str, ...], int]:
    """Return the values of a column with the most seconds in all logs, and the number of further values."""
    tables = [FrameMeasures(result.rows).parts_by(by, 10**6).select("group", "total") for result in logs.values()]
    totals = pl.concat(tables).group_by("group").agg(pl.col("total").sum())
    ordered = totals.sort("total", "group", descending=[True, False])["group"].to_list()
    return tuple(ordered[:PANELS]), max(len(ordered) - PANELS, 0)


def _title(value: str, name: str, by: str | None) -> str:
    parts = [] if by is None else [f"{by} –" if value == NO_VALUE else value]
    return " · ".join(printable(each, 60) for each in (*parts, *((name,) if name else ())))


def _part(result: SplitResult, by: str | None, value: str) -> SplitResult:
    """Return the split of the requests with a value of a column."""
    if by is None:
        return result
    rows = result.rows.filter(pl.col(by).cast(pl.String).fill_null(NO_VALUE) == value)
    selected = (rows, result)  # which holds on to the folder the rows lie in
    part = OpenedRequests(
        measures=FrameMeasures(rows, result.measures.clock), records=result.records, names=result.names,
        audited=result.audited, inferred=result.inferred, _rows=lambda: selected[0],
    )  # fmt: skip
    return split_of(part, by=(), slo=SLO)


def _arranged(kind: str, parts: list[Chart], titles: list[str], *, common_y: bool) -> Chart:
    """Return charts side by side on common axes, each under its title."""
    columns = 1 if kind in WIDE else min(COLUMNS, len(parts))
    width = {} if kind in WIDE else {"width": (WIDTH - GAP * (columns - 1)) // columns, "height": HEIGHT}
    parts_with_titles = [
        part.properties(title=alt.TitleParams(title, anchor="start", fontSize=12), **width)
        for part, title in zip(parts, titles, strict=True)
    ]
    own = kind in WIDE or (kind in COUNTS and not common_y)
    whole = alt.concat(*parts_with_titles, columns=columns)
    return whole.resolve_scale(x="shared", y="independent" if own else "shared", color="shared")


def _described(rows: list[list[Panel]], kind: str, drawing: Drawing, more: int, chart: Callable[[], Chart]) -> Picture:
    """Return the picture with a caption of what is compared, and the findings of all panels."""
    panels = [panel for row in rows for panel in row]
    base = _plain(panels[0].result, kind, drawing)
    by = drawing.by if KINDS[kind].panels else None
    caption = [base.caption]
    if by is not None:
        caption.append(f"One panel for each value of {by}, those with the most seconds first; the axes are the same.")
        if kind in COUNTS:
            caption[-1] = caption[-1].replace("the axes are the same", "each has its own vertical scale")
    if more:
        caption.append(f"{counted(more, 'further value')} with fewer seconds {'is' if more == 1 else 'are'} left out.")
    if drawing.band:
        caption.append(WITH_BAND)
    readings = [
        f"{panel.title}: {reading}" if panel.title else reading
        for panel in panels
        if (reading := _plain(panel.result, kind, drawing).reading)
    ]
    title = base.title if by is None else f"{base.title} by {by}"
    return replace(base, title=title, caption=" ".join(caption), chart=chart, reading=" ".join(readings))


def _plain(result: SplitResult, kind: str, drawing: Drawing) -> Picture:
    """Return the picture of one split alone, for its texts."""
    if kind == "heatmap":
        return pictures.heat_over_time(result, TIMES[drawing.of or "response"])
    if kind in ("ridgeline", "split_by"):
        make = pictures.ridgeline_by if kind == "ridgeline" else pictures.split_by
        return make(result, drawing.by or "route", FrameMeasures(result.rows))
    return pictures.PICTURES[KINDS[kind].key](result)


def _times(drawing: Drawing, several: bool) -> dict[str, str]:
    """Return column -> name of the times that curves are drawn of: one, if curves of several logs are compared."""
    of = drawing.of or ("response" if several else None)
    chosen = [TIMES[of]] if of else list(LINES)
    return {column: LINES[column][0] for column in chosen}


def _lines(panel: Panel, times: Mapping[str, str], several: bool) -> dict[str, str]:
    """Return column -> name of the line: the time, or the log if several are compared."""
    return {column: panel.log if several else name for column, name in times.items()}


def _series(row: list[Panel], times: Mapping[str, str], several: bool) -> Series:
    return log_series(tuple(panel.log for panel in row)) if several else times_series(times)


Makers = list[Callable[[], Chart]]


def _ccdfs(rows: list[list[Panel]], drawing: Drawing, several: bool) -> Makers:
    times = _times(drawing, several)
    makers: Makers = []
    for row in rows:
        lines = [(panel.result, _lines(panel, times, several)) for panel in row]
        table = pl.concat([charts_curves.ccdf_tables(result.measures, columns) for result, columns in lines])
        bands = [bands_of(result.served, columns) for result, columns in lines] if drawing.band else []
        series = _series(row, times, several)
        makers.append(functools.partial(charts_curves.ccdfs, table, series, pl.concat(bands) if bands else None))
    return makers


def _percentiles(rows: list[list[Panel]], drawing: Drawing, several: bool) -> Makers:
    times = _times(drawing, several)
    curves: list[tuple[pl.DataFrame, Series, pl.DataFrame | None]] = []
    for row in rows:
        tables, bands = [], []
        for panel in row:
            result, columns = panel.result, _lines(panel, times, several)
            tables.append(charts_curves.percentile_table(result.measures, result.requests, columns))
            if drawing.band:
                bands.append(charts_curves.percentile_bands(result.served, tables[-1], columns))
        curves.append((pl.concat(tables), _series(row, times, several), pl.concat(bands) if bands else None))
    every = [table for table, _, _ in curves]
    return [functools.partial(charts_curves.percentile_curve, *curve, every) for curve in curves]


def _distributions(panels: list[Panel], _: Drawing) -> Makers:
    ranges = [ends for panel in panels if (ends := panel.result.measures.response_range())]
    ends = (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None
    tables = [charts.distribution_table(panel.result.measures, ends) for panel in panels]
    return [functools.partial(charts.stacked_distribution, table) for table in tables]


def _tails(panels: list[Panel], _: Drawing) -> Makers:
    return [functools.partial(tail_composition, tail_table(panel.result)) for panel in panels]


def _over_time(panels: list[Panel], _: Drawing) -> Makers:
    return [
        functools.partial(
            charts.response_over_time, charts.over_time_table(panel.result.measures), panel.result.audit.incident
        )
        for panel in panels
    ]


def _heatmaps(panels: list[Panel], drawing: Drawing) -> Makers:
    column = TIMES[drawing.of or "response"]
    each = [time_bins(panel.result.measures, column, BINS) for panel in panels]
    low, high = min(bins.low for bins in each), max(bins.edge(bins.count) for bins in each)
    common = LogBins.between(low, high, BINS)
    return [functools.partial(heatmap, heat(panel.result.measures, column, common)) for panel in panels]


def _hexbins(panels: list[Panel], drawing: Drawing) -> Makers:
    pairs = [longest_pair(panel.result.measures) for panel in panels]
    longest = max(service for service, _ in pairs), max(queueing for _, queueing in pairs)
    limits = {"x": drawing.x, "y": drawing.y}
    return [
        functools.partial(service_against_queueing, hexbin(panel.result.measures, longest), limits) for panel in panels
    ]


def _ridgelines(panels: list[Panel], drawing: Drawing) -> Makers:
    measures = [FrameMeasures(panel.result.rows) for panel in panels]
    return [functools.partial(ridgeline, ridges(each, drawing.by or "route")) for each in measures]


def _splits(panels: list[Panel], drawing: Drawing) -> Makers:
    by = drawing.by or "route"
    tables = [charts.split_by_table(FrameMeasures(panel.result.rows), by) for panel in panels]
    return [functools.partial(charts.split_by, table, by) for table in tables]


CURVES: dict[str, Callable[[list[list[Panel]], Drawing, bool], Makers]] = {
    "ccdf": _ccdfs, "percentiles": _percentiles,
}  # fmt: skip
MAKERS: dict[str, Callable[[list[Panel], Drawing], Makers]] = {
    "distribution": _distributions, "tail": _tails, "over_time": _over_time, "heatmap": _heatmaps, "hexbin": _hexbins,
    "ridgeline": _ridgelines, "split_by": _splits,
}  # fmt: skip
WIDE = ("tail", "ridgeline", "split_by")  # one below the other, because their labels take room
COUNTS = ("distribution",)  # with heights that are numbers of requests
