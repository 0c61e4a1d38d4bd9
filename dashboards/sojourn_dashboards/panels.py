"""Panels with the common parts: a description, a unit, a text for no data, one pair of colours, a link."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from grafana_foundation_sdk.builders import barchart, common, dashboard, heatmap, stat, table, text, timeseries, trend
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    HeatmapCellLayout,
    LegendDisplayMode,
    LegendPlacement,
    ScaleDistribution,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.text import TextMode
from sojourn.present.palette import OTHER, QUEUEING, RESPONSE, SERVICE

from sojourn_dashboards.datasource import TABLE, TIME_SERIES, TRACE, ClickHouseQuery, source
from sojourn_dashboards.prometheus import Series, joined_columns, prometheus_source

COLOURS = {
    "response time": RESPONSE,
    "queueing delay": QUEUEING,
    "service time": SERVICE,
    "everything else": OTHER,
    "waiting": QUEUEING,
    "in service": SERVICE,
    "elsewhere": OTHER,
    "share of queueing": QUEUEING,
    "queueing delay A": QUEUEING,
    "queueing delay B": "#F2B48C",  # the same hue, lighter: the other run
    "service time A": SERVICE,
    "service time B": "#7FB8D8",
    "response time A": RESPONSE,
    "response time B": "#C0C0C0",
}
UNITS = {"s", "ms", "reqps", "percentunit", "short", "none", "bytes", "string", "dateTimeAsIso", "locale"}
FILTERS = "${__url_time_range}&${service:queryparam}&${route:queryparam}&${upstream:queryparam}"
NO_REQUESTS = "no request in this range"
LEFT_OUT = (
    " Spans are not in it (the time of a request without an answer is unknown), nor queues inferred from the log, nor "
    "the drift of a clock within an hour: `sojourn split` has these."
)


class Display(TypedDict, total=False):
    """Options of a panel: text without data, size, units of columns, and links: column -> (title, url), '' for all."""

    empty: str
    width: int
    height: int
    units: Mapping[str, str]
    links: Mapping[str, tuple[str, str]]


Query = str | Sequence[Series]
"""SQL for ClickHouse, or series of Prometheus."""
PROMETHEUS_FORMATS = {TIME_SERIES: PromQueryFormat.TIME_SERIES, TABLE: PromQueryFormat.TABLE}


def left_out(query: Query) -> str:
    """Return the sentence on what `sojourn split` has and a query over the split of requests has not; or nothing."""
    split = isinstance(query, str) and re.search(r"rollup_minute|requests_split", query)
    queues = isinstance(query, str) and re.search(r"\bqueueing_\w+|\bunattributed", query)
    return LEFT_OUT if split and queues else ""


def _dressed(
    panel: Any,
    query: Query,
    format_: int,
    texts: tuple[str, str, str],
    *,
    empty: str = NO_REQUESTS,
    width: int = 12,
    height: int = 8,
    units: Mapping[str, str] = {},
    links: Mapping[str, tuple[str, str]] = {},
) -> Any:
    title, description, unit = texts
    panel.title(title).description(description + left_out(query)).unit(unit).no_value(empty)
    panel.span(width).height(height)
    if isinstance(query, str):
        panel.datasource(source()).with_target(ClickHouseQuery(query, format_))
        colours = {name: colour for name, colour in COLOURS.items() if f'"{name}"' in query}
    else:
        heatmaps = isinstance(panel, heatmap.Panel)
        kind = PromQueryFormat.HEATMAP if heatmaps else PROMETHEUS_FORMATS[format_]
        panel.datasource(prometheus_source())
        for number, series in enumerate(query):
            panel.with_target(series.target(kind, number))
        colours = {series.name: COLOURS[series.name] for series in query if series.name in COLOURS}
    if "" in links:
        title, url = links[""]
        panel.data_links([dashboard.DashboardLink(title).url(url).target_blank(False)])
    for name in dict.fromkeys([*units, *filter(None, links), *colours]):
        properties = []
        if name in units:
            properties.append(DynamicConfigValue("unit", units[name]))
        if name in colours:
            properties.append(DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colours[name]}))
        if name in links:
            title, url = links[name]
            properties.append(DynamicConfigValue("links", [{"title": title, "url": url, "targetBlank": False}]))
        panel.override_by_name(name, properties)
    return panel


def to_requests() -> tuple[str, str]:
    """Return the link from a panel to its requests: same range, same names."""
    return ("The requests of this range", f"/d/sojourn-requests/requests?{FILTERS}")


def to_request() -> dict[str, tuple[str, str]]:
    """Return the link from a cell of the column ``request id`` to that request."""
    url = "/d/sojourn-request/one-request?${__url_time_range}&var-request_id=${__value.raw:percentencode}"
    return {"request id": ("This request", url)}


def lines(
    query: Query,
    title: str,
    description: str,
    unit: str,
    *,
    stacked: bool = False,
    log: bool = False,
    bars: bool = False,
    **display: Unpack[Display],
) -> timeseries.Panel:
    """Return a panel of values over time, coloured by the name of the column."""
    panel: timeseries.Panel = _dressed(timeseries.Panel(), query, TIME_SERIES, (title, description, unit), **display)
    panel.interval("1m").line_width(1).fill_opacity(60 if stacked or bars else 0).show_points(VisibilityMode.NEVER)
    if stacked or bars:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
    if bars:
        panel.draw_style("bars")  # type: ignore[arg-type]
    return _with_axes(panel, log=log)


def against(
    query: str, x: str, title: str, description: str, unit: str, *, log: bool = False, **display: Unpack[Display]
) -> trend.Panel:
    """Return a panel of values against a number (column ``x``, ascending) other than time."""
    panel: trend.Panel = _dressed(trend.Panel(), query, TABLE, (title, description, unit), **display)
    panel.x_field(x).line_width(2).fill_opacity(0).show_points(VisibilityMode.NEVER)
    return _with_axes(panel, log=log)


def _with_axes(panel: Any, *, log: bool) -> Any:
    """Return a panel of lines with its axis of values, its legend and one tooltip for all lines."""
    if log:
        panel.scale_distribution(common.ScaleDistributionConfig().type(ScaleDistribution.LOG).log(10))
    else:
        panel.axis_soft_min(0)
    return panel.legend(_legend()).tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))


def number(
    query: Query,
    title: str,
    description: str,
    unit: str,
    *,
    mappings: Mapping[str, tuple[str, str]] = {},
    **display: Unpack[Display],
) -> stat.Panel:
    """Create a panel with the single value of a query. ``mappings``: value -> (words, colour)."""
    panel: stat.Panel = _dressed(stat.Panel(), query, TABLE, (title, description, unit), **display)
    panel.graph_mode(BigValueGraphMode.NONE).text_mode(BigValueTextMode.VALUE)
    panel.reduce_options(
        common.ReduceDataOptions().calcs(["lastNotNull"]).fields("/.*/" if mappings else "").values(False)
    )
    panel.thresholds(plain())
    if mappings:
        panel.color_mode(BigValueColorMode.BACKGROUND)
        results = {
            value: ValueMappingResult(text=sentence, color=colour, index=index)
            for index, (value, (sentence, colour)) in enumerate(mappings.items())
        }
        panel.mappings([ValueMap(options=results)])
    else:
        panel.color_mode(BigValueColorMode.NONE)
    return panel


def columns(query: Query, title: str, description: str, unit: str, **display: Unpack[Display]) -> table.Panel:
    """Create a table."""
    panel: table.Panel = _dressed(table.Panel(), query, TABLE, (title, description, unit), **display)
    return panel.show_header(True).filterable(True).inspect(True)


def joined(
    labels: Sequence[str], series: Sequence[Series], title: str, description: str, unit: str, **display: Unpack[Display]
) -> table.Panel:
    """Create a table of a row for each set of labels, and a column for each series."""
    panel = columns(series, title, description, unit, **display)
    for step in joined_columns(labels, series):
        panel.with_transformation(step)
    return panel


def bars(query: str, x: str, title: str, description: str, unit: str, **display: Unpack[Display]) -> barchart.Panel:
    """Return horizontal bars, one per row, stacked by column."""
    panel: barchart.Panel = _dressed(barchart.Panel(), query, TABLE, (title, description, unit), **display)
    panel.x_field(x).orientation(VizOrientation.HORIZONTAL).stacking(StackingMode.NORMAL)
    panel.show_value(VisibilityMode.NEVER).fill_opacity(80).line_width(1)
    return panel.legend(_legend()).tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))


def heat(
    query: Query, scheme: str, title: str, description: str, unit: str, **display: Unpack[Display]
) -> heatmap.Panel:
    """Create a heatmap of requests by time and bucket; number columns are named by the bucket's upper edge, s."""
    panel: heatmap.Panel = _dressed(heatmap.Panel(), query, TIME_SERIES, (title, description, unit), **display)
    return (
        panel.interval("1m")
        .calculate(False)
        .rows_frame(heatmap.RowsHeatmapOptions().layout(HeatmapCellLayout.LE).value("requests"))
        .y_axis(heatmap.YAxisConfig().unit("s"))
        .cell_values(heatmap.CellValues().unit("short"))
        .color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme(scheme).exponent(0.5).steps(64))
        .filter_values(heatmap.FilterValueRange().le(1e-9))
        .tooltip(heatmap.HeatmapTooltip().mode(TooltipDisplayMode.SINGLE).y_histogram(True))
        .show_legend()
    )


def trace(query: str, title: str, description: str, unit: str, **display: Unpack[Display]) -> Any:
    """Return Grafana's own view of one trace."""
    panel = dashboard.Panel().type("traces")
    return _dressed(panel, query, TRACE, (title, description, unit), **display)


def words(title: str, description: str, content: str, height: int) -> text.Panel:
    """Return a panel of text, without a query."""
    panel = text.Panel().title(title).description(description).mode(TextMode.MARKDOWN).content(content)
    return panel.span(24).height(height)


def plain() -> dashboard.ThresholdsConfig:
    """Return a panel without thresholds: Grafana's default paints everything above 80 red."""
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps([Threshold(value=None, color="text")])


def _legend() -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
    )
