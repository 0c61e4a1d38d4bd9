"""Check the trusted peers, and which headers of the app reach the log and the client."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator

from sojourn.doctor.findings import ADD, ERROR, INFO, REMOVE, REPLACE, RUN, WARNING, Edit, Finding
from sojourn.doctor.nginx_headers import ANSWER_HEADERS
from sojourn.doctor.nginx_levels import Conf, Level, Pass, after, instead_of, place_of, replacing, without, written
from sojourn.doctor.nginx_records import LEAN
from sojourn.model.formatting import printable
from sojourn.nginx.syntax import Directive

LEAK = "headers-leak"
WIDEST = {4: 8, 6: 16}  # bits: a wider network is not a list of own proxies
# Directive -> (the value with which names with underscores get through, the other one).
_UNDERSCORES = {"underscores_in_headers": ("on", "off"), "ignore_invalid_headers": ("off", "on")}
_LOCAL = ("127.0.0.1", "localhost", "::1", "0.0.0.0", "*", "[::]", "[::1]", "")  # noqa: S104 - names, nothing is bound


def trust_findings(conf: Conf) -> Iterator[Finding]:
    """Yield peers that are trusted and should not be, and the reverse."""
    for geo in conf.http.own("geo"):
        if geo.args[-1:] == ["$sojourn_trusted"]:
            entries = [each for each in geo.block if each.args]
            trusted = [
                each for each in entries if each.args[0] not in ("0", "") and each.name not in ("proxy", "delete")
            ]
            yield from (_too_wide_finding(each) for each in trusted if _too_wide(each.name))
            if not trusted:
                yield from _no_trusted_peer(conf, geo)
    if conf.record is LEAN:
        yield from _unused_peer(conf)
    for level in (conf.http, *conf.levels):
        for each in level.own(*_UNDERSCORES):
            lets_through, safe = _UNDERSCORES[each.name]
            if each.args == [lets_through]:
                yield Finding(
                    "underscores-in-headers",
                    WARNING,
                    level.title,
                    "A client's X_Request_Start and X_Queue_Start reach the app.",
                    "An app that reads headers by their CGI names reads them as X-Request-Start and X-Queue-Start, so "
                    "that any client can stamp.",
                    *replacing(each, f"{each.name} {safe};", level),
                )


def _too_wide(name: str) -> bool:
    if name == "default":
        return True
    try:
        network = ipaddress.ip_network(name, strict=False)
    except ValueError:
        return False
    return network.prefixlen < WIDEST[network.version]


def _too_wide_finding(entry: Directive) -> Finding:
    text = "default 0;" if entry.name == "default" else written(entry)
    edit = instead_of(entry, text) if entry.name == "default" else without(entry)
    return Finding(
        "trust-everybody",  # codespell:ignore everybody
        ERROR,
        printable(entry.name),
        f"{'Every address' if entry.name == 'default' else printable(entry.name)} is trusted to send stamps and ids.",
        "A client that sends an old X-Request-Start forges queueing delay. List your own proxies only.",
        text,
        place_of(entry),
        REPLACE if entry.name == "default" else REMOVE,
        (edit,),
    )


def _peers(conf: Conf) -> list[Directive]:
    """Return the lines that list the proxies in front of this nginx."""
    return [each for level in (conf.http, *conf.levels) for each in level.own("set_real_ip_from") if each.args]


def _unused_peer(conf: Conf) -> Iterator[Finding]:
    for peer in _peers(conf)[:1]:
        yield Finding(
            "inbound-untrusted",
            INFO,
            printable(peer.args[0]),
            f"A balancer is in front of this nginx ({written(peer)}), and the lean record does not use its stamps.",
            "Waiting in front of this nginx is not measured. The full record uses stamps of the peers in trusted.conf.",
            "sojourn uninstall nginx --yes\nsojourn install nginx --record full --yes",
            place_of(peer),
            RUN,
        )


def _no_trusted_peer(conf: Conf, geo: Directive) -> Iterator[Finding]:
    peers = _peers(conf)
    addresses = list(dict.fromkeys(filter(None, (_as_geo(each.args[0]) for each in peers))))
    if not addresses:
        return
    text = "\n".join(f"{address} 1;" for address in addresses)
    file = os.path.join(os.path.dirname(geo.place.file), "trusted.conf")
    is_included = file in conf.read.files
    edit = Edit(file, None, 0, text + "\n") if is_included else after(geo.block[0], text)
    yield Finding(
        "inbound-untrusted",
        WARNING,
        printable(", ".join(addresses[:3])),
        f"A balancer is in front of this nginx ({written(peers[0])}), and no peer is trusted to stamp.",
        "Its stamp, request id and traceparent are dropped: waiting in front of this nginx is not measured. List it "
        "only if it overwrites these headers of its own clients.",
        text,
        printable(file, 300) if is_included else place_of(geo),
        ADD,
        (edit,),
    )


def _as_geo(address: str) -> str | None:
    """Return an address as a geo block writes it; None for a host name. A Unix socket has a fixed address there."""
    if address == "unix:":
        return "255.255.255.255"
    try:
        return (
            str(ipaddress.ip_network(address, strict=False)) if "/" in address else str(ipaddress.ip_address(address))
        )
    except ValueError:
        return None


def header_findings(conf: Conf) -> Iterator[Finding]:
    """Yield headers of the app that reach the client, or do not reach the nginx that logs them."""
    reported: list[Level] = []
    inner = _inner(conf)
    for each in conf.passes:
        if not each.stamped:
            continue
        missing = [name for name in ANSWER_HEADERS if name.lower() not in _hidden(each)]
        passed = {d.args[0].lower() for d in each.level.effective(f"{each.family}_pass_header") if d.args}
        if id(each.level.directive) in inner:
            stripped = [name for name in ANSWER_HEADERS if name not in missing and name.lower() not in passed]
            if stripped:
                yield _stripped(each, stripped)
        elif missing := [name for name in missing if name.lower() not in passed]:
            holder = each.level.holder(f"{each.family}_hide_header") or each.level
            if holder not in reported:
                reported.append(holder)
                yield _leak(each, holder, missing)


def _hidden(handover: Pass) -> set[str]:
    cleared = handover.level.effective("more_clear_headers")
    hides = [*handover.level.effective(f"{handover.family}_hide_header"), *cleared]
    return {name.lower() for each in hides for word in each.args for name in re.split(r"[\s,]+", word)}


def _leak(handover: Pass, holder: Level, missing: list[str]) -> Finding:
    hider = f"{handover.family}_hide_header"
    text = "\n".join(f"{hider} {name};" for name in missing)
    own = holder.own(hider)
    return Finding(
        LEAK,
        WARNING,
        holder.title,
        f"{holder.title} sends {', '.join(missing)} to clients.",
        f"They reveal the load of the app. (nginx inherits {hider} only where a level has none of its own.)",
        text,
        place_of(own[-1] if own else handover.directive, holder),
        ADD,
        (after(own[-1] if own else handover.outermost, text),),
    )


def _stripped(handover: Pass, names: list[str]) -> Finding:
    text = "\n".join(f"{handover.family}_pass_header {name};" for name in names)
    return Finding(
        "headers-stripped",
        ERROR,
        handover.level.title,
        f"{handover.level.title} removes {', '.join(names)} before the nginx in front of it can log them.",
        "With two nginx in a row the inner one must pass the app's headers on; the outer one logs and hides them.",
        text,
        place_of(handover.directive, handover.level),
        ADD,
        (after(handover.outermost, text),),
    )


def _inner(conf: Conf) -> set[int]:
    """Return the ids of the blocks of servers that another server of this configuration proxies to."""
    endpoints: set[str] = set()
    for each in conf.passes:
        upstream = conf.upstreams.get(each.target)
        targets = [d.args[0] for d in upstream.all("server") if d.args] if upstream else [each.target]
        endpoints.update(_endpoint(target) for target in targets)
    blocks: set[int] = set()
    for level in conf.levels:
        if level.directive.name != "server":
            continue
        listens = [_endpoint(each.args[0], listens=True) for each in level.own("listen") if each.args]
        if any(each in endpoints for each in listens):
            blocks.update(id(inner.directive) for inner in conf.levels if level in inner.above())
    return blocks


def _endpoint(text: str, *, listens: bool = False) -> str:
    """Return ``:8080`` for a port of this machine, otherwise the address with its port, or a socket's path."""
    if text.startswith(("unix:", "/")):
        return text.removeprefix("unix:").rstrip(":")
    if text.isdigit():
        return f":{text}" if listens else text
    host, _, port = text.rpartition(":") if re.search(r":\d+$", text) else (text, "", "80")
    return f":{port}" if host in _LOCAL else f"{host}:{port}"
