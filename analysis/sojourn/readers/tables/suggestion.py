"""What to give as ``--columns`` for a table that was not recognised: likely roles by the names of its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from sojourn.model.formatting import printable
from sojourn.readers.tables.cells import DELIMITERS, cells_of, is_absent, is_number, listed_names, table_in
from sojourn.readers.tables.roles import REQUIRED, ROLES, SECONDS, Column, missing_roles
from sojourn.readers.tables.units import unit_in_name

ROWS = 100
# Role -> the names that it usually has, the likeliest first; a name is compared in small letters without signs.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "end": (r"end.*", r"finish.*", r"complet.*", r"timefrontend"),
    "arrival": (
        r"arriv.*", r"start.*", r"begin.*", r"submit.*", r"timestamp.*", r"datetime", r"ts", r"time",
        r"date", r"t", r"invo.*time.*",
    ),
    "response": (
        r"response(time|latency|duration).*", r"(request)?latency.*", r"rt(ms|us|s|ns)?", r"totalcostfrontend",
        r"elapsed.*", r"(request)?duration.*", r"requesttime.*", r"total(time|cost|latency|duration).*", r"took.*",
    ),
    "service": (
        r"(service|svc)(time|duration).*", r"runtimecost", r"svc", r"(exec|process)(ution|ing)?(time|duration).*",
    ),
    "wait": (r"(queue|queueing|wait|waiting)(time|delay|duration)?(ms|us|s|ns)?",),
    "status": (r"(http)?status(code)?", r"responsecode"),
    "backend": (r"podid", r"upstream.*", r"backend.*", r"dminstanceid", r"(server|instance|pod|node)(id|name)?"),
    "route": (r"route", r"func(tion)?(name)?", r"interface", r"endpoint", r"operation", r"path"),
    "method": (r"method", r"verb"),
    "id": (r"request_?id", r"uuid"),
    "worker": (r"worker(id)?", r"thread(id)?"),
    "host": (r"host(name)?",),
}  # fmt: skip


@dataclass(frozen=True)
class Suggestion:
    """What a table without roles holds, and the option to try.

    Attributes:
        sentence: its kind and its columns.
        remedy: the option, or the role that no column seems to have.
        option: the value of ``--columns``; empty if a role is missing.
    """

    sentence: str
    remedy: str
    option: str = ""

    def __str__(self) -> str:
        """Return the error for the table."""
        return f"{self.sentence} {self.remedy}"


def suggestion_for_lines(source: str, lines: Sequence[str]) -> Suggestion | None:
    """Return the suggestion for the first lines of a log; None if they are not those of a table."""
    table = table_in(lines)
    if table is None:
        return None
    delimiter, names = table
    rows = [cells_of(line, delimiter) for line in lines[1 : ROWS + 1]]
    return suggestion(source, f"a table of {DELIMITERS[delimiter]}-separated values", names, rows)


def suggestion(source: str, kind: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Suggestion:
    """Return the suggestion for a table.

    Args:
        source: the table.
        kind: such as "a table of comma-separated values".
        names: of its columns.
        rows: its first rows.
    """
    columns = likely_columns(names, rows)
    sentence = f"{source} is {kind} with the columns {listed_names(names)}."
    if missing := missing_roles(columns):
        rest = f"If another column has it, name it by --columns ROLE=COLUMN:UNIT,… (required: {REQUIRED})."
        return Suggestion(sentence, f"{missing} {rest}")
    option = ",".join(each.option for each in columns)
    unknown = ", where UNIT is s, ms, us or ns" if any("UNIT" in each.unit for each in columns) else ""
    return Suggestion(
        sentence, f"Say what they hold; likely: --columns {quote(printable(option, 400))}{unknown}", option
    )


def likely_columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Column]:
    """Return columns with the roles that their names suggest, as far as their values fit; one for each role."""
    columns: list[Column] = []
    for role, patterns in _NAMES.items():
        assigned = {each.name for each in columns}
        name = next(
            (
                name
                for pattern in patterns
                for name in names
                if name not in assigned
                and re.fullmatch(pattern, _plain(name))
                and _fits(role, _values(name, names, rows))
            ),
            None,
        )
        if name is not None:
            columns.append(Column(role, name, _unit(role, name, _values(name, names, rows))))
    if {"arrival", "end", "response"} <= {each.role for each in columns}:
        columns = [each for each in columns if each.role != "end"]
    return columns


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _values(name: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    place = names.index(name)
    return [row[place] for row in rows[:ROWS] if len(row) == len(names) and not is_absent(row[place])]


def _fits(role: str, values: Sequence[str]) -> bool:
    kind = ROLES[role].kind
    if kind == "duration":
        return all(map(is_number, values))
    return kind == "text" or all(value[:1].isdigit() for value in values)


def _unit(role: str, name: str, values: Sequence[str]) -> str:
    """Return the unit to give: none where the values or the name say it."""
    kind = ROLES[role].kind
    if kind == "duration":
        return "" if unit_in_name(name) else "UNIT"
    if kind == "text" or not values or not all(map(is_number, values)):
        return ""
    largest = max(float(value) for value in values)
    if any(1e9 <= largest * 10.0 ** SECONDS[unit] < 1e10 for unit in SECONDS):
        return ""
    return "rel_UNIT"
