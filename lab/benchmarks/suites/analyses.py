"""The cost of blame, what-if and the replay, and how the cost of every analysis grows."""

from __future__ import annotations

from pathlib import Path

from benchmarks.growth import SOJOURN, WORKERS, Command, slopes, written_log
from benchmarks.kernels import kernels
from benchmarks.measure import command_cost, in_turns, median_of, printed_seconds, ratio_of
from benchmarks.rows import Measurements, Row, Settings

REQUESTS = 1_000_000
JOINED = 50_000
SPLIT = "`sojourn split` of the same log"
JOIN = "the same by an interval join in DuckDB"

# Both scripts compute blamed seconds by culprit from the same visits, which are read before the timing starts.
BLAME_OF = """
import sys, time
import numpy as np
from sojourn import split
from sojourn.timeline.visits import visits
from sojourn.analyses.blame.analysis import blame_of
rows = split(sys.argv[1], columns=("request_id",)).rows
table = visits(rows, workers=int(sys.argv[2]))
"""
OURS = """
blame_of(table)
begin = time.process_time()
blamed = blame_of(table)
print(time.process_time() - begin, blamed.blamed)
"""
# Every backend on its own, without the balancer: all seconds without a free worker have a culprit.
THEIRS = """
import duckdb, polars as pl
frame = pl.DataFrame({"id": np.arange(len(table)), "b": table.backend, "waited": table.arrival, "ended": table.wait_end,
                      "begun": table.busy_start, "freed": table.busy_end, "route": table.frame["route"]})
engine = duckdb.connect()
engine.execute("SET threads = 1; SET enable_progress_bar = false")
begin = time.process_time()
blamed = engine.sql('''
    WITH events AS (
        SELECT b, waited AS t, 1 AS waits, 0 AS works FROM frame WHERE ended > waited
        UNION ALL SELECT b, ended, -1, 0 FROM frame WHERE ended > waited
        UNION ALL SELECT b, begun, 0, 1 FROM frame UNION ALL SELECT b, freed, 0, -1 FROM frame),
    steps AS (SELECT b, t, sum(waits) AS waits, sum(works) AS works FROM events GROUP BY ALL),
    levels AS (
        SELECT b, t, lead(t) OVER line AS until, sum(waits) OVER line AS waits, sum(works) OVER line AS works
        FROM steps WINDOW line AS (PARTITION BY b ORDER BY t)),
    full_up AS (SELECT * FROM levels WHERE works >= $workers AND waits > 0 AND until > t)
    SELECT route, sum((until - t) * waits / works) AS seconds
    FROM full_up JOIN frame ON full_up.b = frame.b AND frame.begun < full_up.until AND frame.freed > full_up.t
    GROUP BY route''', params={"workers": int(sys.argv[2])}).fetchall()
print(time.process_time() - begin, sum(seconds for _, seconds in blamed))
"""

NOTES: dict[tuple[str, str], str] = {}


def run(settings: Settings) -> Measurements:
    """Measure blame and what-if against the split, blame in memory against SQL, the replay, and all slopes."""
    measurements = kernels(settings)
    requests = settings.sized(REQUESTS, 1_000)
    log = written_log(settings.folder, requests)
    split = [*SOJOURN, "split", str(log), "--json"]
    jobs = {
        "split": split,
        "blame": [*SOJOURN, "blame", str(log), "--workers", str(WORKERS), "--json"],
        "whatif, one variant": [*SOJOURN, "whatif", str(log), *_whatif(), "--json"],
    }
    command_cost(jobs["blame"])  # fills the cache of compiled code
    command_cost(jobs["whatif, one variant"])
    costs = in_turns(
        {name: lambda command=command: command_cost(command) for name, command in jobs.items()},  # type: ignore[misc]
        settings.repeats,
        settings.progress,
    )
    theirs = [cost.seconds for cost in costs["split"]]
    for name in ("blame", "whatif, one variant"):
        ratio, low, high = ratio_of([cost.seconds for cost in costs[name]], theirs)
        measurements.rows.append(
            Row(
                f"`sojourn {name}`, {requests:,} requests", "s", median_of(costs[name]), SPLIT,
                median_of(costs["split"]), ratio, low, high,
                peak_mb=max(cost.peak_mb for cost in costs[name]),
                peer_mb=max(cost.peak_mb for cost in costs["split"]),
            )
        )  # fmt: skip
    measurements.rows.append(_against_sql(settings))
    log.unlink()
    measurements.slopes += slopes(settings, _commands(settings.folder), NOTES)
    return measurements


def _whatif() -> list[str]:
    return ["--set", "workers=+1", "--workers", str(WORKERS), "--force"]


def _commands(folder: Path) -> dict[str, Command]:
    """Return every analysis of a log; the split has a suite of its own."""
    workers = ["--workers", str(WORKERS)]
    page, film, picture = folder / "page.html", folder / "film.html", folder / "chart.svg"
    return {
        "blame": lambda log: [*SOJOURN, "blame", str(log), *workers, "--json"],
        "whatif": lambda log: [*SOJOURN, "whatif", str(log), *_whatif(), "--json"],
        "depth": lambda log: [*SOJOURN, "depth", str(log), *workers, "--json"],
        "goodput": lambda log: [*SOJOURN, "goodput", str(log), "--json"],
        "capacity": lambda log: [*SOJOURN, "capacity", str(log), "--slo", "p99=0.5", "--window", "5", "--json"],
        "compare": lambda log: [*SOJOURN, "compare", str(log), str(log), "--json"],
        "report": lambda log: [*SOJOURN, "report", str(log), *workers, "--html", str(page)],
        "movie": lambda log: [*SOJOURN, "movie", str(log), *workers, "--out", str(film)],
        "plot heatmap": lambda log: [*SOJOURN, "plot", "heatmap", str(log), "--out", str(picture)],
    }


def _against_sql(settings: Settings) -> Row:
    requests = settings.sized(JOINED, 1_000)
    log = written_log(settings.folder, requests)
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for turn in range(settings.repeats):
        for name, script in (("ours", OURS), ("theirs", THEIRS)):
            settings.progress(f"{turn + 1}/{settings.repeats} blame of {requests:,} visits: {name}")
            seconds[name].append(_printed_seconds(script, log))
    ratio, low, high = ratio_of(seconds["theirs"], seconds["ours"])
    ours, theirs = (sorted(seconds[name])[len(seconds[name]) // 2] for name in ("ours", "theirs"))
    return Row(
        f"blame of {requests:,} visits in memory", "s", ours, JOIN, theirs, ratio, low, high, times=True,
        note="the query knows no balancer, so blamed seconds by culprit only, of every backend on its own; blame "
        "computes three accounts, the matrix, the chain and windows besides",
    )  # fmt: skip


def _printed_seconds(script: str, log: Path) -> float:
    return printed_seconds(BLAME_OF + script, log, WORKERS).seconds
