"""``spool``: how many rows are held in memory, and which logs go to disk."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import pytest
from analysis_support import line
from sojourn import read
from sojourn.model import memory as model_memory
from sojourn.readers import log_blocks, spool
from sojourn.readers.spool import rows_in_memory

GIB = 1 << 30


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file with the limit of a control group."""
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 12 * GIB // 4096}.__getitem__)
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(model_memory, "LIMITS", (tmp_path / "none", limit))
    monkeypatch.setattr(spool, "memory", model_memory.memory.__wrapped__)
    return limit


def test_more_rows_are_held_where_the_memory_has_room_for_all(memory: Path) -> None:
    quarter = 3 * GIB // spool.ROW_BYTES
    assert spool.ROWS_IN_MEMORY < quarter < spool.ROWS_IN_MEMORY_AT_MOST
    assert rows_in_memory(quarter) == rows_in_memory(10) == quarter
    assert rows_in_memory(quarter + 1) == rows_in_memory(None) == spool.ROWS_IN_MEMORY
    memory.write_text("max\n")
    assert rows_in_memory(quarter) == quarter


def test_a_control_group_limits_the_memory(memory: Path) -> None:
    memory.write_text(f"{10 * GIB}\n")
    assert rows_in_memory(10) == 5 * GIB // 2 // spool.ROW_BYTES
    memory.write_text(f"{GIB}\n")
    assert rows_in_memory(10) == rows_in_memory(2_000_000) == spool.ROWS_IN_MEMORY
    memory.write_text(f"{1 << 60}\n")
    assert rows_in_memory(10) == 3 * GIB // spool.ROW_BYTES


def test_a_large_machine_holds_no_more_than_a_few_million(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda _: 1 << 20)
    assert rows_in_memory(10) == spool.ROWS_IN_MEMORY_AT_MOST


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_of_known_size_that_fits_remains_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setattr(spool, "ROWS_IN_MEMORY", 500)
    monkeypatch.setattr(spool, "ROWS_IN_MEMORY_AT_MOST", 1_500)
    monkeypatch.setattr(log_blocks, "BLOCK_BYTES", 20_000)
    log = tmp_path / "access.jsonl"
    for lines, on_disk in ((1_000, False), (2_000, True)):
        text = b"".join(line(time=f"{1_767_225_600 + k}.000") for k in range(lines))
        # Of a small compressed file all is read ahead: its size says little while it is decompressed.
        log.write_bytes(gzip.compress(text, 0) if packed else text)
        requests = read(log)
        assert (requests.spool is not None) == on_disk
        assert requests.rows.collect().height == lines


def test_rows_of_a_pipe_go_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "ROWS_IN_MEMORY", 500)
    monkeypatch.setattr(log_blocks, "BLOCK_BYTES", 20_000)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(line() * 1_000))
    writer.start()
    try:
        assert read(pipe).spool is not None
    finally:
        writer.join()
