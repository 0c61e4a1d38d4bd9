"""Numbers for people are written in one place: they agree with their nouns, and zero has no sign."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
# A noun in the plural after a number, with at most two words between them.
PLURAL = re.compile(
    r"^ (?:[a-z-]+ ){0,2}(?:requests|lines|records|answers|stamps|waits|rows|packets|samples|connections|attempts"
    r"|windows|visits|calls|spans|traces|bytes|frames|scenes|minutes|backends|workers|cases|criteria|runs|values|times|files|services|routes"
    r"|segments|stretches|servers|clocks|delays|loads|users|copies|settings|figures)\b"
)


def numbers_with_plurals(path: Path) -> Iterator[str]:
    """Yield where an f-string writes a variable number of things itself, with the noun in the plural."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.JoinedStr):
            continue
        for number, text in zip(node.values, node.values[1:], strict=False):
            if not (isinstance(number, ast.FormattedValue) and isinstance(text, ast.Constant)):
                continue
            form = ast.unparse(number.format_spec) if number.format_spec else ""
            whole = form == "f','" or (not form and ast.unparse(number.value).startswith("len("))
            name = ast.unparse(number.value).rpartition(".")[2]
            if whole and not name.isupper() and PLURAL.match(str(text.value)):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(number.value)}{text.value}"


@pytest.mark.parametrize("folder", ["analysis/sojourn", "lab/sojourn_lab", "dashboards/sojourn_dashboards"])
def test_numbers_are_written_with_their_nouns_by_one_function(folder: str) -> None:
    assert [place for path in sorted((ROOT / folder).rglob("*.py")) for place in numbers_with_plurals(path)] == []


def signed_formats(path: Path) -> Iterator[str]:
    """Yield where an f-string writes a number with its sign itself."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FormattedValue) and node.format_spec and "+" in ast.unparse(node.format_spec):
            yield f"{path.relative_to(ROOT)}:{node.lineno}"


@pytest.mark.parametrize("folder", ["analysis/sojourn", "lab/sojourn_lab", "dashboards/sojourn_dashboards"])
def test_signed_numbers_are_written_by_one_function(folder: str) -> None:
    assert [place for path in sorted((ROOT / folder).rglob("*.py")) for place in signed_formats(path)] == []
