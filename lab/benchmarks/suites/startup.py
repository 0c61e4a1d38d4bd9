"""How long it takes until something is there: the help, and the first table of a small log."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.measure import Job, command_cost, in_turns, median_of, ratio_of
from benchmarks.rows import Found, Row, Settings

LOG = Path(__file__).parents[3] / "docs" / "examples" / "shop.jsonl.gz"
SHOWN, TABLE = 0.3, 1.5  # s
HELP, SPLIT = "sojourn --help", "sojourn split, 3,087 requests"
PYTHON, IMPORTS = "python -c pass", "python -c 'import polars, duckdb'"


def run(settings: Settings) -> Found:
    """The two goals, and beside them what Python and the libraries need to be there at all."""
    commands = {
        HELP: ["-m", "sojourn", "--help"],
        PYTHON: ["-c", "pass"],
        SPLIT: ["-m", "sojourn", "split", str(LOG)],
        IMPORTS: ["-c", "import polars, duckdb"],
    }
    jobs: dict[str, Job] = {
        name: lambda rest=rest: command_cost([sys.executable, *rest])  # type: ignore[misc]
        for name, rest in commands.items()
    }
    costs = in_turns(jobs, settings.repeats, settings.progress)
    found = Found()
    for name, peer, goal in ((HELP, PYTHON, SHOWN), (SPLIT, IMPORTS, TABLE)):
        ours, theirs = ([cost.seconds for cost in costs[each]] for each in (name, peer))
        ratio, low, high = ratio_of(ours, theirs)
        memory = max(cost.peak_mb for cost in costs[name])
        found.rows += [
            Row(name, "s", median_of(costs[name]), goal=goal, at="most", peak_mb=memory),
            Row(name, "s", median_of(costs[name]), peer, median_of(costs[peer]), ratio, low, high, peak_mb=memory),
        ]
    return found
