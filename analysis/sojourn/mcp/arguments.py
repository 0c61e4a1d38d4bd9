"""The arguments of a call: checked against the schema of the tool, and written as those of the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.mcp.options import Kind, Option
from sojourn.mcp.places import Places
from sojourn.model.errors import ArgumentError
from sojourn.model.formatting import counted, printable
from sojourn.sources.log_files import names_configuration

LONGEST_TEXT = 4096  # characters
MOST_VALUES = 100
_TYPES: dict[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "string": (str,),
}


def check_values(values: Mapping[str, Any], properties: Mapping[str, Any], required: Sequence[str]) -> None:
    """Check the arguments of a call against the properties of a tool.

    Args:
        values: property -> value, as the agent sends them.
        properties: property -> its JSON Schema: type, enum, bounds, items.
        required: properties that a call must have.

    Raises:
        ArgumentError: a property is unknown or missing, or its value does not fit; the sentence names it.
    """
    for name in required:
        if name not in values:
            raise ArgumentError(f"{name} is missing: {properties[name]['description']}")
    for name, value in values.items():
        if name not in properties:
            raise ArgumentError(f"{printable(name)} is not an argument of this tool; it has {', '.join(properties)}")
        _check(name, value, properties[name])


def _check(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    kind = schema["type"]
    whole = kind != "integer" or not isinstance(value, float) or value.is_integer()
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean") or not whole:
        raise ArgumentError(f"{name}: not of type {kind} ({printable(repr(value))})")
    if isinstance(value, list):
        if not 0 < len(value) <= MOST_VALUES:
            raise ArgumentError(f"{name}: {counted(len(value), 'value')}; give 1 to {MOST_VALUES}")
        for each in value:
            _check(name, each, schema["items"])
    elif isinstance(value, str):
        _check_text(name, value, schema.get("enum"))
    else:
        least, most = schema.get("minimum"), schema.get("maximum")
        if (least is not None and value < least) or (most is not None and value > most):
            bounds = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None)
            raise ArgumentError(f"{name}: {printable(repr(value))} is not {' and '.join(bounds)}")


def _check_text(name: str, value: str, words: Sequence[str] | None) -> None:
    if words is not None and value not in words:
        raise ArgumentError(f"{name}: {printable(repr(value))} is not one of {', '.join(words)}")
    if not 0 < len(value) <= LONGEST_TEXT:
        raise ArgumentError(f"{name}: a text of {len(value):,} characters; give 1 to {LONGEST_TEXT:,}")
    if "\0" in value or not _has_form_in_utf8(value):
        raise ArgumentError(f"{name}: {printable(repr(value))} has a character that no argument can have")


def _has_form_in_utf8(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def command_arguments(options: Sequence[Option], values: Mapping[str, Any], places: Places) -> list[str]:
    """Return the arguments of the command for checked values of a tool.

    A value stands behind the ``=`` of its option, and sources behind ``--``: no value is read as an option.

    Args:
        options: those that the tool offers.
        values: property -> value; other properties are left out.
        places: what the agent may read.

    Raises:
        ArgumentError: a value names what the agent may not read.
        SojournError: the system cannot look a file up.
    """
    arguments: list[str] = []
    sources: list[str] = []
    for option in options:
        value = values.get(option.name)
        if value is None:
            continue
        for each in value if option.multiple else [value]:
            if option.kind is Kind.FLAG:
                arguments += [option.flag] if each else []
            elif not option.flag:
                sources.append(places.source(each))
            else:
                arguments.append(f"{option.flag}={_text(option, each, places)}")
    return [*arguments, "--", *sources]


def _text(option: Option, value: Any, places: Places) -> str:
    if option.kind is Kind.SOURCE:
        return places.source(value)
    if option.kind is Kind.NUMBER:
        return repr(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)
    if option.kind is Kind.FORMAT and names_configuration(value):
        raise ArgumentError(
            f"{option.name}: {printable(repr(value))} names a file; give a name or the text of a format"
        )
    if option.kind is Kind.PROCESS and value.partition(":")[0].strip() == "trace":
        return f"trace:{places.file(value.partition(':')[2])}"
    return str(value)
