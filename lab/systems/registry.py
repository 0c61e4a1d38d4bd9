"""The kinds of systems by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from systems.log import write_log, write_spans
from systems.requests import AS_IT_IS
from systems.truth import Facts, Simulation, Truth


@dataclass(frozen=True)
class Kind:
    """A kind of system: its name, its theme, its simulation and the facts about it."""

    name: str
    theme: str
    simulation: Simulation
    facts: Facts

    def written(self, folder: Path) -> tuple[Path, Path | None, Truth]:
        """Simulate the system and write its log; return the log, the spans if there are any, and the truth."""
        truth = Truth(self.simulation, self.facts)
        log = folder / f"{self.name}.jsonl"
        write_log(log, truth.served(AS_IT_IS).requests)
        if not self.facts.spans:
            return log, None, truth
        spans = folder / f"{self.name}-spans.jsonl"
        write_spans(spans, truth.served(AS_IT_IS).requests, self.facts.spans)
        return log, spans, truth


KINDS: dict[str, Kind] = {}


def kind(name: str, facts: Facts) -> Callable[[Simulation], Simulation]:
    """Register a simulation as a kind of system; its theme is the module that defines it."""

    def register(simulation: Simulation) -> Simulation:
        KINDS[name] = Kind(name, simulation.__module__.rpartition(".")[2], simulation, facts)
        return simulation

    return register
