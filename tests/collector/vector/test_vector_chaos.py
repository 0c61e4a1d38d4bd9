"""The agent killed, the log rotated, the store away or refusing: no line is missing, and none counts twice."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sojourn
from clickhouse_http import StandIn
from collector_support import eventually
from sojourn.store import connect, init, refresh_rollups

# The path comes first.
from split_support import BAD_LINES, Settings, as_lines, differences, simulated_log, without_duplicates
from vector_run import ACCOUNT, Vector, vector_program

pytest.importorskip("chdb")

FOR_EVER = 1e6  # s, until it is set to 0
RATE = 300  # lines/s
EVERY = 40  # one line of so many is bad
ARRIVES_S = 120


class Writer(threading.Thread):
    """What nginx does: append whole lines to a file it holds open, at a steady rate; reopen the name on request.

    Attributes:
        good: request ids written, in order.
        bad: reasons of the bad lines written, in order.
    """

    def __init__(self, log: Path, records: list[dict[str, str]], rate: float = RATE) -> None:
        super().__init__(daemon=True)
        self.log = log
        self.good: list[str] = []
        self.bad: list[str] = []
        self._lines = zip(records, as_lines(records), strict=True)
        self._refused = itertools.cycle(BAD_LINES)
        self._rate = rate
        self._busy = threading.Lock()
        self._ended = threading.Event()
        self._fresh = True
        self._file = log.open("ab", buffering=0)

    def run(self) -> None:
        """Write until the end, or until there is no record left: a slow machine gets a log that falls silent."""
        began = time.monotonic()
        with contextlib.suppress(StopIteration):
            for count in itertools.count():
                if self._ended.wait(max(0.0, began + count / self._rate - time.monotonic())):
                    break
                with self._busy:
                    self._write(bad=count % EVERY == EVERY - 1)

    def write(self, count: int) -> None:
        """Append so many good lines at once, instead of running."""
        for _ in range(count):
            self._write(bad=False)

    def _write(self, *, bad: bool) -> None:
        if bad and not self._fresh:  # a log begins with a record: by its first line Vector knows a file
            raw, reason = next(self._refused)
            self._file.write(raw)
            self.bad.append(reason)
            return
        record, line = next(self._lines)
        self._file.write(line)
        self.good.append(record["request_id"])
        self._fresh = False

    def rename(self) -> None:
        """Rotate as nginx does: rename, go on writing there, then reopen."""
        older = self.log.with_name("access.jsonl.1")
        if older.exists():
            older.rename(self.log.with_name("access.jsonl.2"))
        self.log.rename(older)
        before = len(self.good)
        eventually(lambda: len(self.good) > before + 10 or not self.is_alive(), "lines in the renamed file")
        with self._busy:
            self._file.close()
            self._file = self.log.open("ab", buffering=0)
            self._fresh = True

    def copy_and_truncate(self) -> None:
        """Rotate by copytruncate. What is written between the two is lost by it, so nothing is."""
        with self._busy:
            shutil.copyfile(self.log, self.log.with_name("access.jsonl-20260101"))
            os.truncate(self.log, 0)
            self._fresh = True

    def end(self) -> None:
        """Stop after the line that is being written, and close the file."""
        self._ended.set()
        if self.is_alive():
            self.join(10)
        self._file.close()


class Scene:
    """A store, an agent that is not started yet, and the log it will read."""

    def __init__(self, folder: Path, store: StandIn, lines: int) -> None:
        init(store.dsn())
        self.store = store
        self.records, _ = simulated_log(Settings(requests=lines, seed=11))
        self.agent = Vector(folder / "agent", store.url)
        self.writer = Writer(self.agent.logs / "access.jsonl", self.records)

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

    def assert_nothing_is_missing(self) -> None:
        """Lines written = distinct rows + dead letters, and the store's own reconciliation says the same."""
        assert sorted(self.stored()) == sorted(self.writer.good)
        assert sorted(self.refused()) == sorted(self.writer.bad)
        assert self.store.ask("SELECT * FROM line_gaps") == []
        balances = self.store.ask("SELECT max(outstanding) AS left FROM reconciliation GROUP BY source")
        assert [row["left"] for row in balances] == [0]


@pytest.fixture
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    vector_program()  # or there is nothing to prepare
    with StandIn(tmp_path, ACCOUNT) as store:
        scene = Scene(tmp_path, store, getattr(request, "param", 4000))
        try:
            yield scene
        finally:
            scene.writer.end()
            scene.agent.stop()


def started_and_killed(scene: Scene, pause_s: float) -> None:
    """Start the agent, wait until it has sent something and ``pause_s`` more, and kill it."""
    heard = scene.heard()
    scene.agent.start()
    eventually(lambda: scene.heard() > heard + 2, "the agent to send", ARRIVES_S)
    threading.Event().wait(pause_s)
    scene.agent.kill()


def killed_without_answers(scene: Scene) -> None:
    """Start the agent before a store that keeps rows and loses its answers, and kill it when lines came twice."""
    scene.store.control(lose=FOR_EVER)
    scene.agent.start()
    eventually(lambda: scene.delivered() > scene.distinct(), "lines to arrive twice", ARRIVES_S)
    scene.agent.kill()
    scene.store.control(lose=0)


# What happens after each kill; "answers lost" is a kill of its own kind.
SHORT = ("answers lost", "rename", "store away", "store back", "copy and truncate")
WHOLE = (
    "", "rename", "", "store away", "rename", "store back", "", "copy and truncate", "answers lost", "",
)  # fmt: skip


@pytest.mark.parametrize(
    ("scene", "plan", "away_s", "pause_s"),
    [
        pytest.param(20_000, SHORT, 5.0, 0.3, id="short"),
        pytest.param(
            80_000, WHOLE, 60.0, 2.5, id="whole", marks=[pytest.mark.thorough, pytest.mark.timeout(400)]
        ),
    ],
    indirect=["scene"],
)  # fmt: skip
def test_kills_under_a_steady_flow_lose_nothing(
    scene: Scene, plan: tuple[str, ...], away_s: float, pause_s: float, tmp_path: Path
) -> None:
    """Kills without warning, rotations by renaming, a copytruncate, lost answers and an absence of the store."""
    store, writer = scene.store, scene.writer
    away_since = 0.0
    writer.start()
    for number, event in enumerate(plan):
        if event == "answers lost":
            killed_without_answers(scene)
            continue
        started_and_killed(scene, pause_s * (0.6 + number % 5 / 5))
        match event:
            case "rename":
                writer.rename()
            case "copy and truncate":
                writer.copy_and_truncate()
            case "store away":
                store.control(refuse=FOR_EVER)
                away_since = time.monotonic()
            case "store back":
                threading.Event().wait(max(0.0, away_since + away_s - time.monotonic()))
                store.control(refuse=0)
    scene.agent.start()
    writer.end()
    eventually(scene.complete, "every line", ARRIVES_S)
    scene.agent.stop()

    scene.assert_nothing_is_missing()
    assert scene.delivered() > len(writer.good) + len(writer.bad)

    with connect(store.dsn()) as opened:
        refresh_rollups(opened)
    assert scene.figure("sum(requests)", "rollup_minute FINAL") == len(writer.good)
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(b"".join(as_lines(scene.records[: len(writer.good)])))
    of_the_log = sojourn.split(whole).to_dict()
    of_the_store = sojourn.split(store.dsn()).to_dict()
    del of_the_log["records"], of_the_store["records"]
    assert list(differences(without_duplicates(of_the_log), without_duplicates(of_the_store))) == []


def test_a_password_that_is_mended_later_costs_nothing(scene: Scene) -> None:
    """The agent waits at a 403 and goes on by itself; the lines that came meanwhile are in the log."""
    scene.store.control(deny=FOR_EVER)
    scene.writer.write(1000)
    scene.agent.start()
    eventually(lambda: scene.store.control()["denied"] > 1, "two refusals", ARRIVES_S)
    scene.writer.write(1000)
    denied = scene.store.control()["denied"]
    eventually(lambda: scene.store.control()["denied"] > denied + 1, "more refusals", ARRIVES_S)
    assert any("Retrying after response" in line for line in scene.agent.warnings())  # what the runbook looks for
    scene.store.control(deny=0)
    eventually(scene.complete, "every line", ARRIVES_S)
    scene.assert_nothing_is_missing()


def test_lines_that_the_store_lost_are_counted(scene: Scene) -> None:
    """Batches that are acknowledged and not stored: the bytes between what came before and after are missing."""
    scene.agent.start()
    scene.writer.write(500)
    eventually(scene.complete, "the first lines", ARRIVES_S)
    begin = scene.writer.log.stat().st_size
    scene.store.control(forget=FOR_EVER)
    scene.writer.write(200)
    end = scene.writer.log.stat().st_size
    eventually(lambda: scene.store.control()["lines_forgotten"] >= 200, "the lines to be forgotten", ARRIVES_S)
    scene.agent.stop()
    scene.store.control(forget=0)
    scene.agent.start()
    scene.writer.write(300)
    eventually(lambda: len(scene.stored()) == 800, "the last lines", ARRIVES_S)
    (gap,) = scene.store.ask("SELECT begin, end, bytes, lines FROM line_gaps")
    assert (gap["begin"], gap["end"], gap["bytes"]) == (begin, end, end - begin)
    assert gap["lines"] == pytest.approx(200, rel=0.02)  # bytes are exact, lines are bytes over the mean length
    (row,) = scene.store.ask("SELECT missing, outstanding FROM reconciliation WHERE missing > 0")
    assert row == {"missing": gap["lines"], "outstanding": gap["lines"]}
