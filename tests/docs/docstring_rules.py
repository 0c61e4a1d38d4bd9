"""Rules for docstrings: their sections name what the code has, and the modules and files they mention exist.

A section `Attributes:` or `Args:` has one entry per line, indented by four blanks: a name, or several names with commas
between them, then a colon and the text. Further lines of an entry are indented deeper.
"""

from __future__ import annotations

import ast
import functools
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Package -> the folder that contains it.
PACKAGES = {
    "sojourn": "analysis/",
    "sojourn_lab": "lab/",
    "sojourn_docs": "docs/",
    "sojourn_dashboards": "dashboards/",
    "sojourn_middleware": "collector/middleware/python/src/",
    "benchmarks": "lab/",
    "studies": "lab/",
    "systems": "lab/",
}
CODE = ("analysis/", "collector/middleware/python/src/", "dashboards/", "docs/sojourn_docs/", "lab/", "tests/")
GENERATED = {"build", "dist", "runs", "site", "target", "vendor", "node_modules", "__pycache__"}
# Dotted names that are no modules: keys, labels, files, placeholders, the Java package.
OTHER_NAMES = re.compile(r"sojourn\.(?:(?:conf|js|jsonl|toml|yaml|route|lab\.owner)\b|middleware\.)|\w+\.NAME\b")

_QUALIFIED = re.compile(rf"(?<![\w./@$-])(?:{'|'.join(PACKAGES)})(?:\.[A-Za-z_]\w*)+")
_FILE = re.compile(r"(?<![\w./:~<>*…$-])(?:[\w.-]+/)*[\w-]+\.(?:py|sql)\b|(?<![\w./:~<>*…$-])(?:[\w.-]+/)+[\w-]+\.md\b")
_HEADING = re.compile(r"([A-Z][a-z]+):$")
_ENTRY = re.compile(r"(\*{0,2}[A-Za-z_]\w*(?:, \*{0,2}[A-Za-z_]\w*)*):(?:\s|$)")
_COMMENT = re.compile(r"(?:^|\s)#:? (.*)")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def project_files() -> frozenset[str]:
    """Return the project's files, relative to its folder, without hidden and generated ones."""
    files = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in GENERATED]
        files += [(Path(folder) / name).relative_to(ROOT).as_posix() for name in names]
    return frozenset(files)


def code_files() -> list[str]:
    """Return the Python files that are checked; not the tests of these rules, which name what does not exist."""
    files = (file for file in project_files() if file.endswith(".py") and file.startswith(CODE))
    return sorted(file for file in files if file != "tests/docs/test_docstrings.py")


def pages() -> list[str]:
    """Return the Markdown pages and SQL files that may name modules."""
    pages = [file for file in project_files() if file.endswith((".md", ".sql")) and "__snapshots__" not in file]
    return sorted(file for file in pages if not file.startswith(("CHANGELOG", "docs/releases/")))


def problems_of_source(source: str) -> Iterator[str]:
    """Yield a sentence for each entry, module and file in the docstrings and comments of a source that is wrong."""
    for node in ast.walk(_parsed(source)):
        if not isinstance(node, _DOCUMENTED) or (text := ast.get_docstring(node)) is None:
            continue
        place = f"line {getattr(node, 'lineno', 1)}"
        sections = sections_of(text)
        if isinstance(node, ast.ClassDef):
            if "Attributes" in sections:
                fields = fields_of(node)
                yield from _differences(place, sections["Attributes"], fields, fields | _members(node))
            if "Args" in sections:
                arguments = _constructor_arguments(node)
                yield from _differences(place, sections["Args"], arguments, arguments)
        elif not isinstance(node, ast.Module) and "Args" in sections:
            arguments = arguments_of(node)
            yield from _differences(place, sections["Args"], arguments, arguments)
        yield from (f"{place}: {problem}" for problem in problems_of_text(text))
    for number, line in enumerate(source.splitlines(), 1):
        if "#" in line and (comment := _COMMENT.search(line)):
            yield from (f"line {number}: {problem}" for problem in problems_of_text(comment[1]))


def problems_of_text(text: str) -> Iterator[str]:
    """Yield a sentence for each module and each file in a text that does not exist."""
    for name in _QUALIFIED.findall(text):
        if not OTHER_NAMES.match(name) and not resolves(name):
            yield f"{name} does not exist"
    for file in _FILE.findall(text):
        if not any(each == file or each.endswith("/" + file) for each in _files_named(file.rpartition("/")[2])):
            yield f"{file} is not a file of the project"


@functools.cache
def _files_named(name: str) -> list[str]:
    return [file for file in project_files() if file.rpartition("/")[2] == name]


def problems_of_package(file: str) -> Iterator[str]:
    """Yield a sentence for each module that the docstring of an ``__init__.py`` names and the folder lacks.

    A name in double backticks is that of a module. Docstrings with examples name other things and are not checked.
    """
    folder = file.removesuffix("/__init__.py")
    text = ast.get_docstring(_tree(file)) or ""
    for name in re.findall(r"``([a-z]\w*)``", "" if ">>>" in text else text):
        if f"{folder}/{name}.py" not in project_files() and f"{folder}/{name}/__init__.py" not in project_files():
            yield f"{folder} has no module {name}"


def problems_of_page(text: str) -> Iterator[str]:
    """Yield a sentence for each name of three parts or more that does not exist; shorter ones may be of Go."""
    for name in _QUALIFIED.findall(text):
        if name.count(".") > 1 and not OTHER_NAMES.match(name) and not resolves(name):
            yield f"{name} does not exist"


# Sections.


def sections_of(docstring: str) -> dict[str, list[str]]:
    """Return heading -> the names of its entries, for ``Args`` and ``Attributes``; a line that is no entry in full."""
    sections: dict[str, list[str]] = {}
    names: list[str] | None = None
    for line in inspect.cleandoc(docstring).split("\n"):
        if line and not line.startswith(" "):
            heading = _HEADING.match(line)
            names = sections.setdefault(heading[1], []) if heading and heading[1] in {"Args", "Attributes"} else None
        elif names is not None and line and not line.startswith("     "):
            entry = _ENTRY.match(line.strip())
            names += [name.strip("*") for name in entry[1].split(", ")] if entry else [line.strip()]
    return sections


def _differences(place: str, entries: list[str], wanted: set[str], possible: set[str]) -> Iterator[str]:
    for name in entries:
        if name not in possible:
            yield f"{place}: the docstring has an entry for {name!r}, the code has no such name"
        if entries.count(name) > 1:
            yield f"{place}: the docstring has several entries for {name!r}"
    for name in sorted(wanted - set(entries)):
        yield f"{place}: the docstring has no entry for {name!r}"


def arguments_of(function: _Function) -> set[str]:
    """Return the public arguments of a function, without ``self`` and ``cls``."""
    node = function.args
    variable = [each for each in (node.vararg, node.kwarg) if each]
    names = {each.arg for each in (*node.posonlyargs, *node.args, *node.kwonlyargs, *variable)}
    return {name for name in names - {"self", "cls"} if not name.startswith("_")}


def fields_of(node: ast.ClassDef) -> set[str]:
    """Return the annotated public fields of a class, without class variables."""
    return {name for name, _ in _annotated(node)}


def _annotated(node: ast.ClassDef) -> Iterator[tuple[str, ast.AnnAssign]]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            name = each.target.id
            if not name.startswith("_") and not ast.unparse(each.annotation).startswith(("ClassVar", "InitVar")):
                yield name, each


def _constructor_arguments(node: ast.ClassDef) -> set[str]:
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return arguments_of(each)
    return {name for name, field in _annotated(node) if "init=False" not in ast.unparse(field)}


def _members(node: ast.ClassDef) -> set[str]:
    """Return all names of a class: fields, methods, what methods set on ``self``, and those of the project's bases."""
    names = set(_bound(node.body))
    for each in ast.walk(node):
        if (
            isinstance(each, ast.Attribute)
            and isinstance(each.ctx, ast.Store)
            and isinstance(each.value, ast.Name)
            and each.value.id == "self"
        ):
            names.add(each.attr)
    for base in node.bases:
        for ancestor in _classes().get(ast.unparse(base).rpartition(".")[2], []):
            names |= _members(ancestor) if ancestor.name != node.name else set()
    return names


@functools.cache
def _classes() -> dict[str, list[ast.ClassDef]]:
    """Return the classes of the project by name."""
    classes: dict[str, list[ast.ClassDef]] = {}
    for file in code_files():
        for node in _tree(file).body:
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(node)
    return classes


# Names of modules.


def resolves(name: str) -> bool:
    """Return whether a module, or a name in one, exists: ``sojourn.model.frame``, ``sojourn.model.frame.Requests``."""
    first, *rest = name.split(".")
    place = PACKAGES[first] + first
    while rest and any(f"{place}/{rest[0]}{end}" in project_files() for end in (".py", "/__init__.py")):
        place = f"{place}/{rest.pop(0)}"
    if not rest:
        return True
    # The stub has the names that the package loads on first use.
    ends = (".py", "/__init__.pyi", "/__init__.py")
    file = next((place + end for end in ends if place + end in project_files()), None)
    return file is not None and _has(file, rest)


def _has(file: str, names: list[str]) -> bool:
    members = _bound(_tree(file).body)
    if names[0] not in members:
        return False
    node = members[names[0]]
    if len(names) == 1 or not isinstance(node, ast.ClassDef):
        return True
    return names[1] in _members(node)


@functools.cache
def _tree(file: str) -> ast.Module:
    return _parsed((ROOT / file).read_text(encoding="utf-8"))


@functools.cache
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


def _bound(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Return the names that statements bind, with the statement."""
    names: dict[str, ast.stmt] = {}
    for each in body:
        if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names[each.name] = each
        elif isinstance(each, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0]: each for alias in each.names}
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            names |= {part.id: each for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
        elif isinstance(each, ast.If | ast.Try):
            names |= _bound(each.body) | _bound(each.orelse)
    return names
