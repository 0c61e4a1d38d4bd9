"""The pictures of the explanation page: a backend that the method accepts, and one that it refuses."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from sojourn.analyses.infer.analysis import service_by_depth
from sojourn.analyses.infer.charts import service_against_depth
from sojourn.components.inferred.backends import BackendInference
from sojourn.estimation.engine import infer
from sojourn.estimation.inferred import STAMP_ERROR
from sojourn.estimation.likelihood import Queue, searched
from sojourn.present.chart_libraries import alt
from sojourn.present.drawing import specification, svg
from sojourn.present.palette import QUEUEING, SERVICE

from studies.inference import simulators as simulate
from studies.inference.simulators import Logged

REQUESTS, WORKERS, UTILISATION, SEED = 12_000, 4, 0.85, 3
PANEL = 380  # px
NUMBERS = range(1, 9)


def write_pictures(folder: Path) -> None:
    """Write ``inferred-service.svg`` and ``inferred-workers.svg``."""
    rng = np.random.default_rng(SEED)
    service, routes = simulate.services(rng, REQUESTS, "routes")
    arrival = simulate.poisson(rng, service, WORKERS, UTILISATION)
    served = simulate.logged(rng, arrival, simulate.first_come(arrival, service, WORKERS), routes)
    shared = simulate.logged(rng, arrival, simulate.processor_sharing(arrival, service, WORKERS), routes)
    panels = alt.hconcat(
        _panel(served, "First come, first served: flat"), _panel(shared, "Four processors shared by all: not flat")
    )
    for name, chart in (("inferred-service", panels), ("inferred-workers", _likelihood(served))):
        (folder / f"{name}.svg").write_text(svg(specification(chart)), encoding="utf-8")


def _panel(log: Logged, title: str) -> alt.LayerChart:
    result = infer(log.arrival, log.departure, log.routes)
    backend = BackendInference("", len(log.arrival), 0, 0, {}, {}, result, datetime.fromtimestamp(0, UTC))
    return service_against_depth(service_by_depth(backend)).properties(width=PANEL, title=title)


def _likelihood(log: Logged) -> alt.LayerChart:
    order = np.argsort(log.arrival, kind="stable")
    queue = Queue.of(log.arrival[order], log.departure[order], log.routes[order], STAMP_ERROR)
    likelihood = searched(queue, NUMBERS[0], NUMBERS[-1])
    totals = dict(zip(likelihood.workers.tolist(), likelihood.blocks.sum(axis=1).tolist(), strict=True))
    best = max(totals.values())
    rows = [
        {"workers": number, "deficit": round(best - total), "best": total == best}
        for number, total in sorted(totals.items())
        if number in NUMBERS and best - total < 1e6
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("workers:O", title="number of workers", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("deficit:Q", title="less likely by (nats)", scale=alt.Scale(zero=True)),
    )
    colour = alt.condition("datum.best", alt.value(QUEUEING), alt.value(SERVICE))
    return (
        base.mark_bar().encode(color=colour) + base.mark_text(dy=-6).encode(text=alt.Text("deficit:Q", format=","))
    ).properties(width=2 * PANEL, height=200)
