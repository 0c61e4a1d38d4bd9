"""Every kind of chart as a function from requests to an Altair chart.

Times are seconds, instants UTC. Each function raises ``SojournError`` if the requests do not allow the chart.
Common arguments:

    requests    the result of ``sojourn.split``, sources, or a frame of Polars, pandas or Arrow; charts that take
                ``Logs`` also several of them by name: ``{"before": …, "after": …}``
    by          a column: route, service, upstream, worker, status, or another key of the log; a distribution has a
                panel for each of its values
    of          the time that is drawn: response, queueing or service
    band        whether the lines have their 95 % confidence bands (``sojourn.analyses.split.bands``)
    workers     number of workers per backend, or one number for all; None: derived from the log
    slo         objective for p99, s
    xlim, ylim  limits of an axis, (low, high), in its unit or as instants; None for an end: as the data
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.model.verdict import SLO
from sojourn.plots.pictures import picture
from sojourn.present.drawing import legends_above
from sojourn.present.limits import Limits
from sojourn.present.section import Chart
from sojourn.sources.opening import RequestsLike

Workers = int | Mapping[str, int] | None


Logs = RequestsLike | Mapping[str, RequestsLike]


def _chart(requests: Logs, kind: str, **options: Any) -> Chart:
    """Return the chart of a kind, with the legend above it."""
    return legends_above(picture(requests, kind, **options).chart())


def distribution(
    requests: Logs, by: str | None = None, *, xlim: Limits | None = None, ylim: Limits | None = None
) -> Chart:
    """Draw requests by response time (s), each bar divided into queueing, service and everything else."""
    return _chart(requests, "distribution", by=by, xlim=xlim, ylim=ylim)


def ccdf(
    requests: Logs,
    by: str | None = None,
    of: str | None = None,
    *,
    band: bool = False,
    xlim: Limits | None = None,
    ylim: Limits | None = None,
) -> Chart:
    """Draw the share of requests with a longer wait, service or response than a time (s); both axes logarithmic.

    Of several logs, a line for each: of the response time, or of ``of``.
    """
    return _chart(requests, "ccdf", by=by, of=of, band=band, xlim=xlim, ylim=ylim)


def percentiles(
    requests: Logs,
    by: str | None = None,
    of: str | None = None,
    *,
    band: bool = False,
    xlim: Limits | None = None,
    ylim: Limits | None = None,
) -> Chart:
    """Draw times (s) against the percentile, on an axis of 1 / (1 - share) that is logarithmic.

    Of several logs, a line for each: of the response time, or of ``of``.
    """
    return _chart(requests, "percentiles", by=by, of=of, band=band, xlim=xlim, ylim=ylim)


def tail(requests: Logs, by: str | None = None, *, xlim: Limits | None = None, ylim: Limits | None = None) -> Chart:
    """Draw where the time went: of all requests, and of those at and above p50, p90, p99 and p99.9."""
    return _chart(requests, "tail", by=by, xlim=xlim, ylim=ylim)


def split_by(requests: Logs, by: str = "route", *, xlim: Limits | None = None, ylim: Limits | None = None) -> Chart:
    """Draw the mean response time (s), divided, of the values of a column with the most seconds, slowest first."""
    return _chart(requests, "split_by", by=by, xlim=xlim, ylim=ylim)


def over_time(
    requests: Logs, by: str | None = None, *, xlim: Limits | None = None, ylim: Limits | None = None
) -> Chart:
    """Draw the mean response time (s) by arrival, divided; p99 as a dashed line."""
    return _chart(requests, "over_time", by=by, xlim=xlim, ylim=ylim)


def heatmap(
    requests: Logs,
    of: str = "response",
    by: str | None = None,
    *,
    xlim: Limits | None = None,
    ylim: Limits | None = None,
) -> Chart:
    """Draw requests by arrival and a time (s, logarithmic) as colours."""
    return _chart(requests, "heatmap", of=of, by=by, xlim=xlim, ylim=ylim)


def ridgeline(
    requests: Logs,
    by: str = "route",
    workers: Workers = None,
    *,
    xlim: Limits | None = None,
    ylim: Limits | None = None,
) -> Chart:
    """Draw one distribution of the response time (s, logarithmic) per value of a column.

    ``by``: also ``concurrency``, the requests at the backend on arrival, waiting or in service.
    """
    return _chart(requests, "ridgeline", by=by, workers=workers, xlim=xlim, ylim=ylim)


def hexbin(requests: Logs, by: str | None = None, *, xlim: Limits | None = None, ylim: Limits | None = None) -> Chart:
    """Draw queueing delay (s) against service time (s), both logarithmic, coloured by requests."""
    return _chart(requests, "hexbin", by=by, xlim=xlim, ylim=ylim)


def utilisation(
    requests: RequestsLike, workers: Workers = None, *, xlim: Limits | None = None, ylim: Limits | None = None
) -> Chart:
    """Draw the mean wait (s) of windows against the offered load per worker, with Allen–Cunneen and Erlang C."""
    return _chart(requests, "utilisation", workers=workers, xlim=xlim, ylim=ylim)


def blame(requests: RequestsLike, by: str = "route", workers: Workers = None) -> Chart:
    """Draw the matrix of victims (rows) and culprits (columns): the seconds that victims waited for culprits."""
    return _chart(requests, "blame", by=by, workers=workers)


def flow(requests: RequestsLike, by: str = "route", workers: Workers = None) -> Chart:
    """Draw ribbons from culprits, imbalance and dispatch (left) to victims (right), as thick as their seconds."""
    return _chart(requests, "flow", by=by, workers=workers)


def blame_over_time(
    requests: RequestsLike,
    by: str = "route",
    workers: Workers = None,
    *,
    xlim: Limits | None = None,
    ylim: Limits | None = None,
) -> Chart:
    """Draw the seconds waited per window, by account, at the end of the wait."""
    return _chart(requests, "blame_over_time", by=by, workers=workers, xlim=xlim, ylim=ylim)


def depth(
    requests: RequestsLike, workers: Workers = None, *, xlim: Limits | None = None, ylim: Limits | None = None
) -> Chart:
    """Draw requests in service and, on top of them, waiting over time; averages per window."""
    return _chart(requests, "depth", workers=workers, xlim=xlim, ylim=ylim)


def depth_on_arrival(
    requests: RequestsLike, workers: Workers = None, *, xlim: Limits | None = None, ylim: Limits | None = None
) -> Chart:
    """Draw arrivals (above) and their mean wait (s, below) by the number of requests waiting on arrival."""
    return _chart(requests, "depth_on_arrival", workers=workers, xlim=xlim, ylim=ylim)


def workers(
    requests: RequestsLike, workers: Workers = None, *, xlim: Limits | None = None, ylim: Limits | None = None
) -> Chart:
    """Draw a lane per worker over time, and above those of each backend a line per waiting request.

    Of many requests, the 300 around the deepest queue are drawn; split a window to draw others.
    """
    return _chart(requests, "workers", workers=workers, xlim=xlim, ylim=ylim)


def sequence(requests: RequestsLike, *, xlim: Limits | None = None, ylim: Limits | None = None) -> Chart:
    """Draw requests between client, nginx and worker, time (s) downwards; at most 40, around the deepest queue."""
    return _chart(requests, "sequence", xlim=xlim, ylim=ylim)


def goodput(
    requests: RequestsLike, by: str = "route", *, xlim: Limits | None = None, ylim: Limits | None = None
) -> Chart:
    """Draw requests per second, all and answered (above), and wasted worker seconds (below), at their end."""
    return _chart(requests, "goodput", by=by, xlim=xlim, ylim=ylim)


def whatif(
    requests: RequestsLike, workers: Workers = None, *, xlim: Limits | None = None, ylim: Limits | None = None
) -> Chart:
    """Draw the p99 of the response time (s) for each change."""
    return _chart(requests, "whatif", workers=workers, xlim=xlim, ylim=ylim)


def whatif_responses(
    requests: RequestsLike, workers: Workers = None, *, xlim: Limits | None = None, ylim: Limits | None = None
) -> Chart:
    """Draw the share of requests above a response time (s): measured, replayed, changed."""
    return _chart(requests, "whatif_responses", workers=workers, xlim=xlim, ylim=ylim)


def capacity(
    requests: RequestsLike, slo: float = SLO, *, xlim: Limits | None = None, ylim: Limits | None = None
) -> Chart:
    """Draw the p99 of the response time (s) of windows against arrivals per second."""
    return _chart(requests, "capacity", slo=slo, xlim=xlim, ylim=ylim)


def throughput(
    requests: RequestsLike, slo: float = SLO, *, xlim: Limits | None = None, ylim: Limits | None = None
) -> Chart:
    """Draw completed requests per second against mean requests in system, with the scalability law."""
    return _chart(requests, "throughput", slo=slo, xlim=xlim, ylim=ylim)


def clock(requests: RequestsLike, *, xlim: Limits | None = None, ylim: Limits | None = None) -> Chart:
    """Draw the offset of each clock from nginx's (ms) over time, with its bounds."""
    return _chart(requests, "clock", xlim=xlim, ylim=ylim)
