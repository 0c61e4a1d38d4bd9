"""A log without stamps: reading it against a bare DuckDB scan of the same columns, and ``sojourn infer``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from studies.inference import simulators as simulate

from benchmarks.measure import command_cost, in_turns, median_of, printed_seconds
from benchmarks.rows import Measurements, Row, Settings, Slope, compared_row

MILLION = 1_000_000
SCANS, LONGEST = 4.0, 6.0  # times the scan; s for 1 M requests on two cores
BEGIN = 1_767_225_600.0
OURS, SCANNED = "sojourn.read", "DuckDB, a bare scan of the same columns"
ONCE = """
import sys, time
{before}
work(sys.argv[2])  # what is compiled is loaded; a much shorter log is read without it
begin = time.perf_counter()
rows = work(sys.argv[1])
print(time.perf_counter() - begin, rows)
"""
READ = ONCE.format(
    before="""
import sojourn
from sojourn.model.frame import SPLIT_COLUMNS
def work(path):
    return sojourn.read(path, columns=SPLIT_COLUMNS).rows.collect().height
"""
)
# Splits at blanks and quotes, and reads what the split needs.
SCAN = ONCE.format(
    before="""
import duckdb
names = "addr dash user day zone request status bytes referer agent msec took upstream answered".split()
columns = "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in names) + "}"
def work(path):
    return duckdb.sql(
        f"SELECT addr, request, status::INT, bytes::BIGINT, msec::DOUBLE, took::DOUBLE, upstream, answered::DOUBLE "
        f"FROM read_csv('{path}', delim=' ', quote='\\"', header=false, auto_detect=false, columns={columns})"
    ).to_arrow_table().num_rows
"""
)


def write_plain(path: Path, requests: int, workers: int = 4) -> None:
    """Write nginx's combined format with $msec, $request_time and the backend's address and time."""
    rng = np.random.default_rng(18)
    service, routes = simulate.services(rng, requests, "routes")
    arrival = simulate.poisson(rng, service, workers, 0.85)
    log = simulate.logged(rng, arrival, simulate.first_come(arrival, service, workers), routes)
    with path.open("w", encoding="ascii") as file:
        for number in np.argsort(log.departure, kind="stable"):
            end, took = BEGIN + log.departure[number], log.departure[number] - log.arrival[number]
            stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(end))
            file.write(
                f'192.0.2.{number % 250} - - [{stamp}] "GET /r{log.routes[number]} HTTP/1.1" 200 512 "-" "Mozilla/5.0" '
                f"{end:.3f} {took:.3f} 10.0.0.1:8000 {took:.3f}\n"
            )


def run(settings: Settings) -> Measurements:
    """Measure 1 M lines read and inferred, and how the inference grows."""
    few, log = settings.folder / "few.log", settings.folder / "plain.log"
    write_plain(few, settings.sized(400_000, 1_000))
    lines = settings.sized(MILLION, 1_000)
    write_plain(log, lines)
    costs = in_turns(
        {
            OURS: lambda: printed_seconds(READ, log, few),
            SCANNED: lambda: printed_seconds(SCAN, log, few),
        },
        settings.repeats,
        settings.progress,
    )
    ours, theirs = ([cost.seconds for cost in costs[name]] for name in (OURS, SCANNED))
    measurements = Measurements()
    measurements.rows.append(compared_row(
        f"{lines:,} lines of combined with times, read", "s", ours, SCANNED, theirs, goal=SCANS, at="most",
        note="the columns of the split; start-up and loading of compiled code are not in it",
    ))  # fmt: skip
    seconds = {}
    command = [sys.executable, "-m", "sojourn", "infer", str(log)]
    for size in (settings.sized(100_000, 1_000), lines):
        write_plain(log, size)
        seconds[size] = in_turns({"": lambda: command_cost(command)}, settings.repeats, settings.progress)[""]
    measurements.rows.append(Row(
        f"`sojourn infer`, {lines:,} requests", "s", median_of(seconds[lines]), goal=LONGEST, at="most",
        peak_mb=max(cost.peak_mb for cost in seconds[lines]), note="the whole command, its start included",
    ))  # fmt: skip
    measurements.slopes.append(
        Slope("infer", "requests", tuple(map(float, seconds)), tuple(map(median_of, seconds.values())))
    )
    return measurements
