"""Names of values say what they hold: rows, waits, backends; not that something was known, kept or shown."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("analysis/sojourn", "lab", "collector/middleware/python", "dashboards", "docs/sojourn_docs")
WORDS = {"known", "named", "kept", "wanted", "shown", "seen", "listed"}
# Fields of JSON and of the public API, and columns.
ALLOWED = {
    "Audit.known", "Audit.app_known", "GoodputResult.known", "DepthResult.seen", "Services.known", "Tier.waits_known",
    "Table.shown", "wait_known", "Scene.wait_known", "Column.shown", "StepResult.kept", "Useful.wanted",
    "Values.wanted",
}  # fmt: skip


def names_of_values(tree: ast.AST, owner: str = "") -> Iterator[str]:
    """Variables, arguments and fields that are assigned; fields with their class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield f"{owner}.{node.id}" if owner else node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        in_class = isinstance(node, ast.ClassDef)
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from names_of_values(node, node.name if in_class else "" if is_function else owner)


def test_finds_names_of_all_kinds() -> None:
    tree = ast.parse(
        "class A:\n    kept: int\n\n    def f(self, wanted):\n        for shown_rows, b in wanted:\n            pass"
    )
    assert set(names_of_values(tree)) == {"A.kept", "self", "wanted", "shown_rows", "b"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_of_values_say_what_they_hold(folder: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        if not {"build", "__pycache__"} & set(file.parts)
        for name in names_of_values(ast.parse(file.read_text("utf-8")))
        if name not in ALLOWED and WORDS & set(name.rpartition(".")[2].lower().strip("_").split("_"))
    ]
    assert wrong == []
