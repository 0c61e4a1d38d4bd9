"""What the store says of the files of the logs: what the agent has not read, and what was lost of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sojourn.cli import app
from sojourn.doctor.doctor import diagnose
from sojourn.model.errors import SojournError
from sojourn.store import load
from sojourn.store.doctor import examine
from store_support import ask, one, record, tell, write_log
from typer.testing import CliRunner

HOST, LOG = "web-1", "/var/log/sojourn/access.jsonl"
SOURCE = f"{HOST}:{LOG}"
LINE = 100  # bytes of each line
EVERY = 10  # s between samples
BATCH = 200  # lines of an insert


@dataclass
class File:
    """A file of the log: when each of its lines was written, and how many of them the agent has read.

    Attributes:
        name: its path.
        written: unix s.
        read: lines.
        on_disk: it has not been deleted.
        judged: lines that were read before there were samples.
    """

    name: str
    written: list[float] = field(default_factory=list)
    read: int = 0
    on_disk: bool = True
    judged: int = 0


def record_of(file: File, number: int) -> str:
    """A line of a file."""
    values = {"time": f"{file.written[number]:.3f}", "request_id": f"{id(file)}-{number}"}
    return json.dumps({**values, "request_time": "0.1", "status": "200"})


@dataclass
class Site:
    """A host: a log with its files, a sampler, and an agent that delivers what a test says.

    Attributes:
        now: the time, unix s.
        files: those of the log, in the order of their creation.
        samples, inserts: what is sent to the store.
        step: what its clock lies behind the real one, s.
        positions: the samples show what the agent has read.
    """

    now: float
    files: list[File] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)
    inserts: list[str] = field(default_factory=list)
    step: float = 0.0
    positions: bool = True

    def write(self, file: File, count: int, seconds: float) -> None:
        """Write so many lines into a file in so many seconds, sampled as they grow."""
        if file not in self.files:
            self.files.append(file)
        each = seconds / count
        due = self.now + EVERY
        for _ in range(count):
            self.now += each
            file.written.append(self.now - self.step)
            if self.now >= due:
                self.sample()
                due += EVERY
        self.sample()

    def read(self, file: File, until: int | None = None, *, stored: Iterable[tuple[int, int]] | None = None) -> None:
        """Let the agent read up to a line; of what it read only the lines of `stored` reach the store."""
        until = len(file.written) if until is None else until
        for begin, end in [(file.read, until)] if stored is None else stored:
            for first in range(begin, end, BATCH):
                self._deliver(file, range(first, min(first + BATCH, end)))
        file.read = until
        self.sample()

    def sample(self) -> None:
        """Take a sample."""
        files: list[dict[str, Any]] = [
            {
                "file": file.name,
                "id": f"id-{id(file)}",
                "began": file.written[0] if file.written else None,
                "written": file.written[-1] if file.written else 0,
                "size": len(file.written) * LINE,
                "read": file.read * LINE if self.positions else None,
                "judged": file.judged * LINE,
                "gone": False,
            }
            for file in self.files
            if file.on_disk
        ]
        self.samples.append(json.dumps({"time": self.now, "clock": self.now - self.step, "files": files}))

    def idle(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self.now < end:
            self.now += EVERY
            self.sample()

    def _deliver(self, file: File, numbers: range) -> None:
        rows = ", ".join(f"('{record_of(file, n)}', '{HOST}', '{file.name}', {n * LINE}, {LINE})" for n in numbers)
        self.inserts.append(f"INSERT INTO incoming (line, host, file, position, line_bytes) VALUES {rows}")

    def sent(self) -> list[str]:
        """Return the statements that store all of it."""
        rows = ", ".join(f"('{line}', '{HOST}', '/var/log/sojourn/log-files.jsonl')" for line in self.samples)
        return [*self.inserts, f"INSERT INTO incoming_log_files (line, host, file) VALUES {rows}"]


@pytest.fixture
def site() -> Site:
    return Site(float(int(time.time())) - 1200)


def missing(dsn: str) -> int:
    return int(one(dsn, "SELECT sum(lines) FROM line_gaps"))


def test_every_line_read_and_stored_is_no_gap(store_dsn: str, site: Site) -> None:
    """Two rotations, a quiet quarter of an hour, an agent that is late."""
    files = [File(LOG), File(LOG), File(LOG)]
    for number, file in enumerate(files):
        site.write(file, 700, 130)
        if number < 2:
            file.name = f"{LOG}.1"
        site.read(file, 400)
        if number:
            site.read(files[number - 1])
            files[number - 1].on_disk = False
        site.idle(90)
    site.read(files[2])
    tell(store_dsn, *site.sent())
    assert ask(store_dsn, "SELECT * FROM line_gaps") == []
    assert one(store_dsn, "SELECT sum(unread) FROM log_files_read") == 0


def test_the_unread_end_of_a_file_that_is_gone_is_missing(store_dsn: str, site: Site) -> None:
    """Deleted or compressed after its rotation; a later file is read from its beginning."""
    old, new = File(LOG), File(LOG)
    site.write(old, 900, 100)
    site.read(old, 555)
    old.name = f"{LOG}.1"
    site.write(new, 300, 50)
    site.read(new)
    tell(store_dsn, *site.sent())
    assert missing(store_dsn) == 0
    assert ask(store_dsn, "SELECT source, unread, gone FROM log_files_read WHERE unread > 0") == [(SOURCE, 34500, 0)]
    old.on_disk = False
    site.idle(60)
    tell(store_dsn, *site.sent())
    assert missing(store_dsn) == 345
    assert ask(store_dsn, "SELECT begin, end FROM line_gaps") == [(55500, 90000)]


def test_what_the_store_forgot_of_the_end_of_a_file_is_missing(store_dsn: str, site: Site) -> None:
    """Acknowledged and not stored, across a rotation: the end of one file and the beginning of the next."""
    old, new = File(LOG), File(LOG)
    site.write(old, 900, 100)
    site.read(old, stored=[(0, 621)])
    old.name = f"{LOG}.1"
    site.write(new, 700, 100)
    site.read(new, stored=[(333, 700)])
    tell(store_dsn, *site.sent())
    assert missing(store_dsn) == 279 + 333


def test_a_clock_that_is_set_back_within_a_gap_hides_nothing(store_dsn: str, site: Site) -> None:
    file = File(LOG)
    site.write(file, 600, 120)
    site.step = 300.0
    site.write(file, 600, 120)
    site.read(file, stored=[(0, 550), (777, 1200)])
    tell(store_dsn, *site.sent())
    assert ask(store_dsn, "SELECT begin, end, lines FROM line_gaps") == [(55000, 77700, 227)]


def test_a_clock_that_is_set_back_is_no_gap(store_dsn: str, site: Site) -> None:
    """Also where the next file of the log begins at a time of the one before."""
    old, new = File(LOG), File(LOG)
    site.write(old, 600, 120)
    site.read(old)
    site.step = 90.0
    site.write(old, 600, 120)
    site.read(old)
    old.name = f"{LOG}.1"
    site.step = 200.0
    site.write(new, 900, 150)
    site.read(new)
    tell(store_dsn, *site.sent())
    assert ask(store_dsn, "SELECT begin, end, lines FROM line_gaps") == []


def test_loading_the_lines_of_a_gap_closes_it(store_dsn: str, site: Site, tmp_path: Path) -> None:
    """One of two gaps at the same bytes of two files: the other one remains."""
    old, new = File(LOG), File(LOG)
    for file in (old, new):
        site.write(file, 600, 120)
        site.read(file, stored=[(0, 300), (400, 600)])
        file.name = f"{LOG}.1"
        site.idle(60)
    tell(store_dsn, *site.sent())
    first, second = ask(store_dsn, "SELECT file, begin, end FROM line_gaps ORDER BY next_record")
    assert first[1:] == second[1:] == (30000, 40000)
    repaired = tmp_path / "repaired.jsonl"
    repaired.write_text("".join(f"{record_of(old, n)}\n" for n in range(300, 400)))
    with pytest.raises(SojournError, match="no such gap"):
        load(store_dsn, repaired, closes=f"{SOURCE}@30000-39999")
    with pytest.raises(SojournError, match="SOURCE@BEGIN-END"):
        load(store_dsn, repaired, closes=SOURCE)
    (tmp_path / "empty.jsonl").write_text("bad\n")
    with pytest.raises(SojournError, match="no request was loaded"):
        load(store_dsn, tmp_path / "empty.jsonl", closes=f"{SOURCE}@30000-40000")
    load(store_dsn, repaired, closes=f"{SOURCE}@30000-40000")
    left = ask(store_dsn, "SELECT file FROM line_gaps")
    assert left in ([(first[0],)], [(second[0],)])
    load(store_dsn, repaired, closes=f"{SOURCE}@30000-40000")
    assert ask(store_dsn, "SELECT * FROM line_gaps") == []


def test_a_long_line_that_the_agent_skipped_is_one_line(store_dsn: str, site: Site) -> None:
    """As the agent counts it; without its count the bytes are lines of the usual length."""
    at = site.now
    runs = [(0, 70_000, 100), (18_070_000, 18_140_000, 100)]
    values = ", ".join(
        f"('{SOURCE}', {begin}, {end}, {lines}, {at} + {i}, {at} + {i}, false, {at} + {i})"
        for i, (begin, end, lines) in enumerate(runs)
    )
    columns = "(source, begin, end, lines, since, until, refused, arrived)"
    tell(store_dsn, f"INSERT INTO line_runs {columns} VALUES {values}")
    assert missing(store_dsn) == 25_714
    counter = "INSERT INTO pipeline_metrics (time, agent, component, metric, tags, value) VALUES"
    for name, value in (("web-2", 1), (HOST, 1)):
        tell(store_dsn, f"{counter} ({at}, '{name}', 'access_log', 'component_discarded_events_total', map(), {value})")
    assert missing(store_dsn) == 1


def test_what_was_read_before_there_were_samples_is_not_judged(store_dsn: str, site: Site) -> None:
    file = File(LOG, judged=200)
    site.write(file, 600, 120)
    site.read(file, stored=[(250, 600)])
    tell(store_dsn, *site.sent())
    assert ask(store_dsn, "SELECT begin, end FROM line_gaps") == [(20000, 25000)]


def test_of_an_agent_without_positions_old_lines_must_be_there(store_dsn: str, site: Site) -> None:
    site.positions = False
    file = File(LOG)
    site.write(file, 600, 120)
    site.read(file, stored=[(0, 500)])
    site.write(file, 300, 60)
    tell(store_dsn, *site.sent())
    assert ask(store_dsn, "SELECT begin, end FROM line_gaps") == [(50000, 90000)]


def test_the_doctor_names_silent_agents_and_unread_logs(store_dsn: str, site: Site, tmp_path: Path) -> None:
    file = File(LOG)
    site.write(file, 600, 120)
    site.idle(90)
    tell(store_dsn, *site.sent())
    state = examine(store_dsn)
    assert (state.unread_bytes, state.missing_lines, state.silent) == (60_000, None, {})
    (advice,) = state.advice
    assert advice.what == f"60,000 bytes of {SOURCE} are older than a minute and not read"
    tell(store_dsn, "ALTER TABLE log_files UPDATE arrived = now() - 300 WHERE true SETTINGS mutations_sync = 2")
    silent = examine(store_dsn)
    assert 300 <= silent.silent[HOST] < 400
    assert f"no sample of the logs of {HOST} has arrived for 5 min" in silent.advice[0].what
    load(store_dsn, write_log(tmp_path / "a.jsonl", record(1)))
    assert {"agent-silent", "log-unread"} <= {each.code for each in diagnose(store_dsn).findings}
    done = CliRunner().invoke(app, ["store", "doctor", store_dsn])
    assert done.exit_code == 1
    assert "sojourn store files LOG --agent /var/lib/vector" in done.stdout
