"""The options of a command as properties of a tool: which of them an agent may set, and their JSON Schema.

An option is offered if its type and its metavar say what its value is: a number, one of several words, a text that
selects, a file to read. Any other option is left out: the name of a file to write, a configuration, an address, a flag.
"""

from __future__ import annotations

import enum
import re
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Any

from typer.models import ArgumentInfo, OptionInfo, ParameterInfo


class Kind(enum.Enum):
    """What the value of an option is."""

    FLAG = "flag"
    NUMBER = "number"
    WORD = "word"
    TEXT = "text"
    SOURCE = "source"
    FORMAT = "format"
    PROCESS = "process"


# Metavar of an option -> its kind. Of a text, the command reads no file and opens no connection.
_METAVARS = {
    "ADDR:PORT": Kind.TEXT,
    "BACKEND=NAME": Kind.TEXT,
    "COLUMN": Kind.TEXT,
    "COLUMN=VALUE": Kind.TEXT,
    "FIGURE=LIMIT": Kind.TEXT,
    "KEY=VALUE": Kind.TEXT,
    "KEY=VALUE,…": Kind.TEXT,
    "N|BACKEND=N": Kind.TEXT,
    "NAME": Kind.TEXT,
    "ROLE=COLUMN[:UNIT],…": Kind.TEXT,
    "T": Kind.TEXT,
    "[NAME=]PORT": Kind.TEXT,
    "FILE": Kind.SOURCE,
    "SOURCE": Kind.SOURCE,
    "FORMAT": Kind.FORMAT,
    "KIND:…": Kind.PROCESS,
}
_ARGUMENTS = {"SOURCE...", "[SOURCE]...", "A B", "CAPTURE...", "SPANS...", "[FILE...]"}
_WORDS = re.compile(r"[a-z0-9_]+(?:\|[a-z0-9_]+)+")
_FLAGS = {"--closed-loop"}
# They sample this machine.
_LIVE = {("kernel", "--period"), ("kernel", "--seconds")}
# Without an argument, `kernel` samples this machine; `capacity` computes a size from the options.
_NEEDS_NO_SOURCE = {"capacity"}


@dataclass(frozen=True)
class Option:
    """An option or the argument of a command that a tool offers.

    Attributes:
        name: the property of the tool.
        flag: the option as it is typed, such as ``--where``; empty for the argument.
        kind: what a value is.
        multiple: whether the property is an array.
        required: whether the command needs it.
        schema: its JSON Schema.
    """

    name: str
    flag: str
    kind: Kind
    multiple: bool
    required: bool
    schema: dict[str, Any]


def parameters_of(command: str, function: Callable[..., None]) -> Iterator[tuple[str, ParameterInfo, Option | None]]:
    """Yield the parameters of a command.

    Args:
        command: its name.
        function: the function that typer makes it of.

    Yields:
        The option as it is typed, or the name of the argument; its description for typer; and the option of the tool,
        None if a tool does not offer it.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in signature(function).parameters.items():
        annotation, *metadata = typing.get_args(hints[name])
        info = next(each for each in metadata if isinstance(each, ParameterInfo))
        base, multiple = _base(annotation)
        # In an annotation, the first name of an option stands where its default would.
        names = [each for each in (info.default, *(info.param_decls or ())) if isinstance(each, str)]
        flags = [each for each in names if each.startswith("--")] or [f"--{name.replace('_', '-')}"]
        label = name if isinstance(info, ArgumentInfo) else flags[0]
        kind = _kind(command, flags[0], info, base)
        if kind is None:
            yield label, info, None
            continue
        required = parameter.default is parameter.empty or (
            isinstance(info, ArgumentInfo) and command not in _NEEDS_NO_SOURCE
        )
        flag = "" if isinstance(info, ArgumentInfo) else flags[0]
        schema = _schema(kind, info, base)
        if multiple:
            schema = {"type": "array", "items": schema}
        schema["description"] = " ".join((info.help or "").split())
        if parameter.default not in {parameter.empty, None, False}:
            schema["default"] = parameter.default
        name_of_property = flag.removeprefix("--").replace("-", "_") or name
        yield label, info, Option(name_of_property, flag, kind, multiple, required, schema)


def _base(annotation: Any) -> tuple[Any, bool]:
    """Return the type of one value, and whether the option takes several."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        annotation = next(each for each in typing.get_args(annotation) if each is not types.NoneType)
    if typing.get_origin(annotation) is list:
        return typing.get_args(annotation)[0], True
    return annotation, False


def _kind(command: str, flag: str, info: ParameterInfo, base: Any) -> Kind | None:
    metavar = info.metavar or ""
    if isinstance(info, ArgumentInfo):
        return Kind.SOURCE if base is str and metavar in _ARGUMENTS else None
    if not isinstance(info, OptionInfo) or (command, flag) in _LIVE:
        return None
    if base is bool:
        return Kind.FLAG if flag in _FLAGS else None
    if base in {int, float}:
        return Kind.NUMBER
    if base is not str:
        return None
    return Kind.WORD if _WORDS.fullmatch(metavar) else _METAVARS.get(metavar)


def _schema(kind: Kind, info: ParameterInfo, base: Any) -> dict[str, Any]:
    if kind is Kind.FLAG:
        return {"type": "boolean"}
    if kind is Kind.WORD:
        return {"type": "string", "enum": (info.metavar or "").split("|")}
    if kind is Kind.NUMBER:
        bounds = {"minimum": info.min, "maximum": info.max}
        number = {"type": "integer" if base is int else "number"}
        return number | {name: bound for name, bound in bounds.items() if bound is not None}
    return {"type": "string"}
