"""Measure events per second through Vector with the agent's shipped configuration, into a store that keeps nothing.

Vector itself counts the events that the store has accepted, four times a second; a batch of 20,000 is accepted at once,
so the measuring is from one count to another.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.pipeline.agent import Count, counts_in, lay_out_agent, started_receiver, vector_program
from sojourn_lab.experiments.pipeline.records import log_lines
from sojourn_lab.experiments.stage import Stage
from sojourn_lab.measure.proc import GONE, stat_of
from sojourn_lab.results.run_context import Outcome
from sojourn_lab.runtime.process import Process
from sojourn_lab.scenario.experiment_settings import Pipeline

LINES = 5_000
"""Different lines; the file repeats them."""

LINES_PER_SECOND = 100_000
"""More than one thread has been seen to do: the file must not end before the measuring does."""

MOST_LINES = 2_000_000
START_SECONDS = 60.0
MARGIN = 30.0
LOOK_SECONDS = 0.2
COUNT_SECONDS = 0.25
BATCH_SECONDS = 10.0


def measured_vector(stage: Stage, settings: Pipeline, work: Path) -> Outcome:
    """Measure it; where there is no Vector the only figure is `skipped`, with the reason."""
    program = vector_program()
    if program is None:
        now = time.time()
        reason = "vector is not installed: install Vector 0.57.0, or set SOJOURN_VECTOR to its program"
        return Outcome(now, now, {"skipped": reason})
    with stage.interrupts.shielded():
        receiver, store = started_receiver(stage.logs)
    try:
        return _measured(stage, settings, work, program, store)
    finally:
        with stage.interrupts.shielded():
            receiver.stop()


def _measured(stage: Stage, settings: Pipeline, work: Path, program: str, store: str) -> Outcome:
    scenario = stage.scenario
    warmup, duration = scenario.warmup, scenario.duration_of(stage.case)
    before = time.monotonic()
    _write_log(work, stage.seed, settings.threads, warmup + duration)
    metrics = lay_out_agent(work, work / "logs", store, COUNT_SECONDS)
    command = [program, "--threads", str(settings.threads), "--config-dir", str(work / "config")]
    environment = {"PATH": os.environ.get("PATH", ""), "VECTOR_LOG": "info"}
    # On a graceful stop it would first process all that it has read, which is not needed.
    process = Process(command, name="vector", folder=stage.logs, env=environment, stop_signal=signal.SIGKILL)
    used: list[tuple[float, float]] = []
    with stage.interrupts.shielded():
        process.start()
    try:
        counted = _Counted(metrics)

        def begun() -> bool:
            used.append((time.time(), processor_seconds(process.pid)))
            return counted.last().events > 0.0

        process.wait_until(begun, START_SECONDS, "the first events to be accepted")
        spin_up = time.monotonic() - before
        since = time.time() + warmup
        until = since + duration
        events = counted.last().events

        def ended() -> bool:
            used.append((time.time(), processor_seconds(process.pid)))
            stage.watcher.elapsed(min(time.time() - since + warmup, warmup + duration))
            last = counted.last()
            # One thread counts what has left after each batch, and a slow build takes longer than the window for one.
            return last.time > until and (last.events > events or time.time() > until + BATCH_SECONDS)

        process.wait_until(ended, warmup + duration + MARGIN, "a count after the end of the measuring")
    finally:
        before = time.monotonic()
        with stage.interrupts.shielded():
            process.stop()
    tear_down = time.monotonic() - before
    counts = counts_in(metrics.read_bytes())
    return Outcome(since, until, figures_of(counts, used, since, until), spin_up=spin_up, tear_down=tear_down)


def _write_log(work: Path, seed: Sequence[int], threads: int, seconds: float) -> None:
    """Write a log that lasts for so many seconds."""
    (work / "logs").mkdir()
    lines = b"".join(log_lines(LINES, list(seed)))
    count = min(MOST_LINES, round(LINES_PER_SECOND * threads * (seconds + 2.0)))
    with (work / "logs" / "access.jsonl").open("wb") as log:
        for _ in range(-(-count // LINES)):
            log.write(lines)


class _Counted:
    """The last count that Vector wrote; read only a few times per second, because reading uses its cores."""

    def __init__(self, metrics: Path) -> None:
        self._metrics = metrics
        self._last = Count(0.0, 0.0, 0.0)
        self._looked = -LOOK_SECONDS

    def last(self) -> Count:
        """Return the count; 0 at the instant 0 before the first."""
        if time.monotonic() - self._looked >= LOOK_SECONDS and self._metrics.exists():
            counts = counts_in(self._metrics.read_bytes())
            self._last = counts[-1] if counts else self._last
            self._looked = time.monotonic()
        return self._last


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process, all threads, s; LabError if it has ended."""
    try:
        return stat_of(pid).cpu
    except GONE:
        raise LabError(f"process {pid} ended while it was being measured") from None


def figures_of(
    counts: Sequence[Count], used: Sequence[tuple[float, float]], since: float, until: float
) -> dict[str, float | None]:
    """Return `events_per_s`, `cores` (mean), `event_cpu` (s of a core per event) and `discarded`.

    The rate is that from the last count before the window to the first one after it that is larger; where the input
    came to its end before, to the first count of that end.
    """
    none: dict[str, float | None] = {"events_per_s": None, "cores": None, "event_cpu": None, "discarded": None}
    before = [each for each in counts if each.time <= since]
    first = before[-1] if before else None
    growing = [late for early, late in pairwise(counts) if late.events > early.events]
    if first is None or not growing:
        return none
    after = [each for each in counts if each.time >= until and each.events > first.events]
    if not after:
        return none
    last = min(after[0], growing[-1], key=lambda each: each.time)
    if last.events <= first.events:
        return none
    instants, cpu = (np.asarray(column) for column in zip(*used, strict=True))
    begun, ended = np.interp([first.time, last.time], instants, cpu).tolist()
    events, seconds = last.events - first.events, last.time - first.time
    return {
        "events_per_s": events / seconds,
        "cores": (ended - begun) / seconds,
        "event_cpu": (ended - begun) / events,
        "discarded": last.discarded,
    }
