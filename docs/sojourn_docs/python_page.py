"""``docs/reference/python.md``: the names of ``import sojourn``; the site adds their docstrings."""

from __future__ import annotations

import inspect
import re
from typing import Any

import sojourn

from sojourn_docs import NOTE

HEAD = f"""# Python

{NOTE}

    import sojourn
    result = sojourn.split("/var/log/nginx/sojourn.jsonl")
    print(result.verdict.sentence)

Everything the command line does is a function, typed, with the same names and units: durations are seconds, instants
are aware UTC datetimes. Input that cannot be read or processed raises `sojourn.SojournError`, whose text is one plain
sentence. The docstring of each function describes its arguments and result (`help(sojourn.split)`); [the static
site](../README.md#the-site) has them on this page.
"""
STUB_HEAD = "# Written by python -m sojourn_docs: change the list of questions it follows, and run that again.\n"
HOMES = "def _public_modules() -> dict[str, str]: ..."


def page() -> str:
    """Return the whole page."""
    kinds: dict[str, list[str]] = {"Functions": [], "Types": [], "Modules": []}
    for name, thing in public():
        if inspect.ismodule(thing):
            kinds["Modules"].append(_row(name, thing))
        elif inspect.isclass(thing):
            kinds["Types"].append(_row(name, thing))
        else:
            kinds["Functions"].append(_row(f"{name}{_signature(thing)}", thing))
    parts = [HEAD]
    for heading, rows in kinds.items():
        parts += [f"## {heading}", "", "| name | |", "| --- | --- |", *rows, ""] if rows else []
    return "\n".join(parts)


def stub() -> str:
    """Return ``analysis/sojourn/__init__.pyi``: what ``import sojourn`` offers, for type checkers."""
    homes = sojourn._public_modules()
    imports = [f"from {module} import {name} as {name}" for name, module in homes.items()]
    names = "".join(f'    "{name}",\n' for name in sorted([*sojourn.__all__], key=str))
    return "\n".join([STUB_HEAD, *sorted(imports), "", "__version__: str", f"__all__ = [\n{names}]\n", HOMES, ""])


def public() -> list[tuple[str, Any]]:
    """Return the names and objects of ``sojourn.__all__``, without its dunders."""
    return [(name, getattr(sojourn, name)) for name in sorted(sojourn.__all__) if not name.startswith("__")]


def directives() -> str:
    """Return autodoc's directives for everything of ``public``, for the site."""
    lines = ["", "## In full", "", "```{eval-rst}"]
    for name, thing in public():
        if inspect.ismodule(thing):
            lines += [f".. automodule:: {thing.__name__}", "   :members:", "   :imported-members:", ""]
        elif inspect.isclass(thing):
            lines += [f".. autoclass:: sojourn.{name}", "   :members:", ""]
        else:
            lines += [f".. autofunction:: sojourn.{name}", ""]
    return "\n".join([*lines, "```", ""])


def _row(label: str, thing: Any) -> str:
    return f"| `{label}` | {_summary(thing)} |"


def _signature(thing: Any) -> str:
    """Return the names of the parameters, with a star before keyword-only ones."""
    names: list[str] = []
    for each in inspect.signature(thing).parameters.values():
        if each.kind is each.KEYWORD_ONLY and "*" not in names:
            names.append("*")
        mark = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        names.append(mark + each.name)
    return f"({', '.join(names)})"


def _summary(thing: Any) -> str:
    text = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    return re.sub(r"``?([^`]+)``?", r"`\1`", text).replace("|", "\\|")
