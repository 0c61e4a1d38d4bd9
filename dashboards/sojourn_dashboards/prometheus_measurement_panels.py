"""Panels on the measurement itself: sources of the queueing delay, clocks, logs, labels."""

from __future__ import annotations

from typing import Any

from sojourn_dashboards import prometheus_queries as queries
from sojourn_dashboards.panels import lines

NO_EXPORTER = "no exporter in this range"


def measurement_panels() -> list[Any]:
    """Return the panels, three to a row."""
    return [
        lines(
            queries.SOURCES,
            "Known from",
            "Proxied requests per second by the source of their queueing delay: stamp, span, duration or none.",
            "reqps",
            empty="no request in this range",
            width=8,
            stacked=True,
        ),
        lines(
            queries.NEGATIVES,
            "Negative queueing delays",
            "Share of the queueing delays at a backend that are negative: the clocks differ by more than the known "
            "offset.",
            "percentunit",
            empty="no queueing delay is negative in this range",
            width=8,
        ),
        lines(
            queries.CLOCKS,
            "Clock offset",
            "The app's clock less nginx's, and half the width of the interval that contains it. Queueing delays "
            "by the stamp are corrected by the offset.",
            "s",
            empty="no clock offset could be estimated in this range",
            width=8,
        ),
        lines(
            queries.LAG,
            "Log lag",
            "Least time between the end of a request and the reading of its record; age of the latest record; age "
            "of the state, which is complete only after the slowest recent request ended.",
            "s",
            empty=NO_EXPORTER,
            width=8,
        ),
        lines(
            queries.UNREAD,
            "Unread",
            "Bytes of a log that were written and not read yet. A line that rises: the exporter is too slow. Lost: of "
            "files that could not be opened before they were replaced, in the interval.",
            "bytes",
            empty=NO_EXPORTER,
            width=8,
        ),
        lines(
            queries.LINES,
            "Lines",
            "Lines per second: read, refused by reason, and records delivered more than once, which count once.",
            "reqps",
            empty=NO_EXPORTER,
            width=8,
        ),
        lines(
            queries.LOGS,
            "Missing and rotated logs",
            "1 while a log does not exist, or cannot be opened; rotations in the interval.",
            "none",
            empty=NO_EXPORTER,
            width=8,
        ),
        lines(
            queries.OTHER_LABELS,
            "Counted as other",
            "Requests per second counted under the value other, by the label that has too many values.",
            "reqps",
            empty="no label has too many values in this range",
            width=8,
        ),
        lines(
            queries.WINDOW_REQUESTS,
            "Held for the gauges",
            "Requests that an exporter holds in memory for the gauges of state and workers.",
            "locale",
            empty=NO_EXPORTER,
            width=8,
        ),
    ]
