"""The report: verdict, charts, tables, audit, and what was refused."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import altair as alt
import jinja2
import vl_convert

from sojourn import __version__, plots
from sojourn.explain.components import COMPONENTS
from sojourn.explain.measures import Measures
from sojourn.explain.result import SplitResult
from sojourn.explain.statistics import FIGURES
from sojourn.files import written_whole
from sojourn.readers.record import REASONS
from sojourn.tables import audit_sentence, clock_sentence, group_name, read_sentence
from sojourn.words import milliseconds, percent, printable, unbroken

REJECTS_SHOWN = 50
ROWS_SHOWN = 25


@dataclass(frozen=True)
class Figure:
    """A chart of the report: drawn at once as SVG, replaced by the interactive one where scripts run."""

    key: str
    title: str
    caption: str
    chart: Callable[[Measures], alt.Chart | alt.LayerChart]


FIGURES_SHOWN: tuple[Figure, ...] = (
    Figure(
        "distribution",
        "How long requests took, and on what",
        "Each bar is the number of requests with that response time, divided the way their time was.",
        plots.stacked_distribution,
    ),
    Figure(
        "ccdf",
        "How often it is worse",
        "The share of requests that took longer than a time. Both axes are logarithmic: the tail gets as much room "
        "as the rest.",
        plots.ccdfs,
    ),
    Figure(
        "time",
        "Over time",
        "Mean response time by arrival, divided into queueing, service and everything else. The dashed line is p99.",
        plots.response_over_time,
    ),
)


def write_html(result: SplitResult, path: str | os.PathLike[str], title: str | None = None) -> None:
    """Write the report of a split, whole or not at all.

    Args:
        result: what to show.
        path: the file to write.
        title: heading; by default the names of the sources.

    Raises:
        SojournError: the file cannot be written.
    """
    page = html(result, title)
    with written_whole(path) as partial:
        partial.write_text(page, encoding="utf-8")


def html(result: SplitResult, title: str | None = None) -> str:
    """The report as text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sojourn.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        ms=milliseconds, percent=percent, printable=printable, group_name=group_name, unbroken=unbroken
    )
    figures = [_drawn(figure, result.measures) for figure in _figures(result)] if result.requests else []
    return environment.get_template("report.html").render(
        title=title or ", ".join(printable(name, 60) for name in result.names[:3]) or "split",
        result=result,
        read=read_sentence(result),
        audit=audit_sentence(result),
        clocks=clock_sentence(result),
        components=COMPONENTS,
        figure_names=FIGURES,
        figures=figures,
        rejects=result.records.rejects[:REJECTS_SHOWN],
        reasons=REASONS,
        rows_shown=ROWS_SHOWN,
        bundle=vl_convert.javascript_bundle(vl_version=_vega_lite_version()) if figures else "",  # type: ignore[call-arg]
        version=__version__,
        made=datetime.now(UTC),
    )


def _figures(result: SplitResult) -> list[Figure]:
    grouped = [
        Figure(
            f"split-by-{group}",
            f"The split by {group}",
            f"Mean response time of each {group}, divided into queueing, service and everything else.",
            functools.partial(plots.split_by, group=group),
        )
        for group in result.by
        if result.by_total[group] > 1
    ]
    return [*FIGURES_SHOWN[:1], *grouped[:1], *FIGURES_SHOWN[1:]]


def _drawn(figure: Figure, measures: Measures) -> dict[str, Any]:
    chart = figure.chart(measures).configure(background="transparent").configure_view(stroke=None)
    chart = chart.configure_axis(
        labelColor="#808080",
        titleColor="#808080",
        gridColor="#80808040",
        domainColor="#808080",
        tickColor="#808080",
    ).configure_legend(labelColor="#808080", orient="top")
    spec = chart.to_dict()
    # The autosized chart of the page follows its width; the SVG has a size of its own and scales as a picture.
    svg = vl_convert.vegalite_to_svg(spec, vl_version=_vega_lite_version())
    return {
        "key": figure.key,
        "title": figure.title,
        "caption": figure.caption,
        "svg": svg,
        # Inside <script>, "<" must not be able to end the element, whatever text the data hold.
        "spec": json.dumps({**spec, "width": "container"}).replace("<", "\\u003c"),
    }


def _vega_lite_version() -> str:
    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
