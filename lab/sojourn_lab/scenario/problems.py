"""All errors of a decoded file at once: each with the path of its key, the value, and what is allowed there.

msgspec stops at the first error. A file that it refuses is walked here by the types of the same structs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from sojourn.model.formatting import counted, listed, printable

from sojourn_lab.errors import ScenarioError

LONGEST_VALUE = 60
MOST_PLACES = 3
"""The most places of one error that are listed, such as in each case of a matrix."""
NOT_A_KEY = re.compile(r"[^A-Za-z0-9_-]")
INDEX = re.compile(r"\[\d+\]")


class Problem(NamedTuple):
    """An error: the path of its key, such as `cases[0].load.rate` (empty: the whole file), and what is wrong."""

    path: str
    reason: str


def problems_of(value: Any, kind: Any, path: str = "") -> list[Problem]:
    """Return every error of a decoded value that is to be of a type."""
    if get_origin(kind) is Annotated and _members(get_args(kind)[0]) is not None:
        inner = problems_of(value, get_args(kind)[0], path)
        return inner or list(_of_value(value, kind, path))
    structs = _structs(kind)
    if structs and isinstance(value, dict):
        return list(_of_struct(value, structs, path))
    member = _members(kind)
    if member is not None and isinstance(value, list):
        return [each for number, part in enumerate(value) for each in problems_of(part, member, f"{path}[{number}]")]
    return list(_of_value(value, kind, path))


def refusal(where: str, problems: Iterable[Problem]) -> ScenarioError:
    """Return the error of a file: a line for each problem, after their number if there are several."""
    places: dict[tuple[str, str], list[str]] = {}
    for path, reason in problems:
        places.setdefault((INDEX.sub("[]", path), reason), []).append(path)
    lines = [f"{_place(paths)}{reason}" for (_, reason), paths in places.items()]
    if len(lines) == 1:
        return ScenarioError(f"{where}: {lines[0]}")
    return ScenarioError("\n".join([f"{where}: {counted(len(lines), 'error')}", *(f"  {line}" for line in lines)]))


def _place(paths: list[str]) -> str:
    if not paths[0]:
        return ""
    more = [f"{len(paths) - MOST_PLACES} more"] if len(paths) > MOST_PLACES else []
    return f"{listed([*paths[:MOST_PLACES], *more])}: "


def _of_struct(value: Mapping[str, Any], structs: list[type[msgspec.Struct]], path: str) -> Iterator[Problem]:
    struct, tag = structs[0], structs[0].__struct_config__.tag_field
    if tag is not None:
        kinds = {str(each.__struct_config__.tag): each for each in structs}
        if value.get(tag) not in kinds:
            yield _not_allowed(value[tag], kinds, _below(path, tag)) if tag in value else _missing(path, tag, kinds)
            return
        struct = kinds[value[tag]]
    hints = get_type_hints(struct, include_extras=True)
    fields = {each.encode_name: each for each in msgspec.structs.fields(struct)}
    names = [*fields, *([tag] if tag is not None else [])]
    wrong = False
    for key in value:
        if key not in names:
            wrong = True
            yield Problem(_below(path, key), f"unknown key{_meant(key, names)}; allowed: {', '.join(sorted(names))}")
    for name, field in fields.items():
        if name not in value:
            if field.required:
                wrong = True
                yield _missing(path, name, ())
            continue
        for problem in problems_of(value[name], hints[field.name], _below(path, name)):
            wrong = True
            yield problem
    if not wrong:
        # Only whole: its parts are right, and what is wrong is how they go together.
        yield from _of_value(dict(value), struct, path)


def _of_value(value: Any, kind: Any, path: str) -> Iterator[Problem]:
    """Yield the error of a value as a whole; several if a struct's own check has several."""
    names = _names(kind)
    if names and isinstance(value, str) and value not in names:
        yield _not_allowed(value, names, path)
        return
    try:
        msgspec.convert(value, kind)
    except (ValueError, RecursionError) as error:
        own = error.__cause__
        if isinstance(own, ValueError):
            yield from (Problem(path, reason) for reason in str(own).splitlines())
            return
        reason = str(error).partition(" - at `")[0].replace("Expected ", "must be ") or type(error).__name__
        whole = isinstance(value, dict | list)
        yield Problem(path, reason if whole else f"{reason.partition(', got ')[0]}, not {_text(value)}")


def _not_allowed(value: Any, names: Iterable[str], path: str) -> Problem:
    return Problem(path, f"{_text(value)} is not allowed{_meant(str(value), list(names))}; allowed: {', '.join(names)}")


def _missing(path: str, name: str, names: Iterable[str]) -> Problem:
    allowed = f"; allowed: {', '.join(names)}" if names else ""
    return Problem(_below(path, name), f"is missing{allowed}")


def _meant(word: str, names: list[str]) -> str:
    near = get_close_matches(word, names, 1)
    return f", did you mean {near[0]}?" if near else ""


def _below(path: str, key: str) -> str:
    text = printable(key, LONGEST_VALUE)
    text = f'"{text}"' if NOT_A_KEY.search(text) else text
    return f"{path}.{text}" if path else text


def _text(value: Any) -> str:
    return printable(f'"{value}"' if isinstance(value, str) else str(value), LONGEST_VALUE)


def _alternatives(kind: Any) -> list[Any]:
    """Return the types of a union, without None and without their limits."""
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if get_origin(bare) in (Union, UnionType):
        return [each for part in get_args(bare) if part is not type(None) for each in _alternatives(part)]
    return [bare]


def _structs(kind: Any) -> list[type[msgspec.Struct]]:
    return [each for each in _alternatives(kind) if isinstance(each, type) and issubclass(each, msgspec.Struct)]


def _members(kind: Any) -> Any:
    """Return the type of the members of a list of structs or of names; None for any other type."""
    members = [get_args(each)[0] for each in _alternatives(kind) if get_origin(each) is list]
    return members[0] if members and (_structs(members[0]) or _names(members[0])) else None


def _names(kind: Any) -> list[str]:
    """Return the names that a text may be; empty where it may be any text."""
    alternatives = _alternatives(kind)
    if str in alternatives:
        return []
    return [name for each in alternatives if get_origin(each) is Literal for name in get_args(each)]
