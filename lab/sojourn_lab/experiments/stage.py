"""The place of one case that is not plain requests through nginx: its folder, its seed, its logs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.results.progress import Watcher
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.scenario.case import Case
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
