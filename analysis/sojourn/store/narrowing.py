"""Statements over the canonical rows with no more columns than they use.

A column that nothing uses is not read, but the engine resolves its expression in each step that selects all: with
seventy of them that takes longer than to answer a question about few rows.
"""

from __future__ import annotations

import re

_COLUMNS = re.compile(r"(?<=\nSELECT\n)    r\.time AS time,\n.*?(?=\nFROM )", re.DOTALL)  # of split/chosen.sql
_NAME = re.compile(r" AS (\w+),?$")
_COMMENT = re.compile(r"--[^\n]*")
ALWAYS = "time"
"""A column of each row, which remains where nothing else is used."""


def narrowed(statement: str) -> str:
    """Return a statement in which the canonical rows (``split/chosen``) have only columns that the rest of it names."""
    columns = _COLUMNS.search(statement)
    if columns is None:
        return statement
    rest = f"{statement[: columns.start()]}{statement[columns.end() :]}"
    used = {ALWAYS, *re.findall(r"\w+", _COMMENT.sub("", rest))}
    lines = [line for line in columns[0].splitlines() if (name := _NAME.search(line)) and name[1] in used]
    text = ",\n".join(line.rstrip(",") for line in lines)
    return f"{statement[: columns.start()]}{text}{statement[columns.end() :]}"
