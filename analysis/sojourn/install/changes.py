"""The changes of a configuration: what decides about them, what they are, and where a line goes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sojourn.doctor.nginx_levels import INDENT, Conf, Level, Pass, anchor, place_of, written
from sojourn.doctor.nginx_records import FULL, Record
from sojourn.install.duplicates import Duplicate
from sojourn.install.marked_text import Change
from sojourn.model.formatting import printable
from sojourn.nginx.syntax import Directive

FORMAT = "sojourn"
"""The name of the log format."""


@dataclass(frozen=True)
class Settings:
    """What the machine decides about a plan.

    Attributes:
        folder: of the include files, as an include names it.
        log: the file of the log.
        default_log: the file that nginx logs to where the configuration has no ``access_log``.
        njs: the ``load_module`` line to add; empty where the module is loaded already; None without the module.
        choices: header in small letters -> ``ours`` or ``yours``.
        record: what is stamped and logged.
    """

    folder: str
    log: str
    default_log: str
    njs: str | None
    choices: Mapping[str, str] = field(default_factory=dict)
    record: Record = FULL


@dataclass
class Plan:
    """The changes of a configuration.

    Attributes:
        changes: real path of a file -> its changes.
        passes: the directives that pass requests to an app, in locations that are changed.
        unstamped: the locations whose stamp is that of a line of the user, which the log has not.
        logs: the levels that log from then on.
        duplicates: title of a location -> the headers that it sets itself.
        left: sentences about places that are not changed, with the reason.
        shared: real path of a changed file that several places include -> these places.
    """

    changes: dict[str, list[Change]] = field(default_factory=dict)
    passes: list[Pass] = field(default_factory=list)
    unstamped: list[Level] = field(default_factory=list)
    logs: list[Level] = field(default_factory=list)
    duplicates: dict[str, list[Duplicate]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    shared: dict[str, list[str]] = field(default_factory=dict)


Placed = tuple[str, Change]
"""The file of a change, and the change."""


def added_behind(behind: Directive, lines: Iterable[str], order: int = 0) -> Placed:
    """Return the change that adds lines behind a directive of a block, or behind the include that brought it."""
    at = anchor(behind)
    end = max(at.place.end, at.close)
    return at.place.file, Change(end, end, order, tuple(lines), at.place.indent)


def added_at_top(level: Level, lines: Iterable[str], order: int = 0) -> Placed:
    """Return the change that adds lines at the beginning of a block, with the indentation of its first directive."""
    place = level.directive.place
    inner = [each.place for each in level.directive.block if each.via is None]
    same_line = not inner or inner[0].line == place.line
    indent = place.indent + INDENT if same_line else inner[0].indent
    return place.file, Change(place.end, place.end, order, tuple(lines), indent)


def switched_off(directive: Directive) -> Placed:
    """Return the change that switches a directive off."""
    place = directive.place
    return place.file, Change(place.begin, max(place.end, directive.close), 0)


def key_of(directive: Directive) -> tuple[str, int]:
    """Return the real path of a directive's file and its first character: the same for all places that include it."""
    return os.path.realpath(directive.place.file), directive.place.begin


def source_of(directive: Directive) -> str:
    """Return a directive as its file has it, on one line where only blanks are between its words."""
    text = written(directive)
    return text if "\n" not in text else written(replace(directive, source=""))


def including_places(conf: Conf, file: str) -> list[str]:
    """Return the places that include a file, each as ``file:line, inside location /``.

    Args:
        conf: the configuration.
        file: the real path of the file.
    """
    places = [
        place_of(each.via, level)
        for level in (Level(conf.read.root), conf.http, *conf.levels)
        for each in level.directive.block
        if each.via is not None and os.path.realpath(each.place.file) == file
    ]
    return list(dict.fromkeys(printable(each, 300) for each in places))


def is_off(access_logs: Iterable[Directive]) -> bool:
    """Return whether these ``access_log`` lines switch the log off: one ``off`` cancels the others of its level."""
    return any(each.args[:1] == ["off"] for each in access_logs)


def is_ours(access_log: Directive) -> bool:
    """Return whether an ``access_log`` line is in Sojourn's format."""
    return FORMAT in access_log.args[1:2]
