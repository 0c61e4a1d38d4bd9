"""The cases of finished runs: their figures, looks and windows, with their repetitions."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
LOADS = ("diurnal", "spiky", "slow_start", "second")
SETTINGS = ("target", "factor", "signal_share")
"""Fields of the settings of which the scenario has lines."""

FLOOR = 0.3
"""The least share of requests within the objective with which a setting is a part of the front."""


@dataclass(frozen=True)
class Measured:
    """One measured case of one run.

    Attributes:
        case: as the scenario describes it.
        settings: of its autoscaler.
        seeds: of its requests: the seed of the scenario, that of the case, and the round.
        figures: as in run.json.
        windows, looks: of its timeline.
        fixed: of its timeline: for each fixed number of workers the share of the requests within the objective.
        void: reasons why its figures are not valid.
    """

    case: Case
    settings: Autoscale
    seeds: tuple[int, ...]
    figures: dict[str, Any]
    windows: list[dict[str, Any]]
    looks: list[dict[str, Any]]
    fixed: list[dict[str, float]]
    void: list[str]


@dataclass(frozen=True)
class Figure:
    """The mean of a figure over the repetitions, and its lowest and highest value."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Cell:
    """A signal with one setting under one load: the same case with different requests.

    Attributes:
        repetitions: at least one; the first has the smallest seeds.
    """

    repetitions: tuple[Measured, ...]

    @property
    def first(self) -> Measured:
        """The repetition with the smallest seeds."""
        return self.repetitions[0]

    @property
    def signal(self) -> Signal:
        """What its autoscaler goes by."""
        return self.first.settings.signal

    @property
    def setting(self) -> str:
        """The values of the settings that are not the default; empty if all are."""
        settings = self.first.settings
        defaults = Autoscale(settings.signal)
        if settings.signal_share == settings.share:  # written, and the default
            settings = msgspec.structs.replace(settings, signal_share=None)
        changed = (getattr(settings, name) for name in SETTINGS if getattr(settings, name) != getattr(defaults, name))
        hold = [f"hold {self.hold:g} s"] if self.hold != defaults.stabilisation else []
        return ", ".join([*(f"{value:g}" for value in changed), *hold])

    @property
    def hold(self) -> float:
        """For how long its autoscaler keeps the highest recommendation, s."""
        return self.first.settings.stabilisation

    @property
    def series(self) -> str:
        """The line that it is a point of: its signal, and the hold where that is not the default."""
        is_default = self.hold == Autoscale(self.signal).stabilisation
        return self.signal if is_default else f"{self.signal}, hold {self.hold:g} s"

    @property
    def value(self) -> float:
        """The value of the setting that the signal has a line of, for the order of its points; 0 without one."""
        settings = self.first.settings
        match settings.signal:
            case "queueing_delay":
                return settings.factor
            case "workers_needed" | "workers_live":
                return settings.gauge_share
            case "cpu" | "fixed_mean" | "fixed_peak":
                return 0.0
            case _:
                return settings.target

    @property
    def is_fixed(self) -> bool:
        """Whether it has no autoscaler."""
        return self.signal.startswith("fixed")

    @property
    def void(self) -> list[str]:
        """Why figures of it are not valid."""
        return [reason for each in self.repetitions for reason in each.void]

    @property
    def within(self) -> Figure:
        """The share of the requests within the objective."""
        return self.figure("within_share")

    @property
    def cost(self) -> Figure:
        """Worker-seconds, as a share of the yardstick's."""
        return self.figure("of_oracle")

    def figure(self, *path: str) -> Figure:
        """Return a figure over the repetitions; `path`: its keys. Without a value it is 0."""
        values = [_value(each.figures, path) for each in self.repetitions]
        return Figure(statistics.fmean(values), min(values), max(values))


def _value(figures: dict[str, Any], path: Sequence[str]) -> float:
    value: Any = figures
    for key in path:
        value = value[key]
    return 0.0 if value is None else float(value)


@dataclass(frozen=True)
class Point:
    """A setting in attainment and cost: the share of the requests within the objective, and the cost."""

    cell: Cell
    within: Figure
    cost: Figure


@dataclass(frozen=True)
class Measurement:
    """The measured cases of all runs, by load and by the rest of the case's name, and the last run."""

    cases: dict[str, dict[str, Cell]]
    run: Run

    def default(self, load: str, signal: Signal) -> Cell | None:
        """Return the cell of a signal with its default setting under a load; None if it was not measured."""
        cells = self.cases.get(load, {}).values()
        return next((cell for cell in cells if cell.signal == signal and not cell.setting), None)

    def lines(self, load: str) -> dict[str, list[Cell]]:
        """Return the cells of each series under a load, in the order of their settings."""
        lines: dict[str, list[Cell]] = {}
        for cell in self.cases.get(load, {}).values():
            if not cell.is_fixed:
                lines.setdefault(cell.series, []).append(cell)
        return {series: sorted(cells, key=lambda cell: cell.value) for series, cells in lines.items()}


def measurement_of(folders: Sequence[Path]) -> Measurement:
    """Return the cases of the runs in the folders.

    Of a case that several runs have with the same seeds, the last one that is not void; with other seeds it is a
    repetition, as are the rounds of a run. Of a case that was changed between two runs only the last form counts.

    Raises:
        LabError: a folder has no run of the scenario, no run has a case with figures, or the runs have other times.
    """
    cells: dict[str, dict[str, Cell]] = {load: {} for load in LOADS}
    run: Run | None = None
    for folder in folders:
        earlier, run = run, run_of(folder, SCENARIO)
        if earlier is not None and _times(run) != _times(earlier):
            raise LabError(
                f"{folder} has another scale, duration or warm-up than {folders[0]}: they cannot be compared"
            )
        for measured in _measured(folder, run):
            load, _, name = measured.case.name.partition("-")
            of_load = cells.setdefault(load, {})
            of_load[name] = merged(of_load.get(name), measured)
    if run is None or not any(cells.values()):
        raise LabError("no case of these runs has figures")
    signals = get_args(Signal)
    ordered = {
        load: dict(sorted(of_load.items(), key=lambda item: (signals.index(item[1].signal), item[1].value)))
        for load, of_load in cells.items()
        if of_load
    }
    return Measurement(ordered, run)


def _times(run: Run) -> tuple[float, float, float]:
    return run.scale, run.scenario.duration, run.scenario.warmup


def merged(cell: Cell | None, measured: Measured) -> Cell:
    """Return the cell with another measured case; it replaces one with the same seeds, unless it alone is void."""
    if cell is None or cell.first.case != measured.case:
        return Cell((measured,))
    by_seeds = {each.seeds: each for each in cell.repetitions}
    earlier = by_seeds.get(measured.seeds)
    if earlier is None or earlier.void or not measured.void:
        by_seeds[measured.seeds] = measured
    return replace(cell, repetitions=tuple(by_seeds[seeds] for seeds in sorted(by_seeds)))


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
            Measured(
                case,
                case.autoscale,
                (run.scenario.seed, case.seed or 0, result.round),
                result.figures,
                timeline["windows"],
                timeline["looks"],
                timeline["fixed"],
                result.void,
            )
        )
    return measured
