"""Check that each location replaces the client's values of the headers that Sojourn reads."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from sojourn.doctor.findings import WARNING, Finding
from sojourn.doctor.nginx_headers import (
    GUARDED,
    NO_INSTANTS,
    OWN_STAMP,
    REQUEST_NAMES,
    STAMPS,
    RequestHeader,
    blank_lines,
    header_name,
)
from sojourn.doctor.nginx_levels import Conf, Level, Pass, adding, replacing, word, written
from sojourn.doctor.nginx_own_stamp import own_value
from sojourn.model.formatting import printable

CODE = "headers-pass"
_WHY = (
    "A client can forge a queue by an old X-Queue-Start, or repeat a request id. sojourn.conf keeps what a proxy in "
    "front sends, if trusted.conf lists its address."
)
_OF_CLIENT = re.compile(rf"\$\{{?http_(?:{'|'.join(name.replace('-', '_') for name in REQUEST_NAMES)})\b")
_NO_INSTANT = re.compile(rf"\$\{{?(?:{'|'.join(NO_INSTANTS)})\b")


def client_findings(conf: Conf) -> Iterator[Finding]:
    """Yield findings about client headers that reach an app; stamps have findings of their own."""
    checked: set[tuple[int, str]] = set()
    subrequests = [] if conf.blank else conf.subrequest_passes
    for each in [*conf.passes, *subrequests]:
        holder = each.level.holder(each.setter) or each.level
        key = (id(holder.directive), each.family)
        if key not in checked:
            checked.add(key)
            yield from _sent_on(conf, each, holder)
            if each.stamped and each not in subrequests:
                yield from _not_set(conf, each, holder)
        if each in subrequests:
            yield from _not_set_in_subrequest(conf, each)


def _sent_on(conf: Conf, handover: Pass, holder: Level) -> Iterator[Finding]:
    headers = {header.name.lower(): header for header in conf.guarded}
    for name, value, line in handover.sent():
        if name not in headers or name in STAMPS or not comes_from_client(conf, value):
            continue
        header = headers[name]
        text = header.line(handover.family, header.bare if conf.record is None else conf.record.value(header))
        yield Finding(
            CODE,
            WARNING,
            holder.title,
            f"{holder.title} sends on the {header.name} of any client ({printable(value)}).",
            _WHY,
            *replacing(line, text, holder),
        )


def _not_set(conf: Conf, handover: Pass, holder: Level) -> Iterator[Finding]:
    present = _set_or_cleared(handover)
    if missing := _missing(conf, present):
        text = "\n".join(override_lines(conf, handover, present))
        last = holder.own(handover.setter)[-1]
        yield Finding(
            CODE,
            WARNING,
            holder.title,
            f"{holder.title} stamps, and lets {missing} of any client through to {printable(handover.target)}.",
            _WHY,
            *adding(last, text, holder),
        )


def _not_set_in_subrequest(conf: Conf, handover: Pass) -> Iterator[Finding]:
    present = _set_or_cleared(handover)
    if missing := _missing(conf, present):
        own = handover.level.own(handover.setter)
        # A location with lines of its own inherits none.
        inherited = [] if own else [written(each) for each in handover.level.effective(handover.setter)]
        text = "\n".join([*blank_lines(handover.family, conf.guarded, present), *inherited])
        last = own[-1] if own else handover.outermost
        yield Finding(
            CODE,
            WARNING,
            handover.level.title,
            f"{handover.level.title}, called by auth_request or mirror, lets {missing} of any client through to "
            f"{printable(handover.target)}.",
            "A client can forge the queue that its app measures, and choose the request that a span of that app is "
            "joined to.",
            *adding(last, text, handover.level),
        )


def _missing(conf: Conf, present: Collection[str]) -> str:
    return ", ".join(header.name for header in conf.guarded if header.name.lower() not in present)


def _set_or_cleared(handover: Pass) -> set[str]:
    """Return the headers, in small letters, that nginx sets or drops: a client's value does not reach the app."""
    if handover.level.value(f"{handover.family}_pass_request_headers") == "off":
        return set(REQUEST_NAMES)
    # A directive of the module headers-more, which takes headers out of the request.
    cleared = handover.level.effective("more_clear_input_headers")
    names = {name.lower() for each in cleared for text in each.args for name in re.split(r"[\s,]+", text)}
    return names | {name for name, _, _ in handover.sent()}


def override_lines(conf: Conf, handover: Pass, present: Collection[str], like: Level | None = None) -> list[str]:
    """Return the lines that set the headers that a location to an app does not set yet.

    Args:
        conf: the configuration.
        handover: where requests are handed to an app.
        present: headers that are set already, in small letters.
        like: a level whose lines are kept where they do not send on a client's value.
    """
    own_lines: dict[str, str] = {}
    for each in like.own(handover.setter) if like else []:
        if len(each.args) > 1 and not comes_from_client(conf, each.args[1]):
            own_lines[header_name(each.args[0])] = written(each)
    return [
        own_lines.get(header.name.lower()) or header.line(handover.family, _value(conf, handover, header))
        for header in (GUARDED if conf.usable_record is None else conf.usable_record.headers)
        if header.name.lower() not in present
    ]


def _value(conf: Conf, handover: Pass, header: RequestHeader) -> str:
    """Return the value to send; for a stamp without Sojourn's files, the one that the configuration logs or sends."""
    if conf.usable_record is not None:
        return conf.usable_record.value(header)
    if header.bare != OWN_STAMP:
        return header.bare
    sent = [value for each in (handover, *conf.passes) for name, value, _ in each.sent() if name in STAMPS and value]
    own = [value for value in sent if not comes_from_client(conf, value) and not is_no_instant(value)]
    return own_value(conf, own) or (word(own[0]) if own else OWN_STAMP)


def is_no_instant(value: str) -> bool:
    """Return whether a value is a date or a duration of nginx instead of a unix time."""
    return _NO_INSTANT.search(value) is not None


def comes_from_client(conf: Conf, value: str) -> bool:
    """Return whether a value is a client's, directly or through a map that does not depend on the peer."""
    if _OF_CLIENT.search(value):
        return True
    peers = {f"${each.args[-1].lstrip('$')}" for each in conf.http.own("geo") if each.args}
    names = [name for name in re.findall(r"\$\{?(\w+)", value) if not name.startswith("sojourn_")]
    return any(
        _OF_CLIENT.search(entry.args[0])
        for each in conf.http.own("map")
        if len(each.args) == 2 and each.args[1].lstrip("$") in names
        if "trusted" not in each.args[0] and each.args[0] not in peers
        for entry in each.block
        if entry.args
    )
