"""Everything that runs for a long time, started, fed, sampled and ended: generator, nginx, apps, store, watchers."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.endurance.usage import Usage, disk_of, usage_of
from sojourn_lab.load.plan import Plan, Summary
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.runtime import ProcessRuntime
from sojourn_lab.scenario.load import PoissonLoad, Route
from sojourn_lab.scenario.topology import Topology

ROUTES = [
    Route("/cart", 6.0, 0.004),
    Route("/search", 3.0, 0.012, "exponential"),
    Route("/export", 1.0, 0.040, "exponential"),
]
TOPOLOGY = Topology(backends=2, workers=2)
SERVICE, CASE = "endurance", "endurance"
PATIENCE = 120.0  # s that processes may take to end
CAPTURED = ("--ring-files", "3", "--ring-megabytes", "2", "--quiet")


@dataclass(frozen=True)
class Wish:
    """Duration (s) and rate (requests/s) of a run; `capture` also records packets, which needs root."""

    seconds: float
    rate: float
    every: float = 10.0
    rotate: float = 60.0
    capture: bool = False
    seed: int = 1


@dataclass
class Measurements:
    """Measurements of a run.

    Attributes:
        instants: s since the load began, of the samples.
        usage: by the name of the process, a sample for each instant.
        disk: bytes of all files, store and logs, for each instant.
        counts: requests offered, answered, logged and stored, and the like.
        ends: exit codes of processes that ended by themselves or by a signal.
    """

    instants: list[float] = field(default_factory=list)
    usage: dict[str, list[Usage]] = field(default_factory=dict)
    disk: list[int] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int | None] = field(default_factory=dict)


def endured(
    folder: Path, wish: Wish, interrupts: Interrupts, measured: Measurements, on_sample: Callable[[Measurements], None]
) -> None:
    """Run the stack in a folder of its own, and record measurements in ``measured`` as they come.

    Raises:
        LabError: a part cannot be started, or ends by itself.
    """
    # Not with the servers: it ends once all their files are loaded.
    command = [sys.executable, "-m", "sojourn_lab.experiments.endurance.loader", str(folder)]
    with Process(command, name="loader", folder=folder) as loader:
        _run(folder, wish, interrupts, loader, measured, on_sample)
        _settled(folder, loader, measured)


def _run(
    folder: Path,
    wish: Wish,
    interrupts: Interrupts,
    loader: Process,
    measured: Measurements,
    on_sample: Callable[[Measurements], None],
) -> None:
    runtime = ProcessRuntime(TOPOLOGY, folder, folder / "logs", interrupts)
    with runtime:
        if runtime.nginx is None:
            raise LabError("nginx was not started")
        parts = {"nginx": runtime.nginx.process, **{each.name: each.process for each in runtime.backends}}
        parts |= {"store": loader, **_beside(runtime, folder, wish)}
        parts["generator"] = runtime.started(_generator(folder, runtime.url, wish), "generator")
        rotation = Rotation(folder, runtime.nginx)
        _until_the_end(folder, wish, rotation, parts, measured, on_sample)
        rotation.turn()
        for name in ("watch", "watch on a terminal", "capture"):
            if name in parts:
                measured.ends[name] = parts[name].stop(deadline_s=30.0)
    for backend in runtime.backends:  # they have ended, so all spans are in their files
        measured.counts[f"{backend.name} spans"] = _lines(backend.spans) if backend.spans else 0


def _beside(runtime: ProcessRuntime, folder: Path, wish: Wish) -> dict[str, Process]:
    """Start the processes that run with the servers all the time."""
    log, sojourn = str(runtime.access_log), [sys.executable, "-m", "sojourn", "--no-config"]
    terminal = [sys.executable, "-m", "sojourn_lab.experiments.endurance.terminal"]
    parts = {
        "watch": runtime.started([*sojourn, "watch", log, "--json", "--every", "5"], "watch"),
        "watch on a terminal": runtime.started([*terminal, *sojourn, "watch", log, "--every", "2"], "terminal"),
    }
    if wish.capture and runtime.nginx is not None:
        ports = [f"127.0.0.1:{each.port}" for each in runtime.backends]
        arguments = ["--port", str(runtime.nginx.port), *(part for port in ports for part in ("--backend", port))]
        ring = ["--out", str(folder / "ring.pcap"), *CAPTURED]
        parts["capture"] = runtime.started([*sojourn, "capture", *arguments, *ring], "capture")
    return parts


def _generator(folder: Path, url: str, wish: Wish) -> list[str]:
    plan = Plan(
        case=CASE, url=url, seed=[wish.seed, 0], load=PoissonLoad(wish.rate), service_time=0.0, warmup=0.0,
        duration=wish.seconds, timeout=30.0, client_log=str(folder / "client.jsonl"),
        summary=str(folder / "summary.json"), routes=ROUTES,
    )  # fmt: skip
    (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
    return [sys.executable, "-m", "sojourn_lab.load.generator", str(folder / "plan.json")]


def _until_the_end(
    folder: Path,
    wish: Wish,
    rotation: Rotation,
    parts: dict[str, Process],
    measured: Measurements,
    on_sample: Callable[[Measurements], None],
) -> None:
    begun = time.monotonic()
    sampled = rotated = begun
    while parts["generator"].running():
        now = time.monotonic()
        if now - begun > wish.seconds + PATIENCE:
            raise LabError("the generator does not end")
        if now >= sampled:
            sampled += wish.every
            measured.instants.append(now - begun)
            for name, process in parts.items():
                if name != "generator" and not process.running():
                    raise LabError(f"{name} ended ({process.exit_code()}) under load: {process.last_lines()}")
                measured.usage.setdefault(name, []).append(usage_of(process.pid))
            measured.disk.append(disk_of(folder))
            on_sample(measured)
        if now - rotated > wish.rotate:
            rotated = now
            rotation.turn()
        time.sleep(0.05)


class Rotation:
    """Rotate the log as logrotate does: rename it, signal nginx, pass the old one on once it is closed."""

    def __init__(self, folder: Path, nginx: Nginx) -> None:
        self._folder = folder
        self._nginx = nginx
        self._numbers = itertools.count(1)

    def turn(self) -> None:
        """Rotate the log; LabError if nginx does not reopen it."""
        rotated = self._folder / "rotated.jsonl"
        self._nginx.access_log.rename(rotated)
        self._nginx.reopen(deadline_s=10.0)
        rotated.rename(self._folder / f"access.jsonl.{next(self._numbers)}")


def _settled(folder: Path, loader: Process, measured: Measurements) -> None:
    """Pass the remaining log on, wait for the store, and count."""
    rest = folder / "access.jsonl"
    if rest.stat().st_size:
        rest.rename(folder / "access.jsonl.999999")
    (folder / "end").touch()
    if loader.wait(PATIENCE):
        raise LabError(f"the store did not take everything: {loader.last_lines()}")
    loaded = folder / "loaded.json"
    summary = msgspec.json.decode((folder / "summary.json").read_bytes(), type=Summary)
    state: dict[str, Any] = json.loads(loaded.read_text(encoding="utf-8"))
    spans = sum(count for name, count in measured.counts.items() if name.endswith(" spans"))
    measured.counts = {
        "offered": summary.offered, "dropped": summary.dropped, "answered": summary.answered, "failed": summary.failed,
        "logged": state["lines"], "refused": state["refused"], "stored": state["requests"],
        "rolled up": state["rolled_up"], "spans written": spans, "spans stored": state["spans"],
        "files loaded": state["files"], "minutes explained": state["minutes"],
    }  # fmt: skip


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
