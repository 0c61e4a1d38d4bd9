"""Plan the changes that stamp and log the requests of a configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator

from sojourn.doctor.nginx_levels import Conf, Level, place_of, word
from sojourn.doctor.nginx_records import FULL, WITHOUT_NJS
from sojourn.install.changes import (
    FORMAT,
    Placed,
    Plan,
    Settings,
    added_at_top,
    added_behind,
    including_places,
    is_off,
    is_ours,
    key_of,
)
from sojourn.install.marked_text import Change
from sojourn.install.stamping import stamping

MODULE = "ngx_http_js_module.so"


def planned(conf: Conf, settings: Settings) -> Plan:
    """Return the changes of a configuration.

    Args:
        conf: the configuration, read with ``reading_of_files``.
        settings: see ``Settings``.
    """
    plan = Plan()
    stamped = list(stamping(conf, settings, plan))
    if conf.has_includes and not stamped and _logs_everywhere(conf):
        return plan
    changes = [*_http_lines(conf, settings), *_logs(conf, settings, plan)]
    for _, lines in stamped:
        changes += lines
    for file, change in changes:
        of_file = plan.changes.setdefault(os.path.realpath(file), [])
        if change not in of_file:
            of_file.append(change)
    plan.passes = [handover for handover, _ in stamped]
    plan.shared = {file: places for file in plan.changes if len(places := including_places(conf, file)) > 1}
    return plan


# ---- http: the variables, the format, the log


def _http_lines(conf: Conf, settings: Settings) -> Iterator[Placed]:
    if conf.has_includes:
        return
    if settings.njs:
        yield next(iter(conf.read.files)), Change(0, 0, 0, (settings.njs,))
    name = WITHOUT_NJS if settings.record is FULL and settings.njs is None else settings.record.http
    yield added_at_top(conf.http, [f"include {word(f'{settings.folder}/{name}')};"])


def _logs(conf: Conf, settings: Settings, plan: Plan) -> Iterator[Placed]:
    """Yield a log beside each that exists, one of the default log, and one in each location below an ``off``."""
    line = f"access_log {word(settings.log)} {FORMAT};"
    servers = [each for each in conf.levels if each.directive.name == "server"]
    for level in (conf.http, *conf.levels):
        own = level.own("access_log")
        if own and not is_off(own) and not any(is_ours(each) for each in own):
            plan.logs.append(level)
            yield added_behind(own[-1], [line], 1)
    if any(each.holder("access_log") is None for each in servers):
        plan.logs.append(conf.http)
        yield added_at_top(conf.http, [f"access_log {word(settings.default_log)};", line], 1)
    below: list[Level] = []
    logging = {key_of(each.level.directive) for each in conf.passes if not is_off(each.block.effective("access_log"))}
    for each in conf.passes:
        holder = each.block.holder("access_log")
        if holder is None or not is_off(holder.own("access_log")):
            continue
        if holder in (each.level, each.block):
            plan.left.append(f"{place_of(each.directive, each.level)}: not logged, because of its own access_log off.")
        elif key_of(each.level.directive) in logging:
            plan.left.append(
                f"{place_of(each.directive, each.level)}: not logged, because of access_log off in {holder.title}; its "
                "file is included at places with another log, too."
            )
        elif each.level not in below:
            below.append(each.level)
            plan.logs.append(each.level)
            yield added_at_top(each.level, [line], 1)


def _logs_everywhere(conf: Conf) -> bool:
    return all(
        any(is_ours(line) or is_off([line]) for line in each.block.effective("access_log")) for each in conf.passes
    )
