"""`vector validate` and `vector test` over the configuration and its own tests."""

from __future__ import annotations

import os
import re
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
    produced = runpy.run_path(str(TESTS / "generate.py"))["text"]()
    assert (TESTS / "requests.yaml").read_text("utf-8") == produced, "run collector/vector/tests/generate.py"
    assert produced.count("extract_from") == len(CASES)


def test_the_documented_command_validates_without_a_store(tmp_path: Path) -> None:
    """The command of the README, away from any store, prints no warning either."""
    (documented,) = re.findall(r"`vector (validate --no-environment [^`]*)`", (VECTOR / "README.md").read_text("utf-8"))
    done = run(*documented.replace("/etc/vector/config", str(adapted_config(tmp_path))).split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARN" not in done.stdout + done.stderr


def test_validating_with_the_environment_asks_the_store(tmp_path: Path) -> None:
    """Without --no-environment the health checks run, and fail where no store answers."""
    config = adapted_config(tmp_path)
    for file in config.glob("*.yaml"):
        file.write_text(file.read_text("utf-8").replace("http://clickhouse:8123", "http://127.0.0.1:1"), "utf-8")
    done = run("validate", "--config-dir", str(config))
    assert done.returncode == 78
    assert "Health check" in done.stdout + done.stderr


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
