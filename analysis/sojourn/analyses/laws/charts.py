"""Chart of wait against utilisation: windows as points, laws as curves."""

from __future__ import annotations

import numpy as np
import polars as pl

from sojourn.analyses.laws.analysis import StationLaws
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import inline
from sojourn.present.chart_sizes import HEIGHT, WIDTH
from sojourn.present.palette import QUEUEING, RESPONSE, SERVICE
from sojourn.present.section import Chart
from sojourn.queueing.theory import allen_cunneen_wait, mmc_wait

CURVE = 80
HIGHEST = 0.97  # of utilisation: the curves go to infinity
MEASURED, THEORY, POISSON = "measured, by window", "Allen–Cunneen", "Erlang C"


def wait_against_utilisation(stations: StationLaws) -> Chart:
    """Draw the windows of one station, and the laws with its service time, workers and burstiness."""
    station = stations.station
    service, workers = station.mean_service, station.workers
    top = max(HIGHEST, station.utilisation) if station.utilisation < 1 else HIGHEST
    curves = []
    for utilisation in np.linspace(0.01, top, CURVE):
        rate = utilisation * workers / service if service > 0 else 0.0
        general = allen_cunneen_wait(rate, service, workers, station.ca2, station.cs2)
        curves.append((float(utilisation), general, THEORY))
        curves.append((float(utilisation), mmc_wait(rate, service, workers), POISSON))
    lines = pl.DataFrame(curves, schema=["utilisation", "wait", "what"], orient="row")
    points = station.windows.with_columns(what=pl.lit(MEASURED))
    x = alt.X("utilisation:Q", title="offered load per worker, by window", axis=alt.Axis(format="%"))
    y = alt.Y("wait:Q", title="mean queueing delay (s)", axis=alt.Axis(format="~g"))
    scale = alt.Scale(domain=[MEASURED, THEORY, POISSON], range=[QUEUEING, SERVICE, RESPONSE])
    colour = alt.Color("what:N", title=None, scale=scale)
    tooltip = [alt.Tooltip("utilisation:Q", format=".0%"), alt.Tooltip("wait:Q", format=".4~f")]
    marks = (
        alt.Chart(inline(points))
        .mark_circle(size=30)
        .encode(x=x, y=y, color=colour, tooltip=[*tooltip, alt.Tooltip("requests:Q")])
    )
    dashes = alt.Scale(domain=[THEORY, POISSON], range=[[1, 0], [6, 3]])
    drawn = (
        alt.Chart(inline(lines))
        .mark_line(strokeWidth=2, clip=True)
        .encode(x=x, y=y, color=colour, strokeDash=alt.StrokeDash("what:N", legend=None, scale=dashes), tooltip=tooltip)
    )
    return alt.layer(drawn, marks).properties(width=WIDTH, height=HEIGHT)
