"""The cost of the analyses of a log and of the replay, and how the cost of every analysis grows."""

from __future__ import annotations

import json
import statistics
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.growth import SOJOURN, WORKERS, Command, contended_log, slopes, written_log
from benchmarks.kernels import kernels
from benchmarks.measure import command_cost, in_turns, median_of, printed_seconds
from benchmarks.rows import Measurements, Row, Settings, compared_row

REQUESTS = 1_000_000
WITH_WORKERS = ["--workers", str(WORKERS)]
JOINED = 50_000
SPLIT = "`sojourn split` of the same log"
ALONE = "in a process that has split the log already; with what a first call loads"
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
from sojourn.timeline.services import services_of
held = services_of(table)
frame = pl.DataFrame({"id": np.arange(len(table)), "b": table.backend, "waited": table.arrival, "ended": table.wait_end,
                      "begun": held.begin, "freed": held.end, "route": table.frame["route"]})
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

# An analysis on its own, with all that a first call loads; columns that some analysis uses are read before.
OF_A_SPLIT = """
import json, sys, time
import sojourn
requests = sojourn.split(sys.argv[1], columns=("request_id", "uri", "remote_addr", "connection", "method"))
ask, options = getattr(sojourn, sys.argv[2]), json.loads(sys.argv[3])
begin = time.perf_counter()
answer = ask(requests, **options).to_dict()
print(time.perf_counter() - begin, len(answer))
"""
SLOPE = 1.0
CONTENDED = ("whatif, one variant", "whatif, usual variants")
SHARED = 9.0  # s


class Question(NamedTuple):
    """A question with its goals: s of the whole command, and of the analysis of a split that is there."""

    command: list[str]
    options: dict[str, Any]
    whole: float
    alone: float

    @property
    def name(self) -> str:
        """Name of the command, and of the function."""
        return self.command[0]


QUESTIONS = {
    "blame": Question(["blame", *WITH_WORKERS], {"workers": WORKERS}, 2.7, 1.5),
    "whatif, one variant": Question(
        ["whatif", "--set", "workers=+1", *WITH_WORKERS, "--force"],
        {"variants": {"workers": "+1"}, "workers": WORKERS, "force": True}, 4.5, 2.0,
    ),
    "whatif, usual variants": Question(
        ["whatif", *WITH_WORKERS, "--force"], {"workers": WORKERS, "force": True}, 4.5, 2.0
    ),
    "depth": Question(["depth", *WITH_WORKERS], {"workers": WORKERS}, 3.5, 1.0),
    "goodput": Question(["goodput"], {}, 3.5, 1.0),
    "laws": Question(["laws", *WITH_WORKERS], {"workers": WORKERS}, 3.5, 1.0),
}  # fmt: skip


def run(settings: Settings) -> Measurements:
    """Measure every question, blame and what-if against the split, blame against SQL, the replay, and all slopes."""
    measurements = kernels(settings)
    requests = settings.sized(REQUESTS, 1_000)
    log = written_log(settings.folder, requests)
    jobs = {"split": [*SOJOURN, "split", str(log), "--json"]}
    jobs |= {name: _command(question, log) for name, question in QUESTIONS.items()}
    for name in QUESTIONS:
        command_cost(jobs[name])  # fills the cache of compiled code
    costs = in_turns(
        {name: partial(command_cost, command) for name, command in jobs.items()}, settings.repeats, settings.progress
    )
    theirs = [cost.seconds for cost in costs["split"]]
    for name in ("blame", "whatif, one variant"):
        measurements.rows.append(
            compared_row(
                f"`sojourn {name}`, {requests:,} requests", "s", [cost.seconds for cost in costs[name]], SPLIT, theirs,
                peak_mb=max(cost.peak_mb for cost in costs[name]),
                peer_mb=max(cost.peak_mb for cost in costs["split"]),
            )
        )  # fmt: skip
    for name, question in QUESTIONS.items():
        what = f"`sojourn {name}`, {requests:,} requests"
        alone = []
        for _ in range(settings.repeats):
            settings.progress(f"{question.name} of a split")
            cost = printed_seconds(OF_A_SPLIT, log, question.name, json.dumps(question.options))
            alone.append(cost.seconds)
        memory = max(cost.peak_mb for cost in costs[name])
        measurements.rows += [
            Row(what, "s", median_of(costs[name]), goal=question.whole, at="most", peak_mb=memory),
            Row(f"{what}: of a split", "s", statistics.median(alone), goal=question.alone, at="most", note=ALONE),
        ]
    measurements.rows.append(_against_sql(settings))
    log.unlink()
    measurements.rows += _contended(settings, requests)
    goals = dict.fromkeys((question.name for question in QUESTIONS.values()), SLOPE)
    measurements.slopes += slopes(settings, _commands(settings.folder), NOTES, goals)
    return measurements


def _contended(settings: Settings, requests: int) -> list[Row]:
    """Return what a what-if costs where services share cores."""
    log = contended_log(settings.folder, requests)
    rows = []
    for name in CONTENDED:
        command = _command(QUESTIONS[name], log)
        command_cost(command)
        costs = in_turns({name: partial(command_cost, command)}, settings.repeats, settings.progress)[name]
        what = f"`sojourn {name}`, {requests:,} requests whose services share cores"
        rows.append(
            Row(what, "s", median_of(costs), goal=SHARED, at="most", peak_mb=max(cost.peak_mb for cost in costs))
        )
    log.unlink()
    return rows


def _command(question: Question, log: Path) -> list[str]:
    return [*SOJOURN, question.name, str(log), *question.command[1:], "--json"]


def _commands(folder: Path) -> dict[str, Command]:
    """Return every analysis of a log; the split has a suite of its own."""
    page, film, picture = folder / "page.html", folder / "film.html", folder / "chart.svg"
    return {
        "blame": lambda log: _command(QUESTIONS["blame"], log),
        "whatif": lambda log: _command(QUESTIONS["whatif, one variant"], log),
        "depth": lambda log: _command(QUESTIONS["depth"], log),
        "goodput": lambda log: _command(QUESTIONS["goodput"], log),
        "laws": lambda log: _command(QUESTIONS["laws"], log),
        "capacity": lambda log: [*SOJOURN, "capacity", str(log), "--slo", "p99=0.5", "--window", "5", "--json"],
        "compare": lambda log: [*SOJOURN, "compare", str(log), str(log), "--json"],
        "report": lambda log: [*SOJOURN, "report", str(log), *WITH_WORKERS, "--html", str(page)],
        "movie": lambda log: [*SOJOURN, "movie", str(log), *WITH_WORKERS, "--out", str(film)],
        "plot heatmap": lambda log: [*SOJOURN, "plot", str(log), "heatmap", "--out", str(picture)],
    }


def _against_sql(settings: Settings) -> Row:
    requests = settings.sized(JOINED, 1_000)
    log = written_log(settings.folder, requests)
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for turn in range(settings.repeats):
        for name, script in (("ours", OURS), ("theirs", THEIRS)):
            settings.progress(f"{turn + 1}/{settings.repeats} blame of {requests:,} visits: {name}")
            seconds[name].append(printed_seconds(BLAME_OF + script, log, WORKERS).seconds)
    return compared_row(
        f"blame of {requests:,} visits in memory", "s", seconds["ours"], JOIN, seconds["theirs"], inverse=True,
        times=True,
        note="the query knows no balancer, so blamed seconds by culprit only, of every backend on its own; blame "
        "computes three accounts, the matrix, the chain and windows besides",
    )  # fmt: skip
