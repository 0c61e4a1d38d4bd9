"""Service time against queueing delay in hexagons: whether the requests that wait are those with long service."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from sojourn.analyses.split.charts import log_seconds
from sojourn.analyses.split.charts_heatmap import LEAST
from sojourn.model.measures import Hexagons, Measures
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import count_colour, inline
from sojourn.present.chart_sizes import WIDTH
from sojourn.present.limits import Limits, ends_of, limited
from sojourn.present.section import Chart

HEIGHT = 420
ACROSS = 40  # hexagons in a row
# The size of a chart, also of one of several, whose own signals have other names.
WIDE, HIGH = "range('x')[1]", "range('y')[0]"
PAIR = ("service_time", "queueing_delay")


@dataclass(frozen=True)
class Hexbin:
    """Requests by service time and queueing delay.

    Attributes:
        lattice: where the hexagons lie.
        table: columns service, queueing (a hexagon's centre, s), requests; hexagons without any are left out.
        longest: the longest service time and the longest queueing delay, s.
    """

    lattice: Hexagons
    table: pl.DataFrame
    longest: tuple[float, float]


def longest_pair(measures: Measures) -> tuple[float, float]:
    """Return the longest service time and the longest queueing delay, s."""
    service, queueing = (max(measures.quantiles(name, [1.0])[0] or 0.0, 2 * LEAST) for name in PAIR)
    return service, queueing


def hexbin(measures: Measures, longest: tuple[float, float] | None = None) -> Hexbin:
    """Count requests in hexagons that are regular on a chart of ``WIDTH`` by ``HEIGHT`` pixels.

    ``longest``: as from ``longest_pair``, to which the hexagons reach; None: those of the requests.
    """
    longest = longest or longest_pair(measures)
    ranges = [math.log(each / LEAST) for each in longest]
    wide = WIDTH / ACROSS
    # Rows of hexagons that stand on a corner are √3/2 of their width apart; a lattice has every other row.
    lattice = Hexagons(LEAST, ranges[0] / ACROSS, math.sqrt(3) * wide * ranges[1] / HEIGHT)
    table = measures.hexagons(lattice).select(
        (LEAST * (lattice.across * pl.col("across") / 2).exp()).alias("service"),
        (LEAST * (lattice.up * pl.col("up") / 2).exp()).alias("queueing"),
        "requests",
    )
    return Hexbin(lattice, table, longest)


def service_against_queueing(hexbin: Hexbin, limits: Mapping[str, Limits | None] | None = None) -> Chart:
    """Draw hexagons coloured by requests; on the dashed line the wait equals the service time.

    Args:
        hexbin: the hexagons.
        limits: of the axes ``x`` and ``y``, as for ``sojourn.present.limits.limited``; the hexagons grow with them.
    """
    limits = limits or {}
    lattice = hexbin.lattice
    # Half a hexagon of room on every side, and to the right and above as far as the last one reaches.
    domains = [
        [LEAST * math.exp(-step), each * math.exp(step)]
        for each, step in zip(hexbin.longest, (lattice.across, lattice.up), strict=True)
    ]
    for domain, channel in zip(domains, "xy", strict=True):
        for place, end in enumerate(ends_of(limits.get(channel), channel)):
            domain[place] = domain[place] if end is None else end
    spans = [math.log(high / low) for low, high in domains]
    x = alt.X("service:Q", title="service time (s)", **log_seconds(nice=False, domain=domains[0]))
    y = alt.Y("queueing:Q", title="queueing delay (s)", **log_seconds(nice=False, domain=domains[1]))
    shape = _hexagon(lattice.across / spans[0], lattice.up / spans[1])
    cells = (
        alt.Chart(inline(hexbin.table, digits=4))
        .mark_point(filled=True, opacity=1, strokeWidth=0, size=4, shape=alt.ExprRef(shape), clip=True)
        .encode(
            x=x,
            y=y,
            color=count_colour(),
            tooltip=[
                alt.Tooltip("service:Q", title="service time about (s)", format=".3~g"),
                alt.Tooltip("queueing:Q", title="queueing delay about (s)", format=".3~g"),
                alt.Tooltip("requests:Q", format=","),
            ],
        )
    )
    ends = [max(low for low, _ in domains), min(high for _, high in domains)]
    equal = (
        alt.Chart(alt.InlineData(values=[{"service": end, "queueing": end} for end in ends]))
        .mark_line(strokeDash=[4, 3], color="#808080")
        .encode(x=x, y=y)
    )
    drawn = (cells + equal).properties(width=WIDTH, height=HEIGHT)
    return limited(drawn, x=limits.get("x"), y=limits.get("y"))


def _hexagon(wide: float, high: float) -> str:
    """Return an expression for the outline of a hexagon on a corner, in pixels of a mark of size 4 (radius 1).

    It is computed from the final width and height of the chart, so that hexagons always meet.

    Args:
        wide: its width, in parts of the chart's width.
        high: two rows of them, which is 3/2 of a hexagon's height, in parts of the chart's height.
    """
    side, top = f"({wide / 2!r} * {WIDE})", f"({high / 3!r} * {HIGH})"
    half = f"({high / 6!r} * {HIGH})"
    right = [("0", f"-{top}"), (side, f"-{half}"), (side, half)]
    left = [("0", top), (f"-{side}", half), (f"-{side}", f"-{half}")]
    path = " + 'L' + ".join(f"{x} + ',' + {y}" for x, y in right + left)
    return f"'M' + {path} + 'Z'"
