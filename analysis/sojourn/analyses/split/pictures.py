"""Charts of the split, with titles, captions and findings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

from sojourn.analyses.split import charts, charts_curves, readings
from sojourn.analyses.split.charts_heatmap import heat, heatmap, time_bins
from sojourn.analyses.split.charts_hexbin import hexbin, service_against_queueing
from sojourn.analyses.split.charts_ridgeline import BINS, THERE, Ridges, ridgeline, ridges
from sojourn.analyses.split.charts_tail import tail_composition, tail_table
from sojourn.analyses.split.result import SplitResult
from sojourn.model.measures import Measures
from sojourn.present.section import Picture
from sojourn.sources.frame_measures import without_upgraded
from sojourn.timeline.concurrency import COLUMNS, bins_by_concurrency
from sojourn.timeline.visits import visits

INFERRED = "Queueing delays are inferred from the log, not measured."
RESPONSES = "heatmap"  # key of the picture that shows response times alone


def split_pictures(result: SplitResult) -> list[Picture]:
    """Return the charts of the split in reading order; empty if there are only upgraded connections (101)."""
    if not any_served(result):
        return []
    grouped = [group for group in result.by if result.by_total[group] > 1]
    pictures = [over_time(result), distribution(result), tail(result)]
    pictures += [split_by(result, group) for group in grouped[:1]]
    pictures += [percentiles(result), ccdf(result), heat_over_time(result)]
    if (
        result.components["queueing_delay"]["mean"] is not None
        and result.components["service_time"]["mean"] is not None
    ):
        pictures.append(service_queueing(result))
    pictures += [ridgeline_by(result, group) for group in grouped[:1]]
    return [each if each.key == RESPONSES else marked(each, result) for each in pictures]


def marked(picture: Picture, result: SplitResult) -> Picture:
    """Return a picture that shows queueing delays, marked where some of them are inferred."""
    if not result.mark:
        return picture
    return replace(picture, title=f"{picture.title}{result.mark}", caption=f"{picture.caption} {INFERRED}")


def any_served(result: SplitResult) -> bool:
    """Return whether there is a request other than upgraded connections (101), which last as long as they are open."""
    return result.response_time["mean"] is not None


def distribution(result: SplitResult) -> Picture:
    """Return the distribution of response times, each bar divided."""
    table = charts.distribution_table(result.measures)
    return Picture(
        "distribution",
        "Distribution of response times",
        "Each bar is the number of requests with that response time, divided into queueing, service and the rest.",
        functools.partial(charts.stacked_distribution, table),
        readings.distribution(result),
    )


def tail(result: SplitResult) -> Picture:
    """Return the mean of all requests and of ever slower ones, divided."""
    table = tail_table(result)
    return Picture(
        "tail",
        "Composition of slow requests",
        "Each bar is the mean time of the requests at and above a quantile, divided by component, from all requests to "
        "the slowest. The components of a bar add up; quantiles of components do not.",
        functools.partial(tail_composition, table),
        readings.tail(table, readings.has_waits(result)),
    )


def split_by(result: SplitResult, group: str, measures: Measures | None = None) -> Picture:
    """Return the mean response time of each value of a group, divided; ``measures``: in place of the result's."""
    table = charts.split_by_table(measures or result.measures, group)
    return Picture(
        f"split-by-{group}",
        f"The split by {group}",
        f"Mean response time of each {group}, divided into queueing, service and everything else.",
        functools.partial(charts.split_by, table, group),
        readings.by_group(table, group, readings.has_waits(result)),
    )


def ccdf(result: SplitResult) -> Picture:
    """Return the complementary distribution, log-log."""
    table = charts_curves.ccdf_tables(result.measures)
    return Picture(
        "ccdf",
        "Complementary distribution",
        "The share of requests that took longer than a time. Both axes are logarithmic, so that the tail is visible.",
        functools.partial(charts_curves.ccdfs, table),
        readings.exceeding(result),
    )


def percentiles(result: SplitResult) -> Picture:
    """Return the percentile curve, by nines."""
    table = charts_curves.percentile_table(result.measures, result.requests)
    return Picture(
        "percentiles",
        "Percentile curve",
        "The time that a share of requests does not exceed. Each further nine has the same width on the axis.",
        functools.partial(charts_curves.percentile_curve, table),
        readings.percentiles(result, table),
    )


def over_time(result: SplitResult) -> Picture:
    """Return the mean response time by arrival, divided, and its p99."""
    table = charts.over_time_table(result.measures)
    incident = result.audit.incident
    caption = (
        "Mean response time by arrival, divided into queueing, service and everything else. The dashed line is p99."
    )
    return Picture(
        "time",
        "Over time",
        caption if incident is None else f"{caption} The incident is shaded.",
        functools.partial(charts.response_over_time, table, incident),
        readings.over_time(table, readings.has_waits(result)),
    )


def heat_over_time(result: SplitResult, column: str = "request_time") -> Picture:
    """Return requests by arrival and by one of their times."""
    cells = heat(result.measures, column)
    name = readings.NAMES[column]
    return Picture(
        "heatmap" if column == "request_time" else f"heatmap-{name.replace(' ', '-')}",
        f"Every {name} over time",
        f"Requests by arrival and {name}; a cell with more requests contrasts more with the background. Times of 1 ms "
        "or less are in the lowest row.",
        functools.partial(heatmap, cells),
        readings.heat(cells),
    )


def service_queueing(result: SplitResult) -> Picture:
    """Return service time against queueing delay, in hexagons."""
    bins = hexbin(result.measures)
    return Picture(
        "hexbin",
        "Service time against queueing delay",
        "A hexagon with more requests contrasts more with the background. Above the dashed line requests waited longer "
        "than they were served. Times of 1 ms or less are in the lowest row and the first column.",
        functools.partial(service_against_queueing, bins),
        readings.hexagons(bins),
    )


def ridgeline_by(result: SplitResult, group: str, measures: Measures | None = None) -> Picture:
    """Return the distribution of each value of a group, one above the other; ``measures``: in place of the result's."""
    distributions = ridges(measures or result.measures, group)
    return Picture(
        f"ridgeline-by-{group}",
        f"Distribution of response times by {group}",
        f"One distribution per {group}, those with the most seconds first; bars are divided into queueing, service and "
        "the rest. Each distribution has its own vertical scale: compare positions and shapes, not heights.",
        functools.partial(ridgeline, distributions),
        readings.ridges(distributions),
    )


def ridgeline_by_concurrency(result: SplitResult, workers: int | Mapping[str, int] | None = None) -> Picture:
    """Return the distribution by how many requests were at the backend on arrival, the fewest first."""
    bins = time_bins(result.measures, "request_time", BINS)
    names = result.rows.collect_schema().names()
    read = [name for name in (*COLUMNS, "header", "request_id") if name in names]
    served = visits(without_upgraded(result.rows), columns=read, workers=workers)
    distributions = Ridges(THERE, bins, bins_by_concurrency(served, bins))
    return Picture(
        "ridgeline-by-concurrency",
        "Distribution of response times by requests ahead",
        "One distribution for each number of requests at the backend on arrival, waiting or in service; bars are "
        "divided into queueing, service and the rest. Each distribution has its own vertical scale.",
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
"""The charts that need only the split, by the key of their picture."""
