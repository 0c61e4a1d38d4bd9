"""``make setup`` ends with what to try next, and it exists."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from docs_support import ROOT


def commands(goal: str) -> list[str]:
    """The commands of a goal, without running them."""
    return subprocess.check_output(["make", "--no-print-directory", "-n", goal], cwd=ROOT, text=True).splitlines()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_setup_ends_with_what_to_try() -> None:
    last = commands("setup")[-1]
    assert last.startswith('echo "done, try: ')
    source = re.search(r"sojourn report (\S+)", last)
    assert source is not None
    assert (ROOT / source[1]).is_file()
    goals = re.findall(r"make (\w+)", last)
    assert goals
    assert all(commands(goal) for goal in goals)
    # The demo needs the setup, and says itself what it does.
    assert not any("done, try" in command for command in commands("demo"))
