"""A run's folder: whole or not there, and nobody else's."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sojourn_lab.errors import LabError
from sojourn_lab.results.run_folder import RunFolder, concatenated

NOON = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def test_a_folder_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    folder = RunFolder.claimed(tmp_path / "deep" / "run")
    (folder.partial / "run.json").write_text("{}")
    assert folder.partial.name == "run.partial"
    assert not folder.final.exists()
    assert folder.finished() == tmp_path / "deep" / "run"
    assert not folder.partial.exists()
    assert (folder.final / "run.json").read_text() == "{}"


def test_an_old_folder_is_never_written_into(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(LabError, match="run already exists"):
        RunFolder.claimed(tmp_path / "run")
    (tmp_path / "other.partial").mkdir()
    with pytest.raises(LabError, match="a run is writing there, or one was stopped"):
        RunFolder.claimed(tmp_path / "other")


def test_runs_of_one_second_get_folders_of_their_own(tmp_path: Path) -> None:
    names: list[str] = []
    start = threading.Barrier(8)

    def claim() -> None:
        start.wait()
        names.append(RunFolder.claimed_by_time(tmp_path, "x", NOON).final.name)

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {"x-20260101T120000Z", *(f"x-20260101T120000Z-{number}" for number in range(2, 9))}
    assert set(names) == expected


def test_a_folder_that_cannot_be_made_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="cannot create"):
        RunFolder.claimed(tmp_path / "file" / "run")
    with pytest.raises(LabError, match="cannot create"):
        RunFolder.claimed_by_time(tmp_path / "file", "x", NOON)


def test_a_name_taken_meanwhile_loses_nothing(tmp_path: Path) -> None:
    folder = RunFolder.claimed(tmp_path / "run")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "theirs").write_text("x")
    with pytest.raises(LabError, match="cannot rename"):
        folder.finished()
    assert folder.partial.is_dir()
    assert (tmp_path / "run" / "theirs").read_text() == "x"


def test_parts_are_joined_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2")  # its writer was killed in the middle
    (tmp_path / "b").write_bytes(b"3\n")
    parts = [tmp_path / name for name in ("a", "missing", "b")]
    assert concatenated(parts, tmp_path / "whole") == 3
    assert (tmp_path / "whole").read_bytes() == b"1\n2\n3\n"
