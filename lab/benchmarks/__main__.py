"""``python -m benchmarks``: run every suite, or some; write one JSON file and one Markdown page.

make bench                       all suites, about an hour
make bench ONLY=split,startup    these suites
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.page import page, published
from benchmarks.rows import Measurements, Settings

# Suite -> its heading on the page.
SUITES = {
    "nginx": "nginx: the includes",
    "middleware": "Middleware",
    "split": "Split",
    "plain": "A log without stamps",
    "startup": "Start-up",
    "analyses": "Blame, what-if, replay",
    "report": "Report and movie",
    "timeline": "Trace for Perfetto",
    "serve": "The local page",
    "wire": "Captures",
    "store": "Store and dashboards",
    "agent": "Agent",
    "export": "Export to Prometheus",
    "generator": "Load generator",
    "day": "One day of a big site",
}
LIBRARIES = ("polars", "duckdb", "numpy", "numba", "pyarrow", "chdb")


def machine() -> dict[str, Any]:
    """Return the cores, memory (GB) and system of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": os.cpu_count(), "memory_gb": round(memory / 1e9, 1), "system": platform.platform()}


def run_suite(name: str, repeats: int, scale: float) -> dict[str, Any]:
    """Measure one suite; an error is recorded under ``skipped`` and does not stop the others."""
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
        settings = Settings(repeats, scale, Path(folder), lambda text: _say(f"{name}: {text}"))
        try:
            suite: Measurements = importlib.import_module(f"benchmarks.suites.{name}").run(settings)
        except (SystemExit, Exception) as error:
            suite = Measurements(skipped=[f"{type(error).__name__}: {error}"])
    of_run = {"title": SUITES[name], "repeats": repeats, "scale": scale, "machine": machine()}
    return {**of_run, **suite.to_dict()}


def whole(suites: dict[str, Any]) -> dict[str, Any]:
    """Return all results in the order of ``SUITES``, with the machine and the versions."""
    return {
        "suites": {name: suites[name] for name in SUITES if name in suites},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
        "machine": machine(),
    }


def _measured(file: Path) -> dict[str, Any]:
    """Return the suites of a file, each with its machine; none if there is no such file."""
    if not file.exists():
        return {}
    results = json.loads(file.read_text())
    return {name: {"machine": results["machine"], **suite} for name, suite in results["suites"].items()}


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)  # noqa: T201


def main() -> None:
    """Measure, print the page and write both files; suites that are not run keep the results that the files have."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"comma-separated list of {', '.join(SUITES)}")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    parser.add_argument("--publish", type=Path, metavar="FOLDER", help="also write benchmarks.md and .json there")
    options = parser.parse_args()
    names = [name for name in options.only.split(",") if name] or list(SUITES)
    if unknown := [name for name in names if name not in SUITES]:
        parser.error(f"no such suite: {unknown[0]}")
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "bench.json"
    suites = _measured(options.publish / "benchmarks.json") if options.publish else {}
    suites |= _measured(file)
    for name in names:
        suites[name] = run_suite(name, options.repeats, options.scale)
        # After each suite: an interrupted run keeps the results so far.
        file.write_text(json.dumps(whole(suites), indent=2) + "\n")
    results = whole(suites)
    text = page(results)
    (options.out / "bench.md").write_text(text)
    if options.publish:
        (options.publish / "benchmarks.json").write_text(file.read_text())
        (options.publish / "benchmarks.md").write_text(published(results))
    print(text)  # noqa: T201


if __name__ == "__main__":
    main()
