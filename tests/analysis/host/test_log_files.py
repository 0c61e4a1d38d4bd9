"""The files of a log and an agent's positions in them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sojourn.host.agent_positions import checksum_of
from sojourn.host.log_files import LogFileSampler, last_sample, lines_unread, log_files
from sojourn.model.errors import SojournError


def line(number: int) -> str:
    return json.dumps({"time": f"17000{number:05}.000", "request_id": f"{number:05}"}) + "\n"


def positions(agent: Path, *known: tuple[Path, int]) -> None:
    """Write the positions of an agent by first lines."""
    (agent / "access_log").mkdir(parents=True, exist_ok=True)
    checkpoints = [
        {"fingerprint": {"first_lines_checksum": checksum_of(path.open("rb").readline())}, "position": position}
        for path, position in known
    ]
    (agent / "access_log" / "checkpoints.json").write_text(json.dumps({"version": "1", "checkpoints": checkpoints}))


def test_the_checksum_is_that_of_vector() -> None:
    """A value that Vector 0.57 wrote into its checkpoints."""
    assert checksum_of(b'{"time": 1700000000.123, "request_id": "abc"}\n') == 9187498023721004617


def test_rotated_files_belong_to_their_log(tmp_path: Path) -> None:
    for number, name in enumerate(
        ("a.jsonl", "a.jsonl.1", "a.jsonl-20260101", "a.jsonl.2.gz", "b.jsonl", "listen-x.jsonl")
    ):
        (tmp_path / name).write_text(line(number))
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "torn.jsonl").write_text(line(9)[:-1])
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    files = log_files([f"{tmp_path}/*.jsonl"], None)
    assert sorted((Path(f.log).name, Path(f.path).name, f.read) for f in files) == [
        ("a.jsonl", "a.jsonl", None), ("a.jsonl", "a.jsonl-20260101", None), ("a.jsonl", "a.jsonl.1", None),
        ("b.jsonl", "b.jsonl", None),
    ]  # fmt: skip
    assert {f.began for f in files} == {1700000000.0 + n for n in (0, 1, 2, 4)}


def test_a_log_may_have_a_number_in_its_name(tmp_path: Path) -> None:
    names = ("app-2.jsonl", "app-2.jsonl.1", "app-2.jsonl-2026010112", "other.log", "other.log.1")
    for number, name in enumerate(names):
        (tmp_path / name).write_text(line(number))
    files = log_files([f"{tmp_path}/*.jsonl", f"{tmp_path}/other.log"], None)
    assert [(Path(f.log).name, Path(f.path).name) for f in files] == [
        ("app-2.jsonl", "app-2.jsonl"), ("app-2.jsonl", "app-2.jsonl-2026010112"), ("app-2.jsonl", "app-2.jsonl.1"),
        ("other.log", "other.log"), ("other.log", "other.log.1"),
    ]  # fmt: skip


def test_a_sample_lists_what_changed_or_is_not_read(tmp_path: Path) -> None:
    agent, log, old = tmp_path / "agent", tmp_path / "a.jsonl", tmp_path / "a.jsonl.1"
    old.write_text(line(1) + line(2))
    log.write_text(line(3) + line(4))
    width = len(line(1))
    positions(agent, (old, 2 * width), (log, width))
    sampler = LogFileSampler([str(log)], agent)

    def sampled() -> list[tuple[int, int, int, bool]]:
        entries = sampler.sample()["files"]
        return sorted((e["size"] // width, e["read"] // width, e["judged"] // width, e["gone"]) for e in entries)

    assert sampled() == [(2, 1, 1, False), (2, 2, 2, False)]  # every file, in the first one
    assert sampled() == [(2, 1, 1, False)]
    positions(agent, (old, 2 * width), (log, 2 * width))
    assert sampled() == [(2, 2, 1, False)]
    assert sampled() == []
    old.unlink()
    log.rename(old)
    of_the_last = tmp_path / "last"
    of_the_last.write_text(line(5))
    log.write_text(line(5))  # new: judged from its beginning
    assert sampled() == [(1, 0, 0, False)]
    log.unlink()
    assert sampled() == []
    positions(agent, (old, 2 * width), (of_the_last, width))
    assert sampled() == [(1, 1, 0, True)]  # the agent has it open, and read on


def test_lines_that_are_not_read_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text("".join(map(line, range(1000))))
    positions(tmp_path / "agent", (log, 400 * len(line(1))))
    (file,) = log_files([str(log)], tmp_path / "agent")
    assert (file.unread, lines_unread(file)) == (600 * len(line(1)), 600)


def test_positions_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text(line(1))
    with pytest.raises(SojournError, match="agent: No such file or directory"):
        log_files([str(log)], tmp_path / "agent")
    positions(tmp_path / "agent", (log, 1))
    (tmp_path / "agent" / "access_log" / "checkpoints.json").write_text("{}")
    with pytest.raises(SojournError, match="not those of Vector"):
        log_files([str(log)], tmp_path / "agent")


def test_the_clock_of_samples_is_never_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the machine's clock, nor by a new sampler."""
    samples = tmp_path / "log-files.jsonl"
    sampler = LogFileSampler([], None)
    first = sampler.sample()
    monkeypatch.setattr(time, "time", lambda: first["clock"] - 3600)
    second = sampler.sample()
    assert second["clock"] == first["clock"] - 3600
    assert second["time"] >= first["time"]
    samples.write_text(json.dumps(second) + "\n" + '{"time": 1')  # torn by a full disk
    assert LogFileSampler([], None, after=last_sample(samples)).sample()["time"] >= second["time"]


def test_the_command_samples_until_a_signal_and_waits_for_the_agent(tmp_path: Path) -> None:
    log, out, agent = tmp_path / "a.jsonl", tmp_path / "log-files.jsonl", tmp_path / "agent"
    log.write_text(line(1))
    command = [sys.executable, "-m", "sojourn", "store", "files", str(log), "--agent", str(agent), "--every", "0.2"]
    process = subprocess.Popen([*command, "--out", str(out)], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert "no samples" in process.stderr.readline()
        positions(agent, (log, 0))
        deadline = time.monotonic() + 60
        while not out.exists() or not out.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGTERM)
        error = process.communicate(timeout=60)[1]
    assert process.returncode == 0
    assert error == ""
    (file,) = json.loads(out.read_text().splitlines()[0])["files"]
    assert (file["file"], file["size"], file["read"]) == (str(log), len(line(1)), 0)
