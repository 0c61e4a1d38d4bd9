"""One case of a collector: start it, offer heartbeats and reads, drain the channel, compute the figures."""

from __future__ import annotations

import sys

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.collector.figures import Acknowledged, Sample, capacity_of, case_figures, rows_in
from sojourn_lab.experiments.collector.plan import BEAT_SECONDS, Offered, Traffic
from sojourn_lab.experiments.collector.system import System
from sojourn_lab.experiments.stage import Stage
from sojourn_lab.load.plan import ClientRecord
from sojourn_lab.results.run_context import Outcome
from sojourn_lab.scenario.experiment_settings import Collector
from sojourn_lab.scenario.load import PoissonLoad

MARGIN = 30.0
"""Seconds that the generator and the channel may exceed the plan."""


class StoredEvent(msgspec.Struct, frozen=True):
    """An event as the broker stored it."""

    id: str


def run_case(stage: Stage) -> Outcome:
    """Measure one case; LabError if that is not possible."""
    settings = stage.case.collector
    if settings is None:
        raise LabError(f"case {stage.case.name} has no collector settings")
    traffic = traffic_of(stage, settings)
    plan = traffic.plan
    with System(stage, settings) as system:
        plan = msgspec.structs.replace(plan, url=system.url)
        path = stage.logs / "plan.json"
        path.write_bytes(msgspec.json.encode(msgspec.structs.replace(traffic, plan=plan)))
        command = [sys.executable, "-m", "sojourn_lab.experiments.collector.generator", str(path)]
        seconds = plan.warmup + plan.duration
        stage.run_to_end(command, "generator", seconds, plan.timeout + MARGIN, f"the load of case {stage.name} to end")
        # Events in the channel at the end belong to the window in which they were sent: they are the slowest.
        system.drain((settings.channel + settings.consumers * settings.batch) / capacity_of(settings) + MARGIN)
    offered_load = msgspec.json.decode((stage.logs / "summary.json").read_bytes(), type=Offered)
    window = offered_load.heartbeats.window
    client_log = stage.logs / "client.jsonl"
    figures = case_figures(
        settings,
        window,
        rows_in(client_log, ClientRecord),
        rows_in(system.acknowledged, Acknowledged),
        rows_in(system.samples, Sample),
        [each.id for each in rows_in(system.stored, StoredEvent)],
        offered_load.heartbeats,
        offered_load.reads,
    )
    return Outcome(
        since=window.since,
        until=window.until,
        figures=figures,
        void=offered_load.heartbeats.void,
        spin_up=system.spin_up,
        tear_down=system.tear_down,
        client_log=client_log,
    )


def traffic_of(stage: Stage, settings: Collector) -> Traffic:
    """Return the plan of the generator, without the address, which is not known yet."""
    plan = stage.plan(PoissonLoad(settings.rate), 0.0)
    viewers = max(1, round(settings.rate * BEAT_SECONDS))
    return Traffic(plan=plan, rate=settings.rate, read_rate=settings.read_rate, viewers=viewers)
