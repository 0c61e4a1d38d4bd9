"""promtool: checks of files, and queries on known series."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

DEADLINE = 180.0  # s
Samples = Sequence[tuple[Mapping[str, str], float]]
"""Labels and value of each series that a query returns."""


def promtool(*arguments: str | Path) -> None:
    """Run promtool; fail the test where it refuses, and skip it where there is none."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (package prometheus)")
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def series(name: str, labels: Mapping[str, str], values: str) -> dict[str, str]:
    """Return a series of a test, in promtool's notation of values."""
    return {"series": f"{name}{_braced(labels)}", "values": values}


def assert_queries(folder: Path, inputs: Sequence[Mapping[str, str]], cases: Sequence[tuple[str, Samples]]) -> None:
    """Assert what queries return after 5 minutes of series every 15 s; six digits, as promtool compares exactly."""
    tests = [
        {
            "expr": f"round({query}, 0.000001)",
            "eval_time": "5m",
            "exp_samples": [{"labels": _braced(labels), "value": value} for labels, value in samples],
        }
        for query, samples in cases
    ]
    whole = {"rule_files": [], "tests": [{"interval": "15s", "input_series": [*inputs], "promql_expr_test": tests}]}
    file = folder / "queries.yaml"
    file.write_text(yaml.safe_dump(whole), encoding="utf-8")
    promtool("test", "rules", file)


def _braced(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"
