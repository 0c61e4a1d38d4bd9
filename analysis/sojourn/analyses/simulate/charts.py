"""Chart of the waits of a simulation and of theory, with a few hundred points for any number of requests."""

from __future__ import annotations

import numpy as np

from sojourn.analyses.simulate.analysis import SimulationResult
from sojourn.present.chart_libraries import alt
from sojourn.present.palette import QUEUEING, RESPONSE
from sojourn.queueing.theory import mmc_wait_exceeds

WIDTH = 640
HEIGHT = 260
POINTS = 240
SIMULATED, THEORY = "simulated", "theory"


def wait_chart(result: SimulationResult) -> alt.Chart:
    """Draw the share of requests that wait longer than a time, on a log axis: exponential tails are straight lines."""
    domain = [SIMULATED, THEORY]
    return (
        alt.Chart(alt.InlineData(values=wait_points(result)))
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("seconds:Q", title="wait (s)"),
            y=alt.Y(
                "exceeding:Q",
                title="share of requests that wait longer",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(tickCount=6, format="~%"),
            ),
            color=alt.Color("source:N", title=None, scale=alt.Scale(domain=domain, range=[QUEUEING, RESPONSE])),
            strokeDash=alt.StrokeDash("source:N", title=None, scale=alt.Scale(domain=domain, range=[[1, 0], [4, 3]])),
            tooltip=[
                alt.Tooltip("source:N"),
                alt.Tooltip("seconds:Q", title="longer than (s)", format=".4~f"),
                alt.Tooltip("exceeding:Q", title="share", format=".3%"),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )


def wait_points(result: SimulationResult) -> list[dict[str, object]]:
    """Return rows of source, seconds, exceeding: exact points of both tails, evenly spaced in the log of the share."""
    waits = np.sort(result.waits())
    n = len(waits)
    if not n:
        return []
    shares = np.geomspace(1, 1 / n, POINTS)
    at = waits[np.minimum((n * (1 - shares)).astype(np.int64), n - 1)]
    seconds = np.unique(at)
    exceeding = 1 - np.searchsorted(waits, seconds, side="right") / n
    points = [_point(SIMULATED, s, e) for s, e in zip(seconds, exceeding, strict=True) if e > 0]
    if result.theory and result.theory.wait:
        rate, workers = 1 / result.arrivals.mean, sum(result.system.workers)
        line = np.linspace(0, float(seconds[-1]), POINTS).tolist()
        points += [_point(THEORY, s, mmc_wait_exceeds(rate, result.service.mean, workers, s)) for s in line]
    return points


def _point(source: str, seconds: float, exceeding: float) -> dict[str, object]:
    return {"source": source, "seconds": float(f"{seconds:.6g}"), "exceeding": float(f"{exceeding:.6g}")}
