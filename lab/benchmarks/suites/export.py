"""Processor time of `sojourn export` per request on a busy log, against mtail that counts one histogram of the same.

And what it costs in addition to count requests when they begin (``--status``), against itself without.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sojourn_lab.experiments.endurance.counters_page import counters_page
from sojourn_lab.experiments.endurance.of_export import counted, exporter_url
from sojourn_lab.experiments.endurance.usage import usage_of
from sojourn_lab.runtime.ports import free_port
from sojourn_lab.runtime.process import Process

from benchmarks.rows import Measurements, Row, Settings, compared_row

RATE, SECONDS = 5_000.0, 40.0
WARM = 10.0  # s of load before the measurement: caches fill, and the first gauges load code
READ_SECONDS = 60.0
POLL = 0.5  # s
IN_PROGRESS = "\nsojourn_requests_in_progress{"
SCRAPE_EVERY = 5.0  # s, as in dashboards/prometheus/scaling/scrape.yaml
PROGRAM = """
histogram response_time_seconds by service, route, upstream, status buckets 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, \
0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60
counter lines_total
/^{/ {
  lines_total++
}
/"service":"(?P<service>[^"]*)","route":"(?P<route>[^"]*)".*"status":"(?P<status>\\d)\\d\\d".*\
"request_time":"(?P<seconds>[\\d.]+)","upstream_addr":"(?P<upstream>[^"]*)"/ {
  response_time_seconds[$service][$route][$upstream][$status] = $seconds
}
"""


def run(settings: Settings) -> Measurements:
    """Measure µs of processor per request of both, at the same time and on the same log."""
    measurements = Measurements()
    measurements.rows.append(_with_status(settings))
    mtail = shutil.which("mtail")
    if mtail is None:
        measurements.skipped.append("export: mtail is not installed")
        return measurements
    done = subprocess.run([mtail, "--version"], capture_output=True, text=True, check=False)
    measurements.versions["mtail"] = (done.stdout or done.stderr).split("mtail version ")[-1].split()[0]
    ours, theirs, peaks = _rounds(settings, "export", partial(_round, mtail=mtail))
    measurements.rows.append(
        compared_row(
            f"a log of {RATE:,.0f} requests/s as metrics", "µs of processor per request", ours, "mtail", theirs,
            peak_mb=max(peaks) / 1e6,
            note="mtail counts one histogram by a regular expression; export three, counters, gauges and signals",
        )
    )  # fmt: skip
    return measurements


def _with_status(settings: Settings) -> Row:
    """Return the row of an exporter that counts requests when they begin, beside one that does not."""
    counting, plain, peaks = _rounds(settings, "export-status", _status_round)
    return compared_row(
        f"export with --status of {RATE:,.0f} requests/s", "µs of processor per request", counting, "without", plain,
        peak_mb=max(peaks) / 1e6, note=f"both are scraped every {SCRAPE_EVERY:g} s",
    )  # fmt: skip


def _status_round(folder: Path, seconds: float) -> tuple[float, float, float]:
    """Return µs per request with --status and without, and the private memory of the first in bytes."""
    log = folder / "access.jsonl"
    log.touch()
    command = [sys.executable, "-m", "sojourn", "--no-config", "export", str(log), "--listen", "127.0.0.1:0"]
    writing = [sys.executable, "-m", "sojourn_lab.experiments.endurance.log_writer", str(log), str(RATE)]
    with (
        counters_page(RATE) as page,
        Process([*command, "--status", page], name="counting", folder=folder) as counting,
        Process(command, name="plain", folder=folder) as plain,
    ):
        urls = [exporter_url(each) for each in (counting, plain)]
        with Process([*writing, str(WARM + seconds)], name="writer", folder=folder) as writer:
            _scraped(urls, WARM)
            before = [
                (usage_of(each.pid).cpu, counted(_text(url))) for each, url in zip((counting, plain), urls, strict=True)
            ]
            _scraped(urls, seconds - 1.0)
            after = [
                (usage_of(each.pid), counted(_text(url))) for each, url in zip((counting, plain), urls, strict=True)
            ]
            text = _text(urls[0])
            writer.wait(READ_SECONDS)
            deadline = time.monotonic() + READ_SECONDS  # of a busy machine, on which it has read nothing yet
            while IN_PROGRESS not in text and time.monotonic() < deadline:
                time.sleep(POLL)
                text = _text(urls[0])
    if IN_PROGRESS not in text:
        raise RuntimeError("the exporter with --status counted no requests")
    spent = [
        (last.cpu - cpu) / (lines - first) * 1e6 for (cpu, first), (last, lines) in zip(before, after, strict=True)
    ]
    return spent[0], spent[1], float(after[0][0].resident)


def _scraped(urls: list[str], seconds: float) -> None:
    """Scrape for a time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for url in urls:
            _text(url)
        time.sleep(max(min(SCRAPE_EVERY, deadline - time.monotonic()), 0.0))


def _rounds(
    settings: Settings, name: str, measured: Callable[[Path, float], tuple[float, float, float]]
) -> tuple[list[float], list[float], list[float]]:
    """Return the figures of all rounds: of the one, of the other, and the memory of the first, bytes."""
    rounds = []
    for turn in range(settings.repeats):
        settings.progress(f"{name} {turn + 1}")
        folder = settings.folder / f"{name}-{turn}"
        folder.mkdir()
        rounds.append(measured(folder, max(settings.scale, 0.1) * SECONDS))
    one, other, memory = zip(*rounds, strict=True)
    return list(one), list(other), list(memory)


def _round(folder: Path, seconds: float, mtail: str) -> tuple[float, float, float]:
    """Return µs per request of the exporter and of mtail, and the exporter's private memory in bytes."""
    log, program, port = folder / "access.jsonl", folder / "sojourn.mtail", free_port()
    log.touch()
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "sojourn", "--no-config", "export", str(log), "--listen", "127.0.0.1:0"]
    peer = [mtail, "--progs", str(program), "--logs", str(log), "--address", "127.0.0.1", "--port", str(port)]
    writing = [sys.executable, "-m", "sojourn_lab.experiments.endurance.log_writer", str(log), str(RATE)]
    with (
        Process(command, name="export", folder=folder) as exporter,
        Process(peer, name="mtail", folder=folder) as other,
    ):
        url = exporter_url(exporter)
        with Process([*writing, str(WARM)], name="warm", folder=folder) as warm:
            warm.wait(2 * WARM + READ_SECONDS)
            before = int(warm.last_lines())
        _until_read(url, port, before)
        begun = [usage_of(each.pid).cpu for each in (exporter, other)]
        with Process([*writing, str(seconds)], name="writer", folder=folder) as writer:
            writer.wait(2 * seconds + READ_SECONDS)
            written = int(writer.last_lines())
        _until_read(url, port, before + written)
        spent = [usage_of(each.pid) for each in (exporter, other)]
    per_request = [(each.cpu - first) / written * 1e6 for each, first in zip(spent, begun, strict=True)]
    return per_request[0], per_request[1], float(spent[0].resident)


def _until_read(url: str, port: int, lines: int) -> None:
    """Wait until both have read so many lines."""
    deadline = time.monotonic() + READ_SECONDS
    while counted(_text(url)) < lines or _lines(_text(f"http://127.0.0.1:{port}/metrics")) < lines:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{lines:,} lines were not read within {READ_SECONDS:.0f} s")
        time.sleep(0.2)


def _lines(text: str) -> int:
    values = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith("lines_total{")]
    return int(float(values[0])) if values else 0


def _text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=READ_SECONDS) as answer:  # noqa: S310 - an address of this machine
        return str(answer.read().decode())
