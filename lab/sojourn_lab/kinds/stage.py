"""Where an experiment of another kind works, and what it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sojourn_lab.case import Case
from sojourn_lab.interrupts import Interrupts
from sojourn_lab.progress import Watcher
from sojourn_lab.scenario import Scenario
from sojourn_lab.topology import Topology


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
        watcher: to be told how far it is.
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


@dataclass(frozen=True)
class Outcome:
    """What one case came to.

    Attributes:
        since, until: the measured window, unix s.
        figures: plain values (as JSON has them), by the names that criteria and columns use: `figures.<name>`.
        void: in sentences, why the figures say more about the generator than about the system.
        spin_up, tear_down: s.
        client_log, spans: files of JSON lines that become part of client.jsonl and spans.jsonl.
    """

    since: float
    until: float
    figures: dict[str, Any]
    void: list[str] = field(default_factory=list)
    spin_up: float = 0.0
    tear_down: float = 0.0
    client_log: Path | None = None
    spans: list[Path] = field(default_factory=list)
