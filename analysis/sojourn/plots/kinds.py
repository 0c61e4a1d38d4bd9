"""The kinds of charts: description, analysis and picture of each."""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.model.groups import TIMES

SPLIT = "split"
OWN = "own"  # of no section
CONCURRENCY = "concurrency"  # a ridgeline by requests at the backend on arrival


@dataclass(frozen=True)
class Kind:
    """A kind of chart.

    Attributes:
        about: description in one line.
        section: the analysis of the picture: ``SPLIT``, ``OWN``, or the key of a section of the report.
        key: key of the picture.
        by: whether it can be grouped by a column.
        of: whether it can show another time than the response time.
    """

    about: str
    section: str
    key: str
    by: bool = False
    of: bool = False


KINDS = {
    "distribution": Kind("distribution of response times, bars divided by component", SPLIT, "distribution"),
    "ccdf": Kind("share of requests that take longer than a time, log-log", SPLIT, "ccdf"),
    "percentiles": Kind("time by percentile, each nine of equal width", SPLIT, "percentiles"),
    "tail": Kind("composition of all requests and of ever slower ones", SPLIT, "tail"),
    "split_by": Kind("mean response time of each value of a column, divided", SPLIT, "split-by", by=True),
    "over_time": Kind("mean response time by arrival, divided, and its p99", SPLIT, "time"),
    "heatmap": Kind("requests by arrival and time", SPLIT, "heatmap", of=True),
    "ridgeline": Kind("one distribution above another: by route, or by concurrency", SPLIT, "ridgeline", by=True),
    "hexbin": Kind("service time against queueing delay, in hexagons", SPLIT, "hexbin"),
    "utilisation": Kind("wait against utilisation, measured and predicted by queueing laws", "laws", "laws-0"),
    "blame": Kind("queueing seconds by victim and culprit, as a matrix", "blame", "blame-matrix", by=True),
    "flow": Kind("queueing seconds from cause to victim, as a flow", "blame", "blame-flow", by=True),
    "blame_over_time": Kind("queueing seconds over time, by cause", "blame", "blame-over-time", by=True),
    "depth": Kind("requests waiting and in service over time", "depth", "depth-over-time"),
    "depth_on_arrival": Kind("queue length on arrival, and the wait", "depth", "depth-on-arrival"),
    "workers": Kind("a lane per worker (Gantt), and the requests that waited", "depth", "workers"),
    "sequence": Kind("each request from the client through nginx to a worker and back", OWN, "sequence"),
    "goodput": Kind("throughput, goodput and wasted work over time", "goodput", "goodput-over-time", by=True),
    "whatif": Kind("p99 under each change", "whatif", "whatif-variants"),
    "whatif_responses": Kind("response times measured, replayed and changed", "whatif", "whatif-responses"),
    "capacity": Kind("p99 against the load, and the knee", "capacity", "capacity-objective-0"),
    "throughput": Kind("throughput against concurrency, with the scalability law", "capacity", "capacity-law"),
    "clock": Kind("offsets of the clocks over time", "clock", "clock-over-time"),
}

OF = TIMES
"""Times of a heatmap, and their columns."""
