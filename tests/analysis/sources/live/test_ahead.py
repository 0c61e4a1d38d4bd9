"""Records from the future, and steps of the local clock, while a log is followed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from sojourn.sources.live.ahead import AHEAD, MOST_HELD, AheadOfClock, AheadOfLog
from sojourn.sources.live.follow import FileFollower
from sojourn.sources.live.log_clock import STEP
from sojourn.sources.live.reader import LiveReader
from sojourn.sources.live.recent import Recent
from sojourn.sources.live.tail import from_the_beginning
from watch_support import EPOCH, at, record

SPAN = 90.0


class Clocks:
    """The local clock, which can be set, and another one; both show s after ``EPOCH``."""

    def __init__(self) -> None:
        self.now = self.elapsed = 0.0

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.elapsed += seconds

    @property
    def wall(self) -> datetime:
        return at(self.now)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "access.log"
    path.touch()
    return path


@pytest.fixture
def reader(log: Path, clocks: Clocks) -> Iterator[LiveReader]:
    live = LiveReader(
        [FileFollower(str(log), from_the_beginning)], recent=Recent(SPAN), elapsed=lambda: clocks.elapsed
    )  # fmt: skip
    live.catch_up(clocks.wall)
    yield live
    live.close()


def write(log: Path, seconds: Sequence[float]) -> None:
    with log.open("ab") as file:
        file.write(b"".join(record(EPOCH + each) for each in seconds))


def read(reader: LiveReader, log: Path, clocks: Clocks, seconds: int, rate: int = 20, shift: float = 0.0) -> None:
    """Let seconds pass in which requests end, and read their lines; ``shift``: of the log's clock."""
    write(log, [clocks.now + shift + n / rate for n in range(rate * seconds)])
    clocks.passes(seconds)
    reader.poll()
    reader.read(clocks.wall)


def test_one_record_from_the_future_takes_part_in_nothing(reader: LiveReader, log: Path, clocks: Clocks) -> None:
    read(reader, log, clocks, 10)
    write(log, [clocks.now + 3_600])
    read(reader, log, clocks, 5)
    assert (reader.ahead.total, reader.ahead.disagree) == (1, False)
    assert reader.recent.last == at(14.95)
    assert len(reader.recent) == 300
    assert reader.recent.records.accepted == 301
    assert reader.clock.lag == pytest.approx(0.05)
    assert reader.now(clocks.wall) == clocks.wall
    clocks.passes(SPAN)
    reader.read(clocks.wall)
    assert len(reader.recent) == 0  # the window drains


def test_record_within_the_tolerance_is_held(reader: LiveReader, log: Path, clocks: Clocks) -> None:
    write(log, [clocks.now + AHEAD.total_seconds()])
    reader.poll()
    reader.read(clocks.wall)
    assert (reader.ahead.total, len(reader.recent)) == (0, 1)


def test_clocks_disagree_until_no_missing_record_is_in_the_window(
    reader: LiveReader, log: Path, clocks: Clocks
) -> None:
    read(reader, log, clocks, 10)
    read(reader, log, clocks, 5, shift=60.0)
    assert (reader.ahead.total, reader.ahead.disagree) == (100, True)
    read(reader, log, clocks, int(SPAN) - 1, rate=2)
    assert reader.ahead.disagree
    read(reader, log, clocks, 3, rate=2)
    assert not reader.ahead.disagree


@pytest.mark.parametrize(
    ("ahead", "others", "disagree"), [(1, 1, False), (1, 0, True), (2, 150, True), (2, 250, False), (3, 250, True)]
)
def test_share_of_records_ahead_that_is_a_disagreement(ahead: int, others: int, disagree: bool) -> None:
    rows = pl.DataFrame({"time": [at(60)] * ahead + [at(0)] * others}, schema={"time": pl.Datetime("us", "UTC")})
    clock = AheadOfClock(SPAN)
    assert len(clock.without(rows, at(0))) == others
    assert clock.disagree == disagree
    assert "1 min ahead" in clock.sentence


def test_step_back_begins_a_new_stretch(reader: LiveReader, log: Path, clocks: Clocks) -> None:
    """Lines of before the step that are read after it are ahead, and no disagreement."""
    read(reader, log, clocks, 30)
    write(log, [clocks.now + n / 20 for n in range(20)])
    clocks.passes(1.0)
    clocks.now -= 3_600.0
    reader.poll()
    reader.read(clocks.wall)
    assert (len(reader.recent), reader.recent.last, reader.clock.lag) == (0, None, None)
    assert (reader.ahead.total, reader.ahead.disagree) == (20, False)
    assert reader.recent.known_since() == clocks.wall
    read(reader, log, clocks, 10)
    assert len(reader.recent) == 200
    assert reader.clock.lag == pytest.approx(0.05)
    assert reader.recent.known_since() == clocks.wall - timedelta(seconds=10)


def test_step_forward_begins_a_new_stretch(reader: LiveReader, log: Path, clocks: Clocks) -> None:
    read(reader, log, clocks, 30)
    write(log, [clocks.now])
    clocks.now += 3_600.0
    read(reader, log, clocks, 1)
    begin = clocks.wall
    read(reader, log, clocks, 10)
    assert reader.recent.known_since() == begin
    assert reader.recent.rows(clocks.wall, SPAN).collect().height == 220


def test_pause_of_the_process_is_no_step(reader: LiveReader, log: Path, clocks: Clocks) -> None:
    read(reader, log, clocks, 10)
    clocks.passes(30.0)
    clocks.now -= STEP - 1.0
    read(reader, log, clocks, 1)
    assert len(reader.recent) == 220


def test_lines_that_are_written_while_the_end_of_a_log_is_read_are_not_ahead(
    log: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading ten minutes of a busy log takes long."""
    monkeypatch.setattr("sojourn.sources.live.reader.LITTLE", 0)
    write(log, [-1.0])
    reader = LiveReader([FileFollower(str(log), from_the_beginning)], elapsed=lambda: clocks.elapsed)
    poll = reader.poll

    def slow_poll() -> int:
        size = poll()
        if size and clocks.now < 40:
            clocks.passes(20.0)
            write(log, [clocks.now])
        return size

    monkeypatch.setattr(reader, "poll", slow_poll)
    reader.catch_up(at(0))
    assert (reader.ahead.total, len(reader.recent)) == (0, 3)
    reader.close()


# --- replays


def rows_at(*seconds: float) -> pl.DataFrame:
    time = [datetime.fromtimestamp(EPOCH + each, UTC) for each in seconds]
    return pl.DataFrame(
        {"time": time, "start": time}, schema=dict.fromkeys(("time", "start"), pl.Datetime("us", "UTC"))
    )


def replayed(*batches: Sequence[float]) -> tuple[AheadOfLog, list[float]]:
    ahead = AheadOfLog()
    seconds: list[float] = []
    for batch in batches:
        rows = ahead.without(rows_at(*batch), at(0))
        seconds += [round((each - at(0)).total_seconds(), 3) for each in rows["time"]]
    return ahead, seconds


MINUTE = [n / 10 for n in range(600)]


@pytest.mark.parametrize("far", [3_600.0, 4e9, -86_400.0])
def test_replay_sets_a_record_apart_that_the_log_does_not_follow(far: float) -> None:
    ahead, seconds = replayed([*MINUTE, far], [60.0, 60.1], [60.2])
    assert (ahead.total, seconds) == (1, [*MINUTE, 60.0, 60.1, 60.2])
    assert "clock was probably set" in ahead.sentence


def test_replay_that_continues_after_a_pause_loses_nothing() -> None:
    """The pause is longer than the log before it, and lines arrive one by one."""
    later = [7_200.0 + n for n in range(MOST_HELD + 5)]
    ahead, seconds = replayed(MINUTE, *([each] for each in later))
    assert (ahead.total, sorted(seconds)) == (0, [*MINUTE, *later])


def test_replay_whose_pause_is_within_a_block_loses_nothing() -> None:
    morning = [36_000.0 + n / 10 for n in range(60)]
    many = [n / 100 for n in range(10_000)]
    ahead, seconds = replayed([*many, *morning[:20]], morning[20:])
    assert (ahead.total, sorted(seconds)) == (0, [*many, *morning])
