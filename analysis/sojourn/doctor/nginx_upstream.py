"""Between nginx and the app: connections kept open, buffers, retries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sojourn.capture.nginx_syntax import Directive
from sojourn.doctor.findings import ADD, INFO, REPLACE, WARNING, Edit, Finding
from sojourn.doctor.nginx_levels import Conf, Pass, after, instead_of, place_of, written
from sojourn.words import printable

KEPT_BY_DEFAULT = (1, 29, 7)  # nginx since when connections to an upstream are kept, and HTTP/1.1 is spoken
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "M": 2592000.0, "y": 31536000.0}
LONG = 30.0  # s: a retry after so long a wait is a second queue
DEFAULT_TIMEOUT = "60s"


def upstream_findings(conf: Conf) -> Iterator[Finding]:
    """What is wrong between nginx and the app."""
    yield from _keepalive(conf)
    seen: list[int] = []
    for each in conf.passes:
        for finding, made in (*_buffering(each), *_retries(conf, each)):
            if id(made) not in seen:
                seen.append(id(made))
                yield finding


def _keepalive(conf: Conf) -> Iterator[Finding]:
    if conf.version is not None and conf.version >= KEPT_BY_DEFAULT:
        return
    told: set[str] = set()
    for each in conf.passes:
        upstream = conf.upstreams.get(each.target)
        if each.family != "proxy" or upstream is None:
            continue
        kept = [d for d in upstream.block if d.name == "keepalive" and d.args[:1] != ["0"]]
        if kept:
            yield from _unused(conf, each)
        elif each.target not in told:
            told.add(each.target)
            yield _not_kept(each, upstream)


def _not_kept(found: Pass, upstream: Directive) -> Finding:
    last = upstream.block[-1] if upstream.block else upstream
    edits = [after(last, "keepalive 32;")]
    lines = ["keepalive 32;"]
    if more := _speaking(found):
        edits.append(after(_anchor(found), "\n".join(more)))
        lines = [f"# in upstream {printable(found.target)}:", *lines, f"# in {found.level.title}:", *more]
    return Finding(
        "keepalive-missing",
        INFO,
        f"upstream {printable(found.target)}",
        f"Connections to the upstream {printable(found.target)} are not kept open.",
        "Every request pays for a connection of its own, and that counts as queueing delay. (An app server with sync "
        "workers keeps none: leave it so there.)",
        "\n".join(lines),
        place_of(upstream),
        ADD,
        tuple(edits),
    )


def _anchor(found: Pass) -> Directive:
    """Behind what new lines may stand: the location's own headers, or the pass."""
    own = found.level.own("proxy_set_header")
    return own[-1] if own else found.outermost


def _speaking(found: Pass) -> list[str]:
    """The lines a location lacks for its connections to be kept."""
    lines = []
    if found.level.value("proxy_http_version", "1.0") == "1.0":
        lines.append("proxy_http_version 1.1;")
    values = [value for name, value, _ in found.sent() if name == "connection"]
    if not values or (values[-1] and "$" not in values[-1]):
        lines.append('proxy_set_header Connection "";')
        if not found.level.own("proxy_set_header"):
            lines += [
                written(d)
                for d in found.level.effective("proxy_set_header")
                if d.args and d.args[0].lower() != "connection"
            ]
    return lines


def _unused(conf: Conf, found: Pass) -> Iterator[Finding]:
    lines = _speaking(found)
    for entry in _closing(conf, found):
        text = f'{_quoted(entry.name)} "";'
        yield _not_used(found, text, place_of(entry), REPLACE, (instead_of(entry, text),))
    if not lines:
        return
    versions = [d for d in found.level.own("proxy_http_version") if d.args == ["1.0"]]
    wrong = [
        made
        for name, value, made in found.sent()
        if name == "connection" and value and "$" not in value and made in found.level.own("proxy_set_header")
    ]
    edits = []
    left = list(lines)
    for made, text in (*((d, lines[0]) for d in versions), *((d, 'proxy_set_header Connection "";') for d in wrong)):
        edits.append(instead_of(made, text))
        left = [line for line in left if line != text]
    if left:
        edits.append(after(_anchor(found), "\n".join(left)))
    yield _not_used(found, "\n".join(lines), place_of(found.directive, found.level), ADD, tuple(edits))


def _not_used(found: Pass, text: str, where: str, how: str, edits: tuple[Edit, ...]) -> Finding:
    return Finding(
        "keepalive-unused",
        WARNING,
        found.level.title,
        f"{found.level.title} does not use the kept connections of {printable(found.target)}.",
        "keepalive in the upstream needs HTTP/1.1 and an empty Connection header in the location; without them nginx "
        "closes every connection after one request.",
        text,
        where,
        how,
        edits,
    )


def _closing(conf: Conf, found: Pass) -> list[Directive]:
    """Entries of the usual map for WebSockets that close the connection of every request that is none."""
    values = [value for name, value, _ in found.sent() if name == "connection"]
    maps = [each for each in conf.http.own("map") if values and each.args[-1:] == values[-1:]]
    return [entry for each in maps for entry in each.block if entry.name == "" and entry.args == ["close"]]


def _quoted(text: str) -> str:
    return text or '""'


def _buffering(found: Pass) -> Iterator[tuple[Finding, Directive]]:
    level, family = found.level, found.family
    for name, code, severity, what, why, better in (
        (
            f"{family}_request_buffering",
            "upload-unbuffered",
            WARNING,
            "hands uploads on as they come",
            "The stamp is set before the body is read: a slow upload looks like queueing, and holds a worker.",
            "on",
        ),
        (
            f"{family}_buffering",
            "answer-unbuffered",
            WARNING,
            "hands answers on as they come",
            "A slow client holds the worker, and its time counts as the app's. (Right for event streams only.)",
            "on",
        ),
    ):
        for each in level.effective(name):
            if each.args == ["off"]:
                text = f"{name} {better};"
                yield _instead(code, severity, found, each, f"{level.title} {what}.", why, text), each
    for each in level.effective(f"{family}_max_temp_file_size"):
        if each.args == ["0"]:
            what = f"{level.title} keeps no large answer: beyond its buffers the client sets the pace."
            why = "A slow client then holds the worker until the rest fits into the buffers."
            text = f"{family}_max_temp_file_size 1024m;"
            yield _instead("answer-unbuffered", INFO, found, each, what, why, text), each


def _instead(code: str, severity: str, found: Pass, each: Directive, what: str, why: str, text: str) -> Finding:
    holder = found.level.holder(each.name) or found.level
    where = place_of(each, holder)
    return Finding(code, severity, holder.title, what, why, text, where, REPLACE, (instead_of(each, text),))


def _retries(conf: Conf, found: Pass) -> Iterator[tuple[Finding, Directive]]:
    level, family = found.level, found.family
    upstream = conf.upstreams.get(found.target)
    name = f"{family}_next_upstream"
    lines = level.effective(name)
    conditions = lines[-1].args if lines else ["error", "timeout"]
    servers = [d for d in upstream.block if d.name == "server" and "down" not in d.args] if upstream else []
    bounded = level.value(f"{name}_timeout", "0") not in ("0", "0s") or level.value(f"{name}_tries", "0") != "0"
    wait = level.value(f"{family}_read_timeout", DEFAULT_TIMEOUT)
    if len(servers) < 2 or "off" in conditions or "timeout" not in conditions or bounded or _seconds(wait) < LONG:
        return
    again = "non_idempotent" in conditions
    text = f"{name}_tries 2;\n{name}_timeout 10s;"
    made = lines[-1] if lines else found.directive
    holder = level.holder(name) or level
    edit = after(made if lines else found.outermost, text)
    finding = Finding(
        "retries-unbounded",
        WARNING if again else INFO,
        holder.title,
        f"{holder.title} may wait {wait} for each of {len(servers)} servers of {printable(found.target)} in turn.",
        "A request that waited in vain joins the next queue, and the first app still works on it."
        + (" With non_idempotent, orders are placed twice." if again else ""),
        text,
        place_of(made, holder),
        ADD,
        (edit,),
    )
    yield finding, made if lines else holder.directive


def _seconds(text: str) -> float:
    """Of a time as nginx has it: ``30``, ``500ms``, ``1m30s``."""
    return sum(int(digits) * _UNITS[unit or "s"] for digits, unit in re.findall(r"([0-9]{1,15})(ms|[smhdwMy]?)", text))
