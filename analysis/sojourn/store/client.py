"""An opened store: one client for the embedded engine and for a server."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sojourn.model.dsn import Dsn, parse
from sojourn.model.errors import SojournError
from sojourn.model.extras import needed_for

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

CONNECT_SECONDS = 10
# Read timeouts unless the DSN sets them: of the first query, and of queries that take work.
OPEN_SECONDS, ANSWER_SECONDS = 30, 300
BUSY = (
    "another process has it open, or the folder is not a store, or too much of a table is damaged, which the engine's "
    "message before this one then names"
)
QUERY = "query"  # what is being done where the question is a user's own
_OTHER_TABLES = re.compile(r"UNKNOWN_TABLE|UNKNOWN_IDENTIFIER|NO_SUCH_COLUMN_IN_TABLE|Unknown table expression")
# A partition holds whole days, and a record's day is part of what makes it itself: no duplicate crosses partitions.
# Instants are shown and truncated in UTC, for any zone of server and client: the embedded engine uses TZ's zone.
SETTINGS = {"do_not_merge_across_partitions_select_final": 1, "session_timezone": "UTC"}
# Without a pass of the planner that takes more than half of its time for a split and infers nothing there.
PLANNING = {"optimize_and_compare_chain": 0}

# What the engine answers where it cannot read the files of a part, and what it says of the part.
_UNREADABLE = re.compile(
    r"CHECKSUM_DOESNT_MATCH|CORRUPTED_DATA|CANNOT_DECOMPRESS|TOO_LARGE_SIZE_COMPRESSED|UNKNOWN_CODEC|CANNOT_READ_ALL_DATA"
    r"|ATTEMPT_TO_READ_AFTER_EOF|UNEXPECTED_END_OF_FILE|CANNOT_OPEN_FILE|FILE_DOESNT_EXIST|NO_FILE_IN_DATA_PART"
    r"|BAD_SIZE_OF_FILE_IN_DATA_PART|CANNOT_READ_FROM_FILE_DESCRIPTOR|INCORRECT_DATA"
)
_PART = re.compile(r"while reading from part \S*?([^/\s]+)/? in table [^\s.]+\.(\S+)")

# Libraries that fetch responses.
_TRANSPORT = {"urllib3", "http", "pyarrow", "zstandard"}
_CLOSED = "the connection was closed before the answer was whole"
# What HTTP clients say -> what it means. The first match applies; {} is its group.
_SAID = (
    (r"connect timeout=([\d.]+)", "no connection within {} s"),
    (r"read timeout=([\d.]+)", "no answer within {} s; ?timeout=SECONDS after its address waits longer"),
    (r"NameResolutionError|getaddrinfo failed", "its name is not known"),
    (r"certificate verify failed([^)]*)", "its certificate is not trusted{}"),
    (
        r"WRONG_VERSION_NUMBER|HTTPS_PROXY|UNEXPECTED_EOF|record layer failure",
        "the server at that address does not use TLS",
    ),
    (r"BadStatusLine|Unexpected response to server version", "what answers there is no ClickHouse"),
    (r"IncompleteRead|RemoteDisconnected|Stream failed during read|ConnectionReset|Broken ?[Pp]ipe", _CLOSED),
    (r"\[Errno [^\]]*\] ([^'\")]*)", "{}"),
    (r"HTTP status (\d+), server response: (?:<|$)", "it answered {} and no reason"),
    (r"HTTP status (\d+), server response: (.*?) ?(?:\(for url [^)]*\))?$", "it answered {}: {}"),
)


class DamagedError(SojournError):
    """A part of a table that the engine cannot read.

    Args:
        message: the sentence.
        table: the table.
        part: the part.
    """

    def __init__(self, message: str, table: str, part: str) -> None:
        super().__init__(message)
        self.table, self.part = table, part


@dataclass
class Store:
    """An open store.

    Attributes:
        client: clickhouse-connect's client; its database is the store's.
        address: where it is.
    """

    client: Client
    address: Dsn

    @property
    def database(self) -> str:
        """The store's database."""
        return self.address.database

    @property
    def dsn(self) -> str:
        """The address without the password."""
        return str(self.address)

    @property
    def embedded(self) -> bool:
        """Whether the engine runs in this process."""
        return self.address.embedded

    def permitted(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the settings that a query can set here: older servers lack some, and a profile fixes some."""
        if self.embedded:
            return dict(settings)
        own = self.client.server_settings
        return {name: value for name, value in settings.items() if name in own and not own[name].readonly}

    def close(self) -> None:
        """Close the connection; an embedded engine stops with its last one."""
        self.client.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(dsn: str | Dsn, *, database: str | None = None) -> Store:
    """Open a store. Use it as a context manager.

    Args:
        dsn: ``chdb:///path[?database=x]``, ``clickhouse://[user[:password]@]host[:port][/database]``, or
            ``clickhouses://…`` for HTTPS (``?ca=FILE`` for a private CA).
        database: open this database instead of the DSN's.

    Raises:
        SojournError: the store is unreachable, refuses the user, is in use by another process, or has no such database.
    """
    address = parse(dsn) if isinstance(dsn, str) else dsn
    if address.embedded and database is None and not Path(address.path).is_dir():
        raise SojournError(f"{address}: no store in this folder; create it with `sojourn store init {address}`")
    with _opening_errors(address):
        client = _client(address, database or address.database)
    # Instants without a time zone are in the zone of the session; the client would assume that of a machine.
    client.tz_source, client.server_tz = "server", UTC
    store = Store(client, address)
    for name, value in store.permitted(PLANNING).items():
        client.set_client_setting(name, value)
    return store


def _client(address: Dsn, database: str) -> Client:
    import clickhouse_connect  # noqa: PLC0415

    # It raises every error that it logs.
    logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)
    if address.embedded:
        path = os.path.realpath(address.path)
        # At import, the engine reads ./config.xml, of a folder that can belong to another user. It sets where logs
        # are written and which programs run.
        with chdir("/"):
            with needed_for("a chdb:// store", "store"):
                import chdb  # noqa: F401, PLC0415
            return clickhouse_connect.get_client(interface="chdb", path=path, database=database, settings=SETTINGS)
    client = clickhouse_connect.get_client(
        host=address.host,
        port=address.port,
        username=address.user or None,
        password=address.password,
        database=database,
        secure=address.scheme == "clickhouses",
        ca_cert=address.ca or None,
        settings=SETTINGS,
        connect_timeout=CONNECT_SECONDS,
        send_receive_timeout=address.timeout or OPEN_SECONDS,
        autogenerate_session_id=False,  # a session allows one query at a time
        client_name="sojourn",
    )
    if not client.server_settings:  # a truncated head looks like an answer without a body
        raise ConnectionError("RemoteDisconnected")
    from clickhouse_connect.driver.httpclient import HttpClient  # noqa: PLC0415 - these two take their time to load
    from urllib3 import Timeout  # noqa: PLC0415

    if isinstance(client, HttpClient):
        client.timeout = Timeout(connect=CONNECT_SECONDS, read=address.timeout or ANSWER_SECONDS)
    return client


@contextmanager
def _opening_errors(address: Dsn) -> Iterator[None]:
    """Turn errors of opening a store into a ``SojournError``."""
    with needed_for("a store", "store"):
        from clickhouse_connect.driver.exceptions import ClickHouseError  # noqa: PLC0415 - takes its time to load

    try:
        yield
    except (ClickHouseError, RuntimeError, OSError) as error:
        raise SojournError(f"{address}: {_reason(address, error)}") from None


def _reason(address: Dsn, error: Exception) -> str:
    text = str(error)
    denied = address.embedded and not os.access(address.path, os.W_OK | os.X_OK)
    busy = "no permission to write there" if denied else BUSY
    for words, reason in (
        (
            "UNKNOWN_DATABASE|Code: 81",
            f"has no database {address.database!r}; create it with `sojourn store init {address}`",
        ),
        (
            "already initialized with path",
            "this process has another embedded store open; only one at a time is possible",
        ),
        ("Unable to open the chdb engine", f"cannot be opened: {busy}"),
        (
            "AUTHENTICATION_FAILED|REQUIRED_PASSWORD",
            "user or password was refused (the password may also be in SOJOURN_STORE_PASSWORD or …_FILE)",
        ),
    ):
        if re.search(words, text):
            return reason
    why = _broken(error)
    if why:
        return f"cannot be reached ({address.without_password(why)})"
    return f"cannot be opened ({address.without_password(plain(error))})"


def plain(error: Exception) -> str:
    """Return the message of the engine in one line, without class, code, version and stack."""
    if "deserialization not supported" in str(error):
        return "a column holds an aggregate state; select it with its -Merge function, such as quantilesDDMerge"
    text = re.split(r"Stack trace|\(version |\(for url ", str(error))[0]
    text = re.sub(r"^.*?Code: \d+\. ?", "", text, flags=re.DOTALL)
    text = re.sub(r"DB::Exception: ", "", text)
    return " ".join(text.split())[:600].strip().rstrip(".") or type(error).__name__


@contextmanager
def plainly(store: Store, doing: str) -> Iterator[None]:
    """Turn errors of the engine inside the block into one sentence that begins with the current operation.

    Raises:
        SojournError: instead of whatever the client raised.
    """
    from clickhouse_connect.driver.exceptions import ClickHouseError  # noqa: PLC0415

    try:
        yield
    except SojournError:
        raise
    except Exception as error:
        library = type(error).__module__.partition(".")[0]
        if not isinstance(error, ClickHouseError) and library not in _TRANSPORT:
            raise
        _refuse_damaged(store, doing, error)
        text = store.address.without_password((None if store.embedded else _broken(error)) or plain(error))
        # Of one of this version's own queries; a long one fills the message, and the code comes after it.
        if doing != QUERY and _OTHER_TABLES.search(str(error)):
            text = f"its tables are not those of this version; `sojourn store init {store.dsn}` brings them up to date"
        raise SojournError(f"{store.dsn}: {doing}: {text}") from None


def _refuse_damaged(store: Store, doing: str, error: Exception) -> None:
    """Raise a ``DamagedError`` if ``error`` says that the files of a part cannot be read."""
    text = str(error)
    part = _PART.search(text)
    if part and _UNREADABLE.search(text):
        why = plain(error).split(": ")[0].split(". ")[0]
        message = (
            f"{store.dsn}: {doing}: the store is damaged: its engine cannot read the part {part[1]} of the table "
            f"{part[2]} ({why}). Detach it (ALTER TABLE {part[2]} DETACH PART '{part[1]}'); `sojourn store doctor "
            f"{store.dsn}` then names the files to load again"
        )
        raise DamagedError(message, part[2], part[1]) from None


def store_time(store: Store) -> str:
    """Return the store's clock, UTC to the millisecond, as text for ``toDateTime64({…:String}, 3, 'UTC')``."""
    return str(rows(store, "SELECT toString(now64(3, 'UTC'))")[0][0])


def in_utc(instant: datetime) -> datetime:
    """Return an instant of a store's answer, which is in UTC where it names no zone."""
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)


def rows(store: Store, sql: str, parameters: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
    """Return every row of a query whose answer is known to be short."""
    return [tuple(row) for row in store.client.query(sql, parameters=parameters).result_rows]


def _broken(error: BaseException) -> str | None:
    """Return why no whole answer came, if ``error`` concerns the connection to a server and not the query."""
    text = " ".join(str(error).split())
    if "DB::Exception" in text:  # the engine itself has spoken
        return None
    for pattern, words in _SAID:
        match = re.search(pattern, text)
        if match:
            return words.format(*(part[:200] for part in match.groups()))
    return None
