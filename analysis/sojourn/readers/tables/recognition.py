"""Recognise the format of a table by the roles of its columns, its line of names and its first rows."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted, duration, printable
from sojourn.model.frame import APP, TABLE
from sojourn.readers.formats.line_format import SURE
from sojourn.readers.tables.beginning import Beginning
from sojourn.readers.tables.cells import DELIMITERS, cells_of, delimiter_of, is_number, listed_names
from sojourn.readers.tables.roles import DURATION, INSTANT, RELATIVE, Column, missing_roles
from sojourn.readers.tables.table_format import TableFormat
from sojourn.readers.tables.table_sql import ANCHOR, ANSWERED
from sojourn.readers.tables.units import fixed_unit, in_seconds, median_seconds, step_of, unit_in_name, unit_of

FEWEST = 20  # rows that refute a unit
TIMES_LONGER = 1_000  # than the trace: no response is, but by a wrong unit


def table_format(
    source: str, beginning: Beginning, columns: Sequence[Column], units: Mapping[str, str] | None = None
) -> TableFormat:
    """Return the format of a table.

    Args:
        source: the table, for errors.
        beginning: its first lines.
        columns: those with a role.
        units: column -> unit that its type has; None: the table is a text.

    Raises:
        SojournError: a column does not exist or is there twice, roles are missing, or a unit is unknown or refuted.
    """
    delimiter = "," if units is not None else delimiter_of(beginning.line_of_names, [each.name for each in columns])
    names = tuple(cells_of(beginning.line_of_names, delimiter))
    _check_names(source, names, columns)
    if missing := missing_roles(columns):
        raise SojournError(
            f"{source}: {missing} --columns assigns {', '.join(each.option for each in columns)}; the columns are "
            f"{listed_names(names)}"
        )
    rows = [cells for cells in _rows(beginning.lines, delimiter) if len(cells) == len(names)]
    cells = {each.name: [row[names.index(each.name)] for row in rows] for each in columns}
    fixed = [fixed_unit(source, each, units or {}) for each in columns]
    timed = tuple(
        replace(each, unit=unit_of(source, each, cells[each.name])) if each.kind in (INSTANT, DURATION) else each
        for each in fixed
    )
    kind = "Parquet" if units is not None else f"{DELIMITERS[delimiter]}-separated values"
    table = TableFormat(
        name=TABLE, title=f"a table ({kind})", certainty=SURE, delimiter=delimiter, names=names, columns=timed,
        instants=max(step_of(each.unit, cells[each.name]) for each in timed if each.kind == INSTANT),
        durations=max((step_of(each.unit, cells[each.name]) for each in timed if each.role == "response"), default=0.0),
    )  # fmt: skip
    _check_durations(source, table, cells)
    longer = _longer_than_trace(source, table, cells) if beginning.whole else ""
    suffixed = tuple(
        each.name for each in columns if each.kind == DURATION and not each.unit and each.name not in (units or {})
    )
    return replace(table, notes=tuple(_notes(table, suffixed, longer)))


def _check_names(source: str, names: Sequence[str], columns: Sequence[Column]) -> None:
    if names and all(map(is_number, names)):
        raise SojournError(
            f"{source}: its first line holds numbers ({listed_names(names)}) in place of the names of its columns: put "
            "a line of names before it"
        )
    small = {name.lower(): name for name in names if name}
    for column in columns:
        if column.name not in names:
            near = [small[name] for name in get_close_matches(column.name.lower(), small, 3)]
            hint = f"did you mean {' or '.join(printable(name, 60) for name in near)}? " if near else ""
            raise SojournError(
                f"{source}: there is no column {printable(column.name)!r} for {column.role}; {hint}The columns are "
                f"{listed_names(names)}"
            )
        if names.count(column.name) > 1:
            raise SojournError(
                f"{source}: {printable(column.name)} is the name of {names.count(column.name)} columns: rename all but "
                "one of them"
            )


def _rows(lines: Sequence[str], delimiter: str) -> Iterator[list[str]]:
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    try:
        for row in reader:
            yield [cell.strip() for cell in row]
    except csv.Error:
        return


def _check_durations(source: str, table: TableFormat, cells: Mapping[str, Sequence[str]]) -> None:
    """Raise an error if parts of the response are longer than the response in most rows."""
    response = table.by_role.get("response")
    if response is None:
        return
    for role in ("service", "wait", "connect", "proxy_queue"):
        part = table.by_role.get(role)
        if part is None:
            continue
        pairs = [
            (one, whole)
            for one, whole in zip(
                (in_seconds(part.unit, value) for value in cells[part.name]),
                (in_seconds(response.unit, value) for value in cells[response.name]),
                strict=True,
            )
            if one is not None and whole is not None
        ]
        longer = sum(float(one - whole) > table.durations for one, whole in pairs)
        if longer > 0.5 * len(pairs):
            raise SojournError(
                f"{source}: {role}={printable(part.name)}:{part.unit} is longer than "
                f"response={printable(response.name)}:{response.unit} in {longer:,} of {counted(len(pairs), 'row')}: "
                "one of their units or roles is wrong"
            )


def _longer_than_trace(source: str, table: TableFormat, cells: Mapping[str, Sequence[str]]) -> str:
    """Return a note where most requests last longer than the trace, whose rows these all are.

    Raises:
        SojournError: they last so much longer that the unit of their durations is wrong.
    """
    column = table.by_role.get("response") or table.by_role.get("service")
    instants = table.by_role.get("arrival") or table.by_role["end"]
    seconds = [number for value in cells[instants.name] if (number := in_seconds(instants.unit, value)) is not None]
    if column is None or len(seconds) < FEWEST:
        return ""
    median, length = median_seconds(column.unit, cells[column.name]), float(max(seconds) - min(seconds))
    if median is None or not 0 < length < median:
        return ""
    sentence = (
        f"Most requests last longer ({duration(median)}) by {column.role}={printable(column.name)}:{column.unit} than "
        f"all instants of the table are apart ({duration(length)})"
    )
    if median > TIMES_LONGER * length:
        raise SojournError(f"{source}: the unit is wrong. {sentence}")
    return f"{sentence}: check the unit."


def _notes(table: TableFormat, suffixed: Sequence[str], longer: str) -> Iterator[str]:
    """Yield what else there is to know about a table. ``suffixed``: columns whose name holds their unit."""
    roles = table.by_role
    if any(each.unit in RELATIVE for each in table.columns):
        yield f"Its instants count from the beginning of the trace, which is set to {ANCHOR}."
    if "status" not in roles:
        yield f"The table has no status: every request counts as answered ({ANSWERED})."
    if suffixed:
        units = ", ".join(f"{printable(name, 60)} ({unit_in_name(name)})" for name in suffixed)
        yield f"Units from the names of columns: {units}."
    if "wait" in roles and "service" in roles:
        if "response" in roles or table.spans:
            yield "Response time beyond wait and service counts as send."
    elif "wait" in roles:
        yield "Service time is the response time less the wait."
    elif "service" in roles and table.vantage != APP:
        yield "Response time beyond the service time counts as queueing delay."
    elif "service" in roles:
        yield "It has service times alone: waits before the service are not in it."
    if table.coarse:
        yield f"Its times count in steps of {duration(max(table.instants, table.durations))}: queues are not inferred."
    if longer:
        yield longer
