"""Kept-alive connections to an app: an advantage for some servers, additional queueing for others.

One rule, by how the server treats a kept connection (``sojourn.doctor.app_servers``):

- ``SHARED``: any free worker takes its next request. Keeping saves a connect per request.
- ``BOUND``: it belongs to one worker. Its next request waits for that worker beside others that are free.
- ``PER_PROCESS``: it belongs to one process. Nothing is proposed, either way.
- ``CLOSED``: the server closes it after each answer. Keeping it is of no use and does no harm.
- ``UNKNOWN``: the condition is stated, and nothing is proposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from shlex import quote

from sojourn.doctor.app_lookup import plain_address, unix_path
from sojourn.doctor.app_servers import BOUND, SHARED, UNKNOWN, AppServer
from sojourn.doctor.findings import ADD, INFO, REMOVE, REPLACE, RUN, WARNING, Diagnosis, Edit, Finding
from sojourn.doctor.nginx_levels import Conf, Pass, after, instead_of, place_of, replacing, without, written
from sojourn.model.formatting import counted, milliseconds, printable
from sojourn.nginx.syntax import Directive

KEEPALIVE_BY_DEFAULT = (1, 29, 7)  # nginx since when connections to an upstream are kept, and HTTP/1.1 is spoken
WORTH = 0.001  # s: nginx counts in milliseconds
ENOUGH = 100  # answers
EITHER_VERSION = "nginx 1.29.7 and later keep them without these lines."
VERSION_LINE = "proxy_http_version 1.1;"
CONNECTION_LINE = 'proxy_set_header Connection "";'
EMPTY_CONNECTION = '"" "";'  # of a map that closed the connections of requests without Upgrade
HELPS = (
    "Keeping them (keepalive 32) saves a connect per request where any free worker takes the next request of a "
    "connection: Node, Go, one process of an ASGI server, Java's servers, another proxy."
)
HARMS = (
    "Where a connection belongs to one worker or process (Puma, PHP-FPM, gunicorn's threads, Apache, several processes "
    "of any server) requests may wait for a busy one beside a free one: leave it as it is."
)


def keepalive_findings(conf: Conf) -> Iterator[Finding]:
    """Yield findings about kept connections, or missing ones, for each upstream."""
    by_default = conf.version is not None and conf.version >= KEEPALIVE_BY_DEFAULT
    done: set[str] = set()
    for each in conf.passes:
        upstream = conf.upstreams.get(each.target)
        if upstream is None or each.family not in ("proxy", "fastcgi"):
            continue
        server = conf.server_of(each)
        lines = [d for d in upstream.block if d.name == "keepalive" and d.args]
        keeps_connections = lines[-1].args[0] != "0" if lines else by_default
        if server.connections == BOUND:
            if keeps_connections and each.target not in done and _used(conf, each, by_default=by_default):
                done.add(each.target)
                yield _harmful(each, upstream, lines, server, by_default=by_default)
        elif each.family == "fastcgi":
            continue
        elif keeps_connections:
            yield from _unused(conf, each, server, by_default=by_default, configured=bool(lines))
        elif each.target not in done:
            done.add(each.target)
            yield from _keepalive_missing(conf, each, upstream, server)


def _used(conf: Conf, handover: Pass, *, by_default: bool) -> bool:
    """Return whether a location uses the kept connections of its upstream."""
    if handover.family == "fastcgi":
        return handover.level.value("fastcgi_keep_conn") == "on"
    return not (_missing_lines(handover, by_default=by_default) or _closing_entries(conf, handover))


def _harmful(
    handover: Pass, upstream: Directive, lines: list[Directive], server: AppServer, *, by_default: bool
) -> Finding:
    target = printable(handover.target)
    what = f"Connections to the upstream {target} are kept open, and {server.name} does not share them among workers."
    why = (
        f"{server.why[:1].upper()}{server.why[1:]}: requests wait for a busy worker beside a free one, and that wait "
        "looks like too few workers."
    )
    subject = f"upstream {target}"
    if lines and not by_default:
        edits = tuple(map(without, lines))
        text = "\n".join(map(written, lines))
        return Finding("keepalive-bound", WARNING, subject, what, why, text, place_of(lines[-1]), REMOVE, edits)
    text = "keepalive 0;"
    if lines:  # without them nginx would keep connections by default
        edits = (*map(without, lines[:-1]), instead_of(lines[-1], text))
        return Finding("keepalive-bound", WARNING, subject, what, why, text, place_of(lines[-1]), REPLACE, edits)
    edit = after(upstream.block[-1] if upstream.block else upstream, text)
    return Finding("keepalive-bound", WARNING, subject, what, why, text, place_of(upstream), ADD, (edit,))


def _keepalive_missing(conf: Conf, handover: Pass, upstream: Directive, server: AppServer) -> Iterator[Finding]:
    if server.connections not in (SHARED, UNKNOWN) or all(map(unix_path, conf.addresses(handover))):
        return  # a connect to a unix socket costs next to nothing
    target = printable(handover.target)
    subject, where = f"upstream {target}", place_of(upstream)
    if server.connections == UNKNOWN:
        what = f"Connections to the upstream {target} are not kept open, and the server behind it is unknown."
        why = f"{HELPS} {HARMS}{_doubt(conf)}"
        yield Finding("keepalive-missing", INFO, subject, what, why, _question(conf), where, RUN)
        return
    edits = [after(upstream.block[-1] if upstream.block else upstream, "keepalive 32;")]
    lines = ["keepalive 32;"]
    if more := _missing_lines(handover, by_default=False):
        edits.append(after(_anchor(handover), "\n".join(more)))
        lines = [f"# in upstream {target}:", *lines, f"# in {handover.level.title}:", *more]
    yield Finding(
        "keepalive-missing",
        INFO,
        subject,
        f"Connections to the upstream {target} are not kept open.",
        f"Every request pays for a connection of its own, and that counts as queueing delay. {server.name} hands the "
        f"next request of a kept connection to any free worker.{_doubt(conf)}",
        "\n".join(lines),
        where,
        ADD,
        tuple(edits),
    )


def weigh_connects(confs: Iterable[Conf], diagnosis: Diagnosis) -> None:
    """Compare ``keepalive-missing`` of configurations with the connect times of the logs read with them."""
    addresses: dict[str, set[str]] = {}
    for conf in confs:
        for each in conf.passes:
            if each.target in conf.upstreams:
                addresses.setdefault(each.target, set()).update(conf.addresses(each))
    for upstream, backends in addresses.items():
        measured = [each for backend, each in diagnosis.connects.items() if plain_address(backend) in backends]
        answers = sum(count for count, _ in measured)
        if answers < ENOUGH:
            continue
        mean = sum(count * connect for count, connect in measured) / answers
        name = f"upstream {printable(upstream)}"
        cost = f"Connecting took {milliseconds(mean)} ms on average, on {counted(answers, 'answer')}."
        missing = [one for one in diagnosis.findings if one.code == "keepalive-missing" and one.subject == name]
        for finding in missing:
            diagnosis.findings.remove(finding)
            if mean >= WORTH:
                diagnosis.findings.append(replace(finding, why=f"{cost} {finding.why}"))
            else:
                diagnosis.checked.append(f"connecting to {name} takes {milliseconds(mean)} ms on average")


def _doubt(conf: Conf) -> str:
    """Return a sentence on nginx's version where it is unknown."""
    return f" {EITHER_VERSION}" if conf.version is None else ""


def _anchor(handover: Pass) -> Directive:
    """Return the directive after which new lines are inserted: the location's last header, or the pass."""
    own = handover.level.own("proxy_set_header")
    return own[-1] if own else handover.outermost


def _missing_lines(handover: Pass, *, by_default: bool) -> list[str]:
    """Return the lines that a location needs to keep its connections."""
    lines = []
    if handover.level.value("proxy_http_version", "1.1" if by_default else "1.0") == "1.0":
        lines.append(VERSION_LINE)
    values = [value for name, value, _ in handover.sent() if name == "connection"]
    if not (values or by_default) or (values and values[-1] and "$" not in values[-1]):
        lines.append(CONNECTION_LINE)
        if not handover.level.own("proxy_set_header"):
            lines += [
                written(d)
                for d in handover.level.effective("proxy_set_header")
                if d.args and d.args[0].lower() != "connection"
            ]
    return lines


def _unused(conf: Conf, handover: Pass, server: AppServer, *, by_default: bool, configured: bool) -> Iterator[Finding]:
    if not configured and all(map(unix_path, conf.addresses(handover))):
        return
    severity = WARNING if configured else INFO  # of nginx's default, the location's lines may be on purpose
    lines, closing = _missing_lines(handover, by_default=by_default), _closing_entries(conf, handover)
    where = place_of(handover.directive, handover.level)
    if server.connections == UNKNOWN and (lines or closing):
        yield _not_used(handover, INFO, f"{HELPS} {HARMS}", _question(conf), where, RUN)
    if server.connections != SHARED:
        return
    why = (
        "keepalive in the upstream needs HTTP/1.1 and an empty Connection header in the location; without them nginx "
        "closes every connection after one request."
    )
    for entry in closing:
        yield _not_used(handover, severity, why, *replacing(entry, EMPTY_CONNECTION))
    if lines:
        yield _not_used(handover, severity, why, "\n".join(lines), where, ADD, _edits(handover, lines))


def _edits(handover: Pass, lines: list[str]) -> tuple[Edit, ...]:
    """Return the edits that insert lines into a location, in place of its own wrong ones or after the others."""
    own = handover.level.own("proxy_set_header")
    replaced = {VERSION_LINE: [d for d in handover.level.own("proxy_http_version") if d.args == ["1.0"]]}
    replaced[CONNECTION_LINE] = [
        line
        for name, value, line in handover.sent()
        if name == "connection" and value and "$" not in value and line in own
    ]
    edits = [instead_of(old, line) for line in lines for old in replaced.get(line, ())]
    if added := [line for line in lines if not replaced.get(line)]:
        edits.append(after(_anchor(handover), "\n".join(added)))
    return tuple(edits)


def _not_used(
    handover: Pass, severity: str, why: str, text: str, where: str, how: str, edits: tuple[Edit, ...] = ()
) -> Finding:
    what = f"{handover.level.title} does not use the kept connections of {printable(handover.target)}."
    return Finding("keepalive-unused", severity, handover.level.title, what, why, text, where, how, edits)


def _question(conf: Conf) -> str:
    """Return the command that identifies the server of an app."""
    return "ss -ltnp" if conf.probed else f"sojourn doctor {quote(str(conf.path))} --ask-backends"


def _closing_entries(conf: Conf, handover: Pass) -> list[Directive]:
    """Return the entries of the usual map for WebSockets that close the connection of every other request."""
    values = [value for name, value, _ in handover.sent() if name == "connection"]
    maps = [each for each in conf.http.own("map") if values and each.args[-1:] == values[-1:]]
    return [entry for each in maps for entry in each.block if entry.name == "" and entry.args == ["close"]]
