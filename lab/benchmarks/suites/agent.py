"""Processor time of the agent per line: as it is shipped, against Vector that reads the same file and sends nothing."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from sojourn_lab.experiments.pipeline.agent import (
    SINK,
    counters_to,
    counts_in,
    lay_out_agent,
    started_receiver,
    vector_program,
)
from sojourn_lab.experiments.pipeline.vector import processor_seconds
from sojourn_lab.runtime.process import Process

from benchmarks.growth import written_log
from benchmarks.measure import Cost, in_turns
from benchmarks.rows import Measurements, Row, Settings, compared_row

LINES = 300_000
FEW = 20  # of a run that measures the start
MOST = 30.0
"""µs of processor per line: the goal."""

COUNT_SECONDS = 0.1
READ_SECONDS = 120.0
LEAST = 1e-6  # s of processor per line: a smaller cost is lost in that of a start
READER = "access_log"


def run(settings: Settings) -> Measurements:
    """Measure µs of processor per line, start-up excluded."""
    measurements = Measurements()
    vector = vector_program()
    if vector is None:
        measurements.skipped.append("the agent: Vector is not installed (SOJOURN_VECTOR may name it)")
        return measurements
    version = subprocess.run([vector, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    measurements.versions["Vector"] = version
    count = settings.sized(LINES, 1_000)
    logs = {"whole": written_log(settings.folder, count), "start": written_log(settings.folder, FEW)}
    runs = {"agent": (lay_out_shipping, SINK), "reading": (_reading, READER)}
    receiver, store = started_receiver(settings.folder)
    try:
        jobs = {
            (name, size): shipping_job(
                settings.folder, vector, lay_out, component, log, count if size == "whole" else FEW, store
            )
            for name, (lay_out, component) in runs.items()
            for size, log in logs.items()
        }
        costs = in_turns({" ".join(key): job for key, job in jobs.items()}, settings.repeats, settings.progress)
    finally:
        receiver.stop()
    per_line: dict[str, list[float]] = {}
    for name in runs:
        start = statistics.median(cost.cpu for cost in costs[f"{name} start"])
        per_line[name] = [max((cost.cpu - start) / (count - FEW), LEAST) * 1e6 for cost in costs[f"{name} whole"]]
    ours, unit = per_line["agent"], "µs of processor"
    size = os.path.getsize(logs["whole"]) / count
    measurements.rows += [
        compared_row(
            f"the agent ships a line of {size:.0f} bytes", unit, ours, "Vector reads it and sends nothing",
            per_line["reading"], note="length of the line, JSON, zstd, HTTP",
        ),
        Row("a line through the agent", unit, statistics.median(ours), goal=MOST, at="most"),
    ]  # fmt: skip
    return measurements


def shipping_job(
    folder: Path,
    vector: str,
    lay_out: Callable[[Path, Path, str], Path],
    component: str,
    log: Path,
    count: int,
    store: str,
) -> Callable[[], Cost]:
    """Return a job that starts Vector and measures it until a component has sent every line of the log."""
    turn = iter(range(1_000_000))

    def cost() -> Cost:
        work = folder / f"{component}-{count}-{next(turn)}"
        (work / "logs").mkdir(parents=True)
        (work / "logs" / "access.jsonl").hardlink_to(log)
        metrics = lay_out(work, work / "logs", store)
        command = [vector, "--config-dir", str(work / "config")]
        environment = {"PATH": os.environ.get("PATH", ""), "VECTOR_LOG": "warn"}
        process = Process(command, name="vector", folder=work, env=environment, stop_signal=signal.SIGKILL)
        with process:
            process.wait_until(lambda: _sent(metrics, component) >= count, READ_SECONDS, f"{count} lines to be sent")
            used = processor_seconds(process.pid)
        return Cost(0.0, used)

    return cost


def _sent(metrics: Path, component: str) -> float:
    counts = counts_in(metrics.read_bytes(), component) if metrics.exists() else []
    return counts[-1].events if counts else 0.0


def lay_out_shipping(work: Path, logs: Path, store: str) -> Path:
    """Write the agent's configuration, and return the file that it counts into."""
    return lay_out_agent(work, logs, store, COUNT_SECONDS)


def _reading(work: Path, logs: Path, _store: str) -> Path:
    """Write a configuration with the agent's source of lines and nothing behind it."""
    lay_out_agent(work, logs, "", COUNT_SECONDS)
    config = work / "config"
    for file in config.glob("*.yaml"):
        if file.name not in ("access_log.yaml", "agent.yaml"):
            file.unlink()
    nothing: dict[str, Any] = {"type": "blackhole", "inputs": [READER], "print_interval_secs": 0}
    lines = (config / "access_log.yaml").read_text()
    (config / "access_log.yaml").write_text(lines[: lines.index("\ntransforms:")])
    counters = counters_to(work / "metrics.jsonl", COUNT_SECONDS)
    counters["sinks"]["nothing"] = nothing
    (config / "lab.json").write_bytes(msgspec.json.encode(counters))
    return work / "metrics.jsonl"
