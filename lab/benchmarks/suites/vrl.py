"""The cost of Vector's programs per line or span, against a program that only parses it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import statistics
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from benchmarks.growth import written_log
from benchmarks.measure import command_cost, in_turns, ratio_of
from benchmarks.rows import Measurements, Row, Settings

EVENTS = 100_000
FEW = 10  # of a run that measures the start
PIPELINE = Path(__file__).parents[3] / "collector" / "vector"
LEAST = 1e-3  # s of processor: a smaller cost is lost in that of a start

PARSE = ". = parse_json!(string!(.message))\n"
COMBINED = '. = parse_nginx_log!(string!(.message), format: "combined")\n'
# A span as the receiver emits it: instants are timestamps, of a type that the compiler does not know beforehand.
SPAN = PARSE + "".join(
    f'.{name} = from_unix_timestamp(int!(.{name}), unit: "nanoseconds") ?? null\n'
    for name in ("start_time_unix_nano", "end_time_unix_nano")
)

Runner = Callable[[Path, Path, Path], list[str]]
"""The command line for a program and a file of lines, and a folder for its files."""


def run(settings: Settings) -> Measurements:
    """Measure events a second of one core, start-up excluded."""
    measurements = Measurements()
    runner, name = _runner(measurements)
    if runner is None:
        return measurements
    count = settings.sized(EVENTS, 200)
    log = written_log(settings.folder, count)
    combined, spans = settings.folder / "access.log", settings.folder / "spans.jsonl"
    _write_others(log, combined, spans)
    jobs = {
        "requests": (_program("requests"), log),
        "parse_json of a line": (PARSE, log),
        "parse_nginx_log": (COMBINED, combined),
        "spans": (SPAN + _program("spans"), spans),
        "parse_json of a span": (SPAN, spans),
    }
    rates = _rates(settings, runner, jobs, count)
    for ours, peer, what, note in (
        ("requests", "parse_json of a line", "parse_json alone", "the floor: what every program on JSON lines pays"),
        ("requests", "parse_nginx_log", "parse_nginx_log of the combined format", "9 fields instead of 25, untyped"),
        ("spans", "parse_json of a span", "the span made an event, no more", ""),
    ):
        ratio, low, high = ratio_of(rates[ours], rates[peer])
        measurements.rows.append(
            Row(
                f"{ours}.vrl, by {name}", "events/s of a core", statistics.median(rates[ours]), what,
                statistics.median(rates[peer]), ratio, low, high, times=True, note=note,
            )
        )  # fmt: skip
    return measurements


def _rates(settings: Settings, runner: Runner, jobs: dict[str, tuple[str, Path]], count: int) -> dict[str, list[float]]:
    commands, starts = {}, {}
    for number, (job, (text, lines)) in enumerate(jobs.items()):
        program = settings.folder / f"{number}.vrl"
        program.write_text(text)
        few = settings.folder / f"few-{number}"
        with lines.open() as whole:
            few.write_text("".join(line for line, _ in zip(whole, range(FEW), strict=False)))
        commands[job] = runner(program, lines, settings.folder / f"of-{number}")
        starts[job] = runner(program, few, settings.folder / f"few-of-{number}")
    timed = {job: lambda command=command: command_cost(command) for job, command in commands.items()}
    idle = {f"{job}, start": lambda command=command: command_cost(command) for job, command in starts.items()}
    costs = in_turns({**timed, **idle}, settings.repeats, settings.progress)
    start = {job: statistics.median(cost.cpu for cost in costs[f"{job}, start"]) for job in jobs}
    return {job: [(count - FEW) / max(cost.cpu - start[job], LEAST) for cost in costs[job]] for job in jobs}


def _runner(measurements: Measurements) -> tuple[Runner | None, str]:
    """Return how programs run on this machine: by Vector, else by the ``vrl`` command."""
    vector = os.environ.get("SOJOURN_VECTOR") or shutil.which("vector")
    if vector:
        measurements.versions["Vector"] = subprocess.run(
            [vector, "--version"], capture_output=True, text=True, check=True
        ).stdout.split()[1]
        return lambda program, lines, folder: _by_vector(vector, program, lines, folder), "Vector"
    measurements.skipped.append("the programs in Vector itself: it is not installed (SOJOURN_VECTOR may name it)")
    tools = Path(__file__).parents[3] / ".tools" / "bin"
    vrl = os.environ.get("SOJOURN_VRL") or shutil.which("vrl", path=f"{os.environ.get('PATH', '')}:{tools}")
    if vrl:
        return lambda program, lines, folder: _by_vrl(vrl, program, lines, folder), "the vrl command"
    measurements.skipped.append("the programs by the vrl command: it is not installed")
    return None, ""


def _by_vector(vector: str, program: Path, lines: Path, folder: Path) -> list[str]:
    folder.mkdir(exist_ok=True)
    config = {
        "data_dir": str(folder),
        "sources": {"lines": {"type": "stdin", "max_length": 1 << 20}},
        "transforms": {"program": {"type": "remap", "inputs": ["lines"], "file": str(program), "drop_on_error": True}},
        "sinks": {"nowhere": {"type": "blackhole", "inputs": ["program"], "print_interval_secs": 0}},
    }
    file = folder / "vector.yaml"
    file.write_text(yaml.safe_dump(config))
    return _reading(lines, [vector, "--config", str(file), "--threads", "1", "--quiet"])


def _by_vrl(vrl: str, program: Path, lines: Path, folder: Path) -> list[str]:
    events = folder.with_suffix(".events")
    with lines.open() as read, events.open("w") as written:
        written.writelines(json.dumps({"message": line.rstrip("\n")}) + "\n" for line in read)
    return [vrl, "--input", str(events), "--program", str(program), "--print-object"]


def _reading(lines: Path, command: list[str]) -> list[str]:
    return ["/bin/sh", "-c", f"exec {shlex.join(command)} < {shlex.quote(str(lines))}"]


def _program(name: str) -> str:
    """Return the program of a remap transform, assembled as Vector does."""
    remap = yaml.safe_load((PIPELINE / "config" / f"{name}.yaml").read_text())["transforms"][name]
    files = remap.get("files") or [remap["file"]]
    return "".join((PIPELINE / Path(file).relative_to("/etc/vector")).read_text() + "\n" for file in files)


def _write_others(log: Path, combined: Path, spans: Path) -> None:
    """Write the same requests in nginx's combined format, and as spans of an app."""
    with log.open() as lines, combined.open("w") as text, spans.open("w") as events:
        for line in lines:
            record = json.loads(line)
            moment = datetime.fromtimestamp(float(record["time"]), UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
            text.write(
                f'{record["remote_addr"]} - - [{moment}] "GET {record["uri"]} HTTP/1.1" 200 {record["bytes_sent"]} '
                '"-" "bench/1.0"\n'
            )
            events.write(json.dumps(_span(record)) + "\n")


def _span(record: dict[str, str]) -> dict[str, Any]:
    start = int(float(record["request_start"]) * 1e9)
    return {
        "trace_id": record["request_id"], "span_id": record["request_id"][:16], "parent_span_id": "",
        "name": f"GET {record['route']}", "kind": 2, "status": None,
        "start_time_unix_nano": start, "end_time_unix_nano": start + int(float(record["service_time"]) * 1e9),
        "attributes": {
            "http.request.header.x-request-id": [record["request_id"]], "http.route": record["route"],
            "http.request.method": "GET", "http.response.status_code": 200,
            "queueing.delay": float(record["queueing_delay"]), "queueing.status": "ok",
            "queueing.worker": record["worker"], "queueing.service_time": float(record["service_time"]),
        },
        "resources": {"service.name": "shop", "process.pid": 5},
        "events": [{"name": "http.proxy.request.started", "time_unix_nano": start}],
    }  # fmt: skip
