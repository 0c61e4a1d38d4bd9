"""What the tests of the Node package share: node itself, and the packages of its ecosystem that they use."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = Path(__file__).parent / "node"
PACKAGE = ROOT / "collector" / "middleware" / "node"
INSTALLED = Path(os.environ.get("SOJOURN_NODE_PACKAGES", ROOT / ".tools" / "node"))
INSTALL_DEADLINE_S = 150


def node() -> str:
    """The path of node, which must be of a supported version."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=20).stdout
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < (18, 19):
        pytest.skip(f"node is {version.strip()}; the tests need 18.19")
    return program


def why_not_installed() -> str:
    """Install what the tests use, once, if it is not there; returns why this is not possible, or an empty string."""
    wanted = (TESTS / "package.json").read_text()
    installed = INSTALLED / "package.json"
    finished = INSTALLED / "node_modules" / ".package-lock.json"
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with (INSTALLED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if installed.is_file() and installed.read_text() == wanted and finished.is_file():
            return ""
        if shutil.which("npm") is None:
            return "npm is not installed"
        shutil.rmtree(INSTALLED / "node_modules", ignore_errors=True)
        installed.write_text(wanted)
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0"]
        command = ["npm", "install", "--prefix", str(INSTALLED), *options]
        try:
            done = subprocess.run(
                command, cwd=INSTALLED, capture_output=True, text=True, timeout=INSTALL_DEADLINE_S, check=False
            )
        except subprocess.TimeoutExpired:
            shutil.rmtree(INSTALLED / "node_modules", ignore_errors=True)
            return f"npm install took more than {INSTALL_DEADLINE_S} s"
        if done.returncode != 0:
            shutil.rmtree(INSTALLED / "node_modules", ignore_errors=True)
            return f"npm install failed: {done.stderr.strip()[-300:]}"
    return ""
