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
    """Draw requests by response time (s), each bar divided into queueing, service and everything else."""
    return _chart(result, "distribution")


def ccdf(result: SplitResult) -> Chart:
    """Draw the share of requests with a longer wait, service or response than a time (s); both axes logarithmic."""
    return _chart(result, "ccdf")


def percentiles(result: SplitResult) -> Chart:
    """Draw times (s) against the percentile, on an axis of 1 / (1 - share) that is logarithmic."""
    return _chart(result, "percentiles")


def tail(result: SplitResult) -> Chart:
    """Draw where the time went: of all requests, and of those at and above p50, p90, p99 and p99.9."""
    return _chart(result, "tail")


def split_by(result: SplitResult, by: str = "route") -> Chart:
    """Draw the mean response time (s), divided, of the values of a column with the most seconds, slowest first."""
    return _chart(result, "split_by", by=by)


def over_time(result: SplitResult) -> Chart:
    """Draw the mean response time (s) by arrival, divided; p99 as a dashed line."""
    return _chart(result, "over_time")


def heatmap(result: SplitResult, of: str = "response") -> Chart:
    """Draw requests by arrival and a time (s, logarithmic) as colours. ``of``: response, queueing or service."""
    return _chart(result, "heatmap", of=of)


def ridgeline(result: SplitResult, by: str = "route", workers: Workers = None) -> Chart:
    """Draw one distribution of the response time (s, logarithmic) per value of a column.

    ``by``: also ``concurrency``, the requests at the backend on arrival, waiting or in service.
    """
    return _chart(result, "ridgeline", by=by, workers=workers)


def hexbin(result: SplitResult) -> Chart:
    """Draw queueing delay (s) against service time (s), both logarithmic, coloured by requests."""
    return _chart(result, "hexbin")


def utilisation(result: SplitResult, workers: Workers = None) -> Chart:
    """Draw the mean wait (s) of windows against the offered load per worker, with Allen–Cunneen and Erlang C."""
    return _chart(result, "utilisation", workers=workers)


def blame(result: SplitResult, by: str = "route", workers: Workers = None) -> Chart:
    """Draw the matrix of victims (rows) and culprits (columns): the seconds that victims waited for culprits."""
    return _chart(result, "blame", by=by, workers=workers)


def flow(result: SplitResult, by: str = "route", workers: Workers = None) -> Chart:
    """Draw ribbons from culprits, imbalance and dispatch (left) to victims (right), as thick as their seconds."""
    return _chart(result, "flow", by=by, workers=workers)


def blame_over_time(result: SplitResult, by: str = "route", workers: Workers = None) -> Chart:
    """Draw the seconds waited per window, by account, at the end of the wait."""
    return _chart(result, "blame_over_time", by=by, workers=workers)


def depth(result: SplitResult, workers: Workers = None) -> Chart:
    """Draw requests in service and, on top of them, waiting over time; averages per window."""
    return _chart(result, "depth", workers=workers)


def depth_on_arrival(result: SplitResult, workers: Workers = None) -> Chart:
    """Draw arrivals (above) and their mean wait (s, below) by the number of requests waiting on arrival."""
    return _chart(result, "depth_on_arrival", workers=workers)


def workers(result: SplitResult, workers: Workers = None) -> Chart:
    """Draw a lane per worker over time, and above those of each backend a line per waiting request.

    Of many requests, the 300 around the deepest queue are drawn; split a window to draw others.
    """
    return _chart(result, "workers", workers=workers)


def sequence(result: SplitResult) -> Chart:
    """Draw requests between client, nginx and worker, time (s) downwards; at most 40, around the deepest queue."""
    return _chart(result, "sequence")


def goodput(result: SplitResult, by: str = "route") -> Chart:
    """Draw requests per second, all and answered (above), and wasted worker seconds (below), at their end."""
    return _chart(result, "goodput", by=by)


def whatif(result: SplitResult, workers: Workers = None) -> Chart:
    """Draw the p99 of the response time (s) for each change."""
    return _chart(result, "whatif", workers=workers)


def whatif_responses(result: SplitResult, workers: Workers = None) -> Chart:
    """Draw the share of requests above a response time (s): measured, replayed, changed."""
    return _chart(result, "whatif_responses", workers=workers)


def capacity(result: SplitResult, slo: float = SLO) -> Chart:
    """Draw the p99 of the response time (s) of windows against arrivals per second."""
    return _chart(result, "capacity", slo=slo)


def throughput(result: SplitResult, slo: float = SLO) -> Chart:
    """Draw completed requests per second against mean requests in system, with the scalability law."""
    return _chart(result, "throughput", slo=slo)


def clock(result: SplitResult) -> Chart:
    """Draw the offset of each clock from nginx's (ms) over time, with its bounds."""
    return _chart(result, "clock")
