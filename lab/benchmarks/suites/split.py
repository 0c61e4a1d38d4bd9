"""``sojourn split``: whole commands, from start to exit, against GoAccess and a bare DuckDB scan; memory; slopes.

Some lines of the logs are odd, as in a real log (``odd_lines``), except where a row says that the log is clean.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.log_generator import LogShape, write_combined, write_log
from benchmarks.measure import Cost, Job, command_cost, in_turns, median_of
from benchmarks.rows import Measurements, Row, Settings, Slope, compared_row

MILLION = 1_000_000
FASTER, SCANS, MEMORY = 8.0, 2.5, 1200.0  # times GoAccess; times the scan; MB
GOACCESS_NOTE = "GoAccess reads the same requests in the combined format, with referers and some 400 user agents"
SCAN_NOTE = (
    "beside reading, the split works out eight components and a clock's offset for every request, exact quantiles of "
    "all of them, two groupings, an audit, whether services depend on the load and how long workers are held (0.3 s of "
    "a million, later than the goal); starting and loading compiled code take 0.7 s of it"
)
LIMIT = 400  # s: more than ten times the time of the split
# Reads every key that the split reads, and computes the quantiles that it shows; lines that are not JSON are left out.
SCAN = """
import duckdb, sys
text = ("request_id", "service", "proxy", "stamp", "upstream_addr", "worker")
numbers = ("time", "status", "request_start", "proxy_start", "upstream_connect_time", "upstream_header_time",
           "upstream_response_time", "connection", "connection_requests")
shown = ("request_time", "queueing_delay", "service_time")
columns = "{" + ", ".join(f"'{key}': 'VARCHAR'" for key in (*text, *numbers, *shown, "route", "uri")) + "}"
parts = [f"max({key})" for key in (*text, *numbers, "uri")]
parts += [f"quantile_cont(TRY_CAST({key} AS DOUBLE), [0.5, 0.9, 0.99, 0.999])" for key in shown]
duckdb.sql("SET enable_progress_bar = false")
print(duckdb.sql(f"SELECT route, count(*), {', '.join(parts)} FROM read_json('{sys.argv[1]}', columns={columns}, "
                 "format='newline_delimited', ignore_errors=true) GROUP BY route"))
"""
OURS, SCANNED, GOACCESS = "sojourn split", "DuckDB, a bare scan of the same fields", "GoAccess"


def run(settings: Settings) -> Measurements:
    """Measure 1 M and 10 M lines, plain and gzip; memory at 10 M and 50 M; slopes over requests, routes, backends."""
    measurements = Measurements(versions=_versions())
    if GOACCESS not in measurements.versions:
        measurements.skipped.append("GoAccess is not installed")
    ours, combined = settings.folder / "access.jsonl", settings.folder / "access.log"
    seconds = {}
    for millions in (0.1, 1, 10):
        lines = settings.sized(int(millions * MILLION), 100)
        settings.progress(f"writing {lines:,} lines")
        write_log(LogShape(lines), ours)
        if millions < 1:
            seconds[lines] = _median(settings, ours)
            continue
        write_combined(LogShape(lines), combined)
        os.sync()  # so that the first job does not pay for writing gigabytes
        costs = _compared(_rounds(settings, millions), ours, combined, GOACCESS in measurements.versions)
        measurements.rows += _rows(f"split, {lines:,} lines", costs)
        seconds[lines] = median_of(costs[OURS])
        if millions == 1:
            write_log(LogShape(lines, clean=True), ours)
            measurements.rows += _rows(
                f"split, {lines:,} lines, all alike", _compared(settings, ours, combined, with_goaccess=False)
            )
    measurements.rows.append(_memory(lines, [cost.peak_mb for cost in costs[OURS]]))
    combined.unlink()
    settings.progress(f"packing {ours.name}")
    subprocess.run(["gzip", "-1", "-f", ours], check=True)
    packed = ours.with_name(ours.name + ".gz")
    # GoAccess would read from zcat, and its parsing is measured above.
    measurements.rows += _rows(
        f"split, {lines:,} lines, gzip", _compared(_rounds(settings, 10), packed, combined, False)
    )
    packed.unlink()
    measurements.rows.append(_fifty(settings))
    measurements.slopes.append(Slope("split", "requests", tuple(map(float, seconds)), tuple(seconds.values())))
    measurements.slopes += [
        _slope(settings, "routes", (10, 100, 1_000, 10_000)),
        _slope(settings, "backends", (1, 10, 100, 1_000)),
    ]
    return measurements


def _rounds(settings: Settings, millions: float) -> Settings:
    """Return the settings with one round for 10 M lines: GoAccess takes minutes."""
    return replace(settings, repeats=1) if millions >= 10 else settings


def _split(*sources: Path | str) -> list[str]:
    return [sys.executable, "-m", "sojourn", "split", *map(str, sources)]


def _compared(settings: Settings, ours: Path, combined: Path, with_goaccess: bool) -> dict[str, list[Cost]]:
    out = settings.folder / "goaccess.json"
    goaccess = ["goaccess", str(combined), "--log-format=COMBINED", "--no-progress", "-o", str(out)]
    jobs: dict[str, Job] = {
        OURS: lambda: command_cost(_split(ours)),
        SCANNED: lambda: command_cost([sys.executable, "-c", SCAN, str(ours)]),
    }
    if with_goaccess:
        jobs[GOACCESS] = lambda: _limited(goaccess)
    return in_turns(jobs, settings.repeats, settings.progress)


def _limited(command: list[str]) -> Cost:
    """Run a command, stopped after ``LIMIT``, and return its cost so far."""
    try:
        return command_cost(["timeout", str(LIMIT), *command])
    except SystemExit as end:
        if "ended with 124" not in str(end):
            raise
        return Cost(float(LIMIT))


def _rows(what: str, costs: dict[str, list[Cost]]) -> list[Row]:
    own_seconds = [cost.seconds for cost in costs[OURS]]
    rows = []
    for peer, peer_costs in costs.items():
        if peer == OURS:
            continue
        theirs = [cost.seconds for cost in peer_costs]
        stopped = max(theirs) >= LIMIT
        broken_off = f"; it was broken off after {LIMIT} s, so the ratio is a lower bound" if stopped else ""
        times = peer == GOACCESS
        rows.append(
            compared_row(
                what,
                "s",
                own_seconds,
                peer,
                theirs,
                inverse=times,
                times=times,
                goal=FASTER if times else SCANS,
                at="least" if times else "most",
                peak_mb=max(cost.peak_mb for cost in costs[OURS]),
                peer_mb=max(cost.peak_mb for cost in peer_costs),
                note=GOACCESS_NOTE + broken_off if times else SCAN_NOTE,
            )
        )
    return rows


def _memory(lines: int, peaks: list[float], note: str = "") -> Row:
    peak = max(peaks)
    return Row(f"split, {lines:,} lines: memory", "MB", peak, goal=MEMORY, at="most", peak_mb=peak, note=note)


def _fifty(settings: Settings) -> Row:
    """Measure 50 M lines once; they come from the generator through a pipe."""
    lines = settings.sized(50 * MILLION, 100)
    settings.progress(f"{lines:,} lines, once")
    generator = shlex.join([sys.executable, "-m", "benchmarks.log_generator", str(lines)])
    cost = command_cost(["sh", "-c", f"{generator} | {shlex.join(_split('-'))}"])
    return _memory(lines, [cost.peak_mb], "once, through a pipe from what makes the lines")


def _median(settings: Settings, log: Path) -> float:
    costs = in_turns({OURS: lambda: command_cost(_split(log))}, settings.repeats, settings.progress)
    return median_of(costs[OURS])


def _slope(settings: Settings, against: str, sizes: tuple[int, ...]) -> Slope:
    log = settings.folder / "access.jsonl"
    lines = settings.sized(MILLION, 100)
    costs = []
    for size in sizes:
        write_log(LogShape(lines, routes=size) if against == "routes" else LogShape(lines, backends=size), log)
        settings.progress(f"{size:,} {against}")
        costs.append(_median(settings, log))
    log.unlink()
    return Slope(f"split, {lines:,} lines", against, tuple(map(float, sizes)), tuple(costs))


def _versions() -> dict[str, str]:
    if not shutil.which("goaccess"):
        return {}
    output = subprocess.run(["goaccess", "--version"], capture_output=True, text=True, check=False).stdout
    return {GOACCESS: output.split(" - ")[-1].split("\n")[0].strip(" .") or "?"}
