"""A run's folder: complete or absent, and of one run only."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sojourn_lab.errors import LabError
from sojourn_lab.results.run_folder import RunFolder, concatenated
from syrupy.assertion import SnapshotAssertion

NOON = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def test_folder_has_its_final_name_only_when_complete(tmp_path: Path) -> None:
    folder = RunFolder.claimed(tmp_path / "deep" / "run")
    (folder.partial / "run.json").write_text("{}")
    assert folder.partial.name == "run.partial"
    assert not folder.final.exists()
    assert folder.finished() == tmp_path / "deep" / "run"
    assert not folder.partial.exists()
    assert (folder.final / "run.json").read_text() == "{}"


def test_existing_folder_is_refused(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "other.partial").mkdir()
    for name in ("run", "other"):
        with pytest.raises(LabError) as refusal:
            RunFolder.claimed(tmp_path / name)
        assert str(refusal.value).replace(str(tmp_path), "RUNS") == snapshot


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


def test_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="cannot create"):
        RunFolder.claimed(tmp_path / "file" / "run")
    with pytest.raises(LabError, match="cannot create"):
        RunFolder.claimed_by_time(tmp_path / "file", "x", NOON)


def test_name_created_meanwhile_keeps_both_folders(tmp_path: Path) -> None:
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
