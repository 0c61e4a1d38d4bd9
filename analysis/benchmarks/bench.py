"""What ``sojourn split`` costs, as ratios against peers measured in the same run.

    .venv/bin/python analysis/benchmarks/bench.py [--lines 1000000] [--repeats 3] [--out DIR]

Measures whole commands, from process start to exit, on one generated log: `sojourn split`, `blame` and `whatif`, a bare
DuckDB scan of the fields the split needs, and GoAccess on the same requests in the combined format where it is
installed. Medians of the repeats, interleaved, so that a slow minute of the machine hits all of them. Writes bench.json
and bench.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl

SCAN = """
import duckdb, sys
keys = ("time", "status", "request_time", "request_start", "upstream_addr", "upstream_connect_time",
        "upstream_header_time", "upstream_response_time", "queueing_delay", "service_time", "route", "worker")
columns = "{" + ", ".join(f"'{key}': 'VARCHAR'" for key in keys) + "}"
print(duckdb.sql(f'''
    SELECT route, count(*), quantile_cont(request_time::DOUBLE, [0.5, 0.9, 0.99, 0.999]),
           quantile_cont(queueing_delay::DOUBLE, [0.5, 0.9, 0.99, 0.999]),
           quantile_cont(service_time::DOUBLE, [0.5, 0.9, 0.99, 0.999]), max(time), max(request_start),
           max(upstream_addr), max(upstream_connect_time), max(upstream_header_time), max(upstream_response_time),
           max(worker), max(status)
    FROM read_json('{sys.argv[1]}', columns={columns}, format='newline_delimited') GROUP BY route'''))
"""


def written_logs(folder: Path, lines: int) -> tuple[Path, Path]:
    """A log in our format and the same requests in the combined one."""
    rng = random.Random(1)  # noqa: S311 - a benchmark, not a secret
    ours, combined = folder / "access.jsonl", folder / "access.log"
    now = 1_767_225_600.0
    with ours.open("w") as json_log, combined.open("w") as text_log:
        for number in range(lines):
            now += rng.expovariate(1000)
            wait, service = rng.expovariate(10), 0.05 + rng.expovariate(20)
            taken = wait + service + 0.002
            identity = f"{rng.getrandbits(128):032x}"
            path = f"/r{number % 20}/items/{number}"
            record = {
                "time": f"{now + taken:.3f}", "request_id": identity, "trace_id": identity, "span_id": identity[:16],
                "service": "shop", "route": f"/r{number % 20}", "method": "GET", "uri": path, "status": "200",
                "protocol": "HTTP/1.1", "host": "example.com", "remote_addr": f"10.0.0.{number % 250}",
                "bytes_sent": "1234", "request_length": "321", "request_time": f"{taken:.3f}",
                "request_start": f"{now:.3f}", "connection": str(number), "connection_requests": "1",
                "upstream_addr": f"10.1.0.{number % 8}:8080", "upstream_status": "200",
                "upstream_connect_time": "0.000", "upstream_header_time": f"{taken:.3f}",
                "upstream_response_time": f"{taken:.3f}", "queueing_delay": f"{wait:.6f}",
                "service_time": f"{service:.6f}", "worker": str(1000 + number % 800), "proxy": "edge", "stamp": "own",
                "proxy_start": f"{now:.3f}",
            }  # fmt: skip
            json_log.write(json.dumps(record, separators=(",", ":")) + "\n")
            moment = datetime.fromtimestamp(now + taken, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
            text_log.write(f'10.0.0.{number % 250} - - [{moment}] "GET {path} HTTP/1.1" 200 1234 "-" "bench"\n')
    return ours, combined


def measured(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak MB of a command that must succeed."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise SystemExit(f"bench: {command[0]} ended with {os.waitstatus_to_exitcode(status)}")
    return seconds, usage.ru_maxrss / 1024


def commands(ours: Path, combined: Path, out: Path) -> dict[str, list[str]]:
    """Name -> command; peers only where they are installed."""
    python = sys.executable
    found = {
        "sojourn split": [python, "-m", "sojourn", "split", str(ours)],
        "sojourn blame": [python, "-m", "sojourn", "blame", str(ours)],
        "sojourn whatif, one variant": [
            python,
            "-m",
            "sojourn",
            "whatif",
            str(ours),
            "--set",
            "workers=+1",
            "--force",
        ],
        "DuckDB, bare scan of the same fields": [python, "-c", SCAN, str(ours)],
    }
    if shutil.which("goaccess"):
        found["GoAccess"] = [
            "goaccess", str(combined), "--log-format=COMBINED", "--no-progress", "-o", str(out / "goaccess.json"),
        ]  # fmt: skip
    else:
        print("bench: goaccess is not installed; its row is left out", file=sys.stderr)  # noqa: T201
    return found


def result(lines: int, repeats: int, progress: Callable[[str], None]) -> dict[str, object]:
    """Rows of name, seconds (median), spread, peak MB, ratio of the split's time to it."""
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as name:
        folder = Path(name)
        progress(f"writing {lines:,} lines")
        jobs = commands(*written_logs(folder, lines), folder)
        runs: dict[str, list[tuple[float, float]]] = {job: [] for job in jobs}
        for turn in range(repeats):
            for job, command in jobs.items():
                progress(f"{turn + 1}/{repeats} {job}")
                runs[job].append(measured(command))
    medians = {job: statistics.median(seconds for seconds, _ in found) for job, found in runs.items()}
    rows = [
        {
            "what": job,
            "seconds": round(medians[job], 2),
            "from": round(min(s for s, _ in found), 2),
            "to": round(max(s for s, _ in found), 2),
            "peak_mb": round(max(mb for _, mb in found)),
            "split_to_this": round(medians["sojourn split"] / medians[job], 2),
        }
        for job, found in runs.items()
    ]
    return {
        "lines": lines,
        "repeats": repeats,
        "rows": rows,
        "versions": {"python": platform.python_version(), "polars": pl.__version__, "duckdb": duckdb.__version__},
        "machine": {"cores": os.cpu_count(), "system": platform.platform()},
    }


def as_markdown(found: dict[str, object]) -> str:
    """The rows as a table."""
    head = f"`sojourn split` on {found['lines']:,} lines, median of {found['repeats']}\n\n"
    head += "| command | seconds | from – to | peak MB | split ÷ this |\n| --- | --- | --- | --- | --- |\n"
    rows = found["rows"]
    assert isinstance(rows, list)  # noqa: S101
    return head + "".join(
        f"| {r['what']} | {r['seconds']} | {r['from']} – {r['to']} | {r['peak_mb']} | {r['split_to_this']} |\n"
        for r in rows
    )


def main() -> None:
    """Measure, print the table, write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/bench"))
    options = parser.parse_args()
    found = result(options.lines, options.repeats, lambda text: print(f"bench: {text}", file=sys.stderr))  # noqa: T201
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps(found, indent=2) + "\n")
    (options.out / "bench.md").write_text(as_markdown(found))
    print(as_markdown(found))  # noqa: T201


if __name__ == "__main__":
    main()
