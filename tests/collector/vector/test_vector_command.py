"""`vector validate` over the configuration."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from vector_config import VECTOR, adapted_config
from vector_run import LEAST_BUFFER, vector_program


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ.get("PATH", ""), "VECTOR_COLOR": "never", "VECTOR_LOG": "warn"}
    command = [vector_program(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=200, check=False, env=env)


@pytest.mark.parametrize("agent", ["config", "spans"])
def test_the_documented_command_validates_without_a_store(agent: str, tmp_path: Path) -> None:
    """The command of the README, away from any store, prints no warning either."""
    (documented,) = re.findall(r"`vector (validate --no-environment [^`]*)`", (VECTOR / "README.md").read_text("utf-8"))
    if agent == "spans":
        # Vector wants room for the whole buffer on the disk of its folder.
        config = adapted_config(tmp_path, agent)
        file = config / "clickhouse.yaml"
        file.write_text(file.read_text("utf-8").replace("max_size: 8589934592", f"max_size: {LEAST_BUFFER}"), "utf-8")
    else:
        config = adapted_config(tmp_path)
    done = run(*documented.replace("/etc/vector/config", str(config)).split())
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
