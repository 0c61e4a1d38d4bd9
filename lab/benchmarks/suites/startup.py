"""Time until the first output: the help, and the table of a small log. Size of the installation."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from benchmarks.install_size import megabytes
from benchmarks.measure import command_cost, in_turns, median_of
from benchmarks.rows import Measurements, Row, Settings, compared_row

LOG = Path(__file__).parents[3] / "docs" / "examples" / "shop.jsonl.gz"
HELP_SECONDS, TABLE_SECONDS = 0.10, 0.6
BASE = 450  # MB
EXTRAS = ("charts", "compiled", "store", "lab")
HELP, SPLIT = "sojourn --help", "sojourn split, 3,087 requests"
NOTES = {
    SPLIT: "imports take 0.35 s (Polars, DuckDB and NumPy 0.15, what reads the command line 0.1), the engine's start "
    "and plan 0.1, and what was added later than the goal, load dependence and held times, 0.1"
}
PYTHON, IMPORTS = "python -c pass", "python -c 'import polars, duckdb'"


def run(settings: Settings) -> Measurements:
    """Measure the two times, and the start of Python and of the libraries for comparison; and the sizes."""
    commands = {
        HELP: ["-m", "sojourn", "--help"],
        PYTHON: ["-c", "pass"],
        SPLIT: ["-m", "sojourn", "split", str(LOG)],
        IMPORTS: ["-c", "import polars, duckdb"],
    }
    jobs = {name: partial(command_cost, [sys.executable, *rest]) for name, rest in commands.items()}
    costs = in_turns(jobs, settings.repeats, settings.progress)
    measurements = Measurements()
    for name, peer, goal in ((HELP, PYTHON, HELP_SECONDS), (SPLIT, IMPORTS, TABLE_SECONDS)):
        ours, theirs = ([cost.seconds for cost in costs[each]] for each in (name, peer))
        memory = max(cost.peak_mb for cost in costs[name])
        measurements.rows += [
            Row(name, "s", median_of(costs[name]), goal=goal, at="most", peak_mb=memory, note=NOTES.get(name, "")),
            compared_row(name, "s", ours, peer, theirs, peak_mb=memory),
        ]
    measurements.rows.append(Row("installation: the base", "MB", megabytes(), goal=BASE, at="most"))
    measurements.rows += [Row(f"installation: with {extra}", "MB", megabytes(extra)) for extra in EXTRAS]
    return measurements
