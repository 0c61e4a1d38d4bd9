"""``sojourn watch`` without a terminal: once, as JSON, as text, piped; and its errors."""

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
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner
from watch_support import EPOCH, given_up, record, until

SOJOURN = [sys.executable, "-m", "sojourn"]
# What a shell starts in the background ignores SIGINT, and so do these tests then.
HEEDED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from sojourn.cli import program
program()
"""
INTERRUPTIBLE = [sys.executable, "-c", HEEDED]
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


def test_once_as_json_prints_one_object(log: Path) -> None:
    document = json.loads(run(str(log), "--once", "--json", "--by", "upstream"))
    assert document["at"] == document["last_record"] == "2026-01-01T00:01:39.500Z"
    assert document["last_record_age"] > 86_400
    assert document["records"] == {
        "read": 200,
        "accepted": 200,
        "rejected": 0,
        "reasons": {},
        "dropped": {},
        "set_apart": None,
    }
    assert list(document["windows"]) == ["now", "1m", "10m"]
    assert [window["requests"] for window in document["windows"].values()] == [20, 120, 200]
    assert document["windows"]["10m"]["seconds"] == pytest.approx(99.5)
    assert document["verdict"]["cause"] == "queueing"
    assert document["windows"]["1m"]["by"]["upstream"][0]["upstream"] == "10.0.0.1:80"
    assert document["queues"]["backends"][0]["workers"] == 1
    assert len(document["history"]["queueing_delay"]) == 60
    assert document["notes"] == []


def test_once_of_a_live_log_uses_the_current_time(tmp_path: Path) -> None:
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


def test_record_from_the_future_is_in_no_window(tmp_path: Path) -> None:
    now = time.time()
    log = tmp_path / "access.log"
    log.write_bytes(b"".join(record(now - 60 + k) for k in range(60)) + record(now + 3_600) + record(now))
    document = json.loads(run(str(log), "--once", "--json"))
    assert (document["records_ahead"], document["windows"]["10m"]["requests"]) == (1, 61)
    assert document["last_record_age"] >= 0
    assert "1 record was left out: up to 1 h ahead of this machine's clock." in document["notes"]


def test_once_as_text_shows_figures_without_keys(log: Path) -> None:
    text = run(str(log), "--once")
    assert "It is a queue, not the code" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "q quit" not in text
    assert "\x1b" not in text
    assert text.splitlines()[0].startswith("sojourn watch  2026-01-01 00:01:39 UTC  last record")


def test_initial_filter_and_column(log: Path) -> None:
    document = json.loads(run(str(log), "--once", "--json", "--filter", "route=/b", "--by", "worker"))
    assert document["windows"]["10m"]["requests"] == 67
    assert document["filter"] == "route=/b"


def test_rejects_unusable_sources_and_options(log: Path, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "garbage").write_bytes(b"a\nb\n")
    os.mkfifo(tmp_path / "pipe")
    cases = {name: ([str(tmp_path / name), "--once"], 1) for name in ("none", "empty", "garbage", "pipe")}
    cases |= {"store": (["clickhouse://h/d"], 1), "column": ([str(log), "--by", "colour"], 2)}
    errors = {name: run(*arguments, code=code) for name, (arguments, code) in cases.items()}
    assert "invalid_json 2" in errors["garbage"]
    assert "route" in errors["column"]
    assert {name: error.replace(str(tmp_path), "TMP") for name, error in errors.items()} == snapshot


def test_run_folder_means_its_log(log: Path) -> None:
    log.rename(log.parent / "access.jsonl")
    assert json.loads(run(str(log.parent), "--once", "--json"))["records"]["read"] == 200


def test_prints_until_the_pipe_ends(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    before = locale.setlocale(locale.LC_CTYPE)
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("COLUMNS", "80")
    reading, writing = os.pipe()
    os.write(writing, b"".join(record(time.time() - 5 + k / 10, 0.2) for k in range(50)))
    command = sys.modules[watch.__module__]
    printed, block = threading.Event(), command._as_block

    def recording(view: View) -> str:
        printed.set()
        return str(block(view))

    def write_later() -> None:
        printed.wait(40)
        os.write(writing, record(time.time(), route="/late"))
        os.close(writing)

    monkeypatch.setattr(command, "_as_block", recording)
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
    assert "no more lines will arrive" in pictures[-1]
    assert text.isascii()  # LC_ALL=C
    assert "\x1b" not in text


def test_json_lines_until_sigint(tmp_path: Path) -> None:
    """No record is lost when the log is rotated, garbled or truncated while it is watched."""
    log, out = tmp_path / "access.log", tmp_path / "out"
    with out.open("wb") as sink:
        process = subprocess.Popen([*INTERRUPTIBLE, "watch", str(log), "--json", "--every", "0.2"], stdout=sink)

    def printed() -> list[dict[str, object]]:
        return [json.loads(line) for line in out.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]

    def read() -> object:
        return printed()[-1]["records"]["read"]  # type: ignore[index]

    try:
        until(printed)
        assert "reading starts when it is created" in str(printed()[-1]["notes"])
        with log.open("ab", buffering=0) as writer:
            writer.write(record(time.time()) + b"garbage\n" + record(time.time())[:40])
            until(lambda: read() == 2)
            log.rename(tmp_path / "access.log.1")
            writer.write(record(time.time())[40:] + record(time.time()))
        with log.open("ab", buffering=0) as writer:
            writer.write(record(time.time()))
            until(lambda: read() == 5)
            os.truncate(log, 0)
            writer.write(record(time.time()))
            until(lambda: read() == 6)
        assert printed()[-1]["records"]["reasons"] == {"invalid_json": 1}  # type: ignore[index]
        until(lambda: printed()[-1]["windows"]["10m"]["requests"] == 5)  # type: ignore[index]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()


def test_a_log_of_a_given_format_is_watched(tmp_path: Path) -> None:
    """No format that is recognised: with its text, the figures are those of the records."""
    log = tmp_path / "odd.log"
    lines = (f"{EPOCH + k / 2:.3f}|{0.1 + k % 3 / 10:.3f}|200|/r{k % 2}|10.0.0.1:80|0.050" for k in range(200))
    log.write_text("".join(f"{line}\n" for line in lines))
    text = "$msec|$request_time|$status|$uri|$upstream_addr|$upstream_response_time"
    document = json.loads(run(str(log), "--once", "--json", "--log-format", text))
    assert document["records"]["accepted"] == 200
    assert document["windows"]["1m"]["by"]["route"][0]["route"] in ("/r0", "/r1")
    refused = run(str(log), "--once", "--log-format", "$msec $request_time", code=1)
    assert "what this format does not have: status ($status)" in refused
