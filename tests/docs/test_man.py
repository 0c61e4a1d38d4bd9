"""The manual pages: current (checked in test_reference.py), without a warning, and with every option."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from docs_support import DOCS
from sojourn_docs.tree import program

PAGES = sorted((DOCS / "man").glob("*.1"))


def test_there_is_a_page_for_every_verb() -> None:
    wanted = {"sojourn.1"} | {f"sojourn-{verb.words[0]}.1" for verb in program().children}
    assert {page.name for page in PAGES} == wanted


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_groff_renders_it_without_a_warning(page: Path) -> None:
    if not shutil.which("groff"):
        pytest.skip("groff is not installed: the manual page was not rendered")
    done = subprocess.run(
        ["groff", "-ww", "-k", "-man", "-Tutf8", "-P-c", str(page)],
        capture_output=True, text=True, encoding="utf-8", check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    text = re.sub(r"\s+", " ", re.sub(".\b", "", done.stdout).replace("\u2010 ", "").replace("\u2010", "-"))
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"):
        assert heading in text
    verbs = {f"sojourn-{verb.words[0]}": verb for verb in program().children}
    if page.stem in verbs:
        for command in verbs[page.stem].every():
            for option in command.options if not command.group else ():
                assert any(name in text for name in option.names), option.shown


def test_mandoc_reports_no_problem() -> None:
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed: the manual pages were not linted by it")
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *map(str, PAGES)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    # A page has no date: it says the same until the code does not.
    assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []


def test_the_name_line_is_one_that_apropos_can_read() -> None:
    for page in PAGES:
        lines = page.read_text(encoding="utf-8").splitlines()
        name = lines[lines.index(".SH NAME") + 1]
        assert name.startswith(page.stem.replace("-", "\\-") + " \\- "), name
