"""``sojourn watch`` without a terminal: once, as JSON, as text, piped; and what it refuses."""

from __future__ import annotations

import json
import locale
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sojourn.cli import app
from sojourn.watch.command import watch
from sojourn.watch.view import View
from typer.testing import CliRunner
from watch_support import EPOCH, given_up, record, until

SOJOURN = [sys.executable, "-m", "sojourn"]
OLD = b"".join(record(EPOCH + k / 2, 0.3 if k > 60 else 0.0, route="/a" if k % 3 else "/b") for k in range(200))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "access.log"
    path.write_bytes(OLD)
    return path


def run(*arguments: str, code: int = 0, **environment: str) -> str:
    result = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1", **environment}).invoke(app, ["watch", *arguments])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else str(result.exception) + result.output


def test_once_as_json_is_one_object(log: Path) -> None:
    document = json.loads(run(str(log), "--once", "--json", "--by", "upstream"))
    assert document["at"] == document["last_record"] == "2026-01-01T00:01:39.500Z"
    assert document["last_record_age"] > 86_400
    assert document["records"] == {"read": 200, "accepted": 200, "rejected": 0, "reasons": {}}
    assert list(document["windows"]) == ["now", "1m", "10m"]
    assert [window["requests"] for window in document["windows"].values()] == [20, 120, 200]
    assert document["windows"]["10m"]["seconds"] == pytest.approx(99.5)
    assert document["verdict"]["cause"] == "queueing"
    assert document["windows"]["1m"]["by"]["upstream"][0]["upstream"] == "10.0.0.1:80"
    assert document["queues"]["backends"][0]["workers"] == 1
    assert len(document["history"]["queueing_delay"]) == 60
    assert document["notes"] == []


def test_once_of_a_log_that_is_written_is_of_now(tmp_path: Path) -> None:
    now = time.time()
    log = tmp_path / "access.log"
    log.write_bytes(b"".join(record(now - 100 + k) for k in range(70)) + given_up(now - 25, 2.0))
    document = json.loads(run(str(log), "--once", "--json"))
    assert 24 < document["last_record_age"] < 60
    minute = sum(k - 100 > document["last_record_age"] - 25 - 60 for k in range(70)) + 1
    assert [window["requests"] for window in document["windows"].values()] == [0, pytest.approx(minute, abs=1), 71]
    assert document["windows"]["now"]["verdict"] is None
    assert document["verdict"] is not None
    assert document["windows"]["1m"]["statuses"]["504"] == 1


def test_once_as_text_has_the_figures_and_no_keys(log: Path) -> None:
    text = run(str(log), "--once")
    assert "It is a queue, not the code" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "q quit" not in text
    assert "\x1b" not in text
    assert text.splitlines()[0].startswith("sojourn watch  2026-01-01 00:01:39 UTC  last record")


def test_a_filter_and_a_column_to_begin_with(log: Path) -> None:
    document = json.loads(run(str(log), "--once", "--json", "--filter", "route=/b", "--by", "worker"))
    assert document["windows"]["10m"]["requests"] == 67
    assert document["filter"] == "route=/b"


def test_what_is_refused(log: Path, tmp_path: Path) -> None:
    assert "no such file or folder" in run(str(tmp_path / "none"), "--once", code=1)
    assert "is not one of route" in run(str(log), "--by", "colour", code=2)
    assert "a store is not watched" in run("clickhouse://h/d", code=1)
    (tmp_path / "empty").write_bytes(b"")
    assert "the sources are empty" in run(str(tmp_path / "empty"), "--once", code=1)
    (tmp_path / "garbage").write_bytes(b"a\nb\n")
    assert "no request could be used: 2 lines read, 2 refused (invalid_json 2)" in run(
        str(tmp_path / "garbage"), "--once", code=1
    )
    os.mkfifo(tmp_path / "pipe")
    assert "named pipe" in run(str(tmp_path / "pipe"), "--once", code=1)


def test_a_runs_folder_is_watched_by_its_log(log: Path) -> None:
    log.rename(log.parent / "access.jsonl")
    assert json.loads(run(str(log.parent), "--once", "--json"))["records"]["read"] == 200


def test_piped_in_and_out_it_prints_until_the_pipe_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = locale.setlocale(locale.LC_CTYPE)
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("COLUMNS", "80")
    reading, writing = os.pipe()
    os.write(writing, b"".join(record(time.time() - 5 + k / 10, 0.2) for k in range(50)))
    command = sys.modules[watch.__module__]
    shown, block = threading.Event(), command._as_block

    def printed(view: View) -> str:
        shown.set()
        return str(block(view))

    def write_later() -> None:
        shown.wait(40)
        os.write(writing, record(time.time(), route="/late"))
        os.close(writing)

    monkeypatch.setattr(command, "_as_block", printed)
    later = threading.Thread(target=write_later)
    with os.fdopen(reading) as piped:
        monkeypatch.setattr(sys, "stdin", piped)
        later.start()
        try:
            watch(["-"], every=0.3)
        finally:
            later.join()
            locale.setlocale(locale.LC_CTYPE, before)
    text = capsys.readouterr().out
    pictures = text.split("sojourn watch")[1:]
    assert len(pictures) >= 2
    assert "/late" not in pictures[0]
    assert "/late" in pictures[-1]
    assert "It is a queue" in text
    assert "nothing more will come" in pictures[-1]
    assert text.isascii()  # of a terminal that knows no other signs
    assert "\x1b" not in text


def test_prints_json_until_it_is_terminated(tmp_path: Path) -> None:
    """Rotated, garbled and cut off while it is watched, nothing is lost."""
    log, out = tmp_path / "access.log", tmp_path / "out"
    with out.open("wb") as sink:
        process = subprocess.Popen([*SOJOURN, "watch", str(log), "--json", "--every", "0.2"], stdout=sink)

    def printed() -> list[dict[str, object]]:
        return [json.loads(line) for line in out.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]

    def read() -> object:
        return printed()[-1]["records"]["read"]  # type: ignore[index]

    try:
        until(printed)
        assert "is read as soon as it is there" in str(printed()[-1]["notes"])
        with log.open("ab", buffering=0) as writer:
            writer.write(record(time.time()) + b"garbage\n" + record(time.time())[:40])
            until(lambda: read() == 2)
            log.rename(tmp_path / "access.log.1")
            writer.write(record(time.time())[40:] + record(time.time()))
        with log.open("ab", buffering=0) as writer:
            writer.write(record(time.time()))
            until(lambda: read() == 5)
            os.truncate(log, 0)
            time.sleep(0.6)  # longer than two looks
            writer.write(record(time.time()))
            until(lambda: read() == 6)
        assert printed()[-1]["records"]["reasons"] == {"invalid_json": 1}  # type: ignore[index]
        assert printed()[-1]["windows"]["10m"]["requests"] == 5  # type: ignore[index]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    finally:
        process.kill()
        process.wait()
