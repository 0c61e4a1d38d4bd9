"""The cost that the Go middleware adds to a request: the benchmark of its module, with and without the middleware."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess

from sojourn_lab.resources import resource_file

from benchmarks.rows import Measurements, Row, Settings, added_row

CALLS = 200_000
GOAL_US = 10.0
OLDEST = (1, 22)
_LINE = re.compile(r"^BenchmarkMiddleware/(bare|measured|limited)\S*\s.*?([0-9.]+) cpu-ns/op", re.MULTILINE)
_KINDS = {"measured": "Go, the headers", "limited": "Go, the headers and a limit of 8"}


def go_rows(settings: Settings, measurements: Measurements) -> list[Row]:
    """Return what the Go middleware adds to a request, without and with a limit; bare and measured in turns."""
    go = shutil.which("go")
    if go is None:
        measurements.skipped.append("Go: go is not installed")
        return []
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off", "GOPROXY": "off"}
    version = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=environment
    ).stdout.strip()
    numbers = re.match(r"go(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST:
        measurements.skipped.append(f"Go: {version or 'this go'} is older than {OLDEST[0]}.{OLDEST[1]}")
        return []
    measurements.versions["go"] = version.removeprefix("go")
    program = str(settings.folder / "middleware.test")
    module = resource_file("middleware", "go")
    _run([go, "test", "-c", "-o", program, "."], cwd=str(module), env=environment)
    calls = settings.sized(CALLS, 1000)
    command = [program, "-test.run=^$", "-test.bench=^BenchmarkMiddleware$", f"-test.benchtime={calls}x"]
    costs: dict[str, list[float]] = {"bare": [], "measured": [], "limited": []}
    for turn in range(settings.repeats):
        settings.progress(f"{turn + 1}/{settings.repeats} Go")
        for kind, nanoseconds in _LINE.findall(_run(command, cwd=str(settings.folder))):
            costs[kind].append(float(nanoseconds) / 1e3)
    note = f"the app alone takes {statistics.median(costs['bare']):.2f} µs"
    return [added_row(what, costs["bare"], costs[kind], goal=GOAL_US, note=note) for kind, what in _KINDS.items()]


def _run(command: list[str], cwd: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env)
    if done.returncode:
        output = done.stderr.strip() or done.stdout.strip()
        raise SystemExit(f"bench: {command[0]} ended with {done.returncode}: {output}")
    return done.stdout
