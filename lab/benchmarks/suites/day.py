"""What a day of a billion requests costs on one machine: shipped, stored, split, its worst hour explained, a report.

Ship and load are measured at several sizes of a log, everything else in stores of whole days that are generated in the
engine: skewed over the hours, backends and routes, with odd records (``store_generator``, ``odd_lines``). A row is the
cost at a billion: that of the largest size, times the growth of the slope, or linear growth where the slope is below 1.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from sojourn.store import connect
from sojourn.store.client import rows as rows_of
from sojourn_lab.experiments.pipeline.agent import SINK, started_receiver, vector_program

from benchmarks.growth import LEAST, SOJOURN
from benchmarks.log_generator import LogShape, write_log
from benchmarks.measure import Cost, command_cost
from benchmarks.rows import Measurements, Row, Settings, Slope
from benchmarks.store_generator import BEGIN, HOURS, WORST, make_store
from benchmarks.suites.agent import lay_out_shipping, shipping_job
from benchmarks.suites.store import LOAD

DAY = 1_000_000_000  # requests
LOGS = (500_000, 1_000_000, 2_000_000, 4_000_000)  # lines
STORES = (1_000_000, 10_000_000, 100_000_000)  # requests of a day
FEW = 20  # lines of a run that measures the start
HOURS_OF_A_CORE = 24.0  # goal: what comes in all day takes at most one core
WORST_SECONDS, MEMORY = 10.0, 4_096.0  # goals: the worst hour, s; any step, MB

WORST_BEGIN = BEGIN + timedelta(hours=WORST)
WORST_HOUR = ["--since", WORST_BEGIN.isoformat(), "--until", (WORST_BEGIN + timedelta(hours=1)).isoformat()]
PART = HOURS[WORST] / 100  # of the day's requests that are in the worst hour
_MINUTES = f"minute >= '{WORST_BEGIN:%F %T}' AND minute < '{WORST_BEGIN + timedelta(hours=1):%F %T}'"
_ROUTES = """
SELECT service, route, sum(requests) AS n, sum(response_seconds) / n AS response, sum(queueing_seconds) / n AS queueing,
    arrayMap(us -> us / 1e6, quantilesDDMerge(0.01, 0.5, 0.9, 0.99, 0.999)(response_quantiles)) AS quantiles
FROM rollup_minute FINAL WHERE {minutes} GROUP BY service, route ORDER BY sum(response_seconds) DESC"""
_BLAME = """
SELECT account, culprit, sum(seconds) AS waited FROM blame_minute FINAL
WHERE {minutes} GROUP BY account, culprit ORDER BY waited DESC"""
ROUTES_OF_HOUR, BLAME_OF_HOUR = (text.format(minutes=_MINUTES) for text in (_ROUTES, _BLAME))


@dataclass(frozen=True)
class Question:
    """A command that reads a store.

    Attributes:
        command: of ``sojourn``, with ``{dsn}`` and ``{folder}``.
        part: of the day's requests that it is about.
        seconds: the goal, s; None: no goal.
        note: a remark.
    """

    command: list[str]
    part: float = 1.0
    seconds: float | None = None
    note: str = ""


QUESTIONS = {
    "split of the day": Question(["split", "{dsn}"], note="the store computes the figures, one pass a figure"),
    "split of the worst hour": Question(["split", "{dsn}", *WORST_HOUR], PART, WORST_SECONDS),
    "routes of the worst hour, from the rollups": Question(
        ["store", "query", "{dsn}", ROUTES_OF_HOUR], PART, WORST_SECONDS, "by the end of a request; quantiles to 1 %"
    ),
    "blame of the worst hour": Question(
        ["blame", "{dsn}", *WORST_HOUR], PART, WORST_SECONDS, "every request of the hour is fetched"
    ),
    "`sojourn store explain` of the worst hour": Question(
        ["store", "explain", "{dsn}", *WORST_HOUR], PART, note="as it runs all day, once for each minute"
    ),
    "blame of the worst hour, from the minutes explained": Question(
        ["store", "query", "{dsn}", BLAME_OF_HOUR], PART, WORST_SECONDS, "after `sojourn store explain`"
    ),
    "report of the worst hour": Question(
        ["report", "{dsn}", *WORST_HOUR, "--html", "{folder}/day.html"], PART,
        note="every request of the hour is fetched; those of the stretch with the most waiting are placed in time",
    ),
}  # fmt: skip


@dataclass
class Points:
    """The costs of a step by the number of requests."""

    costs: dict[int, Cost] = field(default_factory=dict)

    def slope(self, what: str, of: Callable[[Cost], float], unit: str = "s") -> Slope:
        """Return how one figure of the costs grows."""
        return Slope(
            what, "requests", tuple(self.costs), tuple(max(of(cost), LEAST) for cost in self.costs.values()), unit
        )


def run(settings: Settings) -> Measurements:
    """Measure every step at its sizes; a step that a size refuses is skipped with its message from there on."""
    measurements = Measurements()
    _ship_and_load(settings, measurements)
    points = {name: Points() for name in QUESTIONS}
    disk: dict[int, float] = {}
    for size in dict.fromkeys(settings.sized(size, 1_000) for size in STORES):
        folder = settings.folder / f"day-{size}"
        dsn = f"chdb://{folder}"
        make_store(dsn, size, settings.progress)
        disk[size] = _bytes_on_disk(dsn)
        for name, question in QUESTIONS.items():
            settings.progress(f"{name}, a day of {size:,}")
            command = [part.format(dsn=dsn, folder=settings.folder) for part in question.command]
            try:
                points[name].costs[size] = command_cost([*SOJOURN, *command])
            except SystemExit as error:
                measurements.skipped.append(f"{name}, a day of {size:,} requests: {error}")
        shutil.rmtree(folder)
    on_disk = Slope("store: bytes", "requests", tuple(disk), tuple(disk.values()), "bytes")
    measurements.rows.append(
        Row(f"store: a day of {DAY:,} requests on disk", "GB", _at(on_disk, DAY) / 1e9,
            note=f"all tables, {_measured(on_disk)}")
    )  # fmt: skip
    _add_slopes(measurements, on_disk)
    for name, question in QUESTIONS.items():
        _add_question(measurements, name, question, points[name])
    return measurements


def _ship_and_load(settings: Settings, measurements: Measurements) -> None:
    ship, load = Points(), Points()
    vector = vector_program()
    if vector is None:
        measurements.skipped.append("ship: Vector is not installed (SOJOURN_VECTOR may name it)")
    receiver, store = started_receiver(settings.folder)
    try:
        for size in dict.fromkeys((FEW, *(settings.sized(size, 2_000) for size in LOGS))):
            log = settings.folder / f"day-{size}.jsonl"
            write_log(LogShape(size), log)
            if vector is not None:
                settings.progress(f"ship, {size:,} lines")
                ship.costs[size] = shipping_job(settings.folder, vector, lay_out_shipping, SINK, log, size, store)()
            settings.progress(f"load, {size:,} lines")
            load.costs[size] = command_cost([sys.executable, "-c", LOAD, str(log), str(settings.folder)])
            log.unlink()
    finally:
        receiver.stop()
    for name, points in (("ship: agent to store", ship), ("store: `sojourn store load`", load)):
        if not points.costs:
            continue
        start = points.costs.pop(FEW)
        slope = points.slope(name, lambda cost, start=start: cost.cpu - start.cpu)  # type: ignore[misc]
        peak = max(cost.peak_mb for cost in points.costs.values())
        _add_slopes(measurements, slope)
        measurements.rows.append(
            Row(f"{name}, a day of {DAY:,} requests", "hours of a core", _at(slope, DAY) / 3600, goal=HOURS_OF_A_CORE,
                at="most", peak_mb=peak or None, note=_measured(slope))
        )  # fmt: skip


def _add_question(measurements: Measurements, name: str, question: Question, points: Points) -> None:
    if not points.costs:
        return
    slope = points.slope(name, lambda cost: cost.seconds)
    size, cost = list(points.costs.items())[-1]
    what = f"{name}, {round(size * question.part):,} requests"
    at_a_billion = f"at {DAY:,} a day ({round(DAY * question.part):,} requests): {_at(slope, DAY):,.0f} s"
    note = "; ".join(filter(None, (question.note, at_a_billion, "measured once")))
    measurements.rows += [
        Row(what, "s", cost.seconds, goal=question.seconds, at="most", peak_mb=cost.peak_mb, note=note),
        Row(f"{what}: memory", "MB", cost.peak_mb, goal=MEMORY, at="most"),
    ]
    _add_slopes(measurements, slope, points.slope(f"{name}: memory", lambda cost: cost.peak_mb, "MB"))


def _add_slopes(measurements: Measurements, *slopes: Slope) -> None:
    """Add the slopes of more than one size: a scaled run may have one only."""
    measurements.slopes += [slope for slope in slopes if len(slope.sizes) > 1]


def _at(slope: Slope, size: int) -> float:
    """Return the cost at a larger size: by the slope, or linear where it is below 1, as fixed costs make it."""
    return slope.costs[-1] * (size / slope.sizes[-1]) ** (max(slope.slope, 1.0) if len(slope.sizes) > 1 else 1.0)


def _measured(slope: Slope) -> str:
    return f"extrapolated from {slope.sizes[-1]:,.0f} requests by the slope, at least linearly; measured once"


def _bytes_on_disk(dsn: str) -> float:
    with connect(dsn) as store:
        store.client.command("OPTIMIZE TABLE requests")
        ((stored,),) = rows_of(
            store, "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase()"
        )
    return float(stored)
