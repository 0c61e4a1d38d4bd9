"""What the charts of a split show of these requests, in one plain sentence each, with its figures."""

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
from sojourn.model.formatting import counted, duration, listed, percent, printable
from sojourn.present.chart_parts import LINES
from sojourn.present.palette import PARTS
from sojourn.timeline.classes import NO_VALUE

NAMES = {column: name for column, (name, _, _) in LINES.items()}
NO_WAIT = "Nothing tells how long requests waited"
SLOW = 0.1  # share of requests that count as the slow ones in a heatmap
WHERE = {
    "queueing": "was queueing",
    "service": "was service",
    "retries": "went in attempts that failed",
    "client": "went to and from the client",
    "unknown": "is what nobody claims",
}
FIRST_BIN = 1.0001  # times the lowest edge: as good as it


def distribution(result: SplitResult) -> str:
    """Half and the slowest hundredth of the response times, and the shares of all time."""
    response = result.response_time
    took = (
        f"Half of {counted(result.requests, 'request')} took {duration(response['p50'])} or less, one in a hundred "
        f"took {duration(response['p99'])} or more"
    )
    if result.requests == 1:
        took = f"The only request took {duration(response['p50'])}"
    if not waits_known(result):
        return f"{took}; nothing tells how long {'it' if result.requests == 1 else 'they'} waited."
    total = sum(result.means.values()) or 1.0
    whose = "its" if result.requests == 1 else "all their"
    return (
        f"{took}; {percent(result.queueing_share)} of {whose} time was queueing and "
        f"{percent(result.means['service_time'] / total)} service."
    )


def waits_known(result: SplitResult) -> bool:
    """Whether any request tells how long it waited."""
    return result.components["queueing_delay"]["mean"] is not None


def tail(table: pl.DataFrame, known: bool = True) -> str:
    """How the share of queueing changes from all requests to the slowest; ``known``: as ``waits_known`` says."""
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
    if not known:
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


def by_group(table: pl.DataFrame, group: str, known: bool = True) -> str:
    """The slowest and the fastest value of a group; the table as of ``charts.split.split_by_table``."""
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
        return f"There is no {group} to tell of: 0 requests."
    top = means[0]
    queued = _queued(top["queueing"], top["mean"], known)
    text = f"{_named(group, top['group'])} took longest, {duration(top['mean'])} on average{queued}"
    if len(means) == GROUPS:
        text = f"Of the {GROUPS} with the most seconds {text}"
    if len(means) == 1:
        return text + "."
    return f"{text}; {_named(group, means[-1]['group'])} was fastest with {duration(means[-1]['mean'])}."


def exceeding(result: SplitResult) -> str:
    """Half and the hundredth of waits and services."""
    wait, service = result.components["queueing_delay"], result.components["service_time"]
    served = (
        f"one in a hundred was served for {duration(service['p99'])} or more"
        if service["p99"] is not None
        else "nothing tells how long they were served"
    )
    if wait["p99"] is None:
        return f"{NO_WAIT}; {served}; one in a hundred took {duration(result.response_time['p99'])} or more in all."
    return (
        f"One request in a hundred waited {duration(wait['p99'])} or more, half waited {duration(wait['p50'])} or "
        f"less; {served}."
    )


def percentiles(result: SplitResult, table: pl.DataFrame) -> str:
    """From the median to the last percentile that enough requests stand behind."""
    last = max((n for n in (10, 100, 1_000, 10_000) if n <= result.requests), default=0)
    parts: list[str] = []
    for name in NAMES.values():
        curve = table.filter(pl.col("part") == name)
        ends = [curve.filter(pl.col("one_in") == n)["seconds"].to_list() for n in (2, last)]
        if all(ends):
            low, high = (duration(end[0]) for end in ends)
            grows = "" if parts and " from " in parts[-1] else "grows "
            parts.append(f"{name} stays at {low}" if low == high else f"{name} {grows}from {low} to {high}")
    if not parts:
        return f"There are too few requests for a percentile beyond the median: {result.requests:,}."
    share = f"{100 * (1 - 1 / last):.4g}"
    return f"From the median to the {share}th percentile, {listed(parts)}."


def over_time(table: pl.DataFrame, known: bool = True) -> str:
    """The worst window, and an ordinary one; the table as of ``charts.split.over_time_table``."""
    if table.is_empty():
        return "There is no request to tell of: 0."
    means = table.with_columns(mean=pl.sum_horizontal(*PARTS))
    worst = means.sort("mean", descending=True, maintain_order=True).row(0, named=True)
    usual = means["mean"].median()
    queued = _queued(worst["queueing delay"], worst["mean"], known)
    if len(means) == 1:
        return f"The mean response time was {duration(worst['mean'])}{queued}; all requests came at one time."
    return (
        f"The mean response time was highest at {worst['arrived']:%H:%M:%S} UTC, {duration(worst['mean'])}{queued}; "
        f"in the median window it was {duration(float(usual))}."  # type: ignore[arg-type]
    )


def _queued(queueing: float, mean: float, known: bool) -> str:
    """How much of a mean was queueing, where that is known."""
    return f", {percent(queueing / mean if mean > 0 else 0.0)} of it queueing" if known else ""


def heat(heat: Heat) -> str:
    """When the slow requests came: the shortest run of windows with half of them."""
    table, name = heat.table, NAMES[heat.column]
    if table.is_empty():
        return f"No request tells its {name}: 0 of them."
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
        f"arrived within {duration(length)}, from {windows[begin][0]:%H:%M:%S} UTC on; the whole is {duration(whole)}."
    )


def _slow_from(table: pl.DataFrame, total: int) -> float | None:
    """The lowest edge of the bins that hold the slowest tenth, or as much of it as is known; None without requests.

    What lies in a bin that begins at ``LEAST`` may be shorter than its edge, and be nothing at all.
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


def _shortest_run(windows: list[tuple[datetime, int]], wanted: float) -> tuple[int, int]:
    """First and last index of the shortest run, in time, of windows with at least ``wanted`` requests."""
    best = (0, len(windows) - 1)
    begin, held = 0, 0
    for end, (_, requests) in enumerate(windows):
        held += requests
        while held - windows[begin][1] >= wanted:
            held -= windows[begin][1]
            begin += 1
        if held >= wanted and windows[end][0] - windows[begin][0] < windows[best[1]][0] - windows[best[0]][0]:
            best = (begin, end)
    return best


def hexagons(hexbin: Hexbin) -> str:
    """The shares that waited longer than they were served, and that did not wait."""
    table, total = hexbin.table, int(hexbin.table["requests"].sum())
    if not total:
        return "No request tells both how long it waited and how long it was served: 0 of them."
    longer = int(table.filter(pl.col("queueing") > pl.col("service"))["requests"].sum())
    at_once = int(table.filter(pl.col("queueing") <= hexbin.lattice.low * FIRST_BIN)["requests"].sum())
    return (
        f"About {percent(longer / total)} of {counted(total, 'request')} waited longer than they were served; "
        f"{percent(at_once / total)} waited {hexbin.lattice.low * 1000:.3g} ms or less, as far as hexagons tell."
    )


def ridges(ridges: Ridges) -> str:
    """About where the halves of the slowest and of the fastest distribution lie."""
    middles = []
    for (group,), part in ridges.table.group_by("group", maintain_order=True):
        half = part["requests"].sum() / 2
        ordered = part.sort("bin").with_columns(below=pl.col("requests").cum_sum())
        number = ordered.filter(pl.col("below") >= half)["bin"][0]
        middles.append((ridges.bins.edge(number) * math.exp(ridges.bins.width / 2), str(group)))
    if not middles:
        return f"There is no {ridges.group} to tell of: 0 requests."
    slowest, fastest = max(middles), min(middles)
    text = f"Half of {_named(ridges.group, slowest[1])} took about {duration(slowest[0])} or more"
    if len(middles) == 1:
        return text + "."
    return f"{text}, half of {_named(ridges.group, fastest[1])} about {duration(fastest[0])} or less."


def _named(group: str, value: str) -> str:
    name = printable(value, 60)
    if group == THERE:
        return f"those that found {name} there"
    if value == NO_VALUE:
        return f"requests without a known {group}"
    return name if group == "route" else f"{group} {name}"
