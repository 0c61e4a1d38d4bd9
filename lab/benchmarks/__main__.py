"""``python -m benchmarks``: every suite, or some; one JSON file and one Markdown page.

make bench                       all of them, about an hour
make bench ONLY=split,startup    some
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
from benchmarks.rows import Found, Settings

# Suite -> what its part of the page is called.
SUITES = {
    "nginx": "nginx: the includes",
    "middleware": "Middleware",
    "split": "Split",
    "startup": "Start-up",
    "analyses": "Blame, what-if, replay",
    "wire": "Captures",
    "store": "Store and dashboards",
    "vrl": "Vector's programs",
    "generator": "Load generator",
}
LIBRARIES = ("polars", "duckdb", "numpy", "numba", "pyarrow", "chdb")


def machine() -> dict[str, Any]:
    """What it ran on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": os.cpu_count(), "memory_gb": round(memory / 1e9, 1), "system": platform.platform()}


def run_suite(name: str, repeats: int, scale: float) -> dict[str, Any]:
    """Measure one suite; what stops it takes nothing from the others."""
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
        settings = Settings(repeats, scale, Path(folder), lambda text: _say(f"{name}: {text}"))
        try:
            suite: Found = importlib.import_module(f"benchmarks.suites.{name}").run(settings)
        except (SystemExit, Exception) as error:
            suite = Found(skipped=[f"{type(error).__name__}: {error}"])
    return {"title": SUITES[name], "repeats": repeats, "scale": scale, **suite.to_dict()}


def whole(suites: dict[str, Any]) -> dict[str, Any]:
    """Everything that was found, in the order of ``SUITES``, with the machine and the versions."""
    return {
        "suites": {name: suites[name] for name in SUITES if name in suites},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
        "machine": machine(),
    }


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)  # noqa: T201


def main() -> None:
    """Measure; print the page; write both files. Suites that were not asked for keep what the file holds of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"of {', '.join(SUITES)}")
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
    suites = json.loads(file.read_text())["suites"] if file.exists() else {}
    for name in names:
        suites[name] = run_suite(name, options.repeats, options.scale)
        # After each: an hour is long, and what is known stays known.
        file.write_text(json.dumps(whole(suites), indent=2) + "\n")
    found = whole(suites)
    text = page(found)
    (options.out / "bench.md").write_text(text)
    if options.publish:
        (options.publish / "benchmarks.json").write_text(file.read_text())
        (options.publish / "benchmarks.md").write_text(published(found))
    print(text)  # noqa: T201


if __name__ == "__main__":
    main()
