"""ClickHouse's HTTP interface over the embedded engine: what the tests ship to, where no server is to be had.

Every request gets a session of its own, as on a server. Data of an INSERT is read by the engine's own parser of its
format, with the settings the URL brings, so what a server would refuse is refused. ``StandIn`` starts it as a program,
``clickhouse_http.py FOLDER PORT [USER PASSWORD_FILE]``; with port 0 the first line it writes is its port.
"""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import re
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

if TYPE_CHECKING:
    from sojourn_lab.runtime.process import Process

# Parameters that speak to the HTTP interface; every other one is a setting of the engine.
RESERVED = {
    "buffer_size", "client_protocol_version", "compress", "database", "decompress", "default_format", "password",
    "query", "query_id", "quota_key", "role", "session_check", "session_id", "session_timeout", "user",
    "wait_end_of_query",
}  # fmt: skip

# HTTP statuses by the name of the error; those not listed are 500.
STATUSES = {
    400: "BAD_ARGUMENTS CANNOT_PARSE_TEXT CANNOT_PARSE_ESCAPE_SEQUENCE CANNOT_PARSE_QUOTED_STRING CANNOT_PARSE_DATE "
    "CANNOT_PARSE_DATETIME CANNOT_PARSE_NUMBER CANNOT_PARSE_INPUT_ASSERTION_FAILED CANNOT_PARSE_UUID DUPLICATE_COLUMN "
    "ILLEGAL_COLUMN THERE_IS_NO_COLUMN VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE SYNTAX_ERROR INCORRECT_DATA TYPE_MISMATCH",
    401: "REQUIRED_PASSWORD",
    403: "UNKNOWN_USER WRONG_PASSWORD AUTHENTICATION_FAILED",
    404: "UNKNOWN_TABLE UNKNOWN_FUNCTION UNKNOWN_IDENTIFIER UNKNOWN_TYPE UNKNOWN_STORAGE UNKNOWN_DATABASE "
    "UNKNOWN_SETTING UNKNOWN_AGGREGATE_FUNCTION UNKNOWN_FORMAT UNKNOWN_DATABASE_ENGINE UNKNOWN_TYPE_OF_QUERY",
    408: "TIMEOUT_EXCEEDED",
    501: "NOT_IMPLEMENTED",
    503: "SOCKET_TIMEOUT CANNOT_OPEN_FILE CANNOT_SCHEDULE_TASK",
}
STATUS_OF = {name: status for status, names in STATUSES.items() for name in names.split()}

# An INSERT that brings its data, as rows or as the table input: the statement up to its format, then the data.
_INSERT = re.compile(
    rb"\s*(INSERT\s+INTO\s(?:(?!\bSELECT\b|\bVALUES\b).)*?(?:\bSELECT\b(?:(?!\bFORMAT\b).)*?\binput\((?:(?!\bFORMAT\b).)*?)?)"
    rb"\bFORMAT\s+(\w+)[ \t;]*(?:\r?\n|$)",
    re.I | re.S,
)
_INPUT = re.compile(r"\binput\(('[^']*')\)", re.I)
_FORMAT = re.compile(rb"\bFORMAT\s+(\w+)\s*;?\s*$", re.I)


class RefusedError(Exception):
    """An answer that is no result: HTTP status, the engine's code, and what it says."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Engine:
    """The embedded engine; one query at a time."""

    def __init__(self, folder: Path) -> None:
        import chdb  # noqa: PLC0415 - the tests that start this program need not load the engine themselves

        self._open = lambda: chdb.connect(str(folder))
        self._running = self._open()  # the engine stops with its last connection
        self._lock = threading.Lock()
        self._data = folder.parent / f"{folder.name}.body"
        self.timezone = self._running.query("SELECT serverTimezone()", "TabSeparatedRaw").bytes().decode().strip()

    def ask(self, statement: bytes, arguments: dict[str, str], *, only_read: bool) -> tuple[bytes, str, dict[str, str]]:
        """(body, format, summary) of one statement with the parameters of its URL; ``RefusedError`` where it fails."""
        bound = {name.removeprefix("param_"): value for name, value in arguments.items() if name.startswith("param_")}
        settings = {k: v for k, v in arguments.items() if k not in RESERVED and not k.startswith("param_")}
        if only_read:
            settings["readonly"] = "2"  # a GET changes nothing
        insert = _INSERT.match(statement)
        with self._lock:
            session = self._open()
            try:
                if arguments.get("database"):
                    session.query(f"USE `{arguments['database'].replace('`', '')}`")
                for name, value in sorted(settings.items(), key=lambda pair: pair[0] == "readonly"):
                    if not name.isidentifier():
                        raise RefusedError(404, 115, f"Unknown setting '{name}'. (UNKNOWN_SETTING)")
                    session.query(f"SET {name} = {quoted(value)}")
                if insert:
                    result = session.query(self._with_data(statement, insert), "TabSeparated", params=bound)
                    summary = {"written_rows": str(result.rows_read()), "written_bytes": str(result.bytes_read())}
                    return b"", "TabSeparated", summary
                named = _FORMAT.search(statement)
                kind = named[1].decode() if named else arguments.get("default_format", "TabSeparated")
                result = session.query(statement.decode(), kind, params=bound)
                return result.bytes() or b"", kind, {"read_rows": str(result.rows_read())}
            except UnicodeDecodeError:  # it quotes what it could not read, and that is no text
                raise refusal("bytes that are no text") from None
            except RuntimeError as error:
                raise refusal(str(error)) from None
            finally:
                session.close()

    def _with_data(self, statement: bytes, insert: re.Match[bytes]) -> str:
        self._data.write_bytes(statement[insert.end() :])
        head, kind, file = insert[1].decode(), insert[2].decode(), quoted(str(self._data))
        if _INPUT.search(head):
            return _INPUT.sub(lambda structure: f"file({file}, {kind}, {structure[1]}, 'none')", head)
        return f"{head} FROM INFILE {file} COMPRESSION 'none' FORMAT {kind}"


def quoted(text: str) -> str:
    """A string of the engine's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def refusal(message: str) -> RefusedError:
    """The engine's complaint as a server answers it."""
    code = re.match(r"(?:Code: (\d+)\. DB::Exception: )+", message)
    if code is None:  # what it cannot even quote: bytes that are no text
        return RefusedError(400, 27, f"Cannot parse input: {message} (CANNOT_PARSE_INPUT_ASSERTION_FAILED)")
    names = re.findall(r"\(([A-Z][A-Z_]{3,})\)", message)
    return RefusedError(STATUS_OF.get(names[-1] if names else "", 500), int(code[1]), message[code.end() :])


class Moods:
    """What the stand-in does to requests for a while, and how many it did it to."""

    #: ``refuse``: answer 503 and do nothing; ``deny``: the same with 403; ``lose``: do the work and answer 503;
    #: ``forget``: answer 200 to lines of ``incoming`` and do nothing.
    NAMES = ("refuse", "deny", "lose", "forget")

    def __init__(self) -> None:
        self._until = dict.fromkeys(self.NAMES, 0.0)
        self.counts = {"queries": 0, "refused": 0, "denied": 0, "lost": 0, "lines_forgotten": 0}

    def set(self, how: dict[str, str]) -> dict[str, int]:
        """Obey ``NAME=SECONDS`` (0: no longer) for each of ``NAMES``; returns the counts."""
        for name in self.NAMES:
            if name in how:
                self._until[name] = time.monotonic() + float(how[name])
        return self.counts

    def now(self, name: str) -> bool:
        """Whether this is what it does at the moment."""
        return time.monotonic() < self._until[name]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    engine: Engine
    moods: Moods
    account: tuple[str, str] | None = None

    def do_GET(self) -> None:
        self._answered()

    def do_HEAD(self) -> None:
        self._answered()

    def do_POST(self) -> None:
        self._answered()

    def _answered(self) -> None:
        body = self._body()  # wholly, whatever the answer: the connection goes on
        url = urlsplit(self.path)
        arguments = dict(parse_qsl(url.query, keep_blank_values=True))
        if url.path == "/control":
            self._send(200, json.dumps(self.moods.set(arguments)).encode(), {})
            return
        try:
            if self.moods.now("refuse"):
                self.moods.counts["refused"] += 1
                raise RefusedError(503, 202, "Too many simultaneous queries. (TOO_MANY_SIMULTANEOUS_QUERIES)")
            if self.moods.now("deny"):
                self.moods.counts["denied"] += 1
                raise RefusedError(403, 516, "sojourn_writer: Authentication failed. (AUTHENTICATION_FAILED)")
            self._authenticated(arguments)
            text, kind, summary = b"Ok.\n", "TabSeparated", {}
            if url.path not in ("/", "/ping"):
                raise RefusedError(404, 0, f"There is no handle {url.path}")
            statement = b"\n".join(part for part in (arguments.get("query", "").encode(), self._unpacked(body)) if part)
            if url.path == "/" and statement.strip():
                self.moods.counts["queries"] += 1
                insert = _INSERT.match(statement)
                if self.moods.now("forget") and insert and b" incoming " in insert[1]:
                    self.moods.counts["lines_forgotten"] += len(statement[insert.end() :].splitlines())
                else:
                    text, kind, summary = self.engine.ask(statement, arguments, only_read=self.command != "POST")
                if self.moods.now("lose") and insert:
                    self.moods.counts["lost"] += 1
                    raise RefusedError(503, 209, "Timeout exceeded while writing to socket. (SOCKET_TIMEOUT)")
        except Exception as error:
            refused = error if isinstance(error, RefusedError) else RefusedError(500, 49, f"{error!r} (LOGICAL_ERROR)")
            message = f"Code: {refused.code}. DB::Exception: {refused}\n".encode(errors="replace")
            self._send(refused.status, message, {"X-ClickHouse-Exception-Code": str(refused.code)})
            return
        self._send(200, text, {
            "X-ClickHouse-Format": kind,
            "X-ClickHouse-Summary": json.dumps(summary),
            "X-ClickHouse-Timezone": self.engine.timezone,
        })  # fmt: skip

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def _unpacked(self, body: bytes) -> bytes:
        if self.headers.get_content_type() == "multipart/form-data":
            raise RefusedError(501, 48, "Forms are not understood here. (NOT_IMPLEMENTED)")
        match self.headers.get("Content-Encoding", "").lower():
            case "" | "identity":
                return body
            case "gzip":
                return gzip.decompress(body)
            case "zstd":
                import pyarrow as pa  # noqa: PLC0415 - what the agent packs its inserts with

                return pa.CompressedInputStream(pa.BufferReader(body), "zstd").read()
            case "lz4":
                import lz4.frame  # noqa: PLC0415 - what clickhouse-connect packs its inserts with

                return lz4.frame.decompress(body)
            case other:
                raise RefusedError(501, 48, f"Unknown compression method: {other}. (NOT_IMPLEMENTED)")

    def _authenticated(self, arguments: dict[str, str]) -> None:
        basic = self.headers.get("Authorization", "")
        user, password = arguments.get("user", "default"), arguments.get("password", "")
        if basic.startswith("Basic "):
            user, _, password = base64.b64decode(basic.removeprefix("Basic ")).decode().partition(":")
        user = self.headers.get("X-ClickHouse-User", user)
        password = self.headers.get("X-ClickHouse-Key", password)
        if self.account is not None and self.account != (user, password):
            raise RefusedError(403, 516, f"{user}: Authentication failed. (AUTHENTICATION_FAILED)")

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        """Nothing: a test has no use for it."""


class StandIn:
    """The program, started and ended; its folder can be opened as ``chdb://`` afterwards. A context manager."""

    def __init__(self, folder: Path, account: tuple[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.data = folder / "store"
        self.account = account
        self._login: list[str] = []
        if account is not None:
            (folder / "stand-in.password").write_text(account[1])
            self._login = [account[0], str(folder / "stand-in.password")]
        self._starts = 0
        self.process: Process | None = None
        self.port = 0

    def start(self) -> None:
        """Start it: at a free port, and after ``kill`` at the same one, on the data it left."""
        from sojourn_lab.runtime.process import Process  # noqa: PLC0415 - not for the program itself

        self._starts += 1
        command = [sys.executable, __file__, str(self.data), str(self.port), *self._login]
        self.process = Process(command, name=f"clickhouse-{self._starts}", folder=self.data.parent)
        self.process.start()
        out = self.process.out_path
        self.process.wait_until(lambda: out.read_bytes().endswith(b"\n"), 60, "its port")
        self.port = int(out.read_text())

    def kill(self) -> None:
        """End it at once, with no chance to save anything."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait(60) == -signal.SIGKILL
        self.process.stop()

    def __enter__(self) -> StandIn:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.stop()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def dsn(self, database: str = "sojourn") -> str:
        """A store in it, as ``sojourn`` names it."""
        login = ":".join(quote(part, safe="") for part in self.account) + "@" if self.account else ""
        return f"clickhouse://{login}127.0.0.1:{self.port}/{database}"

    def control(self, **how: float) -> dict[str, int]:
        """Set one of ``Moods.NAMES`` for this many seconds; return the counts so far."""
        status, _, body = self.request("POST", "/control?" + urlencode(how))
        assert status == 200
        return json.loads(body)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """(status, headers, body) of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def ask(self, sql: str, database: str = "sojourn") -> list[dict[str, Any]]:
        """Rows of a query, numbers as numbers."""
        values = {"database": database, "output_format_json_quote_64bit_integers": "0"}
        if self.account is not None:
            values |= {"user": self.account[0], "password": self.account[1]}
        status, _, body = self.request("POST", "/?" + urlencode(values), f"{sql} FORMAT JSONEachRow".encode())
        assert status == 200, body.decode()
        return [json.loads(line) for line in body.decode().splitlines()]


def main(folder: Path, port: int, account: tuple[str, str] | None) -> None:
    """Serve until stopped."""
    Handler.engine, Handler.moods, Handler.account = Engine(folder), Moods(), account
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    login = (sys.argv[3], Path(sys.argv[4]).read_text()) if len(sys.argv) > 3 else None
    main(Path(sys.argv[1]), int(sys.argv[2]), login)
