"""The local page: time to the first view, a brush, a replay, and memory."""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.growth import SOJOURN, WORKERS, written_log
from benchmarks.log_generator import LogShape, write_log
from benchmarks.rows import Measurements, Row, Settings

MILLION = 1_000_000
REPLAYED = 100_000  # requests
FIRST_VIEW, BRUSH, REPLAY, MEMORY = 3.0, 150.0, 1.0, 2_000.0  # s, ms, s, MB
MANY = 5  # brushes of each kind
LONGEST = 3600.0  # s for an answer


@dataclass(frozen=True)
class Page:
    """A served page: asks for data.

    Attributes:
        base: its address.
        token: for data.
        begun: when the command was started, s.
        process: the command's process.
    """

    base: str
    token: str
    begun: float
    process: subprocess.Popen[str]

    def get(self, name: str, query: Mapping[str, object] | None = None, body: Any = None) -> dict[str, Any]:
        """Return an answer."""
        words = "&".join(f"{key}={value}" for key, value in (query or {}).items())
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-Sojourn-Token": self.token}
        request = urllib.request.Request(f"{self.base}/api/{name}?{words}", data, headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=LONGEST) as answer:  # noqa: S310 - the page of this machine
            return dict(json.load(answer))

    @property
    def peak_mb(self) -> float:
        """Peak memory of the command, mapped files included, MB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def run(settings: Settings) -> Measurements:
    """Measure the page of logs of 1, 10 and 50 million requests, and a replay of 100,000."""
    rows = [_first_view(settings), _brush(settings), _replay(settings), _memory(settings)]
    return Measurements(rows)


@contextmanager
def _served(command: list[str], stdin: int = subprocess.DEVNULL) -> Iterator[Page]:
    """Run a command that serves a page, until the end of the block."""
    begun = time.perf_counter()
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            address = process.stdout.readline().strip()
            if not address:
                raise SystemExit(f"bench: {shlex.join(command[:4])} did not start")
            base, _, token = address.partition("/?token=")
            yield Page(base, token, begun, process)
        finally:
            process.terminate()


def _serve(*arguments: str) -> list[str]:
    return [*SOJOURN, "serve", *arguments, "--quiet"]


def _timed(work: Callable[[], object], times: int = MANY) -> float:
    """Return the median time of a work, s."""
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def _log(settings: Settings, lines: int) -> Path:
    log = settings.folder / f"serve-{lines}.jsonl"
    if not log.exists():
        write_log(LogShape(lines), log)
    return log


def _first_view(settings: Settings) -> Row:
    lines = settings.sized(MILLION, 100)
    log, seconds, peaks = _log(settings, lines), [], []
    for turn in range(settings.repeats + 1):
        settings.progress(f"{turn}/{settings.repeats} first view")
        with _served(_serve(str(log))) as page:
            page.get("view")
            seconds.append(time.perf_counter() - page.begun)
            peaks.append(page.peak_mb)
    log.unlink()
    # The first run fills the cache of compiled code.
    what = f"`sojourn serve`, {lines:,} requests: from the start to the first view"
    return Row(what, "s", statistics.median(seconds[1:]), goal=FIRST_VIEW, at="most", peak_mb=max(peaks))


def _brush(settings: Settings) -> Row:
    lines = settings.sized(10 * MILLION, 100)
    log = _log(settings, lines)
    settings.progress("brushes")
    with _served(_serve(str(log))) as page:
        source = page.get("source")
        begin, end = source["from"], source["to"]
        parts = ((0.0, 1.0), (0.25, 0.75), (0.1, 0.2), (0.5, 0.501))
        filters: tuple[dict[str, object], ...] = ({}, {"where": "route=/r3"}, {"where": "status=504"})
        queries = [
            {"from": round(begin + low * (end - begin)), "to": round(begin + high * (end - begin)), **more}
            for low, high in parts
            for more in filters
        ]
        slowest = max(_timed(partial(page.get, "view", query)) for query in queries)
        peak = page.peak_mb
    log.unlink()
    what = f"`sojourn serve`, {lines:,} requests: the slowest of 12 brushes"
    return Row(what, "ms", slowest * 1e3, goal=BRUSH, at="most", peak_mb=peak)


def _replay(settings: Settings) -> Row:
    requests = settings.sized(REPLAYED, 500)
    log = written_log(settings.folder, requests)
    settings.progress("replay")
    with _served(_serve(str(log), "--workers", str(WORKERS))) as page:
        body = {"set": {"workers": "+1"}, "force": True}
        page.get("replay", body=body)
        seconds, peak = _timed(lambda: page.get("replay", body=body)), page.peak_mb
    log.unlink()
    what = f"`sojourn serve`, replay of {requests:,} requests"
    return Row(what, "s", seconds, goal=REPLAY, at="most", peak_mb=peak)


def _memory(settings: Settings) -> Row:
    """Measure 50 M lines once; they come from the generator through a pipe."""
    lines = settings.sized(50 * MILLION, 100)
    settings.progress(f"{lines:,} lines, once")
    generator = [sys.executable, "-m", "benchmarks.log_generator", str(lines)]
    with subprocess.Popen(generator, stdout=subprocess.PIPE) as source:
        assert source.stdout is not None  # noqa: S101 - it is a pipe
        with _served(_serve("-"), source.stdout.fileno()) as page:
            page.get("view")
            page.get("view", {"where": "route=/r3"})
            peak = page.peak_mb
    note = "once, through a pipe from what makes the lines; mapped files are counted"
    return Row(
        f"`sojourn serve`, {lines:,} requests: memory", "MB", peak, goal=MEMORY, at="most", peak_mb=peak, note=note
    )
