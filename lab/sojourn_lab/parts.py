"""What a run is made of while it goes on: what is planned, what was measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sojourn_lab.analyses.recorded import Recorded
from sojourn_lab.case import Case
from sojourn_lab.disturbance import Disturbance
from sojourn_lab.document import Captured
from sojourn_lab.interrupts import Interrupts
from sojourn_lab.kinds.stage import Outcome
from sojourn_lab.plan import Plan, Summary, Window
from sojourn_lab.progress import Watcher
from sojourn_lab.run_folder import RunFolder
from sojourn_lab.runtime import Runtime, RuntimeMaker
from sojourn_lab.scenario import Scenario


@dataclass(frozen=True)
class Planned:
    """One case of one round: `name` is what the log calls it, `number` its place among the scenario's cases."""

    case: Case
    number: int
    round: int
    name: str


@dataclass(frozen=True)
class Measured:
    """One case of one round as it was measured, before anything was worked out.

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
        """What the client intended, sent and got; None where nothing tells."""
        if self.outcome is not None:
            return self.outcome.client_log
        return Path(self.plan.client_log) if self.plan is not None else None


@dataclass
class Parts:
    """What a run is made of while it goes on; `first_try`: why a first one was void."""

    scenario: Scenario
    folder: RunFolder
    interrupts: Interrupts
    watcher: Watcher
    make_runtime: RuntimeMaker
    first_try: list[str] = field(default_factory=list)
    runtimes: list[Runtime] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    captures: list[Captured] = field(default_factory=list)

    @cached_property
    def recorded(self) -> Recorded:
        """What was recorded beside the load; to be asked when all is measured."""
        return Recorded(self.folder.partial, [name for each in self.captures for name in each.files])

    @property
    def external(self) -> bool:
        """Whether somebody else's servers were asked, of which nothing but the answers is known."""
        return any(runtime.kind == "external" for runtime in self.runtimes)

    @property
    def access_log(self) -> Path:
        """nginx's log of the whole run."""
        return self.folder.partial / "access.jsonl"

    @property
    def listen_log(self) -> Path:
        """The depth of every accept queue."""
        return self.folder.partial / "listen.jsonl"
