"""The cells of a line of a table, and the line of names at its beginning."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}
ABSENT = ("", "-", "nan", "nat", "null", "none", "na", r"\n")  # in small letters: a cell without a value
MOST_NAMES = 30
_NAME = re.compile(r"[^\W\d][\w .()/%#µ*-]{0,99}|\d{1,5}|")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_VALUE = re.compile(r"[+-]?\.?\d")


def cells_of(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, without the blanks around them; none of a line that is no row of a table."""
    try:
        rows = list(csv.reader([line.rstrip("\r\n")], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return []
    return [cell.strip() for cell in rows[0]] if rows else []


def delimiter_of(line: str, names: Sequence[str] = ()) -> str:
    """Return the delimiter of a line of names: the one with most of ``names``, then with most cells."""

    def score(delimiter: str) -> tuple[int, int]:
        cells = cells_of(line, delimiter)
        return len(set(cells) & set(names)), len(cells)

    return max(DELIMITERS, key=score)


def is_number(text: str) -> bool:
    """Return whether a cell holds a decimal number."""
    return _NUMBER.fullmatch(text) is not None


def is_absent(text: str) -> bool:
    """Return whether a cell has no value."""
    return text.strip().lower() in ABSENT


def listed_names(names: Sequence[str]) -> str:
    """Return the names of columns for a sentence: the first ones if there are many."""
    from sojourn.model.formatting import printable  # noqa: PLC0415 - rich takes its time to load

    texts = [printable(name, 60) for name in names if name]
    rest = len(texts) - MOST_NAMES
    return ", ".join(texts[:MOST_NAMES]) + (f" and {rest:,} more" if rest > 0 else "")


def table_in(lines: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the delimiter and the names of the columns if lines are those of a table with a line of names."""
    if len(lines) < 2 or not lines[0].strip():
        return None
    first = lines[0].removeprefix("\ufeff")
    delimiter = delimiter_of(first)
    names = cells_of(first, delimiter)
    letters = [name for name in names if name[:1].isalpha()]
    if len(letters) < 2 or len(set(names)) < len(names) or not all(map(_NAME.fullmatch, names)):
        return None
    second = cells_of(lines[1], delimiter)
    if len(second) != len(names) or not any(map(_VALUE.match, second)):
        return None
    return delimiter, names
