"""The cost that the Node package adds to a request: `middleware_node.js` calls a minimal app with and without it."""

from __future__ import annotations

import shutil
import statistics
import subprocess
from pathlib import Path

from sojourn_lab.resources import resource_file

from benchmarks.rows import Measurements, Row, Settings, added_row

CALLS = 20_000
GOAL_US = 10.0
SCRIPT = Path(__file__).with_suffix(".js")


def node_rows(settings: Settings, measurements: Measurements) -> list[Row]:
    """Return the row of the Node package; note in ``measurements.skipped`` if node is not installed."""
    node = shutil.which("node")
    if node is None:
        measurements.skipped.append("Node: node is not installed")
        return []
    package = resource_file("middleware", "node")
    command = [node, str(SCRIPT), str(package), str(settings.sized(CALLS, 100))]
    bare: list[float] = []
    measured: list[float] = []
    for turn in range(settings.repeats):
        settings.progress(f"{turn + 1}/{settings.repeats} Node")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"bench: node ended with {done.returncode}: {done.stderr.strip()}")
        for costs, seconds in zip((bare, measured), done.stdout.split(), strict=True):
            costs.append(1e6 * float(seconds))
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    measurements.versions["node"] = version.strip().removeprefix("v")
    note = f"100 requests in progress; node:http's response alone takes {statistics.median(bare):.2f} µs"
    return [added_row("Node, the headers", bare, measured, goal=GOAL_US, note=note)]
