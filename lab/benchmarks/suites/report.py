"""Pages: the report of a large and of a small log, and the movie, in seconds, memory and size."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.growth import SOJOURN, WORKERS, written_log
from benchmarks.measure import Cost, command_cost, in_turns, median_of
from benchmarks.rows import Measurements, Row, Settings

REQUESTS = 1_000_000
SMALL = Path(__file__).parents[3] / "docs" / "examples" / "shop.jsonl.gz"
SMALL_REQUESTS = "3,087 requests"
LARGE_SECONDS, SMALL_SECONDS, MOVIE_SECONDS = 12.0, 3.0, 2.0
LARGE_MEMORY = 1_800.0  # MB
PAGE_SIZE = 3.0  # MB
CHARTS = "without the process that draws the charts, of about 150 MB"


def run(settings: Settings) -> Measurements:
    """Measure both reports and the movie."""
    requests = settings.sized(REQUESTS, 1_000)
    log = written_log(settings.folder, requests)
    large, small, movie = (settings.folder / f"{name}.html" for name in ("large", "small", "movie"))
    commands = {
        "large": [*SOJOURN, "report", str(log), "--workers", str(WORKERS), "--html", str(large)],
        "small": [*SOJOURN, "report", str(SMALL), "--html", str(small)],
        "movie": [*SOJOURN, "movie", str(SMALL), "--out", str(movie)],
    }
    for command in commands.values():
        command_cost(command)  # fills the caches of compiled code and of Vega's script
    jobs = {name: partial(command_cost, command) for name, command in commands.items()}
    costs = in_turns(jobs, settings.repeats, settings.progress)
    log.unlink()
    first, second = f"`sojourn report`, {requests:,} requests", f"`sojourn report`, {SMALL_REQUESTS}"
    return Measurements(
        [
            _seconds(first, costs["large"], LARGE_SECONDS),
            Row(f"{first}: memory", "MB", _peak(costs["large"]), goal=LARGE_MEMORY, at="most", note=CHARTS),
            _size(f"{first}: page", large),
            _seconds(second, costs["small"], SMALL_SECONDS),
            _size(f"{second}: page", small),
            _seconds(f"`sojourn movie`, page, {SMALL_REQUESTS}", costs["movie"], MOVIE_SECONDS),
        ]
    )


def _seconds(what: str, costs: list[Cost], goal: float) -> Row:
    return Row(what, "s", median_of(costs), goal=goal, at="most", peak_mb=_peak(costs))


def _size(what: str, page: Path) -> Row:
    return Row(what, "MB", page.stat().st_size / 1e6, goal=PAGE_SIZE, at="most")


def _peak(costs: list[Cost]) -> float:
    return max(cost.peak_mb for cost in costs)
