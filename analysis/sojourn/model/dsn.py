"""The DSN of a store, and its password, which may come from elsewhere."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from sojourn.model.errors import SojournError

SCHEMES = ("chdb", "clickhouse", "clickhouses")
DEFAULT_DATABASE = "sojourn"
PASSWORD = "SOJOURN_STORE_PASSWORD"  # noqa: S105 - the name of the variable
QUOTED = "in a password, / is written %2F, ? %3F, # %23 and @ %40"
SHAPES = "chdb:///path, clickhouse://host[:port][/database] or clickhouses://host[:port][/database]"


@dataclass(frozen=True)
class Dsn:
    """The parts of a store's address.

    Attributes:
        scheme: one of ``SCHEMES``; clickhouse is HTTP, clickhouses HTTPS.
        database: the store's database.
        path: folder of the embedded engine; empty for a server.
        host, port, user, password: of a server.
        ca: a file with certificates to trust, for a server with one of its own; empty: those the system trusts.
        timeout: s a server may say nothing before it is given up; 0: 30 when it is opened, 300 while it works.
    """

    scheme: str
    database: str = DEFAULT_DATABASE
    path: str = ""
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    ca: str = ""
    timeout: int = 0

    @property
    def embedded(self) -> bool:
        """Whether the engine runs in this process."""
        return self.scheme == "chdb"

    def without_password(self, text: str) -> str:
        """Return ``text``, a server's response, without the password and without the header that carried it."""
        if not self.password:
            return text
        header = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return text.replace(header, "…").replace(self.password, "…")

    def __str__(self) -> str:
        """Return the DSN without its password, fit for messages and titles."""
        if self.embedded:
            database = "" if self.database == DEFAULT_DATABASE else f"?database={self.database}"
            return f"chdb://{self.path}{database}"
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{user}{host}:{self.port}/{self.database}"


def is_store(source: str | os.PathLike[str]) -> bool:
    """Return whether ``source`` is written as a DSN and not as a file name."""
    return os.fspath(source).startswith(tuple(f"{scheme}://" for scheme in SCHEMES))


def parse(text: str) -> Dsn:
    """Parse a DSN; if it has no password, read it from the environment.

    ``SOJOURN_STORE_PASSWORD`` holds the password itself, ``SOJOURN_STORE_PASSWORD_FILE`` the name of a file with it.

    Raises:
        SojournError: it is none of ours, or a part of it cannot be right. The message never holds the password.
    """
    scheme, _, _ = text.partition("://")
    if not is_store(text):
        raise SojournError(f"{hidden(text)}: not a store (a store is {SHAPES})")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:  # it quotes what it takes for the port, which may be half of a password with a / in it
        raise SojournError(f"{hidden(text)}: not a store's address (is its port a number? {QUOTED})") from None
    if scheme != "chdb" and "@" in parts.path + parts.query + parts.fragment:
        raise SojournError(f"{hidden(text)}: not a store's address ({QUOTED})")
    if parts.fragment:
        raise SojournError(f"{hidden(text)}: write # as %23 in a DSN")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    names = {"database"} if scheme == "chdb" else {"database", "ca", "timeout"}
    for name in options:
        if name not in names:
            raise SojournError(
                f"{hidden(text)}: {name!r} is not an option of a DSN (options: {', '.join(sorted(names))})"
            )
    if scheme == "chdb":
        path = unquote(parts.netloc + parts.path)
        if not path.strip("/"):
            raise SojournError(f"{text}: the DSN has no folder; write chdb:///var/lib/sojourn")
        return Dsn(scheme, _database(text, options.get("database", "")), path=path)
    if not parts.hostname:
        raise SojournError(f"{hidden(text)}: the DSN has no host; write clickhouse://HOST")
    return Dsn(
        scheme,
        _database(text, options.get("database", "") or unquote(parts.path.strip("/"))),
        host=parts.hostname,
        port=port or (8443 if scheme == "clickhouses" else 8123),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or "") or _password(),
        ca=options.get("ca", ""),
        timeout=_seconds(text, options.get("timeout", "0")),
    )


def _seconds(text: str, timeout: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", timeout):
        raise SojournError(f"{hidden(text)}: {timeout!r} is not a timeout (give whole seconds)")
    return int(timeout)


def _database(text: str, name: str) -> str:
    name = name or DEFAULT_DATABASE
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", name):
        raise SojournError(f"{hidden(text)}: {name!r} is not a valid database name (use letters, digits and _)")
    return name


def _password() -> str:
    file = os.environ.get(f"{PASSWORD}_FILE")
    return secret(file) if file else os.environ.get(PASSWORD, "")


def secret(file: str) -> str:
    """Read a password from a file, without the line end.

    Raises:
        SojournError: the file cannot be read, or is empty.
    """
    try:
        password = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeError) as error:
        raise SojournError(f"{file}: no password can be read from it ({error})") from None
    if not password:
        raise SojournError(f"{file}: no password can be read from it (it is empty)")
    return password


def hidden(text: str) -> str:
    """Return a DSN without its password: up to the last @, because a misspelt password may contain any character."""
    return re.sub(r":(/*[^:@]*):.*@", r":\1:…@", text, flags=re.DOTALL)
