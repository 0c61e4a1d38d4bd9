"""What several tests of the lab need: a small real HTTP server, a generator run, waiting with a deadline."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sojourn_lab.experiments.runner import finished_run
from sojourn_lab.load.plan import ClientRecord, Plan, Summary
from sojourn_lab.results.metric_paths import metric_problems
from sojourn_lab.results.progress import Watcher
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.results.run_schema import Run
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.namespace import why_namespace_refused
from sojourn_lab.runtime.process import Process
from sojourn_lab.scenario.files import scenario_from_file, scenario_path
from sojourn_lab.scenario.load import AnyLoad
from sojourn_lab.scenario.schema import Scenario

QUIET = 0.1
"""Cores that others may use while a run is made; a run that is void although they used no more is a fault."""


def find_scenario(name: str) -> Scenario:
    """Return a scenario by its name or its file, as commands do."""
    return scenario_from_file(scenario_path(name))


def eventually(holds: Callable[[], bool], deadline: float, what: str) -> None:
    """Return once `holds()` is true; fail the test when it is not within `deadline` seconds."""
    end = time.monotonic() + deadline
    while not holds():
        assert time.monotonic() < end, f"waited {deadline} s for {what}"
        time.sleep(0.01)


@dataclass
class StubServer:
    """What a test server saw; `before_answer` is called with the number of the request, from 0."""

    before_answer: Callable[[int], None] = lambda _: None
    status: int = 200
    requests: list[tuple[str, str | None, str | None]] = field(default_factory=list)
    now: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    def entered(self, handler: BaseHTTPRequestHandler) -> int:
        with self.lock:
            number = len(self.requests)
            self.requests.append((handler.path, handler.headers["X-Lab-Case"], handler.headers["X-Lab-Id"]))
            self.now += 1
            self.most = max(self.most, self.now)
            return number

    def left(self) -> None:
        with self.lock:
            self.now -= 1


@contextlib.contextmanager
def http_server(stub: StubServer, *, threads: bool = True) -> Iterator[StubServer]:
    """Serve on a free port: a thread per request, or one request after the other."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number = stub.entered(self)
            try:
                stub.before_answer(number)
            finally:
                # Before the answer: a closed loop sends its next request the moment it has this one.
                stub.left()
            body = b"served\n"
            self.send_response(stub.status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Request-ID", f"r{number}")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    kind: type[HTTPServer] = ThreadingHTTPServer if threads else HTTPServer
    server = type("Server", (kind,), {"request_queue_size": 256, "daemon_threads": True})(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


SMALL = """
name = "small"
title = "A small one"
question = "Does the harness hold?"
shows = "That it does."
seed = 1
duration = {duration}
timeout = 10.0
[topology]
backends = 2
[[cases]]
name = "c{{concurrency}}"
service_time = {service}
matrix = {{concurrency = [2, 4]}}
load = {{kind = "closed"}}
[[criteria]]
name = "every request answered"
metric = "client.failed"
equals = {failed}
"""


def small_scenario(folder: Path, duration: float = 0.5, service: float = 0.05, failed: float = 0.0) -> Path:
    """Return the file of a scenario that takes a second or two."""
    path = folder / "small.toml"
    path.write_text(SMALL.format(duration=duration, service=service, failed=failed))
    return path


def groups_of(folder: Path) -> set[int]:
    """Return the process groups of every process whose command line names the folder."""
    groups = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in (entry / "cmdline").read_bytes():
                groups.add(os.getpgid(int(entry.name)))
    return groups


def plan_for(folder: Path, url: str, load: AnyLoad, duration: float, warmup: float = 0.0, **more: Any) -> Plan:
    """Return a plan whose files are in `folder`."""
    settings: dict[str, Any] = {"seed": [7, 0], "service_time": 0.0, "timeout": 5.0, "case": "test"}
    return Plan(
        url=url,
        load=load,
        duration=duration,
        warmup=warmup,
        client_log=str(folder / "client.jsonl"),
        summary=str(folder / "summary.json"),
        **{**settings, **more},
    )


@contextlib.contextmanager
def generator(plan: Plan) -> Iterator[Process]:
    """Start a generator as the harness does, in its own process."""
    folder = Path(plan.summary).parent
    path = folder / "plan.json"
    path.write_bytes(msgspec.json.encode(plan))
    command = [sys.executable, "-m", "sojourn_lab.load.generator", str(path)]
    with Process(command, name="generator", folder=folder) as process:
        yield process


def outcome(plan: Plan) -> tuple[Summary, list[ClientRecord]]:
    """Return what a generator that has ended wrote."""
    lines = Path(plan.client_log).read_bytes().splitlines()
    summary = msgspec.json.decode(Path(plan.summary).read_bytes(), type=Summary)
    return summary, [msgspec.json.decode(line, type=ClientRecord) for line in lines]


def generated(plan: Plan) -> tuple[Summary, list[ClientRecord]]:
    """Run a generator to its end and return what it wrote."""
    with generator(plan) as process:
        code = process.wait(plan.warmup + plan.duration + plan.timeout + 20.0)
        assert code == 0, process.last_lines()
    return outcome(plan)


def stop_for(process: Process, seconds: float) -> None:
    """Take the processor away from a process for some seconds: what is timed here is the stall itself."""
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)


def sound_run(
    folder: Path,
    *arguments: str,
    program: Sequence[str] = ("sojourn_lab", "run"),
    deadline: float = 200.0,
    attempts: int = 3,
    until_passed: bool = False,
) -> dict[str, Any]:
    """Return the record of `sojourn lab run ARGUMENTS`, or of another module's run, without faults and not void.

    A void run is repeated. Where all are void because other programs used the machine, the test is skipped.

    `until_passed`: repeat a run that missed a criterion as well; the last is returned, passed or not.
    """
    for attempt in range(attempts):
        command = [sys.executable, "-m", *program, *arguments, "--json", "--once"]
        done = subprocess.run(
            [*command, "--out", str(folder / f"run-{attempt}")],
            capture_output=True, text=True, timeout=deadline, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        assert done.stdout, done.stderr
        record: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == (0 if record["passed"] else 1)
        if record["passed"] or not (record["void"] or until_passed):
            break
    check_sound(record)
    return record


def sound_run_of(
    scenario: Scenario, folder: Path, scale: float = 1.0, attempts: int = 3, *, until_passed: bool = False
) -> Run:
    """Return a run of a scenario (scaled by `scale` already) made in this process, as `sound_run` does.

    `until_passed`: as in `sound_run`.
    """
    for attempt in range(attempts):
        claimed = RunFolder.claimed(folder / f"run-{attempt}")
        run = finished_run(scenario, scale, claimed, Interrupts(), Watcher())
        if run.passed or not (run.void or until_passed):
            break
    check_sound(msgspec.to_builtins(run))
    return run


def numbers_in(value: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted paths to the numbers in plain values."""
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in parts:
            yield from numbers_in(part, f"{path}.{name}" if path else str(name))
    elif isinstance(value, int | float):
        yield path


def check_metric_paths(record: dict[str, Any]) -> None:
    """Fail if a criterion could not name a number that a run has."""
    paths = {path for case in record["cases"] for path in numbers_in(case) if not path.startswith("window")}
    criteria = [{"metric": path} for path in sorted(paths)]
    assert list(metric_problems({**record["scenario"], "criteria": criteria, "columns": [], "contrasts": []})) == []


def check_sound(record: dict[str, Any]) -> None:
    """Fail for a record with faults or of a void run; skip the test where the machine was too busy for any other."""
    check_metric_paths(record)
    assert record["faults"] == []
    others = max((cores_of_others(case) for case in record["cases"]), default=0.0)
    if record["void"] and others > QUIET:
        pytest.skip(f"the machine is busy, every run was void: others used {others:.2f} cores")
    assert record["void_reasons"] == []


def cores_of_others(case: dict[str, Any]) -> float:
    """Return the cores that other programs and other virtual machines used while a case was measured."""
    disturbance = case["disturbance"] or {}
    return (disturbance.get("outside") or 0.0) + (disturbance.get("stolen") or 0.0)


def missed(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the criteria that a run did not meet."""
    return [each for each in record["criteria"] if not each["passed"]]


def needs_namespace(test: Callable[..., Any]) -> Callable[..., Any]:
    """Skip the test where no network namespace can be made."""
    reason = why_namespace_refused()
    return pytest.mark.skipif(reason is not None, reason=reason or "")(test)


def first_round(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the cases of a record in their first round, by the scenario's names for them."""
    return {case["base"]: case for case in record["cases"] if case["round"] == 1}
