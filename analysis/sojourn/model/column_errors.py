"""Texts of errors about columns: the column that is not there, the nearest name, and the columns that are there."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from sojourn.model.formatting import printable


def no_column(column: str, columns: Iterable[str]) -> str:
    """Return the text of the error that a column does not exist among ``columns``."""
    return f"there is no column {printable(repr(column), 100)}{_others(column, columns)}"


def not_read(column: str, columns: Iterable[str]) -> str:
    """Return the text of the error that a column is not among those that were read."""
    quoted = printable(repr(column), 100)
    return f"column {quoted} was not read: read it with split(columns=[{quoted}]){_others(column, columns)}"


def no_columns(needed: Iterable[str], columns: Iterable[str]) -> str:
    """Return the text of the error that a frame lacks columns that every analysis needs.

    Args:
        needed: the columns that every analysis needs.
        columns: the columns of the frame.
    """
    present, required = list(columns), list(needed)
    missing = [column for column in required if column not in present]
    others = [column for column in present if column not in required]
    near = [f"{match[0]} for {column}" for column in missing if (match := near_names(column, others))]
    hint = f"; is it {', '.join(printable(each, 100) for each in near)}?" if near else "."
    word = "column" if len(missing) == 1 else "columns"
    names = ", ".join(printable(repr(each), 100) for each in missing)
    return f"there is no {word} {names}{hint} Needed are {', '.join(required)}; the columns are {_listing(present)}"


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """Return the names that are most like a name, the nearest first; at most three."""
    by_case = {each.lower(): each for each in names}
    return [by_case[match] for match in get_close_matches(name.lower(), by_case, n=3)]


def _others(column: str, columns: Iterable[str]) -> str:
    present = list(columns)
    near = near_names(column, present)
    hint = f"; did you mean {printable(near[0], 100)!r}?" if near else "."
    return f"{hint} The columns are {_listing(present)}"


def _listing(columns: list[str]) -> str:
    return printable(", ".join(columns), 2_000) if columns else "none"
