"""Check that nginx itself stamps every request to an app, once, in a readable unit."""

from __future__ import annotations

from collections.abc import Iterator

from sojourn.doctor.findings import ADD, ERROR, REPLACE, WARNING, Finding
from sojourn.doctor.nginx_clients import comes_from_client, is_no_instant, override_lines
from sojourn.doctor.nginx_headers import (
    ANSWER_HEADERS,
    OWN_STAMP,
    REQUEST_HEADERS,
    REQUEST_NAMES,
    STAMPS,
    blank_lines,
    header_name,
    hide_lines,
)
from sojourn.doctor.nginx_levels import (
    Conf,
    Level,
    Mend,
    Pass,
    adding,
    after,
    instead_of,
    place_of,
    removing,
    replacing,
    without,
    word,
    written,
)
from sojourn.doctor.nginx_own_stamp import is_same, logged_variable, own_value, variable_of
from sojourn.doctor.nginx_records import FULL, Record, family_of_include, is_of_sojourn, is_stamp_of_sojourn
from sojourn.model.formatting import counted, printable
from sojourn.nginx.syntax import Directive

ONE_ONLY = ("x-request-start", "x-request-id", "traceparent")


def stamp_findings(conf: Conf) -> Iterator[Finding]:
    """Yield what is wrong with the stamps of a configuration."""
    bare: set[Level] = set()
    for each in conf.passes:
        if each.stamped:
            yield from _twice(conf, each)
            yield from _values(conf, each)
        elif each.level not in bare:
            bare.add(each.level)
            yield _missing(conf, each)
    for level in conf.subrequests:
        yield from _in_subrequest(conf, level)


def _missing(conf: Conf, handover: Pass) -> Finding:
    level, setter = handover.level, handover.setter
    holder = level.holder(setter)
    lost = next((above for above in holder.above() if _stamps_of(above, handover)), None) if holder else None
    if holder is not None and lost is not None:
        return _lost(conf, handover, holder, lost)
    text = "\n".join(stamping_lines(conf, handover))
    other = _include_of_another_family(conf, handover)
    if other is not None:
        return _wrong_include(conf.record or FULL, handover, other, text)
    own_headers = level.own(setter)
    edit = after(own_headers[-1] if own_headers else handover.outermost, text)
    return Finding(
        "stamp-missing",
        WARNING if conf.fragment else ERROR,  # the levels above are unknown
        level.title,
        f"The requests of {level.title} go to {printable(handover.target)} without a stamp.",
        "Without X-Request-Start the app cannot measure how long a request waited, and a client's own header is "
        "taken for a stamp.",
        text,
        place_of(handover.directive, level),
        ADD,
        (edit,),
    )


def _include_of_another_family(conf: Conf, handover: Pass) -> Directive | None:
    """Return the include of the location that belongs to a directive which the location does not have."""
    used = {each.family for each in conf.passes if each.level is handover.level}
    for each in handover.level.directive.block:
        family = family_of_include(each.via.args[0]) if each.via is not None and each.via.args else None
        if each.via is not None and family is not None and family not in used:
            return each.via
    return None


def _wrong_include(record: Record, handover: Pass, include: Directive, text: str) -> Finding:
    level, family = handover.level, family_of_include(include.args[0]) or ""
    wrong, right = printable(include.args[0].rpartition("/")[2]), record.include_name(handover.family)
    return Finding(
        "stamp-missing",
        ERROR,
        level.title,
        f"{level.title} includes {wrong}, which sets headers of {family}_pass only: requests go to "
        f"{printable(handover.target)} by {handover.family}_pass without a stamp.",
        f"Each directive has its own include: {right} is for {handover.family}_pass. nginx reports no error for the "
        "other one.",
        *replacing(include, text, level),
    )


def _lost(conf: Conf, handover: Pass, holder: Level, lost: Level) -> Finding:
    brought = _stamps_of(lost, handover)[0].via
    if brought is not None and brought.args and family_of_include(brought.args[0]) is not None:
        lines = [written(brought)]
    elif conf.has_includes and (include := conf.include_line(handover.family)) is not None:
        lines = [include]
    else:
        lines = override_lines(conf, handover, _set_at(holder, handover), lost)
    text = "\n".join([*lines, *_restated(holder, f"{handover.family}_hide_header", lines)])
    own = holder.own(handover.setter)
    return Finding(
        "stamp-not-inherited",
        ERROR,
        holder.title,
        f"{holder.title} loses the stamp that is set in {lost.title}: it has its own {handover.setter} lines.",
        f"nginx inherits {handover.setter} from the level above only where a level has none of its own.",
        *adding(own[-1], text, holder),
    )


def _stamps_of(level: Level, handover: Pass) -> list[Directive]:
    own = [each for each in level.own(handover.setter) if len(each.args) > 1 and each.args[1]]
    return [each for each in own if header_name(each.args[0]) in STAMPS]


def _set_at(level: Level, handover: Pass) -> set[str]:
    """Return the headers that a level's own lines set, without empty stamps: another line may follow those."""
    own = [each for each in level.own(handover.setter) if len(each.args) > 1]
    return {name for each in own if (name := header_name(each.args[0])) not in STAMPS[:1] or each.args[1]}


def stamping_lines(conf: Conf, handover: Pass) -> list[str]:
    """Return the lines that stamp the requests of a location, with inherited lines that they would replace."""
    include = conf.include_line(handover.family)
    if include is not None:
        lines = [include]
    else:
        lines = override_lines(
            conf, handover, _set_at(handover.level, handover), handover.level.holder(handover.setter)
        )
        if conf.has_includes or conf.blank:
            lines += hide_lines(handover.family)
    for name in (handover.setter, f"{handover.family}_hide_header"):
        lines += _restated(handover.level, name, lines)
    return list(dict.fromkeys(lines))


def _restated(level: Level, name: str, lines: list[str]) -> list[str]:
    """Return the inherited directives to repeat: a level with directives of its own inherits none."""
    brings = any(line.startswith(("include ", name)) for line in lines)
    if not brings or level.own(name):
        return []
    return [written(each) for each in level.effective(name) if not _set_by_sojourn(each)]


def _set_by_sojourn(directive: Directive) -> bool:
    names = {*REQUEST_NAMES, *(name.lower() for name in ANSWER_HEADERS)}
    return bool(directive.args) and header_name(directive.args[0]) in names


def _twice(conf: Conf, handover: Pass) -> Iterator[Finding]:
    sent = [each for each in handover.sent() if each[1]]
    removed: list[Directive] = []
    for name in ONE_ONLY:
        same = [line for header, _, line in sent if header == name]
        chosen = _line_to_keep(conf, same) if len(same) > 1 else None
        for extra in (line for line in same if chosen is not None and line is not chosen):
            target = extra.by if extra.by is not None and is_of_sojourn(extra.place.file) else extra
            if any(target is each for each in removed):  # one include brings several headers
                continue
            removed.append(target)
            holder = handover.level.holder(handover.setter) or handover.level
            own_trace = name == "traceparent" and target is extra and conf.has_includes and not _passes_on(extra)
            yield Finding(
                "stamp-twice",
                ERROR,
                holder.title,
                f"{holder.title} sends {extra.args[0]} {counted(len(same), 'time')}.",
                "nginx sends each of them, and the app refuses two stamps in one header, or uses the wrong one.",
                *(_own_trace(conf, extra, holder) if own_trace else removing(target, holder)),
            )


def _passes_on(line: Directive) -> bool:
    return variable_of(line.args[1]) == "http_traceparent"


def _own_trace(conf: Conf, line: Directive, holder: Level) -> Mend:
    """Return how to keep a traceparent of the user's: Sojourn's line sends its value."""
    text = f'map "" $sojourn_traceparent {{ default {word(line.args[1])}; }}'
    fix = f"# in http, behind the include of {FULL.http}, instead of this line:\n{text}"
    return fix, place_of(line, holder), REPLACE, (without(line), conf.behind_settings(text))


def _line_to_keep(conf: Conf, same: list[Directive]) -> Directive:
    """Return Sojourn's own line; else the one whose variable is logged; else one of an include, or the last one."""
    logged = [name for fmt in conf.usable_formats if (name := logged_variable(fmt)) is not None]
    candidates = [
        [line for line in same if is_of_sojourn(line.place.file)],
        [line for line in same if any(is_same(conf, one, variable_of(line.args[1])) for one in logged)],
        [line for line in same if line.via is not None],
    ]
    return next((lines[0] for lines in candidates if lines), same[-1])


def _values(conf: Conf, handover: Pass) -> Iterator[Finding]:
    holder = handover.level.holder(handover.setter) or handover.level
    for name, value, header in handover.sent():
        if name not in STAMPS or not value or "$sojourn_" in value:
            continue
        text = " ".join([header.name, header.args[0], _stamp_value(conf)]) + ";"
        mend = replacing(header, text, holder)
        if comes_from_client(conf, value):
            yield Finding(
                "stamp-from-client",
                ERROR,
                holder.title,
                f"{holder.title} forwards the {header.args[0]} of any client ({printable(value)}).",
                "A client that sends an old stamp forges queueing delay. Only addresses in trusted.conf may stamp.",
                *mend,
            )
        elif is_no_instant(value):
            yield Finding(
                "stamp-unit",
                ERROR,
                holder.title,
                f"{holder.title} stamps with {printable(value)}, which is not a unix time.",
                "The middleware reads seconds, ms, us or ns since 1970 and refuses anything else.",
                *mend,
            )


def _stamp_value(conf: Conf) -> str:
    return conf.record.stamp if conf.record is not None else own_value(conf, ()) or OWN_STAMP


def _is_users(directive: Directive) -> bool:
    return not is_of_sojourn(directive.place.file) and not _set_by_sojourn(directive)


def _in_subrequest(conf: Conf, level: Level) -> Iterator[Finding]:
    for directive in level.own("proxy_pass"):
        each = Pass(level, directive, level)
        stamps = [header for name, value, header in each.sent() if name in STAMPS and is_stamp_of_sojourn(value)]
        if not stamps:
            continue
        holder = level.holder("proxy_set_header") or level
        inherited = holder is not level
        line = stamps[0].via or stamps[0]
        if inherited:  # one line of its own: repeat all the others
            others = [written(header) for name, _, header in each.sent() if name not in STAMPS]
            text = "\n".join([*blank_lines("proxy", REQUEST_HEADERS[: len(STAMPS)]), *others])
        else:
            brought = {name for name, _, header in each.sent() if line in (header, header.via)}
            # An include of the user's may hold more than Sojourn's lines.
            others = [written(other) for other in level.directive.block if other.via is line and _is_users(other)]
            text = "\n".join([*blank_lines("proxy", conf.guarded, set(REQUEST_NAMES) - brought), *others])
        edit = after(directive, text) if inherited else instead_of(line, text)
        yield Finding(
            "stamp-in-subrequest",
            WARNING,
            level.title,
            f"{level.title} is called by auth_request or mirror, and sends a stamp.",
            "Subrequests share the variables of their request: its stamp would be the time of the authentication, "
            "which would then count as waiting for the app.",
            text,
            place_of(directive if inherited else line, level),
            ADD if inherited else REPLACE,
            (edit,),
        )
