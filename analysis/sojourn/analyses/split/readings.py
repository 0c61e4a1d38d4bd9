"""The finding of each chart of a split, in one sentence with its figures."""

from __future__ import annotations

import math
from datetime import datetime

import polars as pl

from sojourn.analyses.split.charts import GROUPS
from sojourn.analyses.split.charts_heatmap import LEAST, Heat
from sojourn.analyses.split.charts_hexbin import Hexbin
from sojourn.analyses.split.charts_ridgeline import THERE, Ridges
from sojourn.analyses.split.result import SplitResult
from sojourn.model.figures import QUANTILES
from sojourn.model.formatting import RESOLUTION, counted, duration, listed, percent, printable, without_noise
from sojourn.present.chart_parts import LINES
from sojourn.present.palette import PARTS
from sojourn.timeline.classes import NO_VALUE

NAMES = {column: name for column, (name, _, _) in LINES.items()}
NO_WAIT = "The queueing delay is unknown"
SLOW = 0.1  # share of requests that count as the slow ones in a heatmap
WHERE = {
    "queueing": "was queueing",
    "service": "was service",
    "retries": "went in earlier attempts",
    "before": "went before the proxy turned to the app",
    "body": "went into the body of the answer",
    "after": "went in the proxy after the app",
    "unknown": "was unaccounted",
}
FIRST_BIN = 1.0001  # times the lowest edge: tolerance of a comparison with it


def distribution(result: SplitResult) -> str:
    """Describe the median and p99 of the response times, and the shares of queueing and service."""
    response = result.response_time
    took = (
        f"Half of {counted(result.requests, 'request')} took {duration(response['p50'])} or less, one in a hundred "
        f"took {duration(response['p99'])} or more"
    )
    if result.requests == 1:
        took = f"The only request took {duration(response['p50'])}"
    if not has_waits(result):
        return f"{took}; the queueing delay is unknown."
    total = sum(result.means.values()) or 1.0
    whose = "its" if result.requests == 1 else "all their"
    return (
        f"{took}; {percent(result.queueing_share)} of {whose} time was queueing and "
        f"{percent(result.means['service_time'] / total)} service."
    )


def has_waits(result: SplitResult) -> bool:
    """Return whether the queueing delay of any request is known."""
    return result.components["queueing_delay"]["mean"] is not None


def tail(table: pl.DataFrame, with_waits: bool = True) -> str:
    """Describe how the share of queueing changes from all requests to the slowest, in a ``charts_tail.tail_table``."""
    levels = {row["level"]: row for row in table.filter(pl.col("cause") == "queueing").to_dicts()}
    everyone = levels["all"]
    slowest = next((level for level in ("p99", "p90", "p50") if level in levels), "all")
    row = levels[slowest]
    level = table.filter(pl.col("level") == slowest)
    service = level.filter(pl.col("cause") == "service").row(0, named=True)
    top = level.sort("seconds", descending=True).row(0, named=True)
    most = f"most, {percent(top['share'])}, {WHERE[top['cause']]}"
    slow = "all requests"
    if slowest != "all":
        slow = f"the slowest {100 * (1 - QUANTILES[slowest]):.3g} % ({duration(row['at_least'])} and more)"
    if not with_waits:
        return f"{NO_WAIT}; of the time of {slow} {most}."
    if slowest == "all":
        return (
            f"Of the time of all requests ({everyone['requests']:,}) {percent(everyone['share'])} was queueing, and "
            f"{percent(service['share'])} was service."
        )
    also = "" if top["cause"] in ("queueing", "service") else f"; {most}"
    return (
        f"Of the time of all requests {percent(everyone['share'])} was queueing; of {slow} it was "
        f"{percent(row['share'])}, and {percent(service['share'])} was service{also}."
    )


def by_group(table: pl.DataFrame, group: str, with_waits: bool = True) -> str:
    """Describe the slowest value of a group and the fastest of 1 ms or more, in a ``charts.split_by_table``."""
    means = (
        table.group_by("group", maintain_order=True)
        .agg(
            pl.col("seconds").sum().alias("mean"),
            pl.col("seconds").filter(pl.col("part") == "queueing delay").sum().alias("queueing"),
        )
        .sort("mean", descending=True, maintain_order=True)
        .to_dicts()
    )
    if not means:
        return f"No {group}: 0 requests."
    top = means[0]
    queued = _queued(top["queueing"], top["mean"], with_waits)
    text = f"{_group_name(group, top['group'])} took longest, {duration(top['mean'])} on average{queued}"
    if len(means) == GROUPS:
        text = f"Of the {GROUPS} with the most seconds {text}"
    means = means[:1] + [row for row in means[1:] if row["mean"] >= RESOLUTION]
    if len(means) == 1:
        return text + "."
    return f"{text}; {_group_name(group, means[-1]['group'])} was fastest with {duration(means[-1]['mean'])}."


def exceeding(result: SplitResult) -> str:
    """Describe the median and p99 of queueing delay and service time."""
    wait, service = result.components["queueing_delay"], result.components["service_time"]
    served = (
        f"one in a hundred was served for {duration(service['p99'])} or more"
        if service["p99"] is not None
        else "the service time is unknown"
    )
    if wait["p99"] is None:
        return f"{NO_WAIT}; {served}; one in a hundred took {duration(result.response_time['p99'])} or more in all."
    return (
        f"One request in a hundred waited {duration(wait['p99'])} or more, half waited "
        f"{duration(without_noise(wait['p50'], wait['p50'], result.uncertainty))} or less; {served}."
    )


def percentiles(result: SplitResult, table: pl.DataFrame) -> str:
    """Describe the curves from the median to the last percentile with enough requests."""
    last = max((n for n in (10, 100, 1_000, 10_000) if n <= result.requests), default=0)
    parts: list[str] = []
    for name in NAMES.values():
        curve = table.filter(pl.col("part") == name)
        ends = [curve.filter(pl.col("one_in") == n)["seconds"].to_list() for n in (2, last)]
        if all(ends):
            low, high = (duration(without_noise(end[0], end[0], result.uncertainty)) for end in ends)
            grows = "" if parts and " from " in parts[-1] else "grows "
            parts.append(f"{name} is {low} throughout" if low == high else f"{name} {grows}from {low} to {high}")
    if not parts:
        return f"There are too few requests for a percentile beyond the median: {result.requests:,}."
    share = f"{100 * (1 - 1 / last):.4g}"
    return f"From the median to the {share}th percentile, {listed(parts)}."


def over_time(table: pl.DataFrame, with_waits: bool = True) -> str:
    """Describe the worst window and the median window, in a ``charts.over_time_table``."""
    if table.is_empty():
        return "No requests."
    means = table.with_columns(mean=pl.sum_horizontal(*PARTS))
    worst = means.sort("mean", descending=True, maintain_order=True).row(0, named=True)
    usual = means["mean"].median()
    queued = _queued(worst["queueing delay"], worst["mean"], with_waits)
    if len(means) == 1:
        return f"The mean response time was {duration(worst['mean'])}{queued}; all requests arrived in one window."
    return (
        f"The mean response time was highest at {worst['arrived']:%H:%M:%S} UTC, {duration(worst['mean'])}{queued}; "
        f"in the median window it was {duration(float(usual))}."  # type: ignore[arg-type]
    )


def _queued(queueing: float, mean: float, with_waits: bool) -> str:
    """Return the part of a sentence for the share of queueing in a mean; empty if unknown."""
    return f", {percent(queueing / mean if mean > 0 else 0.0)} of it queueing" if with_waits else ""


def heat(heat: Heat) -> str:
    """Describe when the slow requests arrived: the shortest run of windows with half of them."""
    table, name = heat.table, NAMES[heat.column]
    if table.is_empty():
        return f"The {name} is unknown for all requests."
    total = int(table["requests"].sum())
    limit = _slow_from(table, total)
    if limit is None:
        return f"None of {counted(total, 'request')} had a {name} above {duration(table['high'].max())}."  # type: ignore[arg-type]
    slow = table.filter(pl.col("low") >= limit * 0.9999)
    windows = slow.group_by("arrived").agg(pl.col("requests").sum()).sort("arrived").rows()
    count = sum(requests for _, requests in windows)
    begin, end = _shortest_run(windows, count / 2)
    first, last = table.select(pl.col("arrived").min(), pl.col("arrived").max().alias("last")).row(0)
    whole = (last - first + heat.width).total_seconds()
    length = (windows[end][0] - windows[begin][0] + heat.width).total_seconds()
    return (
        f"{count:,} of {counted(total, 'request')} had a {name} of {duration(limit)} or more, and half of those "
        f"arrived within {duration(length)}, from {windows[begin][0]:%H:%M:%S} UTC on, of {duration(whole)} in all."
    )


def _slow_from(table: pl.DataFrame, total: int) -> float | None:
    """Return the lower edge of the bins with the slowest tenth, or with as many as are known; None without requests.

    The bin that begins at ``LEAST`` is left out: it also holds all shorter times.
    """
    aboves = table.filter(pl.col("low") > LEAST * FIRST_BIN)
    bins = aboves.group_by("low").agg(pl.col("requests").sum()).sort("low", descending=True).rows()
    above, limit = 0, None
    for low, requests in bins:
        above += requests
        limit = float(low)
        if above >= SLOW * total:
            break
    return limit


def _shortest_run(windows: list[tuple[datetime, int]], enough: float) -> tuple[int, int]:
    """Return the first and last index of the shortest run, in time, of windows with at least ``enough`` requests."""
    best = (0, len(windows) - 1)
    begin, in_run = 0, 0
    for end, (_, requests) in enumerate(windows):
        in_run += requests
        while in_run - windows[begin][1] >= enough:
            in_run -= windows[begin][1]
            begin += 1
        if in_run >= enough and windows[end][0] - windows[begin][0] < windows[best[1]][0] - windows[best[0]][0]:
            best = (begin, end)
    return best


def hexagons(hexbin: Hexbin) -> str:
    """Describe the shares of requests that waited longer than they were served, and that did not wait."""
    table, total = hexbin.table, int(hexbin.table["requests"].sum())
    if not total:
        return "No request has both a queueing delay and a service time."
    longer = int(table.filter(pl.col("queueing") > pl.col("service"))["requests"].sum())
    at_once = int(table.filter(pl.col("queueing") <= hexbin.lattice.low * FIRST_BIN)["requests"].sum())
    return (
        f"About {percent(longer / total)} of {counted(total, 'request')} waited longer than they were served; "
        f"{percent(at_once / total)} waited {hexbin.lattice.low * 1000:.3g} ms or less (counted by hexagon)."
    )


def ridges(ridges: Ridges) -> str:
    """Describe the approximate medians of the slowest and of the fastest distribution."""
    middles = []
    for (group,), part in ridges.table.group_by("group", maintain_order=True):
        half = part["requests"].sum() / 2
        ordered = part.sort("bin").with_columns(below=pl.col("requests").cum_sum())
        number = ordered.filter(pl.col("below") >= half)["bin"][0]
        middles.append((ridges.bins.edge(number) * math.exp(ridges.bins.width / 2), str(group)))
    if not middles:
        return f"No {ridges.group}: 0 requests."
    slowest, fastest = max(middles), min(middles)
    text = f"Half of {_group_name(ridges.group, slowest[1])} took about {duration(slowest[0])} or more"
    if len(middles) == 1:
        return text + "."
    return f"{text}, half of {_group_name(ridges.group, fastest[1])} about {duration(fastest[0])} or less."


def _group_name(group: str, value: str) -> str:
    name = printable(value, 60)
    if group == THERE:
        return f"those with {name} ahead"
    if value == NO_VALUE:
        return f"requests without a known {group}"
    return name if group == "route" else f"{group} {name}"
