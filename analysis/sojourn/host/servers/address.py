"""The address at which a server is queried, without its secrets wherever it is shown."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from sojourn.model.dsn import hidden
from sojourn.model.formatting import printable

HTTP_PORTS = {"http": 80, "https": 443}
VISIBLE = ("qry", "json", "full", "format")
"""Parameters of a query whose values are shown; any other may be a secret, such as the token of Puma's control app."""

LONGEST = 2_000  # characters of an address

_PLAIN = re.compile(r"(?P<host>\[[^\]/]+\]|[^:/\[\]]+):(?P<port>[0-9]{1,5})(?P<target>/.*)?")
_PARAMETER = re.compile(r"(?<=[?&])(?P<name>[^=&#]*)=(?P<value>[^&#]*)")


@dataclass(frozen=True)
class Address:
    """Where a server is queried.

    Attributes:
        redacted: the address as it is printed and recorded: passwords and tokens are replaced by ``…``.
        scheme: http, https, or empty: the server's own protocol, over TCP or a Unix socket.
        host, port: of TCP; localhost for a Unix socket.
        socket: path, or ``@name``, of a Unix socket; None: TCP.
        target: path and query.
        authorization: value of the HTTP header; None: none.
    """

    redacted: str
    scheme: str
    host: str
    port: int
    socket: str | None = None
    target: str = field(default="", repr=False)
    authorization: str | None = field(default=None, repr=False)


def parse(text: str) -> Address:
    """Parse ``http[s]://[USER:PASSWORD@]HOST[:PORT][/PATH]``, ``HOST:PORT[/PATH]``, or a Unix socket.

    Unix sockets are ``unix:/SOCKET[:/PATH]`` and ``http://unix:/SOCKET[:/PATH]``, as in nginx's proxy_pass.

    Raises:
        ValueError: it is none of these; the message is empty.
    """
    if len(text) > LONGEST or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    elif scheme not in HTTP_PORTS:
        raise ValueError
    if rest.startswith(("unix:/", "unix:@")) and scheme != "https":
        path, _, target = rest.removeprefix("unix:").partition(":")
        if len(path) < 2 or (target and not target.startswith("/")):
            raise ValueError
        return Address(_without_values(text), scheme, "localhost", 80, path, target)
    if not scheme:
        match = _PLAIN.fullmatch(text)
        if match is None or not 0 < int(match["port"]) < 65_536:
            raise ValueError
        host, port = match["host"].strip("[]"), int(match["port"])
        return Address(_without_values(text), "", host, port, target=match["target"] or "")
    parts = urlsplit(text)
    if not parts.hostname or parts.port == 0 or "@" in parts.path:
        raise ValueError
    user = None
    if parts.username is not None:
        user = base64.b64encode(unquote(f"{parts.username}:{parts.password or ''}").encode()).decode()
    host, port = parts.hostname, parts.port or HTTP_PORTS[scheme]
    return Address(
        redacted=_without_values(_without_password(text)),
        scheme=scheme,
        host=host,
        port=port,
        target=parts.path + (f"?{parts.query}" if parts.query else ""),
        authorization=None if user is None else f"Basic {user}",
    )


def concealed(text: str) -> str:
    """Return any text given for an address, fit for a message: without what may be a password or a token."""
    return printable(_without_values(hidden(text)))


def _without_password(text: str) -> str:
    scheme, _, rest = text.partition("://")
    authority, slash, target = rest.partition("/")
    return f"{hidden(f'{scheme}://{authority}')}{slash}{target}" if "@" in authority else text


def _without_values(text: str) -> str:
    return _PARAMETER.sub(lambda match: match[0] if match["name"] in VISIBLE else f"{match['name']}=…", text)
