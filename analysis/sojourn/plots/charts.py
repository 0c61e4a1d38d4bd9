"""Every kind of chart as a function from a split to an Altair chart.

Times are seconds, instants UTC. Each function raises ``SojournError`` if the requests do not allow the chart.
Common arguments:

    result   the result of ``sojourn.split``
    by       a column that was read: route, service, upstream, worker, status, or another key of the log
    workers  number of workers per backend, or one number for all; None: derived from the log
    slo      objective for p99, s
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.analyses.split.result import SplitResult
from sojourn.model.verdict import SLO
from sojourn.plots.pictures import picture
from sojourn.present.drawing import legends_above
from sojourn.present.section import Chart

Workers = int | Mapping[str, int] | None


def _chart(result: SplitResult, kind: str, **options: Any) -> Chart:
    """Return the chart of a kind, with the legend above it."""
    return legends_above(picture(result, kind, **options).chart())


def distribution(result: SplitResult) -> Chart:
    """Across: response time (s). Up: requests, each bar divided into queueing, service and everything else."""
    return _chart(result, "distribution")


def ccdf(result: SplitResult) -> Chart:
    """Across: time (s), logarithmic. Up: share of requests that waited, were served, or took longer, logarithmic."""
    return _chart(result, "ccdf")


def percentiles(result: SplitResult) -> Chart:
    """Across: percentile, as 1 / (1 - share) on a logarithmic axis. Up: time (s) that this share does not exceed."""
    return _chart(result, "percentiles")


def tail(result: SplitResult) -> Chart:
    """Across: share of time by where it went. Down: all requests, then those at and above p50, p90, p99, p99.9."""
    return _chart(result, "tail")


def split_by(result: SplitResult, by: str = "route") -> Chart:
    """Across: mean response time (s), divided. Down: the values of a column with the most seconds, slowest first."""
    return _chart(result, "split_by", by=by)


def over_time(result: SplitResult) -> Chart:
    """Across: arrival. Up: mean response time (s), divided; p99 as a dashed line."""
    return _chart(result, "over_time")


def heatmap(result: SplitResult, of: str = "response") -> Chart:
    """Across: arrival. Up: a time (s), logarithmic. Colour: requests. ``of``: response, queueing or service."""
    return _chart(result, "heatmap", of=of)


def ridgeline(result: SplitResult, by: str = "route", workers: Workers = None) -> Chart:
    """Across: response time (s), logarithmic. Down: one distribution per value of a column.

    ``by``: also ``concurrency``, the requests at the backend on arrival, waiting or in service.
    """
    return _chart(result, "ridgeline", by=by, workers=workers)


def hexbin(result: SplitResult) -> Chart:
    """Across: service time (s). Up: queueing delay (s). Both logarithmic. Colour: requests."""
    return _chart(result, "hexbin")


def utilisation(result: SplitResult, workers: Workers = None) -> Chart:
    """Across: offered load per worker. Up: mean wait (s). Points: windows; lines: Allen–Cunneen and Erlang C."""
    return _chart(result, "utilisation", workers=workers)


def blame(result: SplitResult, by: str = "route", workers: Workers = None) -> Chart:
    """Across: culprits. Down: victims. Cell: seconds that the victim waited for the culprit."""
    return _chart(result, "blame", by=by, workers=workers)


def flow(result: SplitResult, by: str = "route", workers: Workers = None) -> Chart:
    """From culprits, imbalance and dispatch at the left to victims at the right; ribbons as thick as their seconds."""
    return _chart(result, "flow", by=by, workers=workers)


def blame_over_time(result: SplitResult, by: str = "route", workers: Workers = None) -> Chart:
    """Across: end of the wait. Up: seconds waited per window, by account."""
    return _chart(result, "blame_over_time", by=by, workers=workers)


def depth(result: SplitResult, workers: Workers = None) -> Chart:
    """Across: time. Up: requests in service and, on top of them, waiting; averages per window."""
    return _chart(result, "depth", workers=workers)


def depth_on_arrival(result: SplitResult, workers: Workers = None) -> Chart:
    """Across: requests waiting on arrival. Up: number of arrivals (above), their mean wait (s, below)."""
    return _chart(result, "depth_on_arrival", workers=workers)


def workers(result: SplitResult, workers: Workers = None) -> Chart:
    """Across: time. Down: a lane per worker, and above those of each backend a line per waiting request.

    Of many requests, the 300 around the deepest queue are drawn; split a window to draw others.
    """
    return _chart(result, "workers", workers=workers)


def sequence(result: SplitResult) -> Chart:
    """Down: time (s). Across: client, nginx, worker. Of many requests, the 40 around the deepest queue are drawn."""
    return _chart(result, "sequence")


def goodput(result: SplitResult, by: str = "route") -> Chart:
    """Across: end of the request. Up: requests per second, all and answered (above), wasted worker seconds (below)."""
    return _chart(result, "goodput", by=by)


def whatif(result: SplitResult, workers: Workers = None) -> Chart:
    """Across: p99 of the response time (s). Down: changes."""
    return _chart(result, "whatif", workers=workers)


def whatif_responses(result: SplitResult, workers: Workers = None) -> Chart:
    """Across: response time (s). Up: share of requests that took longer: measured, replayed, changed."""
    return _chart(result, "whatif_responses", workers=workers)


def capacity(result: SplitResult, slo: float = SLO) -> Chart:
    """Across: arrivals per second. Up: p99 of the response time (s). Points: windows."""
    return _chart(result, "capacity", slo=slo)


def throughput(result: SplitResult, slo: float = SLO) -> Chart:
    """Across: mean requests in the system. Up: completed requests per second. Line: the scalability law."""
    return _chart(result, "throughput", slo=slo)


def clock(result: SplitResult) -> Chart:
    """Across: time. Up: offset of each clock from nginx's (ms), with its bounds."""
    return _chart(result, "clock")
