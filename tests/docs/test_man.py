"""The manual pages that the build hooks add to the wheels: without a warning, and with every option."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from docs_support import DOCS, ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
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
                assert any(name in text for name in option.names), option.signature


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


# Generates the pages where no other module than those of the build requirements can be imported.
ISOLATED = """
import json, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

hidden = set(json.loads(sys.stdin.read()))
sys.meta_path.insert(0, Hidden())
from sojourn_docs import manual
print(json.dumps({"sojourn": list(manual.pages()), "lab": len(manual.lab_page())}))
"""


def test_an_isolated_build_has_what_the_pages_need() -> None:
    build = [
        tomllib.loads((ROOT / each / "pyproject.toml").read_text())["tool"]["hatch"]["build"] for each in (".", "lab")
    ]
    hooks = [build[0]["targets"]["wheel"]["hooks"]["custom"], build[1]["hooks"]["custom"]]
    needed = with_dependencies({name for hook in hooks for name in hook["dependencies"]})
    hidden = [
        module
        for module, owners in packages_distributions().items()
        if not needed & {canonicalize_name(each) for each in owners} and not module.startswith(("sojourn", "_"))
    ]
    assert {"polars", "numpy", "duckdb", "aiohttp", "jinja2"} <= set(hidden)
    done = subprocess.run(
        [sys.executable, "-c", ISOLATED], input=json.dumps(hidden), env={**os.environ, "PYTHONPATH": str(DOCS)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sojourn"] == list(manual.pages())


def with_dependencies(requirements: Iterable[str]) -> set[str]:
    """Return the names of the distributions that are required, and of those that they require."""
    names: set[str] = set()
    waiting = [Requirement(each) for each in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in names and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            names.add(name)
            waiting += [Requirement(each) for each in requires(name) or ()]
    return names
