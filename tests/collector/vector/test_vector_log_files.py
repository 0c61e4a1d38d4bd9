"""What is lost of a log at the end of a file, across a rotation or while the clock steps: the store says how much."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clickhouse_http import StandIn
from collector_support import eventually
from shipping_run import ARRIVES_S, FOR_EVER, Scene
from sojourn.host.log_files import alike, log_files
from sojourn_lab.runtime.process import Process
from vector_run import vector_program

pytest.importorskip("chdb")


@pytest.fixture
def scene(tmp_path: Path, store_in: Callable[[Path], StandIn]) -> Iterator[Scene]:
    vector_program()  # or there is nothing to prepare
    with store_in(tmp_path) as store:
        scene = Scene(tmp_path, store, 6000, clock=time.time)
        try:
            yield scene
        finally:
            scene.close()


def missing_bytes(scene: Scene) -> int:
    return scene.figure("sum(bytes)", "line_gaps")


def judged(scene: Scene, bytes_missing: int, after: float = 0.0) -> None:
    """Wait for samples of so many seconds, then until the store says that so many bytes are missing, twice."""
    latest = "toUnixTimestamp64Milli(max(sampled))"  # to read the view again and again would cost seconds
    due = scene.figure(latest, "log_files") + 1000 * after
    eventually(lambda: scene.figure(latest, "log_files") > due, f"samples of {after} s", ARRIVES_S)
    eventually(lambda: missing_bytes(scene) == bytes_missing, f"{bytes_missing} missing bytes", ARRIVES_S)
    before = scene.figure(latest, "log_files")
    eventually(lambda: scene.figure(latest, "log_files") > before, "another sample", ARRIVES_S)
    assert missing_bytes(scene) == bytes_missing


@pytest.mark.thorough
def test_a_rotated_log_that_is_compressed_before_it_was_read(scene: Scene) -> None:
    writer = scene.writer
    scene.sample()
    writer.write(500)
    scene.agent.start()
    eventually(scene.complete, "the first lines", ARRIVES_S)
    size = writer.log.stat().st_size
    eventually(lambda: f'"read":{size},' in scene.samples.read_text(), "its position", ARRIVES_S)
    scene.agent.kill()
    with writer.losing():
        writer.write(400)
    end = writer.log.stat().st_size
    scene.sampled(end)

    # An agent that is down, as an operator sees it.
    command = [sys.executable, "-m", "sojourn", "store", "files", str(writer.log), "--agent", str(scene.agent.data)]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    (file,) = json.loads(done.stdout)["files"]
    assert (file["size"], file["read"], file["unread"]) == (end, size, end - size)
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert table.split()[-3:] == [f"{end:,}", f"{end - size:,}", "400"]

    writer.rename()
    rotated = writer.log.with_name("access.jsonl.1")
    with gzip.open(f"{rotated}.gz", "wb") as packed:
        packed.write(rotated.read_bytes())
    rotated.unlink()
    writer.write(300)
    scene.agent.start()
    eventually(scene.complete, "the next log", ARRIVES_S)
    judged(scene, end - size, after=31)
    assert scene.figure("sum(lines)", "line_gaps") == pytest.approx(400, rel=0.02)
    assert scene.figure("max(outstanding)", "reconciliation") == pytest.approx(400, rel=0.02)


def test_what_the_store_forgot_across_a_rotation(scene: Scene) -> None:
    """Acknowledged and not stored: the end of one file, and the beginning of the next."""
    writer = scene.writer
    scene.sample()
    scene.agent.start()
    writer.write(500)
    eventually(scene.complete, "the first lines", ARRIVES_S)
    begin = writer.log.stat().st_size
    scene.store.control(forget=FOR_EVER)
    with writer.losing():
        writer.write(200)
    of_the_first = writer.log.stat().st_size - begin
    eventually(lambda: scene.store.control()["lines_forgotten"] >= 200, "the end to be forgotten", ARRIVES_S)
    writer.rename()
    with writer.losing():
        writer.write(150)
    of_the_next = writer.log.stat().st_size
    eventually(lambda: scene.store.control()["lines_forgotten"] >= 350, "the beginning to be forgotten", ARRIVES_S)
    scene.store.control(forget=0)
    writer.write(300)
    eventually(scene.complete, "the last lines", ARRIVES_S)
    judged(scene, of_the_first + of_the_next, after=2)


def test_two_logs_with_the_same_first_line_are_reported(scene: Scene, tmp_path: Path) -> None:
    """By its first line Vector knows a file, so it reads only one of them."""
    scene.writer.write(100)
    other = scene.writer.log.with_name("other.jsonl")
    other.write_bytes(scene.writer.log.read_bytes())
    command = [sys.executable, "-m", "sojourn", "store", "files", str(scene.writer.log.with_name("*.jsonl"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{other} begins with the same line as {scene.writer.log}" in done.stderr.replace("\n", " ")
    assert "device_and_inode" in done.stderr


def test_positions_by_inode_are_read_too(tmp_path: Path) -> None:
    """With ``fingerprint.strategy: device_and_inode`` Vector reads both of two logs with the same first line."""
    logs, data = tmp_path / "logs", tmp_path / "data" / "access_log"
    logs.mkdir()
    data.mkdir(parents=True)
    source = {"type": "file", "include": [f"{logs}/*.jsonl"], "read_from": "beginning"}
    sink = {"type": "file", "inputs": ["access_log"], "path": f"{tmp_path}/out", "encoding": {"codec": "text"}}
    config = {
        "data_dir": str(data.parent),
        "sources": {"access_log": {**source, "fingerprint": {"strategy": "device_and_inode"}}},
        "sinks": {"out": {**sink, "acknowledgements": {"enabled": True}}},
    }
    (tmp_path / "vector.yaml").write_text(json.dumps(config))
    for name in ("a", "b"):
        (logs / f"{name}.jsonl").write_text('{"time": "1700000000.000"}\n' * 50)
    vector = Process([vector_program(), "-q", "-c", str(tmp_path / "vector.yaml")], name="vector", folder=tmp_path)
    vector.start()
    try:
        eventually(lambda: [f.unread for f in log_files([f"{logs}/*.jsonl"], data.parent)] == [0, 0], "both", ARRIVES_S)
    finally:
        vector.stop()
    assert alike(log_files([f"{logs}/*.jsonl"], data.parent)) == []
    assert len(alike(log_files([f"{logs}/*.jsonl"], None))) == 1
