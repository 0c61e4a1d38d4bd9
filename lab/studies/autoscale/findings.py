"""The findings of the page: each sentence follows from the figures of the runs, or is left out."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from sojourn.model.formatting import counted, formatted, listed

from studies.autoscale.other_controllers import REAL_STABILISATION, STABLE_WINDOW
from studies.autoscale.recorded import FLOOR, Cell, Figure, Measurement
from studies.autoscale.simulated import SimulatedSetting

COMPARED_LOADS = ("diurnal", "spiky")
"""Loads under which the signals have lines of settings."""


def findings(measurement: Measurement, simulated: Mapping[str, Sequence[SimulatedSetting]]) -> list[str]:
    """Return what the runs, and the simulated settings of each load, show, in Markdown, an item each."""
    return [
        *_idle_processor(measurement),
        *_fronts(measurement),
        *_same_attainment(measurement),
        *_certain(simulated),
        *_fixed(measurement),
        *_late_gauge(measurement),
        *_absent_gauge(measurement),
        *_startups(measurement),
        *_slow_start(measurement),
        *_second(measurement),
        *_spread(measurement),
    ]


def name_of(cell: Cell) -> str:
    """Return the signal, and its setting where that is not the default."""
    return f"`{cell.signal}`" + (f" ({cell.setting})" if cell.setting else "")


def share_text(figure: Figure, spec: str = ".0%") -> str:
    """Return the mean, and the range over the repetitions if there are any that differ."""
    text = formatted(figure.mean, spec)
    if figure.low == figure.high:
        return text
    return f"{text} ({formatted(figure.low, spec)} to {formatted(figure.high, spec)})"


def result_of(cell: Cell) -> str:
    """Return what a cell attains and what it costs."""
    return f"{share_text(cell.within)} of the requests for {share_text(cell.cost)}"


def front(cells: list[Cell]) -> list[Cell]:
    """Return the cells to which no other one is better in attainment or cost, and as good in both; cheapest first."""

    def better(one: Cell, other: Cell) -> bool:
        gains = (one.within.mean - other.within.mean, other.cost.mean - one.cost.mean)
        return min(gains) >= 0.0 and max(gains) > 0.0

    best = [cell for cell in cells if not any(better(other, cell) for other in cells)]
    return sorted(best, key=lambda cell: cell.cost.mean)


def _autoscaled(measurement: Measurement, load: str) -> list[Cell]:
    return [cell for cell in measurement.cases.get(load, {}).values() if not cell.is_fixed]


def _compared(measurement: Measurement) -> Iterator[tuple[str, list[Cell]]]:
    for load in COMPARED_LOADS:
        cells = _autoscaled(measurement, load)
        if len({cell.signal for cell in cells}) > 1:
            yield load, cells


def _idle_processor(measurement: Measurement) -> Iterator[str]:
    cells = [cell for load in measurement.cases if (cell := measurement.default(load, "cpu")) is not None]
    if cells and all(cell.figure("workers", "most").high <= cell.first.settings.minimum for cell in cells):
        yield (
            f"**A target of {cells[0].first.settings.target:g} of a core per worker is never reached**: the app sleeps,"
            f" and with `cpu` the number of workers is the minimum of {cells[0].first.settings.minimum} all the time."
        )


def _fronts(measurement: Measurement) -> Iterator[str]:
    for load, cells in _compared(measurement):
        best = front([cell for cell in cells if cell.within.mean >= FLOOR])
        if best:
            yield (
                f"**{_title(load)}: no other measured setting is both better and cheaper than** "
                + "; ".join(f"{name_of(cell)}, {result_of(cell)}" for cell in best)
                + f". Settings with less than {FLOOR:.0%} of the requests within the objective are left out."
            )


def _same_attainment(measurement: Measurement) -> Iterator[str]:
    for load, _ in _compared(measurement):
        live = measurement.default(load, "workers_live")
        if live is None:
            continue
        costs, never = [], []
        for series, line in measurement.lines(load).items():
            if line[0].signal == "workers_live":
                continue
            enough = [cell for cell in line if cell.within.mean >= live.within.mean]
            if not enough:
                never.append(f"`{series}`")
                continue
            cheapest = min(enough, key=lambda cell: cell.cost.mean)
            more = cheapest.cost.mean / live.cost.mean - 1.0
            costs.append(f"{name_of(cheapest)} {formatted(abs(more), '.0%')} {'more' if more >= 0.0 else 'less'}")
        text = f"**{_title(load)}, at least the attainment of `workers_live`** ({result_of(live)})"
        parts = [f"costs with the cheapest measured setting of {listed(costs)}"] if costs else []
        parts += [f"is not attained by any measured setting of {listed(never)}"] if never else []
        if parts:
            yield f"{text} {', and '.join(parts)}."


def _certain(simulated: Mapping[str, Sequence[SimulatedSetting]]) -> Iterator[str]:
    """Yield which settings are better and cheaper beyond what chance explains."""
    for load, settings in simulated.items():
        own = [each for each in settings if each.cell.signal == "workers_live"]
        others = [each for each in settings if each.cell.signal != "workers_live"]
        if not own or not others:
            continue
        worse = [each for each in others if any(one.is_better(each) for one in own)]
        ahead = [(each, one) for each in others for one in own if each.is_better(one)]
        text = (
            f"**{_title(load)}, simulated**: a setting of `workers_live` is better or cheaper beyond chance, and not"
            f" worse in the other, than {len(worse)} of {counted(len(others), 'setting')} of other signals; "
        )
        if ahead:
            pairs = [f"{name_of(each.cell)} than {name_of(one.cell)}" for each, one in ahead]
            yield f"{text}in this sense better are {listed(pairs)}{_by_hold(ahead)}."
        else:
            yield f"{text}none of these is better in this sense than a setting of it."


def _by_hold(ahead: Sequence[tuple[SimulatedSetting, SimulatedSetting]]) -> str:
    """Return why the first of each pair is better: it holds its number for a shorter time; empty if any does not."""

    def seconds(each: SimulatedSetting) -> float:
        time_scale = each.cell.hold / REAL_STABILISATION
        return STABLE_WINDOW * time_scale if each.cell.signal == "knative" else each.cell.hold

    shorter = all(seconds(each) < seconds(one) for each, one in ahead)
    return "; each of these holds its highest number for a shorter time" if shorter else ""


def _fixed(measurement: Measurement) -> Iterator[str]:
    texts = []
    for load in COMPARED_LOADS:
        cell = next(iter(measurement.cases.get(load, {}).values()), None)
        if cell is None:
            continue
        one = cell.first
        oracle = one.figures["oracle"]["mean"]
        enough = [each for each in one.fixed if each["within_share"] >= one.settings.share]
        if enough:
            least = min(enough, key=lambda each: each["workers"])
            texts.append(
                f"{load} {least['workers']:g} workers for {formatted(least['workers'] / oracle, '.0%')} of the"
                " yardstick's worker-seconds"
            )
    if texts:
        yield f"**The least fixed number that holds the objective** (replayed): {listed(texts)}."


def _late_gauge(measurement: Measurement) -> Iterator[str]:
    cells = [cell for load in measurement.cases if (cell := measurement.default(load, "workers_needed")) is not None]
    ages = [look["age"] for cell in cells for look in cell.first.looks if look["age"] is not None]
    if ages:
        yield (
            f"**The gauge of method `replay` is as of {formatted(statistics.median(ages), '.1f')} s before the look**"
            " (median): a request is in the log when it ends."
        )


def _absent_gauge(measurement: Measurement) -> Iterator[str]:
    cells = [cell for of_load in measurement.cases.values() for cell in of_load.values()]
    runs = [each for cell in cells if cell.signal == "workers_live" for each in cell.repetitions]
    absent = sum(each.figures["looks_without_value"] for each in runs)
    looks = sum(each.figures["looks"] for each in runs)
    if absent:
        reasons = sorted(
            {look["refused"] for each in runs for look in each.looks if look["refused"] and look["time"] >= 0}
        )
        why = f"; reasons that the exporter published: {listed(reasons)}" if reasons else ""
        yield f"**The gauge of method `live` was absent** at {absent} of {counted(looks, 'look')}{why}."


def _startups(measurement: Measurement) -> Iterator[str]:
    cells = [cell for load in COMPARED_LOADS for cell in _autoscaled(measurement, load)]
    figures = [each.figures.get("startup") or {} for cell in cells for each in cell.repetitions]
    medians = [each["median"] for each in figures if each.get("median") is not None]
    if medians:
        usual, most = (formatted(each, ".2f") for each in (statistics.median(medians), max(medians)))
        yield (
            f"**A new worker needed {usual} s** from its start to its first request (median of the cases; up to"
            f" {most} s in one): workers that start at the same time share the cores of the machine."
        )


def _slow_start(measurement: Measurement) -> Iterator[str]:
    cells = _autoscaled(measurement, "slow_start")
    if not cells:
        return
    loading = cells[0].first.case.topology.loading or 0.0
    text = listed([f"{name_of(cell)} {result_of(cell)}" for cell in cells])
    fixed = measurement.default("slow_start", "fixed_peak")
    if fixed is not None and (worse := [cell for cell in cells if cell not in front([fixed, cell])]):
        names = listed([name_of(cell) for cell in worse])
        text += f". {name_of(fixed)}, {result_of(fixed)}, is better and cheaper than {names}"
    yield f"**Where the app takes {loading:g} s to load**: {text}."


def _second(measurement: Measurement) -> Iterator[str]:
    for cell in _autoscaled(measurement, "second"):
        alone = measurement.cases.get("spiky", {}).get(cell.signal)
        if alone is not None:
            points = 100.0 * (cell.within.mean - alone.within.mean)
            yield (
                f"**With a second service of {cell.first.settings.beside:g} requests a second behind the same nginx**"
                f" {name_of(cell)} holds {result_of(cell)}, {formatted(abs(points), '.1f')} percentage points"
                f" {'more' if points >= 0.0 else 'less'} than without it."
            )


def _spread(measurement: Measurement) -> Iterator[str]:
    cells = [cell for of_load in measurement.cases.values() for cell in of_load.values() if len(cell.repetitions) > 1]
    single = sum(len(cell.repetitions) == 1 for of_load in measurement.cases.values() for cell in of_load.values())
    if not cells:
        yield "**One run per case**: the differences between runs of one case are unknown."
        return
    within = max(cell.within.high - cell.within.low for cell in cells)
    cost = max(cell.cost.high - cell.cost.low for cell in cells)
    yield (
        f"**Repetitions with other requests** ({counted(len(cells), 'case')}) differ by up to"
        f" {formatted(100.0 * within, '.1f')} percentage points within the objective and"
        f" {formatted(100.0 * cost, '.0f')} of cost. Ranges are those of the repetitions"
        + (f"; {counted(single, 'case')} had one run." if single else ".")
    )


def _title(load: str) -> str:
    return load.replace("_", " ").capitalize()
