"""Following logs: both kinds of rotation, missing and truncated files, pipes, and the start of the last minutes."""

from __future__ import annotations

import gzip
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sojourn.model.errors import SojournError
from sojourn.readers.compression import zstd
from sojourn.readers.lines import LINE_LIMIT
from sojourn.sources.live import follow
from sojourn.sources.live.follow import ArchiveFollower, FileFollower, StreamFollower, follower_of, reopens
from sojourn.sources.live.tail import Tail, from_the_beginning, last_time, place_of
from sojourn.watch.watcher import read_once, watcher_of
from syrupy.assertion import SnapshotAssertion
from watch_support import EPOCH, record


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


def test_returns_whole_lines_of_a_growing_log(log: Path) -> None:
    log.write_bytes(b"one\ntw")
    follower = FileFollower(str(log), from_the_beginning)
    assert follower.lines() == b"one\n"
    append(log, b"o\nthree\n")
    assert follower.lines() == b"two\nthree\n"
    assert follower.lines() == b""
    assert (follower.behind, follower.rotations, follower.ended) == (0, 0, False)
    follower.close()


@pytest.mark.parametrize("time", [b'"NaN"', b"1e999", b"1" * 400, b"[]", b"null", b'"soon"'])
def test_ignores_invalid_times(log: Path, time: bytes) -> None:
    log.write_bytes(record(EPOCH) + b'{"time":%s}\n' % time)
    with log.open("rb") as file:
        assert last_time(file.fileno()) == EPOCH


def test_empty_device_ends_at_once() -> None:
    watcher = read_once(["/dev/null"], datetime.now(UTC))
    assert watcher.ended
    watcher.close()


def test_only_a_named_pipe_reopens(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    assert reopens(str(fifo), fifo.stat().st_mode)
    assert not reopens("/dev/stdin", fifo.stat().st_mode)
    assert not reopens("/dev/null", os.stat("/dev/null").st_mode)


def test_file_created_later_is_read_from_its_beginning(log: Path) -> None:
    follower = FileFollower(str(log), lambda handle: os.fstat(handle).st_size)
    assert follower.lines() == b""
    assert follower.missing
    log.write_bytes(b"first\n")
    assert follower.lines() == b"first\n"
    assert not follower.missing
    follower.close()


def test_rename_while_writing_loses_and_repeats_no_line(log: Path, tmp_path: Path) -> None:
    """As with nginx, which writes to the renamed file until it reopens its log."""
    log.write_bytes(b"1\n")
    follower = FileFollower(str(log), from_the_beginning)
    got = follower.lines()
    with log.open("ab", buffering=0) as writer:
        log.rename(tmp_path / "access.log.1")
        writer.write(b"2\n3")
        got += follower.lines()
        assert follower.missing
        log.write_bytes(b"")
        got += follower.lines()
        writer.write(b"\n4\n")
        got += follower.lines()
    append(log, b"5\n")
    got += follower.lines()
    assert got == b"1\n2\n3\n4\n5\n"
    assert follower.rotations == 1
    follower.close()


def test_file_that_cannot_be_opened_is_read_later_or_lost(log: Path, tmp_path: Path) -> None:
    """What is replaced or truncated before it could be opened counts as lost; what remains is read."""
    log.write_bytes(b"a\n")
    follower = FileFollower(str(log), from_the_beginning)
    assert follower.lines() == b"a\n"
    for number, (change, lost, later) in enumerate(
        (
            (lambda: None, 0, b"b\n"),
            (lambda: log.rename(tmp_path / "lost") and log.write_bytes(b"c\n"), 2, b"c\n"),
            (lambda: log.write_bytes(b"\n"), 2, b"\n"),
        )
    ):
        log.rename(tmp_path / f"{number}")
        log.write_bytes(b"b\n")
        with no_descriptors():
            assert follower.lines() == b""
            assert follower.refusal == "Too many open files"
        before = follower.lost
        change()
        assert follower.lines() == later
        assert follower.refusal == ""
        assert follower.lost - before == lost
    follower.close()


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Let nothing be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_copy_and_truncate(log: Path) -> None:
    log.write_bytes(b"1\n2\ncut o")
    follower = FileFollower(str(log), from_the_beginning)
    assert follower.lines() == b"1\n2\n"
    os.truncate(log, 0)
    append(log, b"3\n")
    assert follower.lines() == b"cut o\n3\n"  # the beginning of a line is a line, to be counted as refused
    assert follower.rotations == 1
    follower.close()


COPIES = {
    "number": "access.log.1", "date": "access.log-20261130", "extension": "access-20261130.log",
    "gzip": "access.log.1.gz", "zstd": "access.log-20261130.zst",
}  # fmt: skip


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_lines_between_the_last_poll_and_a_truncation_are_read_from_the_copy(log: Path, copy: str) -> None:
    """As logrotate's copytruncate does twice, with dates or numbers, and with archives of another log beside it."""
    follower = FileFollower(str(log), from_the_beginning)
    got, expected = b"", b""
    (log.parent / "access.log.2").write_bytes(b"old\n" * 20)
    (log.parent / "access_of_others.log.1").write_bytes(b"1st of others\nmore\n")
    for day in (b"1st", b"2nd"):
        append(log, day + b" read\n" + day + b" beg")
        got += follower.lines()
        append(log, b"un, in the copy only\n" + day + b" too\n" + day + b" cut o")
        place = log.parent / copy
        place.unlink(missing_ok=True)
        data = log.read_bytes()
        place.write_bytes({".gz": gzip.compress, ".zst": zstd.compress}.get(place.suffix, bytes)(data))
        os.utime(place, (int(log.stat().st_mtime),) * 2)  # as gzip and cp -p do, and some in whole seconds
        os.truncate(log, 0)
        append(log, day + b" after\n")
        lines = (b" read", b" begun, in the copy only", b" too", b" cut o", b" after")
        expected += b"".join(day + line + b"\n" for line in lines)
        got += follower.lines()
    assert got == expected
    assert (follower.rotations, follower.behind) == (2, 0)
    follower.close()


def test_copy_larger_than_one_poll_is_read_to_its_end(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "READ_BYTES", 16)
    follower = FileFollower(str(log), from_the_beginning)
    append(log, b"line 0\n")
    got = follower.lines()
    append(log, b"".join(b"line %d\n" % n for n in range(1, 9)))
    shutil.copyfile(log, log.parent / "access.log.1")
    os.truncate(log, 0)
    append(log, b"line 9\n")
    for _ in range(9):
        got += follower.lines()
    assert sorted(got.splitlines()) == [b"line %d" % n for n in range(10)]
    follower.close()


def test_archive_of_other_content_is_not_the_copy(log: Path) -> None:
    """The log was emptied without a copy."""
    follower = FileFollower(str(log), from_the_beginning)
    append(log, b"read\n")
    got = follower.lines()
    (log.parent / "access.log.1").write_bytes(b"seen\nnot of this log\n")
    (log.parent / "access.log.2.gz").write_bytes(
        gzip.compress(b"read\nin an archive that is not whole yet\n" * 99)[:-20]
    )
    os.truncate(log, 0)
    append(log, b"new\n")
    assert got + follower.lines() == b"read\nnew\n"
    follower.close()


def test_truncated_file_that_grew_beyond_the_position_is_read_again(log: Path) -> None:
    log.write_bytes(b"old 1\nold 2\n")
    follower = FileFollower(str(log), from_the_beginning)
    follower.lines()
    log.write_bytes(b"".join(b"new %d\n" % n for n in range(9)))
    assert follower.lines() == b"".join(b"new %d\n" % n for n in range(9))
    assert follower.rotations == 1
    follower.close()


def test_unfinished_line_is_limited(log: Path) -> None:
    log.write_bytes(b"x" * (LINE_LIMIT + 5))
    follower = FileFollower(str(log), from_the_beginning)
    assert len(follower.lines()) == LINE_LIMIT + 6
    append(log, b"y\nz\n")
    assert follower.lines() == b"y\nz\n"
    follower.close()


def test_pipe_ends_with_a_line_without_newline() -> None:
    reading, writing = os.pipe()
    follower = StreamFollower("-", reading)
    assert follower.lines() == b""
    os.write(writing, b"1\n2")
    assert follower.lines() == b"1\n"
    os.close(writing)
    assert follower.lines() == b"2"
    assert follower.ended
    os.close(reading)


def test_named_pipe_can_be_written_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    follower = follower_of(str(tmp_path / "pipe"), from_the_beginning)
    for data in (b"1\n", b"2\n"):
        with (tmp_path / "pipe").open("wb") as writer:
            writer.write(data)
        assert follower.lines() == data
        assert follower.lines() == b""
        assert not follower.ended


def test_compressed_log_is_read_even_when_damaged(tmp_path: Path) -> None:
    whole = gzip.compress(b"1\n2\n")
    for name, data in (("whole.gz", whole), ("cut.gz", whole[:-9])):
        (tmp_path / name).write_bytes(data)
        follower = follower_of(str(tmp_path / name), from_the_beginning)
        assert isinstance(follower, ArchiveFollower)
        got = b""
        while not follower.ended:
            got += follower.lines()
        assert b"1\n2\n".startswith(got)
        assert got == b"1\n2\n" or name == "cut.gz"
        follower.close()


def test_rejects_sources_that_cannot_be_watched(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "frame.parquet").write_bytes(b"PAR1....")
    messages = []
    for source in (str(tmp_path / "frame.parquet"), "chdb:///x", str(tmp_path / "*.log")):
        with pytest.raises(SojournError) as error:
            watcher_of([source])
        messages.append(str(error.value).replace(str(tmp_path), "TMP"))
    assert messages == snapshot


def test_same_file_is_followed_once(log: Path) -> None:
    log.write_bytes(b"")
    os.link(log, log.with_suffix(".too"))
    watcher = watcher_of([str(log), str(log.with_suffix(".too")), str(log)])
    append(log, record(EPOCH))
    assert watcher.poll() == len(record(EPOCH))
    watcher.close()


# --- the tail

ODD = [b"{", b"", b"{}", b'{"time":"x"}', b"\xff" * 40]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 900), st.sampled_from(ODD)), max_size=60), st.integers(-5, 905))
def test_place_of_an_instant_is_before_all_later_lines(entries: list[int | bytes], instant: int) -> None:
    """Records in order of time, mixed with invalid lines: those before the instant precede the place, no others."""
    times = iter(sorted(entry for entry in entries if isinstance(entry, int)))
    lines = [b'{"time":"%d"}' % next(times) if isinstance(entry, int) else entry for entry in entries]
    reading = os.memfd_create("log")
    try:
        os.write(reading, b"".join(line + b"\n" for line in lines))
        place = place_of(reading, instant)
        data = os.pread(reading, 1 << 20, 0)
        assert place in {0, len(data)} or data[place - 1 : place] == b"\n"
        before, after = data[:place], data[place:]
        assert not any(_time(line) >= instant for line in before.splitlines() if _time(line) >= 0)
        assert not any(0 <= _time(line) < instant for line in after.splitlines())
    finally:
        os.close(reading)


def _time(line: bytes) -> int:
    return int(line[9:-2]) if line.startswith(b'{"time":"') and line[9:-2].isdigit() else -1


def test_tail_reads_only_the_end_of_a_long_log(log: Path) -> None:
    log.write_bytes(b"".join(record(EPOCH + k / 10) for k in range(20_000)))
    with log.open("rb") as file:
        assert last_time(file.fileno()) == EPOCH + 1_999.9
        tail = Tail(EPOCH + 2_000, 600, 1_000_000)
        begin = tail(file.fileno())
        assert tail.since == pytest.approx(EPOCH + 1_399.9)
        assert file.seek(begin) == begin
        assert len(file.read().splitlines()) in {6_601, 6_602}  # with a minute of slack
        few = Tail(EPOCH + 2_000, 600, 1_000)(file.fileno())
        file.seek(few)
        rest = file.read().splitlines()
        assert 990 <= len(rest) <= 1_000
        assert rest[0].startswith(b'{"time"')


def test_tail_of_an_old_log_is_relative_to_its_last_record(log: Path) -> None:
    log.write_bytes(b"".join(record(EPOCH + k) for k in range(2_000)))
    with log.open("rb") as file:
        tail = Tail(EPOCH + 1e7, 600, 1_000_000)
        file.seek(tail(file.fileno()))
        assert len(file.read().splitlines()) in {660, 661}


def test_tail_of_a_log_without_records(log: Path) -> None:
    for data in (b"", b"\n", b"garbage\nmore"):
        log.write_bytes(data)
        with log.open("rb") as file:
            tail = Tail(EPOCH, 600, 1_000)
            assert 0 <= tail(file.fileno()) <= len(data)
