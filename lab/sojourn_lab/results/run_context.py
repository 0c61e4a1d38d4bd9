"""The state of a run in progress: its planned and its measured cases."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sojourn_lab.load.plan import Plan, Summary, Window
from sojourn_lab.measure.disturbance import Disturbance
from sojourn_lab.results.progress import Watcher
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.results.run_schema import Captured
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.runtime import Runtime, RuntimeMaker
from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.schema import Scenario


@dataclass(frozen=True)
class Planned:
    """One case of one round: `name` is its name in the log, `number` its position among the scenario's cases."""

    case: Case
    number: int
    round: int
    name: str


@dataclass(frozen=True)
class Outcome:
    """The result of one case.

    Attributes:
        since, until: the measured window, unix s.
        figures: plain values (as in JSON), by the names that criteria and columns use: `figures.<name>`.
        void: reasons, as sentences, why the figures describe the generator and not the system.
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


@dataclass(frozen=True)
class Measured:
    """One measured case of one round, before its analysis.

    `plan` and `summary` are None, and `outcome` is not, for a case that is not requests through nginx. `disturbance` is
    None for a case that was skipped.
    """

    planned: Planned
    window: Window
    plan: Plan | None = None
    summary: Summary | None = None
    outcome: Outcome | None = None
    disturbance: Disturbance | None = None

    @property
    def client_log(self) -> Path | None:
        """The client's log of intended, sent and answered requests; None where there is none."""
        if self.outcome is not None:
            return self.outcome.client_log
        return Path(self.plan.client_log) if self.plan is not None else None


@dataclass
class RunContext:
    """The state of a run in progress; `first_try`: why a first one was void."""

    scenario: Scenario
    folder: RunFolder
    interrupts: Interrupts
    watcher: Watcher
    make_runtime: RuntimeMaker
    first_try: list[str] = field(default_factory=list)
    runtimes: list[Runtime] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    captures: list[Captured] = field(default_factory=list)

    @property
    def external(self) -> bool:
        """Whether the servers are not the lab's, so that only their answers are known."""
        return any(runtime.kind == "external" for runtime in self.runtimes)

    @property
    def access_log(self) -> Path:
        """The access log of nginx of the whole run."""
        return self.folder.partial / "access.jsonl"

    @property
    def listen_log(self) -> Path:
        """The log of the depths of every accept queue."""
        return self.folder.partial / "listen.jsonl"
