"""Is every request stamped on its way to the app, once, by nginx itself, in a unit that can be read?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sojourn.capture.nginx_syntax import Directive
from sojourn.doctor.findings import ADD, ERROR, REMOVE, REPLACE, WARNING, Edit, Finding
from sojourn.doctor.nginx_levels import STAMPS, Conf, Level, Pass, after, instead_of, place_of, without, written
from sojourn.words import printable

ONE_ONLY = ("x-request-start", "x-request-id", "traceparent")
APP_HEADERS = ("X-Queueing-Delay", "X-Service-Time", "X-Worker", "X-Route")
OWN_STAMP = '"t=${msec}"'
_FROM_CLIENT = re.compile(r"\$\{?(?:http_x_request_start|http_x_queue_start)\b")
_NO_INSTANT = re.compile(r"\$\{?(?:time_iso8601|time_local|date_local|date_gmt|request_time)\b")
_HOUSE_SENT = (
    ("X-Request-Start", "$sojourn_stamp_sent"),
    ("X-Request-ID", "$sojourn_request_id"),
    ("traceparent", "$sojourn_traceparent"),
)


def stamp_findings(conf: Conf) -> Iterator[Finding]:
    """What is wrong with the stamps of a configuration."""
    bare: set[Level] = set()
    for each in conf.passes:
        if each.stamped:
            yield from _twice(each)
            yield from _values(conf, each)
        elif each.level not in bare:
            bare.add(each.level)
            yield _missing(conf, each)
    for level in conf.subrequests:
        yield from _in_subrequest(level)


def _missing(conf: Conf, found: Pass) -> Finding:
    level, setter = found.level, found.setter
    holder = level.holder(setter)
    lost = next((above for above in holder.above() if _stamps_of(above, found)), None) if holder else None
    if holder is not None and lost is not None:
        return _lost(conf, found, holder, lost)
    text = "\n".join(stamping_lines(conf, found))
    own_headers = level.own(setter)
    edit = after(own_headers[-1] if own_headers else found.outermost, text)
    return Finding(
        "stamp-missing",
        WARNING if conf.fragment else ERROR,  # what is further up is not known
        level.title,
        f"The requests of {level.title} go to {printable(found.target)} without a stamp.",
        "Without X-Request-Start the app cannot tell how long a request waited for it, and a client's own header "
        "would pass for a stamp.",
        text,
        place_of(found.directive, level),
        ADD,
        (edit,),
    )


def _lost(conf: Conf, found: Pass, holder: Level, lost: Level) -> Finding:
    lines = [written(each) for each in _stamps_of(lost, found)]
    brought = _stamps_of(lost, found)[0].via
    if brought is not None and brought.args and brought.args[0].endswith("sojourn_proxy.conf"):
        lines = [written(brought)]
    elif conf.house and found.family == "proxy":
        lines = [f"include {conf.folder}/sojourn_proxy.conf;"]
    text = "\n".join([*lines, *_said_again(holder, f"{found.family}_hide_header", lines)])
    own = holder.own(found.setter)
    return Finding(
        "stamp-not-inherited",
        ERROR,
        holder.title,
        f"{holder.title} loses the stamp that is set in {lost.title}: it has {found.setter} lines of its own.",
        f"nginx inherits {found.setter} from the level above only where a level has none of its own.",
        text,
        place_of(own[-1], holder),
        ADD,
        (after(own[-1], text),),
    )


def _stamps_of(level: Level, found: Pass) -> list[Directive]:
    names = {*STAMPS, *(f"http_{name.replace('-', '_')}" for name in STAMPS)}
    own = [each for each in level.own(found.setter) if len(each.args) > 1 and each.args[1]]
    return [each for each in own if each.args[0].lower() in names]


def stamping_lines(conf: Conf, found: Pass) -> list[str]:
    """The lines that stamp the requests of a location, with what they would otherwise keep from it."""
    if found.family == "proxy" and (conf.house or conf.blank):
        lines = [f"include {conf.folder}/sojourn_proxy.conf;"]
    elif not conf.house and not conf.blank:
        name = "X-Request-Start" if found.family in ("proxy", "grpc") else "HTTP_X_REQUEST_START"
        lines = [f"{found.setter} {name} {OWN_STAMP};"]
    else:
        lines = [
            f"{found.setter} {name if found.family == 'grpc' else 'HTTP_' + name.upper().replace('-', '_')} {value};"
            for name, value in _HOUSE_SENT
        ]
        lines += [f"{found.family}_hide_header {name};" for name in APP_HEADERS]
    for name in (found.setter, f"{found.family}_hide_header"):
        lines += _said_again(found.level, name, lines)
    return list(dict.fromkeys(lines))


def _said_again(level: Level, name: str, lines: list[str]) -> list[str]:
    """What held at a level before ``lines`` came to it: with directives of its own it inherits none any more."""
    brings = any(line.startswith(("include ", name)) for line in lines)
    if not brings or level.own(name):
        return []
    return [written(each) for each in level.effective(name) if not _ours(each)]


def _ours(directive: Directive) -> bool:
    names = {*ONE_ONLY, "x-queue-start", "tracestate", *(name.lower() for name in APP_HEADERS)}
    return bool(directive.args) and directive.args[0].lower() in names


def _twice(found: Pass) -> Iterator[Finding]:
    sent = [each for each in found.sent() if each[1]]
    for name in ONE_ONLY:
        same = [made for header, _, made in sent if header == name]
        if len(same) < 2:
            continue
        # The one to go is the one that is not brought by an include.
        extra = next((made for made in same if made.via is None), same[-1])
        holder = found.level.holder(found.setter) or found.level
        yield Finding(
            "stamp-twice",
            ERROR,
            holder.title,
            f"{holder.title} sends {extra.args[0]} {len(same)} times.",
            "nginx sends both, and the app refuses two stamps in one header, or believes the wrong one.",
            written(extra),
            place_of(extra, holder),
            REMOVE,
            (without(extra),),
        )


def _values(conf: Conf, found: Pass) -> Iterator[Finding]:
    holder = found.level.holder(found.setter) or found.level
    for name, value, made in found.sent():
        if name not in STAMPS or not value or "$sojourn_" in value:
            continue
        text = " ".join([made.name, made.args[0], "$sojourn_stamp_sent" if conf.house else OWN_STAMP]) + ";"
        replaced: tuple[str, str, str, tuple[Edit, ...]]
        replaced = (text, place_of(made, holder), REPLACE, (instead_of(made, text),))
        if _comes_from_client(conf, value):
            yield Finding(
                "stamp-from-client",
                ERROR,
                holder.title,
                f"{holder.title} sends on the {made.args[0]} of any client ({printable(value)}).",
                "Whoever sends an old stamp makes a queue that is not there. Only addresses of trusted.conf may stamp.",
                *replaced,
            )
        elif _NO_INSTANT.search(value):
            yield Finding(
                "stamp-unit",
                ERROR,
                holder.title,
                f"{holder.title} stamps with {printable(value)}, which is no unix time.",
                "The middleware reads seconds, ms, us or ns since 1970 and refuses anything else.",
                *replaced,
            )


def _comes_from_client(conf: Conf, value: str) -> bool:
    if _FROM_CLIENT.search(value):
        return True
    for name in re.findall(r"\$\{?(\w+)", value):
        for each in conf.http.own("map"):
            if len(each.args) == 2 and each.args[1] == f"${name}" and "trusted" not in each.args[0]:
                values = [entry.args[0] for entry in each.block if entry.args]
                if any(_FROM_CLIENT.search(text) for text in values):
                    return True
    return False


def _in_subrequest(level: Level) -> Iterator[Finding]:
    for found in level.own("proxy_pass"):
        each = Pass(level, found, level)
        stamps = [made for name, value, made in each.sent() if name in STAMPS and "$sojourn_stamp_sent" in value]
        if not stamps:
            continue
        holder = level.holder("proxy_set_header") or level
        inherited = holder is not level
        text = written(stamps[0].via or stamps[0])
        if inherited:  # a line of its own, and so all the others again
            others = [made for made in level.effective("proxy_set_header") if made.args[0].lower() not in STAMPS]
            text = "\n".join(['proxy_set_header X-Request-Start "";', *map(written, others)])
        edit = after(found, text) if inherited else without(stamps[0].via or stamps[0])
        yield Finding(
            "stamp-in-subrequest",
            WARNING,
            level.title,
            f"{level.title} is asked by auth_request or mirror, and stamps.",
            "Subrequests share the variables of their request: its stamp would be the instant of the authentication, "
            "and that would count as waiting for the app.",
            text,
            place_of(stamps[0].via or stamps[0] if not inherited else found, level),
            ADD if inherited else REMOVE,
            (edit,),
        )
