"""The split, laid out for people."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from sojourn.analyses.split import charts, readings
from sojourn.analyses.split.charts_heatmap import heat, heatmap, time_bins
from sojourn.analyses.split.charts_hexbin import hexbin, service_against_queueing
from sojourn.analyses.split.charts_percentiles import percentile_curve, percentile_table
from sojourn.analyses.split.charts_ridgeline import BINS, THERE, Ridges, ridgeline, ridges
from sojourn.analyses.split.charts_tail import tail_composition, tail_table
from sojourn.analyses.split.result import SplitResult
from sojourn.model.measures import Measures
from sojourn.present.section import Picture


def split_pictures(result: SplitResult) -> list[Picture]:
    """The charts of the split, in the order to be read; none where there is no request but upgraded connections."""
    if not any_served(result):
        return []
    grouped = [group for group in result.by if result.by_total[group] > 1]
    pictures = [distribution(result), tail(result)]
    pictures += [split_by(result, group) for group in grouped[:1]]
    pictures += [percentiles(result), ccdf(result), over_time(result), heat_over_time(result)]
    if (
        result.components["queueing_delay"]["mean"] is not None
        and result.components["service_time"]["mean"] is not None
    ):
        pictures.append(service_queueing(result))
    return pictures + [ridgeline_by(result, group) for group in grouped[:1]]


def any_served(result: SplitResult) -> bool:
    """Return whether there is a request besides upgraded connections (101), which last as long as they are open."""
    return result.response_time["mean"] is not None


def distribution(result: SplitResult) -> Picture:
    """Requests by response time, each bar divided."""
    table = charts.distribution_table(result.measures)
    return Picture(
        "distribution",
        "How long requests took, and on what",
        "Each bar is the number of requests with that response time, divided the way their time was.",
        functools.partial(charts.stacked_distribution, table),
        readings.distribution(result),
    )


def tail(result: SplitResult) -> Picture:
    """The mean of all requests and of ever slower ones, divided."""
    table = tail_table(result)
    return Picture(
        "tail",
        "What the slow requests are made of",
        "Each bar is the time of the requests at and above a quantile, divided by where it went: how the composition "
        "changes from all requests to the slowest. Quantiles of parts do not add up; this does.",
        functools.partial(tail_composition, table),
        readings.tail(table, readings.waits_known(result)),
    )


def split_by(result: SplitResult, group: str, measures: Measures | None = None) -> Picture:
    """Mean response time of each value of a group, divided; ``measures``: in place of the result's."""
    table = charts.split_by_table(measures or result.measures, group)
    return Picture(
        f"split-by-{group}",
        f"The split by {group}",
        f"Mean response time of each {group}, divided into queueing, service and everything else.",
        functools.partial(charts.split_by, table, group),
        readings.by_group(table, group, readings.waits_known(result)),
    )


def ccdf(result: SplitResult) -> Picture:
    """The complementary distribution, log-log."""
    table = charts.ccdf_tables(result.measures)
    return Picture(
        "ccdf",
        "How often it is worse",
        "The share of requests that took longer than a time. Both axes are logarithmic: the tail gets as much room "
        "as the rest.",
        functools.partial(charts.ccdfs, table),
        readings.exceeding(result),
    )


def percentiles(result: SplitResult) -> Picture:
    """The percentile curve, by nines."""
    table = percentile_table(result.measures, result.requests)
    return Picture(
        "percentiles",
        "How long, by percentile",
        "The time that a share of requests does not exceed. Along the axis each further nine takes as much room as "
        "the one before.",
        functools.partial(percentile_curve, table),
        readings.percentiles(result, table),
    )


def over_time(result: SplitResult) -> Picture:
    """Mean response time by arrival, divided, and its p99."""
    table = charts.over_time_table(result.measures)
    return Picture(
        "time",
        "Over time",
        "Mean response time by arrival, divided into queueing, service and everything else. The dashed line is p99.",
        functools.partial(charts.response_over_time, table),
        readings.over_time(table, readings.waits_known(result)),
    )


def heat_over_time(result: SplitResult, column: str = "request_time") -> Picture:
    """Requests by arrival and by one of their times."""
    cells = heat(result.measures, column)
    name = readings.NAMES[column]
    return Picture(
        "heatmap" if column == "request_time" else f"heatmap-{name.replace(' ', '-')}",
        f"Every {name} over time",
        f"Requests by arrival and {name}; the brighter a cell, the more there are. What took 1 ms or less lies in the "
        "lowest row.",
        functools.partial(heatmap, cells),
        readings.heat(cells),
    )


def service_queueing(result: SplitResult) -> Picture:
    """Service time against queueing delay, in hexagons."""
    bins = hexbin(result.measures)
    return Picture(
        "hexbin",
        "Service time against queueing delay",
        "Each hexagon is a number of requests, the brighter the more; above the dashed line they waited longer than "
        "they were served. Times of 1 ms and less lie on the lowest row and the first column.",
        functools.partial(service_against_queueing, bins),
        readings.hexagons(bins),
    )


def ridgeline_by(result: SplitResult, group: str, measures: Measures | None = None) -> Picture:
    """The distribution of each value of a group, one above the other; ``measures``: in place of the result's."""
    distributions = ridges(measures or result.measures, group)
    return Picture(
        f"ridgeline-by-{group}",
        f"How long requests took, by {group}",
        f"Requests by response time, one distribution per {group}, those with the most seconds first; bars are divided "
        "the way their time was. Each has a scale of its own: compare places and shapes, not heights.",
        functools.partial(ridgeline, distributions),
        readings.ridges(distributions),
    )


def ridgeline_by_concurrency(result: SplitResult, workers: int | Mapping[str, int] | None = None) -> Picture:
    """The distribution by how many requests were at the backend on arrival, the fewest first."""
    from sojourn.timeline.concurrency import COLUMNS, bins_by_concurrency  # noqa: PLC0415
    from sojourn.timeline.visits import visits  # noqa: PLC0415 - scipy and numba take their time to load

    bins = time_bins(result.measures, "request_time", BINS)
    names = result.rows.collect_schema().names()
    read = [name for name in (*COLUMNS, "header", "request_id") if name in names]
    distributions = Ridges(THERE, bins, bins_by_concurrency(visits(result.rows, columns=read, workers=workers), bins))
    return Picture(
        "ridgeline-by-concurrency",
        "How long requests took, by how many were there already",
        "Requests by response time, one distribution for each number of requests that were at their backend, waiting "
        "or in service, when they came; bars are divided the way their time was. Each has a scale of its own.",
        functools.partial(ridgeline, distributions),
        readings.ridges(distributions),
    )


PICTURES: dict[str, Callable[[SplitResult], Picture]] = {
    "distribution": distribution,
    "tail": tail,
    "percentiles": percentiles,
    "ccdf": ccdf,
    "time": over_time,
    "hexbin": service_queueing,
}
"""The charts of a split that need nothing but the split, by the key of their picture."""
