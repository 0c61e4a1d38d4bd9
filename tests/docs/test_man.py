"""The manual pages that the build hooks add to the wheels: without a warning, and with every option."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sojourn_docs import manual
from sojourn_docs.tree import program

PAGES = {**manual.pages(), "sojourn-lab.1": manual.lab_page()}


def test_there_is_a_page_for_every_verb() -> None:
    verbs = {f"sojourn-{verb.words[0]}.1" for verb in program().children}
    assert set(PAGES) == verbs | {"sojourn.1"}
    assert set(manual.pages()) == set(PAGES) - {"sojourn-lab.1"}


@pytest.mark.parametrize("name", PAGES)
def test_groff_renders_it_without_a_warning(name: str) -> None:
    if not shutil.which("groff"):
        pytest.skip("groff is not installed: the manual page was not rendered")
    done = subprocess.run(
        ["groff", "-ww", "-k", "-man", "-Tutf8", "-P-c"], input=PAGES[name],
        capture_output=True, text=True, encoding="utf-8", check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    text = re.sub(r"\s+", " ", re.sub(".\b", "", done.stdout).replace("\u2010 ", "").replace("\u2010", "-"))
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"):
        assert heading in text
    verbs = {f"sojourn-{verb.words[0]}": verb for verb in program().children}
    if (verb := verbs.get(name.removesuffix(".1"))) is not None:
        for command in verb.every():
            for option in command.options if not command.group else ():
                assert any(name in text for name in option.names), option.shown


def test_mandoc_reports_no_problem(tmp_path: Path) -> None:
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed: the manual pages were not linted by it")
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *(str(tmp_path / name) for name in PAGES)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    # A page has no date: it says the same until the code does not.
    assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []


def test_the_name_line_is_one_that_apropos_can_read() -> None:
    for name, text in PAGES.items():
        lines = text.splitlines()
        line = lines[lines.index(".SH NAME") + 1]
        assert line.startswith(name.removesuffix(".1").replace("-", "\\-") + " \\- "), line
