"""The requests that reach locations of a configuration: address, server name and path of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address

from sojourn.doctor.nginx_levels import Level

_PORT = re.compile(r"(?:(?P<host>\[[^\]]*\]|[^:\[\]]*):)?(?P<port>[0-9]{1,5})")
_NOT_TCP = {"quic", "udp"}
# Parts of a regular expression -> a text that matches the part; in this order.
_SAMPLES = (
    (r"\(\?[a-z]+\)", ""),
    (r"\(\?<?[=!](?:[^()\\]|\\.)*\)", ""),
    (r"\(\?(?:P?<\w+>|:)", "("),
    (r"\\d|\[0-9\]", "1"),
    (r"\\w|\[(?:[^\]\\]|\\.)*a-z(?:[^\]\\]|\\.)*\]", "a"),
    (r"\[\^(?:[^\]\\]|\\.)*\]", "a"),
    (r"\[([^\]\\^])(?:[^\]\\]|\\.)*\]", r"\1"),
    (r"\.(?=[*+?])", "a"),
)
_COUNTED = re.compile(r"(\\?.)\{(\d+)[^}]*\}")
_QUANTIFIER = re.compile(r"(?<!\\)[*+?]")
_MOST_REPEATED = 64
_GROUP = re.compile(r"\(([^()|]*)(?:\|[^()]*)?\)")
_NO_FILE = "sojourn-install"
_USUAL = ("/", "/index.php", "/api/", "/api/1", "/1", "/a", "/users/1", "/a/b")


@dataclass(frozen=True)
class Target:
    """A request that reaches a location.

    Attributes:
        level: the location, or a server without one.
        address: (host, port), or the path of a Unix socket.
        host: the value of the Host header.
        path: of the URI.
        tls, http2, proxy_protocol: what the listening socket expects.
    """

    level: Level
    address: tuple[str, int] | str
    host: str
    path: str
    tls: bool
    http2: bool
    proxy_protocol: bool


def target_of(level: Level) -> Target | str:
    """Return a request that reaches a level, or the reason why there is none."""
    around = [level, *level.above()]
    server = next((each for each in around if each.directive.name == "server"), None)
    if server is None:
        return "it is in no server"
    if any(each.own("internal") for each in around):
        return "it is internal"
    locations = [each for each in around if each.directive.name == "location"]
    path = _path_of(locations[0].directive.args) if locations else "/"
    if path is None and locations:
        path = _path_to_named(server, locations[0].directive.args[-1])
    if path is None:
        return "no request of a client reaches it by itself"
    listens = [each.args for each in server.own("listen") if each.args and not _NOT_TCP & set(each.args)]
    words = listens[0] if listens else ["80"]
    address = _address_of(words[0])
    if address is None:
        return f"its address {words[0]} cannot be used"
    tls = "ssl" in words or server.value("ssl") == "on"
    http2 = not tls and ("http2" in words or (server.value("http2") == "on" and bool(_grpc(level))))
    return Target(level, address, _host_of(server), path, tls, http2, "proxy_protocol" in words)


def _grpc(level: Level) -> bool:
    return bool(level.own("grpc_pass"))


def _address_of(text: str) -> tuple[str, int] | str | None:
    if text.startswith("unix:"):
        return text.removeprefix("unix:")
    match = _PORT.fullmatch(text)
    host, port = (match["host"] or "", int(match["port"])) if match else (text, 80)
    if port > 65_535:
        return None
    if host in ("", "*"):
        return "127.0.0.1", port
    plain = host.strip("[]")
    try:
        address = ip_address(plain)
    except ValueError:
        return plain, port
    # A socket at every address answers at this machine's own.
    return (("::1" if address.version == 6 else "127.0.0.1") if address.is_unspecified else plain), port


def _host_of(server: Level) -> str:
    names = [name for each in server.own("server_name") for name in each.args]
    for name in names:
        if name.startswith("~"):
            sample = _sample(name[1:], ("www.example.com", "a.example.com", "localhost"))
            if sample is not None:
                return sample
        elif name not in ("", "_"):
            plain = name.removeprefix("*.") if name.startswith(".") else name
            return plain.replace("*", "www").strip(".")
    return "localhost"


def _path_of(args: list[str]) -> str | None:
    if not args or args[-1].startswith("@"):
        return None
    if args[0] in ("~", "~*"):
        return _sample(args[-1], _USUAL)
    return args[-1] if args[-1].startswith("/") else f"/{args[-1]}"


def _path_to_named(server: Level, name: str) -> str | None:
    """Return the path of a file that does not exist, where ``try_files`` leads on to a named location."""
    locations = [Level(each, server) for each in server.directive.block if each.name == "location"]
    for level in (*locations, server):
        if any(each.args[-1:] == [name] for each in level.own("try_files")):
            path = _path_of(level.directive.args) if level is not server else "/"
            if path is not None:
                return path if level.directive.args[:1] == ["="] else f"{path.rstrip('/')}/{_NO_FILE}"
    return None


def _sample(pattern: str, usual: tuple[str, ...]) -> str | None:
    """Return a text that a regular expression matches; None if no attempt succeeds."""
    in_python = pattern.replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!")
    for text in _attempts(pattern, usual):
        try:
            if re.search(in_python, text, re.I):
                return text
        except re.error:
            return None
    return None


def _attempts(pattern: str, usual: tuple[str, ...]) -> Iterator[str]:
    yield from usual
    text = pattern
    for part, sample in _SAMPLES:
        text = re.sub(part, sample, text)
    text = _COUNTED.sub(lambda match: match[1] * min(int(match[2]), _MOST_REPEATED), text)
    text = _QUANTIFIER.sub("", text)
    while (shorter := _GROUP.sub(r"\1", text)) != text:
        text = shorter
    text = re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\)[\^$]", "", text)).partition("|")[0]
    if not usual[0].startswith("/"):
        yield text
    elif text.startswith("/"):
        yield from (text, f"{text.rstrip('/')}/1")
    else:
        yield from (f"/a{text}", f"/{text}")
