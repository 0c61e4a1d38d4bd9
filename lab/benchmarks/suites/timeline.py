"""The timeline as a trace for Perfetto: seconds, memory and bytes per request of a large log."""

from __future__ import annotations

from functools import partial

from benchmarks.growth import SOJOURN, WORKERS, written_log
from benchmarks.measure import command_cost, in_turns, median_of
from benchmarks.rows import Measurements, Row, Settings

REQUESTS = 1_000_000
SECONDS, SIZE = 10.0, 300.0  # s; bytes


def run(settings: Settings) -> Measurements:
    """Measure `sojourn timeline`, the log read included."""
    requests = settings.sized(REQUESTS, 1_000)
    log, trace = written_log(settings.folder, requests), settings.folder / "a.pftrace"
    command = [*SOJOURN, "timeline", str(log), "--workers", str(WORKERS), "--out", str(trace)]
    command_cost(command)  # fills the cache of compiled code
    costs = in_turns({"timeline": partial(command_cost, command)}, settings.repeats, settings.progress)["timeline"]
    log.unlink()
    what = f"`sojourn timeline`, {requests:,} requests"
    return Measurements(
        [
            Row(what, "s", median_of(costs), goal=SECONDS, at="most", peak_mb=max(cost.peak_mb for cost in costs)),
            Row(f"{what}: trace", "bytes per request", trace.stat().st_size / requests, goal=SIZE, at="most"),
        ]
    )
