"""The cases of finished runs: their figures, looks and windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import msgspec
from sojourn_lab.errors import LabError
from sojourn_lab.results.run_schema import Run
from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.experiment_settings import Autoscale, Signal

from studies.autoscale.case import TIMELINE
from studies.page_output import run_of

SCENARIO = "autoscale"
LOADS = ("diurnal", "spiky")


@dataclass(frozen=True)
class Measured:
    """One measured case.

    Attributes:
        case: as the scenario describes it.
        settings: of its autoscaler.
        figures: as in run.json.
        windows, looks: of its timeline.
        void: reasons why its figures are not valid.
    """

    case: Case
    settings: Autoscale
    figures: dict[str, Any]
    windows: list[dict[str, Any]]
    looks: list[dict[str, Any]]
    void: list[str]


@dataclass(frozen=True)
class Measurement:
    """The measured cases of all runs by load and signal, and the last run."""

    cases: dict[str, dict[str, Measured]]
    run: Run


def measurement_of(folders: Sequence[Path]) -> Measurement:
    """Return the cases of the runs in the folders; of a case that several runs have, the last one that is not void.

    Raises:
        LabError: a folder has no run of the scenario, or no run has a case with figures.
    """
    cases: dict[str, dict[str, Measured]] = {load: {} for load in LOADS}
    run = None
    for folder in folders:
        run = run_of(folder, SCENARIO)
        for measured in _measured(folder, run):
            load, _, signal = measured.case.name.partition("-")
            earlier = cases.setdefault(load, {}).get(signal)
            if earlier is None or earlier.void or not measured.void:
                cases[load][signal] = measured
    if run is None or not any(cases.values()):
        raise LabError("no case of these runs has figures")
    ordered = {
        load: {name: signals[name] for name in get_args(Signal) if name in signals}
        for load, signals in cases.items()
        if signals
    }
    return Measurement(ordered, run)


def _measured(folder: Path, run: Run) -> list[Measured]:
    by_name = {case.name: case for case in run.scenario.cases}
    measured = []
    for result in run.cases:
        case = by_name.get(result.base)
        path = folder / "logs" / result.name / TIMELINE
        if case is None or case.autoscale is None or not path.exists():
            continue
        timeline = msgspec.json.decode(path.read_bytes())
        measured.append(
            Measured(case, case.autoscale, result.figures, timeline["windows"], timeline["looks"], result.void)
        )
    return measured
