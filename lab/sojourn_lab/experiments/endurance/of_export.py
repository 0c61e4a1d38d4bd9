"""`python -m sojourn_lab.experiments.endurance.of_export`: run `sojourn export` for a long time on a busy log.

A process writes records at a rate and rotates the log; the exporter follows it, reads a page with the counters of such
a load (``--status``), and is scraped every fifteen seconds.
Its memory must be flat, its processor time is measured, and in the end it must have counted every record. Exit code: 0
if so, 1 otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from sojourn.model.formatting import formatted

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.endurance.counters_page import counters_page
from sojourn_lab.experiments.endurance.growth import Growth, growth_of
from sojourn_lab.experiments.endurance.usage import Usage, usage_of
from sojourn_lab.experiments.endurance.verdict import ALLOWED_BYTES
from sojourn_lab.runtime.process import Process

SCRAPE_EVERY = 15.0  # s
PATIENCE = 60.0  # s
COUNTER = "sojourn_requests_total"


@dataclass
class ExportRun:
    """Measurements of a run.

    Attributes:
        instants: s since the load began, of the samples.
        usage: of the exporter, a sample for each instant.
        scrape_seconds: how long each scrape took.
        written: records written.
        counted: records that the exporter counted.
    """

    instants: list[float] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    scrape_seconds: list[float] = field(default_factory=list)
    written: int = 0
    counted: int = 0

    @property
    def memory(self) -> Growth | None:
        """The growth of the private memory, bytes."""
        return growth_of(self.instants, [float(each.resident) for each in self.usage], ALLOWED_BYTES)

    @property
    def cpu_per_request(self) -> float:
        """Processor time per request, s: of the exporter's whole run after the first sample."""
        spent = self.usage[-1].cpu - self.usage[0].cpu
        share = (self.instants[-1] - self.instants[0]) / self.instants[-1]
        return spent / (self.written * share)


def export_run(folder: Path, rate: float, seconds: float) -> ExportRun:
    """Follow a log that grows by ``rate`` records a second for ``seconds``.

    Raises:
        LabError: a process ends early, or the exporter does not answer.
    """
    log = folder / "access.jsonl"
    log.touch()
    run = ExportRun()
    command = [sys.executable, "-m", "sojourn", "--no-config", "export", str(log), "--listen", "127.0.0.1:0"]
    writing = [sys.executable, "-m", "sojourn_lab.experiments.endurance.log_writer", str(log), str(rate), str(seconds)]
    with (
        counters_page(rate) as page,
        Process([*command, "--status", page], name="export", folder=folder) as exporter,
    ):
        url = exporter_url(exporter)
        with Process(writing, name="writer", folder=folder) as writer:
            begun = time.monotonic()
            while writer.running():
                if not exporter.running():
                    raise LabError(f"the exporter ended ({exporter.exit_code()}): {exporter.last_lines()}")
                _sample(run, url, exporter, begun)
                _rest(writer, SCRAPE_EVERY)
            if writer.exit_code():
                raise LabError(f"the writer ended ({writer.exit_code()}): {writer.last_lines()}")
            run.written = int(writer.last_lines())
        deadline = time.monotonic() + PATIENCE
        while run.counted < run.written and time.monotonic() < deadline:
            run.counted = counted(_scraped(url))
            time.sleep(0.2)
        _sample(run, url, exporter, begun)
    return run


def counted(text: str) -> int:
    """Return the requests counted, of metrics in the text format."""
    return round(sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"{COUNTER}{{")))


def table_of(rate: float, run: ExportRun) -> str:
    """Return the measurements as Markdown."""
    memory = run.memory
    minutes = run.instants[-1] / 60
    if memory is None:
        level = "| too few samples | | |"
    else:
        word = "flat" if memory.flat else "grows"
        level = (
            f"| {memory.level / 1e6:.0f} | {memory.most / 1e6:.0f} | {formatted(memory.growth / 1e6, '+.1f')}, {word} |"
        )
    scrape = sorted(run.scrape_seconds)[len(run.scrape_seconds) // 2]
    return (
        "| minutes | requests/s | written | counted | CPU, µs per request | scrape, ms | memory, MB | most | growth |\n"
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n"
        f"| {minutes:.0f} | {rate:,.0f} | {run.written:,} | {run.counted:,} | {run.cpu_per_request * 1e6:.1f} "
        f"| {scrape * 1e3:.0f} {level}\n"
    )


def _sample(run: ExportRun, url: str, exporter: Process, begun: float) -> None:
    started = time.monotonic()
    _scraped(url)
    run.scrape_seconds.append(time.monotonic() - started)
    run.instants.append(time.monotonic() - begun)
    run.usage.append(usage_of(exporter.pid))


def _rest(writer: Process, seconds: float) -> None:
    """Wait, but not longer than the writer runs."""
    deadline = time.monotonic() + seconds
    while writer.running() and time.monotonic() < deadline:
        time.sleep(0.1)


def exporter_url(exporter: Process) -> str:
    """Return the address that the exporter reports, once it answers."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and exporter.running():
        for line in exporter.last_lines().splitlines():
            if line.startswith("metrics: "):
                url = line.removeprefix("metrics: ").strip()
                with contextlib.suppress(urllib.error.URLError, OSError):
                    _scraped(url)
                    return url
        time.sleep(0.1)
    raise LabError(f"the exporter does not answer: {exporter.last_lines()}")


def _scraped(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - an address of this machine
        return str(answer.read().decode())


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sojourn_lab.experiments.endurance.of_export",
        description="Run sojourn export for a long time on a busy log; check that its memory is flat.",
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="duration of the load (default: 30)")
    parser.add_argument("--rate", type=float, default=5_000.0, help="records a second (default: 5000)")
    options = parser.parse_args(arguments)
    if options.minutes <= 0 or options.rate <= 0:
        parser.error("--minutes and --rate must be above 0")
    with tempfile.TemporaryDirectory(prefix="export-") as folder:
        try:
            run = export_run(Path(folder), options.rate, options.minutes * 60)
        except LabError as error:
            sys.stderr.write(f"of_export: {error}\n")
            return 1
    sys.stdout.write(table_of(options.rate, run))
    memory = run.memory
    return 0 if run.counted == run.written and memory is not None and memory.flat else 1


if __name__ == "__main__":
    sys.exit(main())
