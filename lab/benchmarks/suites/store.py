"""The cost of a line in the embedded store, of loading a log, of a request on disk, and of dashboards' queries.

The queries run with rollups and on the requests themselves.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from types import ModuleType

from sojourn.store import connect, init, load
from sojourn.store.client import rows as rows_of

from benchmarks.growth import slopes
from benchmarks.log_generator import LogShape, write_log
from benchmarks.measure import Job, command_cost, in_turns, median_of, printed_seconds, ratio_of
from benchmarks.rows import Measurements, Row, Settings, compared_row
from benchmarks.store_generator import BEGIN, END, make_store, raw_queries

LINES = 500_000
LOADED = 2_000_000
STORED = (10_000_000, 100_000_000)
ROUNDS = {10_000_000: 3}  # of the queries, by the size of the store; 1 for a larger one, where each takes minutes
REPOSITORY = Path(__file__).parents[3]

LOAD = """
import sys, tempfile
from sojourn.store import init, load
with tempfile.TemporaryDirectory(dir=sys.argv[2]) as folder:
    dsn = f"chdb://{folder}/store"
    init(dsn)
    load(dsn, [sys.argv[1]])
"""
# Seconds from the file to rows, as `sojourn store load` does it; without its start, the schema and the rollups.
ROWS = """
import sys, tempfile, time
from sojourn.store import connect, init
from sojourn.store.inserts import load_into
with tempfile.TemporaryDirectory(dir=sys.argv[2]) as folder:
    dsn = f"chdb://{folder}/store"
    init(dsn)
    with connect(dsn) as store:
        begun = time.monotonic()
        load_into(store, [sys.argv[1]], [])
        print(time.monotonic() - begun)
"""
# The keys of a line in the types that the engine reads by itself; lists of attempts are text.
BARE = """
import resource, sys, tempfile
from chdb.session import Session
def spent():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
with tempfile.TemporaryDirectory(dir=sys.argv[2]) as folder:
    engine = Session(folder)
    engine.query("CREATE DATABASE bare")
    texts = ("request_id", "service", "route", "method", "uri", "protocol", "host", "remote_addr", "upstream_addr",
             "upstream_status", "upstream_connect_time", "upstream_header_time", "upstream_response_time", "worker")
    numbers = ("time", "request_time", "request_start", "queueing_delay", "service_time")
    whole = ("status", "bytes_sent", "request_length", "connection", "connection_requests")
    columns = ", ".join([*(f"{n} String" for n in texts), *(f"{n} Float64" for n in numbers),
                         *(f"{n} Int64" for n in whole)])
    engine.query(f"CREATE TABLE bare.requests ({columns}) ENGINE = MergeTree ORDER BY (service, route, time)")
    before = spent()
    engine.query(f"INSERT INTO bare.requests SELECT * FROM file('{sys.argv[1]}', 'JSONEachRow', '{columns}')")
    if "merged" in sys.argv:
        engine.query("OPTIMIZE TABLE bare.requests FINAL")
        print(spent() - before)
    engine.close()
"""
# CPU seconds from the lines of a file to merged rows, as an agent sends them: with their file, position and length.
PARSED = """
import resource, sys, tempfile
from sojourn.store import connect, init
from sojourn.store.senders import INSERT_SETTINGS
def spent():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
with tempfile.TemporaryDirectory(dir=sys.argv[2]) as folder:
    dsn = f"chdb://{folder}/store"
    init(dsn)
    with connect(dsn) as store:
        store.client.command("SYSTEM STOP VIEW rollup_refresh")
        before = spent()
        store.client.command(
            "INSERT INTO incoming (line, host, file, position, line_bytes) "
            "SELECT line, 'edge', '/var/log/sojourn/access.jsonl', sum(length(line) + 1) OVER "
            "(ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - length(line) - 1, length(line) + 1 "
            f"FROM file('{sys.argv[1]}', 'LineAsString', 'line String')",
            settings={**INSERT_SETTINGS, "min_insert_block_size_rows": 100_000,
                      "min_insert_block_size_bytes": 0, "max_insert_threads": 1},
        )
        store.client.command("OPTIMIZE TABLE requests FINAL")
        print(spent() - before)
"""
CPU_US, ROWS_PER_S = 15.0, 150_000.0  # goals: a line to its merged row, a load
BYTES = {"full": 32.0, "lean": 24.0}  # record -> goal: a merged row


def run(settings: Settings) -> Measurements:
    """Measure loading, disk, and every query at two sizes of the store."""
    measurements = Measurements()
    lines, many = settings.sized(LINES, 2_000), settings.sized(LOADED, 8_000)
    log = settings.folder / "store.jsonl"
    write_log(LogShape(lines, clean=True), log)  # a bare INSERT refuses the whole file for an odd line
    measurements.rows.append(_parsing(settings, log, lines))
    for record, goal in BYTES.items():
        write_log(LogShape(lines, lean=record == "lean"), log)
        measurements.rows += _on_disk(settings, log, lines, record, goal)
    write_log(LogShape(many, clean=True), log)
    measurements.rows += _loading(settings, log, many)
    log.unlink()
    measurements.slopes += slopes(
        settings,
        {"store load": lambda log: [sys.executable, "-c", LOAD, str(log), str(settings.folder)]},
        {},
    )
    for rows in dict.fromkeys(settings.sized(size, 1_000) for size in STORED):
        measurements.rows += _queries(settings, rows)
    return measurements


def _parsing(settings: Settings, log: Path, lines: int) -> Row:
    jobs = {
        name: partial(printed_seconds, script, log, settings.folder, "merged")
        for name, script in (("lines", PARSED), ("bare", BARE))
    }
    costs = in_turns(jobs, settings.repeats, settings.progress)
    spent = {name: [cost.seconds / lines * 1e6 for cost in each] for name, each in costs.items()}
    ratio, low, high = ratio_of(spent["lines"], spent["bare"])
    cost = statistics.median(spent["lines"])
    return Row(
        f"from a line to its merged row, {lines:,} lines", "µs of processor", cost,
        "the same file, JSONEachRow into a plain MergeTree, merged", statistics.median(spent["bare"]),
        goal=CPU_US, at="most",
        note=f"{ratio:.2f} ({low:.2f} to {high:.2f}) times the peer; ours parses, checks, redacts, deduplicates and "
        "fills the tables of rollups, clock offsets and missing lines",
    )  # fmt: skip


def _loading(settings: Settings, log: Path, lines: int) -> list[Row]:
    jobs: dict[str, Job] = {
        name: partial(command_cost, [sys.executable, "-c", script, str(log), str(settings.folder)])
        for name, script in (("store load", LOAD), ("bare INSERT", BARE))
    }
    jobs["rows"] = partial(printed_seconds, ROWS, log, settings.folder)
    costs = in_turns(jobs, settings.repeats, settings.progress)
    rates = {name: [lines / cost.seconds for cost in spent] for name, spent in costs.items()}
    peer = "bare INSERT of the same file, JSONEachRow into a plain MergeTree"
    return [
        Row(
            f"`sojourn store load`, until {lines:,} lines are rows", "rows/s", statistics.median(rates["rows"]),
            goal=ROWS_PER_S,
            note=f"{min(rates['rows']):,.0f} to {max(rates['rows']):,.0f}; without the start, schema and rollups",
        ),
        compared_row(
            f"`sojourn store load`, all of it, {lines:,} lines", "rows/s", rates["store load"], peer,
            rates["bare INSERT"], times=True,
            peak_mb=max(cost.peak_mb for cost in costs["store load"]),
            peer_mb=max(cost.peak_mb for cost in costs["bare INSERT"]),
            note=f"ours makes the store, checks every line, keeps what it refuses and computes the rollups: "
            f"{median_of(costs['store load'], 'cpu') / lines * 1e6:.1f} µs of processor a line, start included",
        ),
    ]  # fmt: skip


def _on_disk(settings: Settings, log: Path, lines: int, record: str, goal: float) -> list[Row]:
    folder = settings.folder / "store"
    dsn = f"chdb://{folder}"
    init(dsn)
    load(dsn, [log])
    with connect(dsn) as store:
        store.client.command("OPTIMIZE TABLE requests FINAL")
        stored = rows_of(
            store, "SELECT sum(bytes_on_disk) / sum(rows) FROM system.parts WHERE active AND table = 'requests'"
        )[0][0]
    shutil.rmtree(folder)
    raw = log.stat().st_size / lines
    zipped = len(gzip.compress(log.read_bytes(), 6)) / lines
    name = f"a request of the {record} record in the store, merged"
    return [
        Row(name, "bytes", stored, goal=goal, at="most"),
        *(
            Row(name, "bytes", stored, peer, theirs, stored / theirs)
            for peer, theirs in (("its line of the log", raw), ("its part of the log, gzip -6", zipped))
        ),
    ]


def _queries(settings: Settings, rows: int) -> list[Row]:
    """Measure the query of every panel of ``raw_queries`` against the same from the requests themselves."""
    folder = settings.folder / f"store-{rows}"
    dsn = f"chdb://{folder}"
    make_store(dsn, rows, settings.progress)
    panel_rows: list[Row] = []
    with connect(dsn) as store:
        rollups = rows_of(store, "SELECT count() FROM rollup_minute FINAL")[0][0]

        def seconds(sql: str) -> float:
            begin = time.perf_counter()
            store.client.query(sql)
            return time.perf_counter() - begin

        for (board, panel), raw in raw_queries().items():
            settings.progress(f"{panel}, {rows:,} rows")
            panel_sql = _grafana_sql(board, panel)
            seconds(panel_sql)  # warms up the page cache
            rounds = min(settings.repeats, next((many for size, many in ROUNDS.items() if rows <= size), 1))
            timings = [(seconds(panel_sql), seconds(raw)) for _ in range(rounds)]
            ours, theirs = ([pair[i] * 1e3 for pair in timings] for i in (0, 1))
            note = _note(ratio_of(theirs, ours)[0], rollups, rounds, first=not panel_rows)
            panel_rows.append(
                compared_row(
                    f"{panel}, a day of {rows:,} requests", "ms", ours, "the same from every request", theirs,
                    inverse=True, times=True, note=note,
                )
            )  # fmt: skip
    shutil.rmtree(folder)
    return panel_rows


def _note(ratio: float, rollups: int, rounds: int, *, first: bool) -> str:
    notes = [f"rollups of {rollups:,} rows; queries of the whole day, warm; median of {rounds}"] if first else []
    if ratio < 1:
        notes.append("sketches of quantiles cost what they cost, however few the requests they stand for")
    return "; ".join(notes)


def _grafana_sql(board: str, panel: str) -> str:
    """Return the SQL of a panel with macros and variables expanded, as the plugin sends it."""
    expand = _module(REPOSITORY / "tests" / "dashboards" / "grafana_expand.py")
    model = json.loads((REPOSITORY / "dashboards" / "grafana" / "dashboards" / f"{board}.json").read_text())
    values = {each["name"]: each.get("current", {}).get("value", "") for each in model["templating"].get("list") or []}
    text = next(
        each["targets"][0]["rawSql"] for each in model["panels"] if each["title"] == panel and "targets" in each
    )
    return str(expand.expanded(text, expand.View(BEGIN, END, 60, values)))


def _module(path: Path) -> ModuleType:
    """Import a module of the tests, which implement Grafana's expansion of queries."""
    if path.stem not in sys.modules:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None  # noqa: S101
        assert spec.loader is not None  # noqa: S101
        sys.modules[path.stem] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[path.stem]
