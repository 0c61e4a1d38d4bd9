"""Results that others write at the same time, links, pipes and devices; and sources that are none."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sojourn
from commands_run import ended
from sojourn.model.errors import SojournError, reason_of
from sojourn.present.files import written_whole
from sojourn.readers import inputs as sources
from sojourn.readers import lines as lines_module
from sojourn.readers.compression import zstd
from sojourn.readers.inputs import LogInput
from sojourn.sources.live.parsing import Parser

BASE = 1_767_225_600


def line(number: int) -> str:
    record = {"time": f"{BASE + number}.000", "request_id": f"r{number}", "request_time": "0.100", "status": "200"}
    return json.dumps({**record, "request_start": "-"}) + "\n"


def text(numbers: range) -> str:
    return "".join(map(line, numbers))


# --- results


def test_of_two_that_write_one_file_the_last_has_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "f.html"
    with written_whole(path) as first, first.open("w") as one:
        one.write("1" * 100_000)
        with written_whole(path) as second:
            second.write_text("2" * 50_000)
        assert path.read_text() == "2" * 50_000
        one.write("1" * 100_000)
    assert path.read_text() == "1" * 200_000
    assert os.listdir(tmp_path) == ["f.html"]


def test_links_and_modes_are_kept(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    real = tmp_path / "there" / "real.html"
    real.write_text("old")
    real.chmod(0o600)
    link = tmp_path / "f.html"
    link.symlink_to(real)
    with written_whole(link) as partial:
        partial.write_text("new")
    assert link.is_symlink()
    assert (real.read_text(), stat.S_IMODE(real.stat().st_mode)) == ("new", 0o600)
    assert os.listdir(tmp_path / "there") == ["real.html"]


def test_a_pipe_is_written_into_and_remains_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(path.read_text()), daemon=True)
    reader.start()
    with written_whole(path) as partial:
        partial.write_text("all of it")
    reader.join(20)
    assert read == ["all of it"]
    assert path.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_device_that_is_full_is_still_a_device_afterwards(tmp_path: Path) -> None:
    device = tmp_path / "full"  # one of our own, as /dev/full is
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        device.open("wb").close()
    except OSError as error:
        pytest.skip(f"no device can be made: {error}")
    output = pytest.raises(SojournError, match=r"/full: cannot be written \(No space left on device\)$")
    with output, written_whole(device) as partial:
        partial.write_text("x")
    assert device.is_char_device()
    assert os.listdir(tmp_path) == ["full"]


def test_an_engines_words_become_the_systems() -> None:
    reported = OSError("parquet: File out of specification: underlying IO error: No space (os error 28)")
    assert reason_of(reported) == "No space left on device"
    assert reason_of(ValueError("first\nsecond")) == "first"
    assert reason_of(ValueError("")) == "ValueError"


# --- sources


def test_a_name_that_is_no_log_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for name, words in (
            ("loop", "Too many levels of symbolic links"),
            ("folder", "not the folder of a run"),
            ("socket", "No such device or address"),
            ("gone-*.jsonl", "no file matches"),
        ):
            with pytest.raises(SojournError, match=f"{name.replace('*', '.')}: {words}"):
                sojourn.read(tmp_path / name)


def test_loop_of_links_in_glob_and_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "a.jsonl").write_text(line(1))
    (tmp_path / "a.jsonl.gz").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a.jsonl.gz")
    (tmp_path / "run" / "access.jsonl").symlink_to("access.jsonl")
    (tmp_path / "run" / "requests.parquet").write_bytes(b"PAR1")
    for source, place in (("a.json*", "a.jsonl.gz"), ("run", "run/access.jsonl"), ("b/a.jsonl", "b/a.jsonl")):
        with pytest.raises(
            SojournError, match=f"{re.escape(str(tmp_path / place))}: Too many levels of symbolic links"
        ):
            sojourn.read(tmp_path / source)


def test_loop_of_links_that_is_followed_or_a_capture_is_named(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for command in (["watch", "--once"], ["watch"], ["export", "--once"], ["pcap"]):
        done = ended(*command, str(loop))
        assert (done.code, done.err) == (1, f"sojourn: {loop}: Too many levels of symbolic links\n"), command


def test_a_log_one_may_not_read_is_named() -> None:
    own = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:  # a folder that another user may enter
        Path(folder).chmod(0o755)
        log = Path(folder) / "a.jsonl"
        log.write_text(line(1))
        log.chmod(0)
        if own == 0:
            os.seteuid(65_534)
        try:
            with pytest.raises(SojournError, match=r"a\.jsonl: Permission denied"):
                sojourn.read(log)
        finally:
            os.seteuid(own)


def test_a_log_that_goes_between_the_glob_and_the_opening_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.jsonl.1", "a.jsonl.2"):
        (tmp_path / name).write_text(line(1))
    result = sources.glob.glob

    def rotated(*arguments: object, **more: object) -> list[str]:
        names = result(*arguments, **more)  # type: ignore[arg-type]
        (tmp_path / "a.jsonl.2").unlink()
        return names

    monkeypatch.setattr(sources.glob, "glob", rotated)
    with pytest.raises(SojournError, match=r"a\.jsonl\.2: No such file or directory"):
        sojourn.read(tmp_path / "a.jsonl*")


# --- rotation while it is read


@pytest.fixture
def read_while(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, Callable[[], object]], sojourn.Requests]:
    """Reads a log, a little at a time; something happens when its beginning has been read."""
    chunks = lines_module._chunks

    def read(log: Path, happens: Callable[[], object]) -> sojourn.Requests:
        def watched(opened: LogInput, _size: int, room: int) -> Iterator[Any]:
            for number, chunk in enumerate(chunks(opened, 20_000, room)):
                yield chunk
                if number == 0:
                    happens()

        with monkeypatch.context() as patch:
            patch.setattr(lines_module, "_chunks", watched)
            return sojourn.read(log, columns=["request_id"])

    return read


def ids(result: sojourn.Requests) -> list[int]:
    return sorted(int(each[1:]) for each in result.rows.collect()["request_id"].to_list())


def test_a_log_that_is_rotated_while_it_is_read_is_read_to_its_end(tmp_path: Path, read_while: Any) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text(text(range(5_000)))

    def rotate() -> None:
        log.rename(tmp_path / "a.jsonl.1")
        log.write_text(text(range(5_000, 6_000)))

    result = read_while(log, rotate)
    assert ids(result) == list(range(5_000))
    assert result.records.rejected == 0
    assert ids(sojourn.read(tmp_path / "a.jsonl*", columns=["request_id"])) == list(range(6_000))


def test_a_log_that_is_cut_while_it_is_read_says_so(tmp_path: Path, read_while: Any) -> None:
    """logrotate's copytruncate: what was not read yet is in the copy, and reading both counts each once."""
    log = tmp_path / "a.jsonl"
    log.write_text(text(range(5_000)))

    def copytruncate() -> None:
        (tmp_path / "a.jsonl.1").write_bytes(log.read_bytes())
        os.truncate(log, 0)

    result = read_while(log, copytruncate)
    assert result.records.reasons["cut_while_read"] == 1
    assert set(result.records.reasons) <= {"cut_while_read", "incomplete_line"}
    (reported,) = [each for each in result.records.rejects if each["reason"] == "cut_while_read"]
    assert "longer when it was opened" in str(reported["raw"])
    assert 0 < len(ids(result)) < 5_000
    assert ids(sojourn.read(tmp_path / "a.jsonl*", columns=["request_id"])) == list(range(5_000))


def test_the_archive_that_appears_beside_its_log_doubles_nothing(tmp_path: Path) -> None:
    """gzip writes a.jsonl.1.gz before it removes a.jsonl.1: for a moment both are there, the first one cut off."""
    (tmp_path / "a.jsonl.1").write_text(text(range(5_000)))
    whole = gzip.compress(text(range(5_000)).encode(), mtime=0)
    (tmp_path / "a.jsonl.1.gz").write_bytes(whole[: len(whole) // 2])
    half = sojourn.read(tmp_path / "a.jsonl.*", columns=["request_id"])
    assert ids(half) == list(range(5_000))
    assert half.records.reasons["damaged_compression"] == 1
    done = ended("split", str(tmp_path / "a.jsonl.*"))
    assert (done.code, done.err) == (0, "")  # the log itself has what the archive lacks
    (tmp_path / "a.jsonl.1.gz").write_bytes(whole)
    assert ids(sojourn.read(tmp_path / "a.jsonl.*", columns=["request_id"])) == list(range(5_000))


# --- damaged and marked files


def half_of(numbers: range, packed: Callable[[bytes], bytes]) -> bytes:
    whole = packed(text(numbers).encode())
    return whole[: len(whole) // 2]


@pytest.mark.parametrize(("suffix", "packed"), [("gz", gzip.compress), ("zst", zstd.compress)])
def test_half_a_compressed_log_is_read_and_exits_with_1(
    tmp_path: Path, suffix: str, packed: Callable[[bytes], bytes]
) -> None:
    log, other = tmp_path / f"half.jsonl.{suffix}", tmp_path / "whole.jsonl"
    log.write_bytes(half_of(range(2_000), packed))
    other.write_text(text(range(2_000, 2_100)))
    done = ended("split", str(log), str(other), "--json")
    assert done.code == 1
    assert done.err.startswith(f"sojourn: {log}: not readable from line ")
    assert done.err.count("\n") == 1
    document = json.loads(done.out)
    assert document["requests"] >= 100
    assert document["records"]["reasons"]["damaged_compression"] == 1
    assert ended("split", str(other)).code == 0


def test_loading_half_a_compressed_log_exits_with_1(tmp_path: Path, store_dsn: str) -> None:
    log = tmp_path / "half.jsonl.gz"
    log.write_bytes(half_of(range(2_000), gzip.compress))
    done = ended("store", "load", store_dsn, str(log))
    assert done.code == 1
    assert done.err.startswith(f"sojourn: {log}: not readable from line ")
    assert json.loads(ended("split", store_dsn, "--json").out)["requests"] > 0


@pytest.mark.parametrize("packed", [bytes, gzip.compress, zstd.compress])
def test_byte_order_mark_costs_no_line(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(packed(codecs.BOM_UTF8 + text(range(3)).encode()))
    result = sojourn.read(log, columns=["request_id"])
    assert (ids(result), result.records.rejected) == ([0, 1, 2], 0)


def test_byte_order_mark_on_standard_input_costs_no_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sojourn", "split", "-", "--json"],
        input=codecs.BOM_UTF8 + text(range(3)).encode(), capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout)["records"] == {
        "read": 3, "accepted": 3, "rejected": 0, "reasons": {}, "dropped": {}, "set_apart": None,
    }  # fmt: skip


def test_byte_order_mark_of_a_log_that_is_followed_costs_no_line() -> None:
    _, records = Parser().rows(codecs.BOM_UTF8 + text(range(3)).encode(), "a.jsonl")
    assert (records.accepted, records.rejected) == (3, 0)


def test_byte_order_mark_in_a_load_costs_no_line(tmp_path: Path, store_dsn: str) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(codecs.BOM_UTF8 + text(range(3)).encode() + b"no record\n")
    assert ended("store", "load", store_dsn, str(log)).code == 0
    records = sojourn.read(store_dsn).records
    assert (records.accepted, records.rejected) == (3, 1)
    (reject,) = records.rejects
    assert reject["position"] == len(codecs.BOM_UTF8) + len(text(range(3)))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_refused_with_the_remedy(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(f"\ufeff{text(range(3))}".encode(encoding))
    with pytest.raises(SojournError, match=r"a\.jsonl: text in UTF-16; convert it to UTF-8"):
        sojourn.read(log)
