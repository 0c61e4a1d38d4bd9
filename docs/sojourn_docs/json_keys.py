"""``docs/reference/json.md``: the keys of every verb's ``--json``, read off what it prints for the example data."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

from sojourn.analyses import questions
from sojourn.cli import app
from sojourn.model.components import COMPONENTS
from typer.testing import CliRunner

from sojourn_docs import NOTE

ROOT = Path(__file__).parents[2]

OTHERS = {
    "doctor": "doctor docs/examples/shop.jsonl.gz",
    "watch": "watch docs/examples/shop.jsonl.gz --once",
}
ALIKE = 3  # this many neighbours with the same keys are shown once
FIGURES = frozenset(("mean", "p50", "p90", "p99", "p999", "max"))

HEAD = f"""# Keys of the JSON

{NOTE}

With `--json` a verb prints one object. Durations are seconds, instants ISO 8601 in UTC, shares are of 1; null stands
where there is nothing to measure. `[]` is a list, `*` stands for names that the data or the part before give
(components, columns, backends). *Figures* are `mean` `p50` `p90` `p99` `p999` `max`; *by component* is a number for
each of the nine parts of [the identity](../explanation/what-is-measured.md). The verb's own page says what each key
means. A key listed here is neither renamed nor taken away within a major version.
"""

Types = dict[str, set[str]]


def page() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *map(section, commands())])


def commands() -> dict[str, str]:
    """Return verb -> a command on the example data, for every verb that prints JSON."""
    examples = {question.name: f"{question.name} {question.example}" for question in questions()}
    return examples | OTHERS


def printed(command: str) -> Any:
    """Return the decoded output of a command with ``--json``, run from the project's folder.

    Raises:
        ValueError: it fails.
    """
    with chdir(ROOT):
        result = CliRunner(env={"SOJOURN_CONFIG": ""}).invoke(app, [*shlex.split(command), "--json"])
    if result.exit_code:
        raise ValueError(f"sojourn {command}: {result.output}") from result.exception
    return json.loads(result.stdout)


def section(verb: str) -> str:
    """Return the section of one verb."""
    command = commands()[verb]
    types: Types = {}
    for path, kind in _walk(printed(command), ""):
        types.setdefault(path, set()).add(kind)
    rows = [f"| `{path}` | {_kinds(kinds)} |" for path, kinds in types.items() if not _filled(path, types)]
    head = [f"## {verb}", "", f"[`sojourn {verb}`]({verb}.md); here of `sojourn {command}`:", ""]
    return "\n".join([*head, "| key | |", "| --- | --- |", *rows, ""])


def _filled(path: str, types: Types) -> bool:
    """Return whether a list or an object that is empty in one place has members in another."""
    return any(other.startswith((f"{path}[]", f"{path}.")) for other in types)


def _kinds(kinds: set[str]) -> str:
    ordered = sorted(kinds - {"null"}) + (["null"] if "null" in kinds else [])
    return " or ".join(ordered)


def _walk(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield (path, type) of every value that has no members."""
    if isinstance(value, dict) and (object_name := _object_name(value)):
        yield path, object_name
    elif isinstance(value, dict) and value:
        alike = bool(path) and _alike(value)
        for name, part in value.items():
            yield from _walk(part, f"{path}.{'*' if alike else name}" if path else name)
    elif isinstance(value, list) and value:
        for part in value:
            yield from _walk(part, f"{path}[]")
    else:
        yield path, _kind(value)


def _object_name(value: dict[str, Any]) -> str | None:
    """Return the name of an object that many verbs print, None for another one."""
    if set(value) == FIGURES:
        return "figures"
    return "by component" if set(value) == set(COMPONENTS) else None


def _alike(value: dict[str, Any]) -> bool:
    parts = list(value.values())
    return (
        len(parts) >= ALIKE
        and all(isinstance(part, dict) and part for part in parts)
        and len({frozenset(part) for part in parts}) == 1
    )


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "number", float: "number", str: "text", list: "list", dict: "object"}
    return names[type(value)]
