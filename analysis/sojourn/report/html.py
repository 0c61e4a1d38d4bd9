"""The report: verdict, charts, tables, audit, and what was refused."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import altair as alt
import jinja2
import vl_convert

from sojourn import __version__, plots
from sojourn.explain.components import COMPONENTS
from sojourn.explain.result import SplitResult
from sojourn.explain.statistics import FIGURES
from sojourn.files import written_whole
from sojourn.readers.record import REASONS
from sojourn.sections.section import Chart, Picture, Section
from sojourn.tables import audit_sentence, clock_sentence, group_name, read_sentence
from sojourn.words import milliseconds, percent, printable, unbroken

REJECTS_SHOWN = 50
ROWS_SHOWN = 25
TABLE_ROWS = 50
# Labels of a time axis by how fine it is; hours from 0 to 23, as logs have them. Each says enough by itself: of labels
# that are too close every other is left out.
TIMES = {
    "milliseconds": ":%S.%L",
    "seconds": "%H:%M:%S",
    "minutes": "%H:%M",
    "hours": "%H:%M",
    "date": "%b %d",
    "week": "%b %d",
    "month": "%B",
    "year": "%Y",
}


def write_html(
    result: SplitResult | None,
    path: str | os.PathLike[str],
    title: str | None = None,
    sections: Sequence[Section] = (),
    lead: Section | None = None,
) -> None:
    """Write the report of a split, whole or not at all.

    Args:
        result: what to show; None where ``lead`` is all there is.
        path: the file to write.
        title: heading; by default the names of the sources.
        sections: what else was found, shown after the split in this order; what failed in them is said at the top.
        lead: what comes before everything else, its sentence in place of the split's verdict.

    Raises:
        SojournError: the file cannot be written.
    """
    page = html(result, title, sections, lead)
    with written_whole(path) as partial:
        partial.write_text(page, encoding="utf-8")


def html(
    result: SplitResult | None, title: str | None = None, sections: Sequence[Section] = (), lead: Section | None = None
) -> str:
    """The report as text; arguments as of ``write_html``."""
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
    figures = [_drawn(picture) for picture in _pictures(result)] if result is not None and result.requests else []
    several = [*sections, *([lead] if lead is not None else [])]
    drawn = {section.key: [_drawn(picture) for picture in section.pictures] for section in several}
    _told_apart([*figures, *(each for drawings in drawn.values() for each in drawings)])
    names = () if result is None else result.names
    return environment.get_template("report.html").render(
        title=title or ", ".join(printable(name, 60) for name in names[:3]) or "split",
        result=result,
        lead=lead,
        read="" if result is None else read_sentence(result),
        audit="" if result is None else audit_sentence(result),
        clocks="" if result is None else clock_sentence(result),
        components=COMPONENTS,
        figure_names=FIGURES,
        figures=figures,
        sections=sections,
        drawn=drawn,
        rejects=[] if result is None else result.records.rejects[:REJECTS_SHOWN],
        reasons=REASONS,
        rows_shown=ROWS_SHOWN,
        table_rows=TABLE_ROWS,
        bundle=vl_convert.javascript_bundle(vl_version=_vega_lite_version()) if figures or any(drawn.values()) else "",  # type: ignore[call-arg]
        version=__version__,
        made=datetime.now(UTC),
    )


def _pictures(result: SplitResult) -> list[Picture]:
    """The charts of the split."""

    def of(chart: Callable[..., Chart], **more: object) -> Callable[[], Chart]:
        return functools.partial(chart, result.measures, **more)

    grouped = [
        Picture(
            f"split-by-{group}",
            f"The split by {group}",
            f"Mean response time of each {group}, divided into queueing, service and everything else.",
            of(plots.split_by, group=group),
        )
        for group in result.by
        if result.by_total[group] > 1
    ]
    return [
        Picture(
            "distribution",
            "How long requests took, and on what",
            "Each bar is the number of requests with that response time, divided the way their time was.",
            of(plots.stacked_distribution),
        ),
        *grouped[:1],
        Picture(
            "ccdf",
            "How often it is worse",
            "The share of requests that took longer than a time. Both axes are logarithmic: the tail gets as much room "
            "as the rest.",
            of(plots.ccdfs),
        ),
        Picture(
            "time",
            "Over time",
            "Mean response time by arrival, divided into queueing, service and everything else. The dashed line is "
            "p99.",
            of(plots.response_over_time),
        ),
    ]


def _drawn(picture: Picture) -> dict[str, Any]:
    """A picture drawn at once as SVG, which the interactive chart replaces where scripts run."""
    chart = picture.chart().configure(background="transparent").configure_view(stroke=None)
    chart = chart.configure_axis(
        labelColor="#808080",
        titleColor="#808080",
        gridColor="#80808040",
        domainColor="#808080",
        tickColor="#808080",
    ).configure_legend(labelColor="#808080", titleColor="#808080", orient="top")
    chart = chart.configure_title(color="#808080").configure_header(labelColor="#808080", titleColor="#808080")
    chart = chart.configure_axisTemporal(format=TIMES)
    spec = _safe(chart.to_dict())
    # The autosized chart of the page follows its width; the SVG has a size of its own and scales as a picture.
    svg = vl_convert.vegalite_to_svg(spec, vl_version=_vega_lite_version())
    return {
        "key": picture.key,
        "title": picture.title,
        "caption": picture.caption,
        "svg": svg,
        # Inside <script>, "<" must not be able to end the element, whatever text the data hold.
        "spec": json.dumps(_as_wide_as_the_page(spec)).replace("<", "\\u003c"),
    }


def _told_apart(drawings: Sequence[dict[str, Any]]) -> None:
    """Give a picture whose key another has a number: a script finds by it the place that is its own."""
    taken: set[str] = set()
    for each in drawings:
        key, number = each["key"], 2
        while each["key"] in taken:
            each["key"] = f"{key}-{number}"
            number += 1
        taken.add(each["key"])


def _safe(value: Any) -> Any:
    """A chart's specification with its texts safe to draw: a control character in one ends the drawing engine."""
    if isinstance(value, str):
        return printable(value, 10_000)
    if isinstance(value, dict):
        return {key: _safe(inner) for key, inner in value.items()}
    return [_safe(inner) for inner in value] if isinstance(value, list) else value


def _as_wide_as_the_page(spec: dict[str, Any]) -> dict[str, Any]:
    """The chart with the width of what it stands in; charts made of several keep their own."""
    single = "mark" in spec or "layer" in spec
    return {**spec, "width": "container"} if single else spec


def _vega_lite_version() -> str:
    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
