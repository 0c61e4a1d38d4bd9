"""Headers that a client sends under the names that Sojourn reads: does each way to an app set them itself?"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from sojourn.doctor.findings import ADD, REPLACE, WARNING, Finding
from sojourn.doctor.nginx_headers import (
    OWN_STAMP,
    REQUEST_HEADERS,
    REQUEST_NAMES,
    STAMPS,
    RequestHeader,
    blank_lines,
    header_name,
)
from sojourn.doctor.nginx_levels import Conf, Level, Pass, after, instead_of, place_of, word, written
from sojourn.words import printable

CODE = "headers-pass"
_WHY = (
    "A client can forge a queue by an old X-Queue-Start, repeat a request id, or choose the trace. sojourn.conf keeps "
    "what a proxy in front sends, if trusted.conf lists its address."
)
_OF_CLIENT = re.compile(rf"\$\{{?http_(?:{'|'.join(name.replace('-', '_') for name in REQUEST_NAMES)})\b")
_NO_INSTANT = re.compile(r"\$\{?(?:time_iso8601|time_local|date_local|date_gmt|request_time)\b")


def client_findings(conf: Conf) -> Iterator[Finding]:
    """Headers of clients that reach an app, beside the stamps themselves."""
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
            yield from _not_set_in_subrequest(each)


def _sent_on(conf: Conf, found: Pass, holder: Level) -> Iterator[Finding]:
    headers = {header.name.lower(): header for header in REQUEST_HEADERS}
    for name, value, made in found.sent():
        if name not in headers or name in STAMPS or not comes_from_client(conf, value):
            continue
        text = headers[name].line(found.family, headers[name].value if conf.house else headers[name].bare)
        yield Finding(
            CODE,
            WARNING,
            holder.title,
            f"{holder.title} sends on the {headers[name].name} of any client ({printable(value)}).",
            _WHY,
            text,
            place_of(made, holder),
            REPLACE,
            (instead_of(made, text),),
        )


def _not_set(conf: Conf, found: Pass, holder: Level) -> Iterator[Finding]:
    present = _set_or_cleared(found)
    if missing := _missing(present):
        text = "\n".join(override_lines(conf, found, present))
        last = holder.own(found.setter)[-1]
        yield Finding(
            CODE,
            WARNING,
            holder.title,
            f"{holder.title} stamps, and lets {missing} of any client through to {printable(found.target)}.",
            _WHY,
            text,
            place_of(last, holder),
            ADD,
            (after(last, text),),
        )


def _not_set_in_subrequest(found: Pass) -> Iterator[Finding]:
    present = _set_or_cleared(found)
    if missing := _missing(present):
        own = found.level.own(found.setter)
        # With lines of its own the location inherits none any more.
        inherited = [] if own else [written(each) for each in found.level.effective(found.setter)]
        text = "\n".join([*blank_lines(found.family, present), *inherited])
        last = own[-1] if own else found.outermost
        yield Finding(
            CODE,
            WARNING,
            found.level.title,
            f"{found.level.title}, which auth_request or mirror asks, lets {missing} of any client through to "
            f"{printable(found.target)}.",
            "A client can forge the queue that its app measures, and choose the request that a span of that app is "
            "joined to.",
            text,
            place_of(last, found.level),
            ADD,
            (after(last, text),),
        )


def _missing(present: Collection[str]) -> str:
    return ", ".join(header.name for header in REQUEST_HEADERS if header.name.lower() not in present)


def _set_or_cleared(found: Pass) -> set[str]:
    """Headers, in small letters, of which the app is not sent what the client sent."""
    if found.level.value(f"{found.family}_pass_request_headers") == "off":
        return set(REQUEST_NAMES)
    # A directive of the module headers-more, which takes headers out of the request.
    cleared = found.level.effective("more_clear_input_headers")
    names = {name.lower() for each in cleared for text in each.args for name in re.split(r"[\s,]+", text)}
    return names | {name for name, _, _ in found.sent()}


def override_lines(conf: Conf, found: Pass, present: Collection[str], like: Level | None = None) -> list[str]:
    """Return the lines that set the headers that a pass does not set yet.

    Args:
        conf: The configuration.
        found: The pass.
        present: Headers that are set already, in small letters.
        like: A level whose own lines are taken where they do not send on what a client sent.
    """
    kept: dict[str, str] = {}
    for each in like.own(found.setter) if like else []:
        if len(each.args) > 1 and not comes_from_client(conf, each.args[1]):
            kept[header_name(each.args[0])] = written(each)
    return [
        kept.get(header.name.lower()) or header.line(found.family, _value(conf, found, header))
        for header in REQUEST_HEADERS
        if header.name.lower() not in present
    ]


def _value(conf: Conf, found: Pass, header: RequestHeader) -> str:
    """Return the value to send. A stamp without Sojourn's files is the one that the configuration sends already."""
    if conf.house or conf.blank:
        return header.value
    if header.bare != OWN_STAMP:
        return header.bare
    sent = [value for each in (found, *conf.passes) for name, value, _ in each.sent() if name in STAMPS and value]
    own = [value for value in sent if not comes_from_client(conf, value) and not is_no_instant(value)]
    return word(own[0]) if own else OWN_STAMP


def is_no_instant(value: str) -> bool:
    """Return whether a value is a date or a duration of nginx instead of a unix time."""
    return _NO_INSTANT.search(value) is not None


def comes_from_client(conf: Conf, value: str) -> bool:
    """Return whether a value is what any client sent, by itself or by a map that does not look at the peer."""
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
