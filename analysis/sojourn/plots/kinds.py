"""The kinds of charts: description, analysis and picture of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sojourn.model.errors import ArgumentError
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
        panels: whether it can have a panel for each value of a column.
        logs: whether it can show several logs.
        band: whether its lines can have a confidence band.
    """

    about: str
    section: str
    key: str
    by: bool = False
    of: bool = False
    panels: bool = False
    logs: bool = False
    band: bool = False


_DISTRIBUTION = {"panels": True, "logs": True}
_CURVE = {**_DISTRIBUTION, "of": True, "band": True}

KINDS = {
    "distribution": Kind(
        "distribution of response times, bars divided by component", SPLIT, "distribution", **_DISTRIBUTION
    ),
    "ccdf": Kind("share of requests that take longer than a time, log-log", SPLIT, "ccdf", **_CURVE),
    "percentiles": Kind("time by percentile, each nine of equal width", SPLIT, "percentiles", **_CURVE),
    "tail": Kind("composition of all requests and of ever slower ones", SPLIT, "tail", **_DISTRIBUTION),
    "split_by": Kind("mean response time of each value of a column, divided", SPLIT, "split-by", by=True, logs=True),
    "over_time": Kind("mean response time by arrival, divided, and its p99", SPLIT, "time", **_DISTRIBUTION),
    "heatmap": Kind("requests by arrival and time", SPLIT, "heatmap", of=True, **_DISTRIBUTION),
    "ridgeline": Kind(
        "one distribution above another: by route, or by concurrency", SPLIT, "ridgeline", by=True, logs=True
    ),
    "hexbin": Kind("service time against queueing delay, in hexagons", SPLIT, "hexbin", **_DISTRIBUTION),
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

ABILITIES = {
    "by": ([name for name, each in KINDS.items() if each.by or each.panels], "cannot be divided by a column"),
    "of": ([name for name, each in KINDS.items() if each.of], "cannot be drawn of one time"),
    "band": ([name for name, each in KINDS.items() if each.band], "cannot have a confidence band"),
    "logs": ([name for name, each in KINDS.items() if each.logs], "cannot show several logs"),
}
"""Option -> the kinds of charts that have it, and what the others cannot do."""


def check_options(kind: str, options: Mapping[str, object]) -> None:
    """Check that a kind of chart has the options.

    Args:
        kind: one of ``KINDS``.
        options: ``by``, ``of``, ``band`` and ``logs`` with their values; None: not set.

    Raises:
        ArgumentError: it has not; the text names the kinds that have.
    """
    of = options["of"]
    if of is not None and of not in OF:
        raise ArgumentError(f"of: {of!r} is not one of {', '.join(OF)}")
    for option, (kinds, without) in ABILITIES.items():
        if options[option] is not None and kind not in kinds:
            raise ArgumentError(f"{option}: {kind} {without}; charts that can are {', '.join(kinds)}")
    if options["logs"] is not None and options["by"] == CONCURRENCY:
        raise ArgumentError("by: concurrency is of one log only")
