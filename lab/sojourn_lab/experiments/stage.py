"""The place of one case that is not plain requests through nginx: its folder, its seed, its logs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.load.plan import Plan
from sojourn_lab.results.progress import Watcher
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.process import Process
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
        """Return the plan of the case's generator, without its address, which is not known yet; service times in s."""
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

    def run_to_end(
        self,
        command: list[str],
        name: str,
        seconds: float,
        margin: float,
        what: str,
        *,
        is_load: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Run a process of the case to its end, and show its progress.

        Args:
            command: of the process.
            name: of its logs.
            seconds: its expected duration.
            margin: seconds that it may take beyond them.
            what: the end, for the error.
            is_load: it is a generator of load, not a server.
            meanwhile: called again and again until the end.

        Raises:
            LabError: the process fails or takes too long; with its last output.
        """
        process = Process(command, name=name, folder=self.logs)
        try:
            with self.interrupts.shielded():
                process.start()
                if is_load:
                    process.mark_as_load()
            before = time.monotonic()

            def ended() -> bool:
                if meanwhile is not None:
                    meanwhile()
                self.watcher.elapsed(min(time.monotonic() - before, seconds))
                return process.exit_code() == 0

            process.wait_until(ended, seconds + margin, what)
        finally:
            with self.interrupts.shielded():
                process.stop()
