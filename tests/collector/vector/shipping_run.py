"""A log that is written at a steady rate, the agent that ships it, and the store that receives it."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clickhouse_http import StandIn
from collector_support import eventually
from sojourn_lab.runtime.process import Process

# The path comes first.
from split_support import BAD_LINES, Settings, as_lines, simulated_log
from vector_run import Vector

FOR_EVER = 1e6  # s, until it is set to 0
RATE = 300  # lines/s
EVERY = 40  # one line of so many is bad
ARRIVES_S = 120


class Writer:
    """What nginx does: append whole lines to a file it holds open, at a steady rate; reopen the name on request.

    Attributes:
        clock: what stamps each record as it is written, unix s; None: the records have the times of a simulation.
        good: request ids written, in order, without those of ``losing``.
        bad: reasons of the bad lines written, in order, without those of ``losing``.
        lost: number of lines written in ``losing``.
    """

    def __init__(
        self, log: Path, records: list[dict[str, str]], rate: float = RATE, *, clock: Callable[[], float] | None = None
    ) -> None:
        self.log = log
        self.clock = clock
        self.good: list[str] = []
        self.bad: list[str] = []
        self.lost = 0
        self._lines = zip(records, as_lines(records), strict=True)
        self._refused = itertools.cycle(BAD_LINES)
        self._rate = rate
        self._busy = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._number = 0
        self._bad_is_due = False
        self._copies = 0
        self._fresh = True
        self._file = log.open("ab", buffering=0)

    @property
    def written(self) -> int:
        """Number of lines written, lost ones included."""
        return len(self.good) + len(self.bad) + self.lost

    def start(self, count: int | None = None, rate: float | None = None) -> None:
        """Write so many lines in a thread; by default until the end, or until there is no record left."""
        self._thread = threading.Thread(target=self._run, args=(count, rate or self._rate), daemon=True)
        self._thread.start()

    @contextmanager
    def flowing(self, count: int, rate: float | None = None) -> Iterator[None]:
        """Write so many lines while the body runs, and all of them before the context ends."""
        self.start(count, rate)
        yield
        assert self._thread is not None
        self._thread.join(count / (rate or self._rate) + ARRIVES_S)

    @contextmanager
    def losing(self) -> Iterator[None]:
        """Count lines written in the body as lost."""
        good, bad = len(self.good), len(self.bad)
        yield
        self.lost += len(self.good) - good + len(self.bad) - bad
        del self.good[good:], self.bad[bad:]

    def write(self, count: int) -> None:
        """Append so many good lines at once."""
        for _ in range(count):
            self._write(bad=False)

    def rename(self) -> None:
        """Rotate as nginx does: rename, go on writing there, then reopen."""
        older = [self.log.with_name(f"access.jsonl.{number}") for number in range(1, 10)]
        for source, target in reversed(list(itertools.pairwise(older))):
            if source.exists():
                source.rename(target)
        self.log.rename(older[0])
        before = len(self.good)
        eventually(lambda: len(self.good) > before + 10 or not self._writes(), "lines in the renamed file")
        with self._busy:
            self._file.close()
            self._file = self.log.open("ab", buffering=0)
            self._fresh = True

    def copy_and_truncate(self) -> None:
        """Rotate by copytruncate. What is written between the two is lost by it, so nothing is."""
        with self._busy:
            self.copy()
            self.truncate()

    def copy(self) -> None:
        """Copy the log, the first half of copytruncate."""
        self._copies += 1
        shutil.copyfile(self.log, self.log.with_name(f"access.jsonl-202601{self._copies:02}"))

    def truncate(self) -> None:
        """Empty the log, the second half of copytruncate."""
        os.truncate(self.log, 0)
        self._fresh = True

    def end(self) -> None:
        """Stop after the line that is being written, and close the file."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(10)
        self._file.close()

    def _writes(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self, count: int | None, rate: float) -> None:
        began = time.monotonic()
        with contextlib.suppress(StopIteration):  # a slow machine gets a log that falls silent
            for number in itertools.count() if count is None else range(count):
                if self._ended.wait(max(0.0, began + number / rate - time.monotonic())):
                    break
                with self._busy:
                    self._number += 1
                    self._bad_is_due |= self._number % EVERY == 0
                    self._write(bad=self._bad_is_due)

    def _write(self, *, bad: bool) -> None:
        if bad and not self._fresh:  # a log begins with a record: by its first line Vector knows a file
            self._bad_is_due = False
            raw, reason = next(self._refused)
            self._file.write(raw)
            self.bad.append(reason)
            return
        record, line = next(self._lines)
        if self.clock is not None:
            (line,) = as_lines([{**record, "time": f"{self.clock():.3f}"}])
        self._file.write(line)
        self.good.append(record["request_id"])
        self._fresh = False


class Scene:
    """A store, an agent that is not started yet, and the log it will read."""

    def __init__(self, folder: Path, store: StandIn, lines: int, clock: Callable[[], float] | None = None) -> None:
        self.store = store
        self.records, _ = simulated_log(Settings(requests=lines, seed=11))
        self.agent = Vector(folder / "agent", store.url)
        self.writer = Writer(self.agent.logs / "access.jsonl", self.records, clock=clock)
        self.samples = self.agent.logs / "log-files.jsonl"
        self._sampler: Process | None = None

    def sample(self) -> None:
        """Sample the files of the log, until the end."""
        self._sampler = Process(
            [sys.executable, "-m", "sojourn", "store", "files", str(self.writer.log), "--agent", str(self.agent.data),
             "--out", str(self.samples), "--every", "0.3"],
            name="sampler",
            folder=self.agent.logs.parent,
        )  # fmt: skip
        self._sampler.start()
        eventually(self.samples.is_file, "a sample", ARRIVES_S)

    def sampled(self, size: int) -> None:
        """Wait until a file of this size is in a sample."""
        eventually(lambda: f'"size":{size},' in self.samples.read_text(), f"a sample of {size} bytes", ARRIVES_S)

    def close(self) -> None:
        """Stop the writer, the sampler and the agent."""
        self.writer.end()
        if self._sampler is not None:
            self._sampler.stop()
        self.agent.stop()

    def stored(self) -> list[str]:
        """Request ids in the store, each once."""
        return [row["request_id"] for row in self.store.ask("SELECT request_id FROM requests FINAL")]

    def refused(self) -> list[str]:
        """Reasons of the dead letters, each line once."""
        return [row["reason"] for row in self.store.ask("SELECT reason FROM dead_letters FINAL")]

    def figure(self, expression: str, table: str) -> int:
        """The value of one expression over a table."""
        (row,) = self.store.ask(f"SELECT {expression} AS figure FROM {table}")
        return int(row["figure"])

    def distinct(self) -> int:
        """Lines in the store, each once."""
        return self.figure("count()", "requests FINAL") + self.figure("count()", "dead_letters FINAL")

    def delivered(self) -> int:
        """Lines that the store acknowledged or not, each delivery counted."""
        return self.figure("sum(lines)", "lines_received")

    def heard(self) -> int:
        """Requests that reached the store, whatever became of them."""
        counts = self.store.control()
        return counts["queries"] + counts["refused"]

    def complete(self) -> bool:
        return self.distinct() >= len(self.writer.good) + len(self.writer.bad)

    def assert_rows_and_dead_letters(self) -> None:
        """Lines written = distinct rows + dead letters, but for those that are known to be lost."""
        assert sorted(self.stored()) == sorted(self.writer.good)
        assert sorted(self.refused()) == sorted(self.writer.bad)

    def assert_nothing_is_missing(self) -> None:
        """Lines written = distinct rows + dead letters, and the store's own reconciliation says the same."""
        self.assert_rows_and_dead_letters()
        assert self.store.ask("SELECT * FROM line_gaps") == []
        balances = self.store.ask("SELECT max(outstanding) AS left FROM reconciliation GROUP BY source")
        assert [row["left"] for row in balances] == [0]
