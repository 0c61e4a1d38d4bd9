"""Is every request stamped on its way to the app, once, by nginx itself, in a unit that can be read?"""

from __future__ import annotations

from collections.abc import Iterator

from sojourn.doctor.findings import ADD, ERROR, REMOVE, REPLACE, WARNING, Edit, Finding
from sojourn.doctor.nginx_clients import comes_from_client, is_no_instant, override_lines
from sojourn.doctor.nginx_headers import (
    ANSWER_HEADERS,
    OWN_STAMP,
    REQUEST_NAMES,
    STAMPS,
    blank_lines,
    header_name,
    hide_lines,
)
from sojourn.doctor.nginx_levels import Conf, Level, Pass, after, instead_of, place_of, without, written
from sojourn.model.formatting import counted, printable
from sojourn.nginx.syntax import Directive

ONE_ONLY = ("x-request-start", "x-request-id", "traceparent")


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
    brought = _stamps_of(lost, found)[0].via
    if brought is not None and brought.args and brought.args[0].endswith("sojourn_proxy.conf"):
        lines = [written(brought)]
    elif conf.house and found.family == "proxy":
        lines = [f"include {conf.folder}/sojourn_proxy.conf;"]
    else:
        lines = override_lines(conf, found, _set_at(holder, found), lost)
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
    own = [each for each in level.own(found.setter) if len(each.args) > 1 and each.args[1]]
    return [each for each in own if header_name(each.args[0]) in STAMPS]


def _set_at(level: Level, found: Pass) -> set[str]:
    """Headers that a level's own lines set. An empty stamp is none: another line may stand beside it."""
    own = [each for each in level.own(found.setter) if len(each.args) > 1]
    return {name for each in own if (name := header_name(each.args[0])) not in STAMPS[:1] or each.args[1]}


def stamping_lines(conf: Conf, found: Pass) -> list[str]:
    """The lines that stamp the requests of a location, with what they would otherwise keep from it."""
    if found.family == "proxy" and (conf.house or conf.blank):
        lines = [f"include {conf.folder}/sojourn_proxy.conf;"]
    else:
        lines = override_lines(conf, found, _set_at(found.level, found), found.level.holder(found.setter))
        if conf.house or conf.blank:
            lines += hide_lines(found.family)
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
    names = {*REQUEST_NAMES, *(name.lower() for name in ANSWER_HEADERS)}
    return bool(directive.args) and header_name(directive.args[0]) in names


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
            f"{holder.title} sends {extra.args[0]} {counted(len(same), 'time')}.",
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
        if comes_from_client(conf, value):
            yield Finding(
                "stamp-from-client",
                ERROR,
                holder.title,
                f"{holder.title} sends on the {made.args[0]} of any client ({printable(value)}).",
                "Whoever sends an old stamp makes a queue that is not there. Only addresses of trusted.conf may stamp.",
                *replaced,
            )
        elif is_no_instant(value):
            yield Finding(
                "stamp-unit",
                ERROR,
                holder.title,
                f"{holder.title} stamps with {printable(value)}, which is no unix time.",
                "The middleware reads seconds, ms, us or ns since 1970 and refuses anything else.",
                *replaced,
            )


def _in_subrequest(level: Level) -> Iterator[Finding]:
    for found in level.own("proxy_pass"):
        each = Pass(level, found, level)
        stamps = [made for name, value, made in each.sent() if name in STAMPS and "$sojourn_stamp_sent" in value]
        if not stamps:
            continue
        holder = level.holder("proxy_set_header") or level
        inherited = holder is not level
        line = stamps[0].via or stamps[0]
        if inherited:  # a line of its own, and so all the others again
            others = [written(made) for name, _, made in each.sent() if name not in STAMPS]
            text = "\n".join([*blank_lines("proxy", REQUEST_NAMES[2:]), *others])
        else:
            brought = {name for name, _, made in each.sent() if line in (made, made.via)}
            text = "\n".join(blank_lines("proxy", set(REQUEST_NAMES) - brought))
        edit = after(found, text) if inherited else instead_of(line, text)
        yield Finding(
            "stamp-in-subrequest",
            WARNING,
            level.title,
            f"{level.title} is asked by auth_request or mirror, and stamps.",
            "Subrequests share the variables of their request: its stamp would be the instant of the authentication, "
            "and that would count as waiting for the app.",
            text,
            place_of(found if inherited else line, level),
            ADD if inherited else REPLACE,
            (edit,),
        )
