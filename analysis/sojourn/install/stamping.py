"""Plan the lines that stamp the requests of locations.

nginx inherits a directive that may be repeated only at a level without one of its own. Lines that are added at a
location therefore repeat the inherited ones that they would cancel.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator

from sojourn.doctor.nginx_headers import (
    ANSWER_HEADERS,
    header_name,
    setter,
)
from sojourn.doctor.nginx_levels import Conf, Level, Pass, place_of, word
from sojourn.doctor.nginx_records import is_stamp_of_sojourn
from sojourn.install.changes import Placed, Plan, Settings, added_at_top, added_behind, key_of, source_of, switched_off
from sojourn.install.duplicates import ID, OURS, STAMP, TRACE, YOURS, Duplicate, duplicates
from sojourn.nginx.syntax import Directive

_OF_CLIENT = ("$http_traceparent", "${http_traceparent}")


def stamping(conf: Conf, settings: Settings, plan: Plan) -> Iterator[tuple[Pass, list[Placed]]]:
    """Yield each directive that passes requests to an app without a stamp of Sojourn, with the changes for it."""
    todo = {(each.level, each.family): each for each in reversed(conf.passes) if not _is_stamped(each)}
    passes = list(todo.values())[::-1]
    places = _lines_by_place(conf, [each.level for each in passes])
    decided = [
        [
            _decided(one, places, plan, each)
            for one in duplicates(each.level, each.family, settings.choices, settings.record.headers)
        ]
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
                f"inherit different lines. Add {settings.record.include_line(each.family, settings.folder)} by hand."
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
    return hidden >= set(ANSWER_HEADERS) or any(is_stamp_of_sojourn(value) for _, value, _ in handover.sent())


def _lines_by_place(conf: Conf, changed: list[Level]) -> dict[tuple[str, int], bool]:
    """Return (real path, character) of each directive of a file -> whether every level that has it is changed."""
    places: dict[tuple[str, int], bool] = {}
    for level in (conf.http, *conf.levels):
        for each in level.directive.block:
            key = key_of(each)
            places[key] = places.get(key, True) and level in changed
    return places


def _decided(duplicate: Duplicate, places: dict[tuple[str, int], bool], plan: Plan, handover: Pass) -> Duplicate:
    """Return the duplicate, with the user's line where that is of a file that other places include, too."""
    if duplicate.remains == YOURS or all(places.get(key_of(each), True) for each in duplicate.lines):
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
    replaced = {header.name.lower() for header in settings.record.headers} - theirs
    replaced |= {name.lower() for name in ANSWER_HEADERS}
    for name in (setter(family), f"{family}_hide_header"):
        lines += _repeated(level, name, replaced)
    changes = [added_behind(handover.outermost, lines)]
    for each in present:
        if each.remains == OURS:
            changes += [switched_off(line) for line in each.lines]
        elif each.header == ID.lower():
            changes += _logged_id(conf, level, each.value)
        elif each.header == TRACE and each.value not in _OF_CLIENT:
            # The log has no trace that the app did not get.
            changes.append(added_at_top(level, ["set $sojourn_trace drop;"]))
    return changes


def _logged_id(conf: Conf, level: Level, value: str) -> list[Placed]:
    """Return the lines after which the log has the user's id, or one of nginx's where that is empty."""
    name = f"$sojourn_id_{hashlib.sha256(value.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    return [
        added_at_top(conf.http, [f'map {word(value)} {name} {{ default {word(value)}; "" $request_id; }}'], 2),
        added_at_top(level, [f"set $sojourn_request_id {name};"]),
    ]


def _of_user(present: list[Duplicate]) -> set[str]:
    """Return the headers whose lines are the user's; tracestate belongs to traceparent."""
    theirs = {each.header for each in present if each.remains == YOURS}
    return theirs | {"tracestate"} if TRACE in theirs else theirs


def _stamping_lines(settings: Settings, family: str, theirs: set[str]) -> list[str]:
    """Return the include of a family, or its lines without those of headers that the user's lines set."""
    if not theirs:
        return [settings.record.include_line(family, settings.folder)]
    own = settings.record.include_lines(family)
    names = [header.name.lower() for header in settings.record.headers]
    return [line for number, line in enumerate(own) if number >= len(names) or names[number] not in theirs]


def _repeated(level: Level, name: str, replaced: set[str]) -> list[str]:
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
                lines.append(source_of(each.via))
        elif each.args and header_name(each.args[0]) not in replaced:
            lines.append(source_of(each))
    return lines
