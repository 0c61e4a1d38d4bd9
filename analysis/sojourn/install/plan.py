"""Plan the changes that stamp and log the requests of a configuration.

nginx inherits a directive that may be repeated only at a level without one of its own. Lines that are added at a level
therefore repeat the inherited ones that they would cancel, and a log is added beside the logs that exist.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sojourn.doctor.nginx_headers import (
    ANSWER_HEADERS,
    HTTP_INCLUDE,
    HTTP_INCLUDE_WITHOUT_NJS,
    REQUEST_HEADERS,
    header_name,
    include_line,
    include_lines,
    setter,
)
from sojourn.doctor.nginx_levels import INDENT, Conf, Level, Pass, anchor, place_of, word
from sojourn.install.duplicates import ID, OURS, STAMP, TRACE, YOURS, Duplicate, duplicates
from sojourn.install.marked_text import Change
from sojourn.model.formatting import printable
from sojourn.nginx.syntax import Directive

FORMAT = "sojourn"
MODULE = "ngx_http_js_module.so"
_OF_CLIENT = ("$http_traceparent", "${http_traceparent}")


@dataclass(frozen=True)
class Settings:
    """What the machine decides about a plan.

    Attributes:
        folder: of the include files, as an include names it.
        log: the file of the log.
        default_log: the file that nginx logs to where the configuration has no ``access_log``.
        njs: the ``load_module`` line to add; empty where the module is loaded already; None without the module.
        choices: header in small letters -> ``ours`` or ``yours``.
    """

    folder: str
    log: str
    default_log: str
    njs: str | None
    choices: Mapping[str, str] = field(default_factory=dict)


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


def planned(conf: Conf, settings: Settings) -> Plan:
    """Return the changes of a configuration.

    Args:
        conf: the configuration, read with ``reading_of_files``.
        settings: see ``Settings``.
    """
    plan = Plan()
    stamping = list(_stamping(conf, settings, plan))
    if conf.has_includes and not stamping and _logs_everywhere(conf):
        return plan
    changes = [*_http_lines(conf, settings), *_logs(conf, settings, plan)]
    for _, lines in stamping:
        changes += lines
    for file, change in changes:
        of_file = plan.changes.setdefault(os.path.realpath(file), [])
        if change not in of_file:
            of_file.append(change)
    plan.passes = [handover for handover, _ in stamping]
    plan.shared = {file: places for file in plan.changes if len(places := including_places(conf, file)) > 1}
    return plan


Placed = tuple[str, Change]
"""The file of a change, and the change."""


def _added(behind: Directive, lines: Iterable[str], order: int = 0) -> Placed:
    """Return the change that adds lines behind a directive of a block, or behind the include that brought it."""
    at = anchor(behind)
    end = max(at.place.end, at.close)
    return at.place.file, Change(end, end, order, tuple(lines), at.place.indent)


def _at_top(level: Level, lines: Iterable[str], order: int = 0) -> Placed:
    place = level.directive.place
    inner = [each.place for each in level.directive.block if each.via is None]
    same_line = not inner or inner[0].line == place.line
    indent = place.indent + INDENT if same_line else inner[0].indent
    return place.file, Change(place.end, place.end, order, tuple(lines), indent)


def _off(directive: Directive) -> Placed:
    place = directive.place
    return place.file, Change(place.begin, max(place.end, directive.close), 0)


# ---- http: the variables, the format, the log


def _http_lines(conf: Conf, settings: Settings) -> Iterator[Placed]:
    if conf.has_includes:
        return
    if settings.njs:
        yield next(iter(conf.read.files)), Change(0, 0, 0, (settings.njs,))
    name = HTTP_INCLUDE_WITHOUT_NJS if settings.njs is None else HTTP_INCLUDE
    yield _at_top(conf.http, [f"include {word(f'{settings.folder}/{name}')};"])


def _logs(conf: Conf, settings: Settings, plan: Plan) -> Iterator[Placed]:
    """Yield a log beside each that exists, one of the default log, and one in each location below an ``off``."""
    line = f"access_log {word(settings.log)} {FORMAT};"
    servers = [each for each in conf.levels if each.directive.name == "server"]
    for level in (conf.http, *conf.levels):
        own = level.own("access_log")
        if own and not _is_off(own) and not any(_is_ours(each) for each in own):
            plan.logs.append(level)
            yield _added(own[-1], [line], 1)
    if any(each.holder("access_log") is None for each in servers):
        plan.logs.append(conf.http)
        yield _at_top(conf.http, [f"access_log {word(settings.default_log)};", line], 1)
    below: list[Level] = []
    logging = {_key(each.level.directive) for each in conf.passes if not _is_off(each.block.effective("access_log"))}
    for each in conf.passes:
        holder = each.block.holder("access_log")
        if holder is None or not _is_off(holder.own("access_log")):
            continue
        if holder in (each.level, each.block):
            plan.left.append(f"{place_of(each.directive, each.level)}: not logged, because of its own access_log off.")
        elif _key(each.level.directive) in logging:
            plan.left.append(
                f"{place_of(each.directive, each.level)}: not logged, because of access_log off in {holder.title}; its "
                "file is included at places with another log, too."
            )
        elif each.level not in below:
            below.append(each.level)
            plan.logs.append(each.level)
            yield _at_top(each.level, [line], 1)


def _is_off(lines: list[Directive]) -> bool:
    return any(each.args[:1] == ["off"] for each in lines)


def _is_ours(line: Directive) -> bool:
    return FORMAT in line.args[1:2]


def _logs_everywhere(conf: Conf) -> bool:
    return all(
        any(_is_ours(line) or line.args[:1] == ["off"] for line in each.block.effective("access_log"))
        for each in conf.passes
    )


# ---- Locations: the stamp


def _stamping(conf: Conf, settings: Settings, plan: Plan) -> Iterator[tuple[Pass, list[Placed]]]:
    """Yield each directive that passes requests to an app without a stamp of Sojourn, with the changes for it."""
    todo = {(each.level, each.family): each for each in reversed(conf.passes) if not _is_stamped(each)}
    passes = list(todo.values())[::-1]
    places = _lines_by_place(conf, [each.level for each in passes])
    decided = [
        [_decided(one, places, plan, each) for one in duplicates(each.level, each.family, settings.choices)]
        for each in passes
    ]
    changes = [_changes_of(conf, settings, each, present) for each, present in zip(passes, decided, strict=True)]
    lines_at: dict[tuple[str, int, int], set[tuple[str, ...]]] = {}
    for file, change in itertools.chain.from_iterable(changes):
        lines_at.setdefault((os.path.realpath(file), change.begin, change.end), set()).add(change.lines)
    for each, present, own in zip(passes, decided, changes, strict=True):
        file, stamp = own[0]
        if len(lines_at[os.path.realpath(file), stamp.begin, stamp.end]) > 1:
            plan.left.append(
                f"{place_of(each.directive, each.level)}: not stamped, because its file is included at places that "
                f"inherit different lines. Add {include_line(each.family, settings.folder)} by hand."
            )
            continue
        if present:
            plan.duplicates.setdefault(each.level.title, []).extend(present)
        if STAMP.lower() in _of_user(present):
            plan.unstamped.append(each.level)
        yield each, own


def _is_stamped(handover: Pass) -> bool:
    """Return whether a place has Sojourn's stamp, or its other lines beside a stamp of the user."""
    hidden = {each.args[0] for each in handover.level.own(f"{handover.family}_hide_header") if each.args}
    return hidden >= set(ANSWER_HEADERS) or any("$sojourn_stamp_sent" in value for _, value, _ in handover.sent())


def _lines_by_place(conf: Conf, changed: list[Level]) -> dict[tuple[str, int], bool]:
    """Return (real path, character) of each directive of a file -> whether every level that has it is changed."""
    places: dict[tuple[str, int], bool] = {}
    for level in (conf.http, *conf.levels):
        for each in level.directive.block:
            key = _key(each)
            places[key] = places.get(key, True) and level in changed
    return places


def _key(directive: Directive) -> tuple[str, int]:
    return os.path.realpath(directive.place.file), directive.place.begin


def _decided(duplicate: Duplicate, places: dict[tuple[str, int], bool], plan: Plan, handover: Pass) -> Duplicate:
    """Return the duplicate, with the user's line where that is of a file that other places include, too."""
    if duplicate.remains == YOURS or all(places.get(_key(each), True) for each in duplicate.lines):
        return duplicate
    plan.left.append(
        f"{place_of(duplicate.lines[-1], handover.level)}: {duplicate.lines[-1].args[0]} remains as it is, because "
        "places that pass no request to an app include its file, too."
    )
    return Duplicate(duplicate.header, duplicate.lines, duplicate.value, YOURS)


def _changes_of(conf: Conf, settings: Settings, handover: Pass, present: list[Duplicate]) -> list[Placed]:
    level, family = handover.level, handover.family
    theirs = _of_user(present)
    lines = _stamping_lines(settings, family, theirs)
    replaced = {header.name.lower() for header in REQUEST_HEADERS} - theirs
    replaced |= {name.lower() for name in ANSWER_HEADERS}
    for name in (setter(family), f"{family}_hide_header"):
        lines += _repeated(conf, level, name, replaced)
    changes = [_added(handover.outermost, lines)]
    for each in present:
        if each.remains == OURS:
            changes += [_off(line) for line in each.lines]
        elif each.header == ID.lower():
            changes += _logged_id(conf, level, each.value)
        elif each.header == TRACE and each.value not in _OF_CLIENT:
            changes.append(_at_top(level, ["set $sojourn_trace drop;"]))  # the log has no id that the app did not get
    return changes


def _logged_id(conf: Conf, level: Level, value: str) -> list[Placed]:
    """Return the lines after which the log has the user's id, or one of nginx's where that is empty."""
    name = f"$sojourn_id_{hashlib.sha256(value.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    return [
        _at_top(conf.http, [f'map {word(value)} {name} {{ default {word(value)}; "" $request_id; }}'], 2),
        _at_top(level, [f"set $sojourn_request_id {name};"]),
    ]


def _of_user(present: list[Duplicate]) -> set[str]:
    """Return the headers whose lines are the user's; tracestate belongs to traceparent."""
    theirs = {each.header for each in present if each.remains == YOURS}
    return theirs | {"tracestate"} if TRACE in theirs else theirs


def _stamping_lines(settings: Settings, family: str, theirs: set[str]) -> list[str]:
    """Return the include of a family, or its lines without those of headers that the user's lines set."""
    if not theirs:
        return [include_line(family, settings.folder)]
    own = include_lines(family)
    names = [header.name.lower() for header in REQUEST_HEADERS]
    return [line for number, line in enumerate(own) if number >= len(names) or names[number] not in theirs]


def _repeated(conf: Conf, level: Level, name: str, replaced: set[str]) -> list[str]:
    """Return the inherited lines of a directive that a level repeats, because lines of its own would cancel them."""
    holder = level.holder(name)
    if holder is None or holder is level:
        return []
    lines: list[str] = []
    whole: list[Directive] = []
    for each in holder.own(name):
        brought = [other for other in holder.directive.block if each.via is not None and other.via is each.via]
        if each.via is not None and all(
            other.name == name and other.args and header_name(other.args[0]) not in replaced for other in brought
        ):
            if not any(each.via is other for other in whole):
                whole.append(each.via)
                lines.append(source_of(conf, each.via))
        elif each.args and header_name(each.args[0]) not in replaced:
            lines.append(source_of(conf, each))
    return lines


def source_of(conf: Conf, directive: Directive) -> str:
    """Return a directive as its file has it, on one line where only blanks are between its words."""
    place = directive.place
    text = conf.read.files[place.file][place.begin : place.end]
    return text if "\n" not in text else " ".join([directive.name, *map(word, directive.args)]) + ";"


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
