"""The place of one case that is not plain requests through nginx: its folder, its seed, its logs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.load.plan import Plan
from sojourn_lab.results.progress import Watcher
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.load import AnyLoad, Distribution
from sojourn_lab.scenario.schema import Scenario
from sojourn_lab.scenario.topology import Topology


@dataclass(frozen=True)
class Stage:
    """What one case of one round is given.

    Attributes:
        scenario, case, topology: as the file says, scaled already.
        name: of the case in this run: what `service` is in the log. Different for every round.
        seed: the seeds of its random numbers.
        folder: of the run, still under its temporary name.
        logs: for what the processes of this case say; its own.
        access_log: where nginx appends, if it takes part.
        interrupts: shield starts and stops with `interrupts.shielded()`.
        watcher: called with the progress.
    """

    scenario: Scenario
    case: Case
    topology: Topology
    name: str
    seed: list[int]
    folder: Path
    logs: Path
    access_log: Path
    interrupts: Interrupts
    watcher: Watcher

    def plan(self, load: AnyLoad, service_time: float, distribution: Distribution = "constant") -> Plan:
        """Return the plan of the case's generator, without the address, which is not known yet.

        Args:
            load: the load to offer.
            service_time: mean, s.
            distribution: of the service times.
        """
        return Plan(
            case=self.name,
            url="",
            seed=self.seed,
            load=load,
            service_time=service_time,
            distribution=distribution,
            warmup=self.scenario.warmup,
            duration=self.scenario.duration_of(self.case),
            timeout=self.scenario.timeout_of(self.case),
            client_log=str(self.logs / "client.jsonl"),
            summary=str(self.logs / "summary.json"),
        )
