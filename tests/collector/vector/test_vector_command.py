"""`vector validate` and `vector test` over the configuration and its own tests."""

from __future__ import annotations

import os
import runpy
import subprocess
from pathlib import Path

import pytest
from vrl_support import CASES, VECTOR, adapted_config, find_vector

TESTS = VECTOR / "tests"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ.get("PATH", ""), "VECTOR_COLOR": "never", "VECTOR_LOG": "warn"}
    command = [find_vector(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=200, check=False, env=env)


def configs(folder: Path) -> list[str]:
    return [str(file) for file in sorted(adapted_config(folder).glob("*.yaml"))]


def test_the_test_of_the_table_is_current() -> None:
    made = runpy.run_path(str(TESTS / "generate.py"))["text"]()
    assert (TESTS / "requests.yaml").read_text("utf-8") == made, "run collector/vector/tests/generate.py"
    assert made.count("extract_from") == len(CASES)


def test_vector_takes_the_configuration(tmp_path: Path) -> None:
    done = run("validate", "--no-environment", *configs(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    # Sources that have no checkpoints cannot be told what arrived; there is one such, and it counts.
    warnings = [line for line in done.stderr.splitlines() if "WARN" in line and "being suppressed" not in line]
    assert all('source="internal_metrics"' in line for line in warnings), done.stderr


@pytest.mark.timeout(400)
def test_vector_s_own_tests_pass(tmp_path: Path) -> None:
    done = run("test", *configs(tmp_path), *(str(file) for file in sorted(TESTS.glob("*.yaml"))))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("... passed") == sum(
        f.read_text("utf-8").count("  - name: ") for f in TESTS.glob("*.yaml")
    )


@pytest.mark.timeout(400)
def test_vector_s_own_tests_can_fail(tmp_path: Path) -> None:
    spoilt = tmp_path / "spoilt.yaml"
    right = (TESTS / "requests.yaml").read_text("utf-8")
    wrong = right.replace('.reason == \\"empty_line\\"', '.reason == \\"invalid_json\\"', 1)
    assert wrong != right
    spoilt.write_text(wrong, "utf-8")
    done = run("test", *configs(tmp_path), str(spoilt))
    assert done.returncode == 78, done.stdout + done.stderr
