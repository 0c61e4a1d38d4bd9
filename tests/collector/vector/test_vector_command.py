"""`vector validate` over the configuration."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from vector_config import VECTOR, adapted_config
from vector_run import vector_program


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ.get("PATH", ""), "VECTOR_COLOR": "never", "VECTOR_LOG": "warn"}
    command = [vector_program(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=200, check=False, env=env)


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
