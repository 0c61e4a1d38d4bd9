"""Every command the documents show with its output gives that output.

A block that begins with ``$ sojourn`` is run from the project's folder on a terminal of 80 columns; a line ``…`` on its
own stands for lines left out.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path

import pytest
from sojourn.cli import app
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
FENCED = re.compile(r"^```[a-z]*\n(.*?)^```$", re.M | re.S)
INDENTED = re.compile(r"(?:^    .*\n|^[ \t]*\n(?=    ))+", re.M)
LEFT_OUT = "…"


def blocks_of(text: str) -> list[str]:
    """Code that shows a command with its output."""
    result = FENCED.findall(text)
    result += [textwrap.dedent(block) for block in INDENTED.findall(FENCED.sub("", text) + "\n")]
    return [block.strip("\n") for block in result if block.lstrip("\n").startswith("$ sojourn ")]


def runs_of(block: str) -> list[tuple[list[str], list[str]]]:
    """(arguments, lines of output) of each command of a block."""
    runs = []
    for part in re.split(r"^\$ sojourn ", block, flags=re.M)[1:]:
        command, _, output = part.replace("\\\n", " ").partition("\n")
        runs.append((shlex.split(command), output.rstrip().splitlines()))
    return runs


EXAMPLES = [
    pytest.param(arguments, output, id=f"{page.stem}: {' '.join(arguments)[:60]}")
    for page in PAGES
    for block in blocks_of(page.read_text())
    for arguments, output in runs_of(block)
]


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether the lines printed are those shown, where ``…`` stands for any number of lines."""
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == LEFT_OUT else re.escape(line.rstrip()) + "\n" for line in shown)
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in printed)) is not None


@pytest.mark.parametrize(("arguments", "shown"), EXAMPLES)
def test_commands_print_the_output_of_the_page(
    arguments: list[str], shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ROOT.iterdir():  # as in the project's folder, but what is written there is written here
        (tmp_path / part.name).symlink_to(part)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    result = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1", "SOJOURN_CONFIG": ""}).invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert matches(shown, result.stdout.rstrip().splitlines()), result.stdout


def test_lines_left_out() -> None:
    assert matches(["a", "…", "d"], ["a", "b", "c", "d"])
    assert matches(["a", "…"], ["a"])
    assert not matches(["a", "…", "d"], ["a", "b"])
    assert not matches(["a"], ["a", "b"])


def test_blocks_are_extracted() -> None:
    indented = "text\n\n    $ sojourn a b\n    out\n\n    more\n\n"
    text = indented + "text\n\n```text\n$ sojourn c \\\n  d\nout\n$ sojourn e\n```\n"
    matches = [run for block in blocks_of(text) for run in runs_of(block)]
    assert matches == [(["c", "d"], ["out"]), (["e"], []), (["a", "b"], ["out", "", "more"])]
