"""The kinds of charts: what each shows, and which picture of which analysis it is."""

from __future__ import annotations

from dataclasses import dataclass

SPLIT = "split"
OWN = "own"  # of no section
CONCURRENCY = "concurrency"  # what a ridgeline can be by, beside columns: requests at the backend on arrival


@dataclass(frozen=True)
class Kind:
    """A kind of chart.

    Attributes:
        about: what it shows, in a line.
        section: the analysis whose picture it is: ``SPLIT``, ``OWN``, or the key of a section of the report.
        key: of the picture.
        by: whether it can be divided by a column.
        of: whether it can be of another time than the response time.
    """

    about: str
    section: str
    key: str
    by: bool = False
    of: bool = False


KINDS = {
    "distribution": Kind("requests by response time, bars divided the way their time was", SPLIT, "distribution"),
    "ccdf": Kind("share of requests that take longer than a time, log-log", SPLIT, "ccdf"),
    "percentiles": Kind("time by percentile, each nine as wide as the one before", SPLIT, "percentiles"),
    "tail": Kind("what ever slower requests are made of", SPLIT, "tail"),
    "split_by": Kind("mean response time of each route or the like, divided", SPLIT, "split-by", by=True),
    "over_time": Kind("mean response time by arrival, divided, and its p99", SPLIT, "time"),
    "heatmap": Kind("requests by arrival and time", SPLIT, "heatmap", of=True),
    "ridgeline": Kind("one distribution above another: by route, or by concurrency", SPLIT, "ridgeline", by=True),
    "hexbin": Kind("service time against queueing delay, in hexagons", SPLIT, "hexbin"),
    "utilisation": Kind("wait against utilisation, measured and by the laws of queueing", "laws", "laws-0"),
    "blame": Kind("who waited for whom, as a matrix", "blame", "blame-matrix", by=True),
    "flow": Kind("who waited for whom, as a flow", "blame", "blame-flow", by=True),
    "blame_over_time": Kind(
        "seconds waited over time, by whom they are blamed on", "blame", "blame-over-time", by=True
    ),
    "depth": Kind("requests waiting and in service over time", "depth", "depth-over-time"),
    "depth_on_arrival": Kind("what arrivals found, and their wait", "depth", "depth-on-arrival"),
    "workers": Kind("a lane per worker (Gantt), and who waited for it", "depth", "workers"),
    "sequence": Kind("each request from the client through nginx to a worker and back", OWN, "sequence"),
    "goodput": Kind("throughput, goodput and wasted work over time", "goodput", "goodput-over-time", by=True),
    "whatif": Kind("p99 under each change", "whatif", "whatif-variants"),
    "whatif_responses": Kind("response times measured, replayed and changed", "whatif", "whatif-responses"),
    "capacity": Kind("p99 against the load, and the knee", "capacity", "capacity-objective-0"),
    "throughput": Kind("throughput against concurrency, with the scalability law", "capacity", "capacity-law"),
    "clock": Kind("offsets of the clocks over time", "clock", "clock-over-time"),
}

OF = {"response": "request_time", "queueing": "queueing_delay", "service": "service_time"}
"""What a heatmap can be of, and the column."""
