"""Accuracy of load generators: arrivals at one minimal server, against requests evenly spaced in time.

The error of an arrival is its lateness against even spacing, less that of the most punctual arrival of its run, so that
the common delay to the server drops out. The lab's generator and k6 (constant-arrival-rate) open a connection for each
request; wrk has no schedule, its users send the next request as soon as the response arrives.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sojourn_lab.errors import LabError
from sojourn_lab.runtime.ports import free_port, wait_for_port
from sojourn_lab.runtime.process import Process

from benchmarks.rows import Measurements, Row, Settings, compared_row

RATES = (500, 2_000)
SECONDS = 10.0
SECONDS_OF_WRK = 3.0
USERS = 32
OURS = "sojourn lab"
SERVER = Path(__file__).resolve().parents[1] / "arrivals.py"

K6 = """
import http from 'k6/http';
export const options = {
  noConnectionReuse: true,
  scenarios: { steady: { executor: 'constant-arrival-rate', rate: RATE, timeUnit: '1s', duration: 'DURATIONms',
                         preAllocatedVUs: 200, maxVUs: 1000 } },
};
export default function () { http.get('URL'); }
"""

Arrivals = npt.NDArray[np.float64]


def run(settings: Settings) -> Measurements:
    """Measure the lateness for ten seconds at each rate, and the rate that a closed loop achieves."""
    measurements = Measurements()
    seconds = max(SECONDS * settings.scale, 1.0)  # k6 accepts no less
    generators: dict[str, Callable[[int, int, float, Path], None]] = {OURS: _ours}
    if shutil.which("k6"):
        generators["k6"] = _k6
        measurements.versions["k6"] = _version("k6")
    else:
        measurements.skipped.append("k6: it is not installed, or not on PATH")
    for rate in RATES if settings.scale >= 0.1 else RATES[-1:]:
        runs: dict[str, list[Arrivals]] = {name: [] for name in generators}
        reports: list[dict[str, float]] = []
        for turn in range(settings.repeats):
            for name, offer in generators.items():
                settings.progress(f"{turn + 1}/{settings.repeats} {name}, {rate} requests/s")
                folder = settings.folder / f"{name.replace(' ', '-')}-{rate}-{turn}"
                folder.mkdir()
                runs[name].append(_arrivals(folder, partial(offer, rate), seconds))
                if name == OURS:
                    reports.append(json.loads((folder / "summary.json").read_text()))
        for quantile, what in ((0.5, "p50"), (0.99, "p99"), (1.0, "largest")):
            measurements.rows.append(_error(rate, what, quantile, runs, seconds))
        measurements.rows.append(_own_account(rate, reports))
    measurements.rows += _closed(settings, measurements)
    return measurements


def lateness(arrivals: Arrivals, rate: float) -> Arrivals:
    """Return the lateness of each arrival (s) against even spacing; the most punctual one is at zero."""
    behind = arrivals - np.arange(len(arrivals)) / rate
    return np.asarray(behind - behind.min())


def _achieved(arrivals: Arrivals) -> float:
    return (len(arrivals) - 1) / max(float(arrivals[-1] - arrivals[0]), 1e-9)


def _error(rate: int, what: str, quantile: float, runs: dict[str, list[Arrivals]], seconds: float) -> Row:
    def of(name: str) -> list[float]:
        return [1e3 * float(np.quantile(lateness(each, rate), quantile)) for each in runs[name]]

    own_errors = of(OURS)
    title = f"schedule error at {rate:,} requests/s for {seconds:g} s, {what}"
    achieved = f"ours came to {statistics.median(map(_achieved, runs[OURS])):,.0f} requests/s"
    if "k6" not in runs:
        return Row(title, "ms", statistics.median(own_errors), low=min(own_errors), high=max(own_errors), note=achieved)
    theirs = [max(error, 1e-6) for error in of("k6")]
    return compared_row(
        title,
        "ms",
        own_errors,
        "k6, constant-arrival-rate",
        theirs,
        goal=1.0,
        at="most",
        note=f"{achieved}, k6 to {statistics.median(map(_achieved, runs['k6'])):,.0f}",
    )


def _own_account(rate: int, reports: list[dict[str, Any]]) -> Row:
    lag = {key: 1e3 * statistics.median(each["schedule_lag"][key] for each in reports) for key in ("p50", "p99", "max")}
    void = sum(bool(each["void"]) for each in reports)
    cost = 1e6 * statistics.median(each["cpu"] / max(each["achieved_rate"], 1e-9) for each in reports)
    return Row(
        f"sent less intended at {rate:,} requests/s by the lab's own account, p99",
        "ms",
        lag["p99"],
        note=f"p50 {lag['p50']:.3f} ms, largest {lag['max']:.3f} ms; one Python process, a connection and a request "
        f"cost it {cost:.0f} µs of a core; {void} of {len(reports)} runs called themselves void for their lag",
    )


def _closed(settings: Settings, measurements: Measurements) -> list[Row]:
    if not shutil.which("wrk"):
        measurements.skipped.append("wrk: it is not installed")
        return []
    measurements.versions["wrk"] = _version("wrk")
    rates = []
    for turn in range(settings.repeats):
        folder = settings.folder / f"wrk-{turn}"
        folder.mkdir()
        rates.append(_achieved(_arrivals(folder, _wrk, max(SECONDS_OF_WRK * settings.scale, 0.3))))
    note = f"{USERS} users without a pause, kept-alive: a rate that the server sets, not a schedule"
    return [Row("wrk, closed loop, the rate it came to", "requests/s", statistics.median(rates), note=note)]


def _arrivals(folder: Path, offer: Callable[[int, float, Path], None], seconds: float) -> Arrivals:
    """Run a generator against the server and return the arrivals (s).

    Raises:
        SystemExit: fewer than ten requests arrived.
    """
    port, file = free_port(), folder / "arrivals.bin"
    try:
        with Process([sys.executable, str(SERVER), str(port), str(file)], name="arrivals", folder=folder) as server:
            wait_for_port("127.0.0.1", port, 15, server)
            offer(port, seconds, folder)
            server.stop()
    except LabError as error:
        raise SystemExit(f"bench: {error}") from None
    arrivals = np.sort(np.fromfile(file, dtype=np.int64)) / 1e9
    if len(arrivals) < 10:
        raise SystemExit(f"bench: only {len(arrivals)} requests arrived")
    return np.asarray(arrivals)


def _ours(rate: int, port: int, seconds: float, folder: Path) -> None:
    plan = {
        "case": "even", "url": f"http://127.0.0.1:{port}", "seed": [1], "load": {"kind": "constant", "rate": rate},
        "service_time": 0.0, "warmup": 0.0, "duration": seconds, "timeout": 5.0,
        "client_log": str(folder / "client.jsonl"), "summary": str(folder / "summary.json"),
    }  # fmt: skip
    (folder / "plan.json").write_text(json.dumps(plan))
    _finished([sys.executable, "-m", "sojourn_lab.load.generator", str(folder / "plan.json")])


def _k6(rate: int, port: int, seconds: float, folder: Path) -> None:
    values = {"RATE": str(rate), "DURATION": f"{1000 * seconds:.0f}", "URL": f"http://127.0.0.1:{port}/"}
    text = re.sub("|".join(values), lambda match: values[match[0]], K6)
    (folder / "steady.js").write_text(text)
    _finished(["k6", "run", "--quiet", "--no-usage-report", "--no-summary", str(folder / "steady.js")])


def _wrk(port: int, seconds: float, _: Path) -> None:
    process = subprocess.Popen(
        ["wrk", "-t1", f"-c{USERS}", "-d3600s", f"http://127.0.0.1:{port}/"], stdout=subprocess.DEVNULL
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait(30)
    finally:
        process.kill()
        process.wait()


def _finished(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise SystemExit(f"bench: {command[0]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")


def _version(name: str) -> str:
    done = subprocess.run([name, "version" if name == "k6" else "-v"], capture_output=True, text=True, check=False)
    number = re.search(r"(\d+\.\d+\.\d+)", done.stdout + done.stderr)
    return number[1] if number else ""
