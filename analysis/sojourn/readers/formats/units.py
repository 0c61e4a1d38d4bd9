"""Units of durations that a user states for a format which is recognised by the lines (``--log-format latency=ns``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from sojourn.model.errors import SojournError
from sojourn.model.formatting import listed
from sojourn.readers.formats import nginx
from sojourn.readers.formats.fields import DURATIONS, UNITS
from sojourn.readers.formats.line_format import SURE, LineFormat
from sojourn.readers.formats.template import Part, Variable, path_keys

_PAIR = r"\s*[^\s=,$%{}:]?[^\s=,{}]*=\s*[A-Za-zµ]+\s*"
_PAIRS = re.compile(rf"{_PAIR}(?:,{_PAIR})*")
_LABEL = re.compile(r"([A-Za-z_][\w.-]*)\s*[=:]\s*[\"\[(]?$")


class Units(dict[str, str]):
    """Name of a duration (a key, a label, a variable or a part of the response time) -> its unit."""

    @property
    def text(self) -> str:
        """As ``--log-format`` takes it."""
        return ",".join(f"{name}={unit}" for name, unit in self.items())


def units_from_text(text: str) -> Units | None:
    """Return the units of a text like ``latency=ns,upstream_time=ms``; None if it is none.

    Raises:
        SojournError: a unit is unknown.
    """
    if not _PAIRS.fullmatch(text):
        return None
    units = Units()
    for pair in text.split(","):
        name, _, unit = (each.strip() for each in pair.rpartition("="))
        if unit not in UNITS:
            raise SojournError(f"--log-format {name}={unit}: the units are {', '.join(UNITS)}")
        units[name] = unit
    return units


def with_units(form: LineFormat, units: Mapping[str, str]) -> LineFormat:
    """Return the format with these units of its durations; ``sure`` if they are all of them.

    Raises:
        SojournError: the format has no duration of that name.
    """
    names = {field: set(each) for field, each in _names(form).items()}
    chosen: dict[str, str] = {}
    for name, unit in units.items():
        fields = [field for field, each in names.items() if name in each]
        if not fields:
            present = [f"{sorted(each, key=len)[-1]} ({field})" for field, each in names.items()]
            raise SojournError(
                f"--log-format {name}={unit}: the log has no duration {name!r}; it has {listed(present) or 'none'}"
            )
        chosen |= dict.fromkeys(fields, unit)

    def changed(part: Part) -> Part:
        if isinstance(part, str) or part.field.name not in chosen:
            return part
        return Variable(part.text, replace(part.field, unit=chosen[part.field.name]))

    return replace(
        form,
        parts=tuple(map(changed, form.parts)),
        as_text=tuple(map(changed, form.as_text)),
        composed=tuple((path, tuple(map(changed, parts))) for path, parts in form.composed),
        fields=tuple(
            replace(field, unit=chosen[field.name]) if field.name in chosen else field for field in form.fields
        ),
        certainty=SURE if chosen.keys() >= names.keys() else form.certainty,
        unit_notes=() if chosen.keys() >= names.keys() else form.unit_notes,
        alternative="" if {"request_time", "service_time"} & chosen.keys() else form.alternative,
    )


def _names(form: LineFormat) -> dict[str, list[str]]:
    """Return field of a duration -> its names: the field's, those of nginx's variables of it, and those of the log."""
    names: dict[str, list[str]] = {}
    for field, name in _names_in_log(form):
        if field in DURATIONS:
            names.setdefault(field, [field, *_variables_of(field)]).append(name)
    return names


def _variables_of(field: str) -> list[str]:
    return [variable for variable, each in nginx.FIELDS.items() if each.name == field]


def _names_in_log(form: LineFormat) -> Iterator[tuple[str, str]]:
    """Yield (field, name): of JSON, the whole path and its last key; of text, the variable and the label before it."""
    for path, field in zip(form.paths, form.fields, strict=True):
        yield field.name, path
        yield field.name, str(next((key for key in reversed(path_keys(path)) if isinstance(key, str)), path))
    for parts in (form.parts, *(parts for _, parts in form.composed)):
        for k, part in enumerate(parts):
            if isinstance(part, str):
                continue
            bare = part.text.strip("$%")
            yield from ((part.field.name, each) for each in (part.text, bare, re.sub(r"^\{\w+\}", "", bare)))
            before = parts[k - 1] if k else ""
            if isinstance(before, str) and (label := _LABEL.search(before)):
                yield part.field.name, label[1]
