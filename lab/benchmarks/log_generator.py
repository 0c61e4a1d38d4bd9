"""Generate a log of any number of requests, in Sojourn's format and in the combined format; a million take seconds.

    python -m benchmarks.log_generator LINES > access.jsonl

Waits and service times are exponential, and every request has an id of its own. Routes are of uneven popularity, and
some lines are odd (``odd_lines``), unless the log is to be clean. There are many clients, and a few hundred kinds of
referers and user agents in the combined log, as browsers send them: an analyser of web logs has to tell them apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import duckdb
from sojourn.nginx.log_format import log_format
from sojourn.nginx.syntax import parsed
from sojourn_lab.resources import resource_file

from benchmarks.odd_lines import ESCAPED, NOT_ASCII, ODD, OTHER_BACKEND, REFUSED_AFTER, THOUSAND

RATE = 1000  # requests/s
BEGIN = 1_767_225_600  # unix s
AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/{}.1 Safari/605.1.15",
    "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:{}.0) Gecko/20100101 Firefox/{}.0",
    "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS {}_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Edg/{}.0.0.0",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html) {}",
    "curl/8.{}.0",
)
VERSIONS = 50
STRETCH = 1_000_000  # lines written at once
REFERERS = (
    "-",
    "https://www.example.com/products?page={}",
    "https://www.google.com/search?q=shop+{}",
    "https://news.example.org/{}/story",
)
CLIENTS = 50_000
CLIENT = "'10.0.' || (client // 250) || '.' || (client % 250)"
URI = "'/r' || route || '/items/' || i"
BACKEND = "'10.1.' || (backend // 250) || '.' || (backend % 250) || ':8080'"
RESPONSE = "response::DECIMAL(16, 3)::VARCHAR"


@dataclass(frozen=True)
class LogShape:
    """The size of a log.

    Attributes:
        lines: number of lines.
        routes, backends, workers: how many of them there are.
        first: number of the first line, for a log in several files.
        clean: whether lines differ in their values only, and routes are equally popular.
        lean: whether the lines are those of the lean record.
    """

    lines: int
    routes: int = 20
    backends: int = 8
    workers: int = 800
    first: int = 0
    clean: bool = False
    lean: bool = False


def write_log(shape: LogShape, path: Path) -> None:
    """Write the log in Sojourn's format."""
    fields = {
        "time": "(begun + response)::DECIMAL(16, 3)",
        "request_id": "md5(i::VARCHAR)",
        "trace_id": "md5(i::VARCHAR)",  # nginx begins the trace: its id is the request's
        "span_id": "'50f0a4e250f0a4e2'",
        "service": "'shop'",
        "route": "'/r' || route",
        "method": "'GET'",
        "uri": _by_kind(
            URI, {"escaped": f"{URI} || {_in_json(ESCAPED)}", "not ASCII": f"{URI} || {_in_json(NOT_ASCII)}"}
        ),
        "status": _by_kind("'200'", {"abandoned": "'499'", "timed out": "'504'"}),
        "protocol": "'HTTP/1.1'",
        "host": "'example.com'",
        "remote_addr": CLIENT,
        "bytes_sent": "'1234'",
        "request_length": "'321'",
        "request_time": RESPONSE,
        "request_start": "begun::DECIMAL(16, 3)",
        "connection": "i",
        "connection_requests": "'1'",
        "upstream_addr": _by_kind(BACKEND, {"retried": f"'{OTHER_BACKEND}, ' || {BACKEND}"}),
        "upstream_status": _by_kind("'200'", {"retried": "'502, 200'", "abandoned": "'-'", "timed out": "'504'"}),
        "upstream_connect_time": _by_kind("'0.000'", {"retried": f"'{REFUSED_AFTER}, 0.000'"}),
        "upstream_header_time": _by_kind(
            RESPONSE, {"retried": f"'{REFUSED_AFTER}, ' || {RESPONSE}", "abandoned": "'-'", "timed out": "'-'"}
        ),
        "upstream_response_time": _by_kind(RESPONSE, {"retried": f"'{REFUSED_AFTER}, ' || {RESPONSE}"}),
        "upstream_cache_status": "''",
        "limit_req_status": "''",
        "queueing_delay": _answered("waited::DECIMAL(16, 6)"),
        "service_time": _answered("served::DECIMAL(16, 6)"),
        "worker": _answered(f"1000 + i % {shape.workers}"),
        "proxy": "'edge'",
        "stamp": "'own'",
        "proxy_start": "begun::DECIMAL(16, 3)",
    }
    if shape.lean:
        fields = {key: fields[key] for key in _lean_keys()} | {"request_id": "''", "uri": "''"}
    parts = " || ".join(
        f"""'{"{" if not number else '",'}"{key}":"' || ({sql})""" for number, (key, sql) in enumerate(fields.items())
    )
    line = f"{parts} || '\"}}'"
    _write(shape, f"CASE kind WHEN 'damaged' THEN left({line}, 400) ELSE {line} END", path)


def _lean_keys() -> list[str]:
    path = resource_file("nginx", "sojourn_lean.conf")
    directives = parsed(path.read_text(), str(path)).block
    return next(list(log_format(each).keys) for each in directives if each.name == "log_format")


def write_combined(shape: LogShape, path: Path) -> None:
    """Write the same requests in the combined format."""
    agents = ", ".join(f"'{each.replace('{}', '@')}'" for each in AGENTS)
    referers = ", ".join(f"'{each.replace('{}', '@')}'" for each in REFERERS)
    version = f"({_drawn(4)} % {VERSIONS} + 70)::VARCHAR"
    agent = f"replace([{agents}][({_drawn(5)} % {len(AGENTS)} + 1)::BIGINT], '@', {version})"
    referer = f"replace([{referers}][({_drawn(6)} % {len(REFERERS)} + 1)::BIGINT], '@', ({_drawn(7)} % 100)::VARCHAR)"
    moment = "strftime(make_timestamp(((begun + response) * 1000000)::BIGINT), '%d/%b/%Y:%H:%M:%S +0000')"
    status = _by_kind("'200'", {"abandoned": "'499'", "timed out": "'504'"})
    line = (
        f"""{CLIENT} || ' - - [' || {moment} || '] "GET ' || {URI} """
        f"""|| ' HTTP/1.1" ' || {status} || ' 1234 "' || {referer} || '" "' || {agent} || '"'"""
    )
    _write(shape, f"CASE kind WHEN 'damaged' THEN left({line}, 60) ELSE {line} END", path)


def _drawn(number: int) -> str:
    """Return SQL of 64 random bits per line and ``number``; the same in every query."""
    return f"hash(xor(hash(i), hash({number})))"


def _by_kind(usual: str, others: dict[str, str]) -> str:
    """Return SQL of a value: of a usual line, and of the kinds in which it is another."""
    cases = " ".join(f"WHEN '{kind}' THEN {sql}" for kind, sql in others.items())
    return f"CASE kind {cases} ELSE {usual} END"


def _answered(value: str) -> str:
    """Return SQL of a value that the app sends: nothing without a response."""
    return _by_kind(f"({value})::VARCHAR", dict.fromkeys(("abandoned", "timed out"), "''"))


def _in_json(text: str) -> str:
    return f"'{json.dumps(text, ensure_ascii=False)[1:-1]}'"


def _kind(shape: LogShape) -> str:
    """Return SQL of the kind of a line."""
    ends, end = [], 0
    for kind, thousandths in ODD.items():
        end += thousandths
        ends.append(f"WHEN {_drawn(11)} % {THOUSAND} < {end} THEN '{kind}'")
    return "''" if shape.clean else f"CASE {' '.join(ends)} ELSE '' END"


def _route(shape: LogShape) -> str:
    """Return SQL of the number of a route; on an uneven log the first of 20 has 37 % of the requests."""
    if shape.clean:
        return f"{_drawn(8)} % {shape.routes}"
    return f"floor({shape.routes} * power(({_drawn(8)} >> 11) / 9007199254740992.0, 3))::BIGINT"


def _write(shape: LogShape, line: str, path: Path) -> None:
    def exponential(number: int) -> str:
        return f"(-ln(1 - ({_drawn(number)} >> 11) / 9007199254740992.0))"

    engine = duckdb.connect()
    engine.execute("SET enable_progress_bar = false")
    engine.execute(f"""
        COPY (
            SELECT {line} FROM (
                SELECT i, {BEGIN} + i / {RATE}.0 AS begun, {exponential(1)} / 10 AS waited,
                       0.05 + {exponential(2)} / 20 AS served, waited + served + 0.002 AS response,
                       {_route(shape)} AS route, {_drawn(9)} % {shape.backends} AS backend,
                       {_drawn(10)} % {CLIENTS} AS client, {_kind(shape)} AS kind
                FROM range({shape.first}, {shape.first + shape.lines}) AS lines(i)
            )
        ) TO '{path}' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\\t')
    """)  # noqa: S608 - no part of it is input


def main() -> None:
    """Write the lines in Sojourn's format to standard output, a stretch at a time."""
    lines = int(sys.argv[1])
    # The engine empties a file that it opens: it writes to a pipe, also where standard output is a file.
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as cat, cast("IO[bytes]", cat.stdin) as pipe:
        for first in range(0, lines, STRETCH):
            write_log(LogShape(min(STRETCH, lines - first), first=first), Path(f"/dev/fd/{pipe.fileno()}"))


if __name__ == "__main__":
    main()
