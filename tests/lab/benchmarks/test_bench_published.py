"""What is published keeps the suites that a run leaves out, each with the machine that it was measured on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import benchmarks.__main__ as bench
import pytest
from benchmarks.rows import Measurements, Row, Settings

OTHER = {"cores": 64, "memory_gb": 512.0, "system": "another"}


def measured(settings: Settings) -> Measurements:
    return Measurements([Row("start", "s", 0.25)])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("benchmarks.suites.startup.run", measured)
    monkeypatch.setattr(
        sys, "argv", ["bench", "--only", "startup", "--out", str(tmp_path / "runs"), "--publish", str(tmp_path)]
    )
    return tmp_path


def results_of(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "benchmarks.json").read_text())
    return read


def test_a_suite_that_is_not_run_keeps_its_result_and_its_machine(folder: Path) -> None:
    bench.main()
    results = results_of(folder)
    (startup,) = results["suites"].values()
    earlier = {
        "suites": {"split": {**startup, "title": "Split"}, "startup": {**startup, "rows": []}},
        "versions": results["versions"],
        "machine": OTHER,
    }
    for suite in earlier["suites"].values():
        del suite["machine"]  # as before suites had one
    (folder / "benchmarks.json").write_text(json.dumps(earlier))
    (folder / "runs" / "bench.json").unlink()
    bench.main()
    suites = results_of(folder)["suites"]
    assert {name: suite["machine"] for name, suite in suites.items()} == {"split": OTHER, "startup": bench.machine()}
    assert suites["startup"]["rows"], "the suite that ran has its new rows"
    page = (folder / "benchmarks.md").read_text()
    assert "Medians of 5 rounds, on 64 cores, 512.0 GB, another." in page, (
        "the suite that did not run names its machine"
    )
    assert page.count("64 cores") == 1


def test_a_suite_of_this_machine_repeats_no_machine(folder: Path) -> None:
    bench.main()
    assert "Medians of 5 rounds.\n" in (folder / "benchmarks.md").read_text()
