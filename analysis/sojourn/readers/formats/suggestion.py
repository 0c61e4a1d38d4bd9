"""The ``--log-format`` to try for lines that are not recognised, from what is recognised of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sojourn.readers.formats.appended import VARIABLE_OF, meanings_of
from sojourn.readers.formats.columns import Column, columns_of_lines
from sojourn.readers.formats.json_keys import keyed_fields
from sojourn.readers.formats.json_template import object_in
from sojourn.readers.formats.placed import settled_columns

MOST_KEYS = 12
NEEDED = {"time": "$time_iso8601", "status": "$status", "request_time": "$request_time"}
_CLOCK_VARIABLES = {"clf": "$time_local", "iso": "$time_iso8601", "iso_ms": "$time_iso8601", "iso_us": "$time_iso8601"}
_STAMPS = ("msec", "time_local", "time_iso8601")


@dataclass(frozen=True)
class Suggestion:
    """What is recognised of lines.

    Attributes:
        sees: variables, or keys with the variables they seem to hold.
        lacks: of time, status and request_time, those that are not recognised.
        text: for ``--log-format``; empty without one.
    """

    sees: tuple[str, ...] = ()
    lacks: tuple[str, ...] = tuple(NEEDED)
    text: str = ""


def suggested_format(lines: Sequence[str]) -> Suggestion:
    """Return what is recognised of lines, JSON or text."""
    objects = [value for line in lines if (value := object_in(line)) is not None]
    return _of_objects(objects) if len(objects) > 0.5 * len(lines) else _of_text(lines)


def _of_objects(objects: Sequence[Mapping[str, object]]) -> Suggestion:
    fields = keyed_fields(objects)
    pairs: dict[str, str] = {}
    for path, field in fields.items():
        unit = f"={field.unit}" if field.unit in ("ms", "us", "ns") and field.name not in ("end", "start") else ""
        if field.name in ("end", "start"):
            pairs["time"] = f'"{path}": "{_CLOCK_VARIABLES.get(field.unit, "$msec")}"'
        elif field.name == "status":
            pairs["status"] = f'"{path}": "$status"'
        elif field.name in VARIABLE_OF:
            pairs[VARIABLE_OF[field.name]] = f'"{path}": "${VARIABLE_OF[field.name]}{unit}"'
    lacks = tuple(name for name in NEEDED if name not in pairs)
    present_pairs = tuple(pairs.values())
    keys = list(dict.fromkeys(key for each in objects for key in each))[:MOST_KEYS]
    sees = tuple(pair.replace('"', "") for pair in present_pairs) or tuple(keys)
    text = "{" + ", ".join((*present_pairs, *(f'"KEY": "{NEEDED[name]}"' for name in lacks))) + "}"
    return Suggestion(sees, lacks, text)


def _of_text(lines: Sequence[str]) -> Suggestion:
    suggestions = map(_of_columns, columns_of_lines(lines))
    return min(suggestions, key=lambda each: len(each.lacks), default=Suggestion())


def _of_columns(columns: Sequence[Column]) -> Suggestion:
    settled = settled_columns(columns)
    meanings, _ = meanings_of(columns, settled)
    has = {"time": any(name in _STAMPS for name in meanings), "status": "status" in meanings,
           "request_time": "request_time" in meanings}  # fmt: skip
    text = "".join(f"{column.before}${{{name}}}{column.after}" for column, name in zip(columns, meanings, strict=True))
    sees = tuple(f"${name}" for name in meanings if not name.startswith("column_"))
    return Suggestion(sees, tuple(name for name, is_there in has.items() if not is_there), text)
