"""The units of the columns of a table: as given, or as their values or names say; a guess is never made.

Instants since 1970 show their unit by their size, since they lie between 2001 and 2286. The size of a duration shows
nothing: its unit is given, or part of the name of its column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable
from sojourn.readers.formats.fields import UNIT_WORDS
from sojourn.readers.tables.cells import is_absent, is_number
from sojourn.readers.tables.roles import ISO, RELATIVE, SECONDS, Column

EARLIEST, LATEST = Decimal(1_000_000_000), Decimal(9_999_999_999)  # s since 1970: 2001 and 2286
FINEST, COARSEST = 1e-6, 1.0  # steps, s
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,](\d+))?)?\s*(?:Z|[+-]\d\d:?\d\d)?")
_WORDS = re.compile(r"[a-zµ]+|[A-Z]+(?![a-z])|[A-Z][a-z]+")


def unit_of(source: str, column: Column, values: Sequence[str]) -> str:
    """Return the unit of a column of instants or durations.

    Args:
        source: the table, for errors.
        column: the column and the unit that was given for it, if any.
        values: the first cells of the column.

    Raises:
        SojournError: the unit does not fit the values, or is unknown.
    """
    present = [value.strip() for value in values if not is_absent(value)]
    return _of_instants(source, column, present) if column.kind == "instant" else _of_durations(source, column)


def _of_durations(source: str, column: Column) -> str:
    unit = column.unit or unit_in_name(column.name)
    if not unit:
        raise SojournError(
            f"{source}: the unit of {printable(column.name)} is unknown: neither its name nor a number without a unit "
            f"says it. Give {column.role}={printable(column.name)}:ms, or s, us or ns"
        )
    return unit


def _of_instants(source: str, column: Column, values: list[str]) -> str:
    if not values:
        return column.unit or "s"
    dates = sum(_DATE.fullmatch(value) is not None for value in values)
    numbers = [Decimal(value) for value in values if is_number(value)]
    name, first = printable(column.name), printable(values[0], 40)
    if column.unit == ISO or (not column.unit and dates > 0.5 * len(values)):
        if not dates:
            raise SojournError(f"{source}: {name} holds no dates ({first}); its unit is not {ISO}")
        return ISO
    if not numbers:
        detail = f"dates; leave its unit out, or give {ISO}" if dates else "neither numbers nor dates"
        raise SojournError(f"{source}: {name} holds {detail} ({first})")
    fitting = [unit for unit in SECONDS if _is_since_1970(numbers, unit)]
    relative = "the instants since the beginning of the trace are rel, rel_ms, rel_us or rel_ns"
    if column.unit in RELATIVE:
        if fitting:
            raise SojournError(
                f"{source}: {name} counts since 1970 in {fitting[0]} ({first}), not since the beginning of the trace: "
                f"give {column.role}={name}:{fitting[0]}"
            )
        return column.unit
    if column.unit and column.unit not in fitting:
        right = f"give {column.role}={name}:{fitting[0]}" if fitting else f"{relative}"
        raise SojournError(
            f"{source}: {name} does not hold instants since 1970 in {column.unit}: {first} is no time from 2001 to "
            f"2286; {right}"
        )
    if not column.unit and not fitting:
        raise SojournError(
            f"{source}: the unit of {name} is unknown: {first} is no instant since 1970 in s, ms, us or ns. Give "
            f"{column.role}={name}:UNIT; {relative}"
        )
    return column.unit or fitting[0]


def _is_since_1970(numbers: Sequence[Decimal], unit: str) -> bool:
    """Return whether most of the numbers are instants since 1970 in a unit; it fits only one."""
    within = sum(EARLIEST <= number.scaleb(SECONDS[unit]) <= LATEST for number in numbers)
    return within > 0.5 * len(numbers)


def unit_in_name(name: str) -> str:
    """Return the unit that the last word of a column's name is; empty if it is none."""
    words = _WORDS.findall(name)
    return UNIT_WORDS.get(words[-1].lower(), "") if len(words) > 1 else ""


def step_of(unit: str, values: Iterable[str]) -> float:
    """Return the step in which the values of a column count, s: that of the most precise of them.

    A column without values counts in milliseconds.
    """
    exponents = [exponent for value in values if (exponent := _exponent(unit, value.strip())) is not None]
    return min(max(10.0 ** min(exponents), FINEST), COARSEST) if exponents else 0.001


def _exponent(unit: str, value: str) -> int | None:
    """Return the power of ten of the last digit of a value in seconds that is not 0; None for other texts."""
    if unit == ISO:
        match = _DATE.fullmatch(value)
        return None if match is None else -len((match[1] or "").rstrip("0"))
    seconds = in_seconds(unit, value)
    if seconds is None:
        return None
    exponent = seconds.normalize().as_tuple().exponent
    return exponent if isinstance(exponent, int) else None


def in_seconds(unit: str, value: str) -> Decimal | None:
    """Return a number in a unit as seconds; None for other texts."""
    if not is_number(value):
        return None
    try:
        return Decimal(value).scaleb(SECONDS[RELATIVE.get(unit, unit)])
    except InvalidOperation:
        return None


def median_seconds(unit: str, values: Iterable[str]) -> float | None:
    """Return the median of durations, s; None without any."""
    seconds = sorted(number for value in values if (number := in_seconds(unit, value.strip())) is not None)
    return float(seconds[len(seconds) // 2]) if seconds else None


def fixed_unit(source: str, column: Column, units: Mapping[str, str]) -> Column:
    """Return a column with the unit that its type has, such as a datetime of Parquet.

    Raises:
        SojournError: another unit was given.
    """
    fixed = units.get(column.name)
    if fixed is None or column.kind == "text":
        return column
    if column.unit not in ("", ISO):
        raise SojournError(f"{source}: {printable(column.name)} has a type with its own unit: leave {column.unit} out")
    return Column(column.role, column.name, fixed)
