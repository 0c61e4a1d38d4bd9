"""A format that nginx writes is never refused: every line of it is read, and every value is that of another log.

All logs are of the same requests, in one order: one in Sojourn's own form is the truth for those in other formats.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sojourn
from conftest import Serve
from nginx_support import DEADLINE_S, request_bytes
from nginx_upstream import Request, Upstream, answer_with
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.ports import free_port

TIMES = "$request_time $upstream_connect_time $upstream_header_time $upstream_response_time"
NEEDED = "$msec $status $request_time"
# Name -> (escape, text); in FREE, a value without quotes may hold what follows it: numbers and addresses are compared.
DIVIDED: dict[str, tuple[str, str]] = {
    "main": ("", '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" '
                     f'"$http_user_agent" {TIMES}'),
    "labels": ("", '$remote_addr [$msec] "$request" $status rt=$request_time uct="$upstream_connect_time" '
                   'uht="$upstream_header_time" urt="$upstream_response_time" ua="$upstream_addr" '
                   'us="$upstream_status"'),
    "times_first": ("", f'{TIMES} $upstream_addr $msec "$request" $status "$http_user_agent"'),
    "request_and_body": ("", '$remote_addr [$time_local] "$request + $request_body" $status $request_time'),
    "two_in_quotes": ("", '$msec "$http_x_one $http_x_two" $status $request_time'),
    "bars": ("", "$time_local | $remote_addr | $status | $request_time | $upstream_response_time | $upstream_addr"),
    "glued": ("", "$msec $upstream_addr:$upstream_status $request_time/$upstream_response_time $status"),
    "glued_host": ("", "$msec $status $request_time $scheme://$host:$server_port$request_uri"),
    "glued_uri": ("", "$msec $status $request_time $host$request_uri"),
    "brackets": ("", "[$time_iso8601] [$status] [$request_time] [$upstream_response_time] [$upstream_addr]"),
    "twice": ("", '$msec $status $request_time "$request" $status $request_time "$request"'),
    "tabs": ("", r"$msec\t$status\t$request_time\t$upstream_response_time\t$upstream_addr\t$request_id"),
    "commas": ("", "$msec,$status,$request_time,$request_id,$upstream_response_time"),
    "semicolons": ("", "$msec;$status;$request_time;$upstream_addr;$upstream_response_time;$upstream_header_time"),
    "quoted_all": ("", '"$msec" "$status" "$request_time" "$upstream_addr" "$upstream_response_time" "$request_uri" '
                       '"$http_user_agent" "$http_x_forwarded_for" "$remote_user" "$cookie_a" "$args" "$host"'),
    "redirects_last": ("", f"{NEEDED} $upstream_addr $upstream_status $upstream_response_time"),
    "lengths": ("", f"{NEEDED} $upstream_response_length $upstream_bytes_received $upstream_response_time "
                    "$bytes_sent $request_length $connection $connection_requests $pipe $gzip_ratio"),
    "braces": ("", "${msec}|${status}|${request_time}s|${upstream_response_time}s|$request_id"),
    "two_ids": ("", "$http_x_request_id $msec $status $request_time $request_id"),
    "json_escape_text": ("json", '$msec "$request" $status $request_time "$http_user_agent"'),
    "json": ("json", '{"t":"$msec","s":"$status","rt":"$request_time","ut":"$upstream_response_time",'
                     '"ua":"$upstream_addr","uri":"$request_uri","agent":"$http_user_agent","id":"$request_id"}'),
    "json_nested": ("json", '{"t":"$msec","http":{"status":"$status","latency":"$request_time","by":{"a":'
                            '"$upstream_addr"}},"up":{"latency":["$upstream_response_time","$upstream_header_time"]}}'),
    "json_dots": ("json", '{"t":"$msec","http.status":"$status","http.latency":"$request_time","a.b.c":"$host"}'),
    "json_bare": ("json", '{"t":$msec,"s":$status,"rt":$request_time,"b":$body_bytes_sent,"uri":"$request_uri"}'),
    "json_bare_lists": ("json", '{"t":$msec,"s":$status,"rt":$request_time,"ut":[$upstream_response_time],'
                                '"uc":$upstream_connect_time,"uri":"$request_uri","id":"$request_id"}'),
    "json_default_escape": ("", '{"t":"$msec","s":$status,"rt":$request_time,"agent":"$http_user_agent",'
                                '"uri":"$request_uri","ut":"$upstream_response_time"}'),
    "json_composed": ("json", '{"t":"$msec","r":"$request_method $request_uri $server_protocol","s":"$status",'
                              '"times":"$request_time/$upstream_response_time","up":"$upstream_addr"}'),
    "json_spaces": ("json", '{ "t" : "$msec", "s" : "$status", "d" : { "rt" : "$request_time" }, "x" : null }'),
    "json_behind_text": ("", 'nginx: {"t":"$msec","s":$status,"rt":$request_time,"agent":"$http_user_agent"}'),
    "none_in_quotes": ("none", '$msec "$http_user_agent" $status $request_time "$request" $upstream_response_time'),
    "key_value": ("", 'time=$msec status=$status rt=$request_time agent="$http_user_agent" addr=$upstream_addr'),
    "own_names": ("", "$msec $status $request_time $start $upload $method_name $upstream_response_time"),
}  # fmt: skip
FREE: dict[str, tuple[str, str]] = {
    "request_bare": ("", "[$time_local] $remote_addr => $upstream_addr | $scheme $request | app "
                         "$upstream_response_time | all $request_time | code $status"),
    "request_blanks": ("", "$remote_addr $time_local $http_host $request $status $request_time $upstream_addr"),
    "agent_bare": ("", "$msec $http_user_agent $status $request_time $upstream_response_time"),
    "agent_last": ("", "$msec $status $request_time $http_user_agent"),
    "agent_first": ("", "$http_user_agent $remote_user $msec $status $request_time"),
    "forwarded": ("", "$http_x_forwarded_for $remote_addr $time_iso8601 $request $status $request_time $args"),
    "bracketed": ("", "[$http_user_agent] [$remote_user] [$msec] [$request] [$status] [$request_time]"),
    "none_bare": ("none", "$msec $http_user_agent | $request | $status $request_time $upstream_addr"),
    "cookies": ("", "$cookie_a $http_cookie $msec $status $request_time $sent_http_content_type $request_completion"),
    "none_json": ("none", '{"t":"$msec","s":"$status","rt":"$request_time","agent":"$http_user_agent"}'),
    "uris": ("", "$uri $request_uri $document_root $request_filename $msec $status $request_time $query_string"),
    "geo": ("", "$msec $status $city $request_time $upstream_http_x_note $upstream_response_time"),
}  # fmt: skip
FORMATS = {**DIVIDED, **FREE}
TRUTH = {
    "time": "$msec", "status": "$status", "request_time": "$request_time", "request_id": "$request_id",
    "method": "$request_method", "uri": "$request_uri", "host": "$host", "remote_addr": "$remote_addr",
    "bytes_sent": "$bytes_sent", "request_length": "$request_length", "connection": "$connection",
    "connection_requests": "$connection_requests", "protocol": "$server_protocol",
    **{name: f"${name}" for name in ("upstream_addr", "upstream_status", "upstream_connect_time",
                                     "upstream_header_time", "upstream_response_time")},
    "http_user_agent": "$http_user_agent", "http_x_forwarded_for": "$http_x_forwarded_for",
    "http_x_one": "$http_x_one", "http_x_two": "$http_x_two",
}  # fmt: skip
# Variable -> columns of what is read of it.
COLUMNS_OF = {
    "$status": ("status",), "$request_time": ("request_time",), "$request_id": ("request_id",),
    "$upstream_addr": ("upstream", "upstream_addr", "attempts"), "$upstream_status": ("upstream_status",),
    "$upstream_connect_time": ("connect",), "$upstream_header_time": ("header",),
    "$upstream_response_time": ("response", "retries"), "$remote_addr": ("remote_addr",),
    "$bytes_sent": ("bytes_sent",), "$request_length": ("request_length",), "$connection": ("connection",),
    "$connection_requests": ("connection_requests",),
}  # fmt: skip
# Of an internal redirect these follow from the statuses of the attempts: without them, the backend is the last one.
OF_BACKEND = ("upstream", "connect", "header", "response", "retries")
TEXTS_OF = {
    "$request_uri": ("uri",), "$host": ("host",), "$http_user_agent": ("http_user_agent",),
    "$http_x_forwarded_for": ("http_x_forwarded_for",),
}  # fmt: skip
ODD_AGENT = b'a "quoted" \\ b\\x22 \xc3\xa9 | 200 0.001 ] [x] + {"y": 1}, z : -'


def slow(body: bytes = b"ok", headers: list[tuple[str, str]] | None = None) -> Callable[[socket.socket, Request], None]:
    answer = answer_with(headers, body)

    def wait(connection: socket.socket, request: Request) -> None:
        time.sleep(0.01)
        answer(connection, request)

    return wait


def directives(folder: Path) -> str:
    """The log_format directives, each text in several words as in usual configurations."""
    lines = []
    for name, (escape, text) in FORMATS.items():
        middle = text.rindex("$")
        words = [f"'{part}'" for part in (text[:middle], text[middle:])]
        option = f"escape={escape} " if escape else ""
        lines.append(f"log_format {name} {option}{words[0]}\n    {words[1]};")
    truth = ",".join(f'"{key}":"{value}"' for key, value in TRUTH.items())
    lines.append(f"log_format truth escape=json '{{{truth}}}';")
    lines += ["map '' $start { default 12; }", "map '' $upload { default 'a b'; }",
              "map '' $method_name { default m; }", "map '' $city { default 'New York'; }"]  # fmt: skip
    (folder / "formats.conf").write_text("\n".join(lines) + "\n")
    return f'include "{folder}/formats.conf";\n'


def server(folder: Path) -> str:
    logs = "".join(f'access_log "{folder}/{name}.log" {name};\n' for name in (*FORMATS, "truth"))
    return (
        logs
        + """
    location / { proxy_pass http://app; }
    location /retry { proxy_pass http://retried; proxy_next_upstream error; }
    location /dead { proxy_pass http://dead; }
    location /accel { proxy_pass http://accel; }
    location /inner { internal; proxy_pass http://app; }
    location /socket { proxy_pass http://over_a_socket; }
    location = /static { return 200 "here"; }
    location = /private { auth_request /auth; proxy_pass http://app; }
    location = /auth { internal; return 204; }
    """
    )


def requests() -> Iterator[bytes]:
    """Requests of every kind, each on a connection of its own."""
    password = base64.b64encode(b'jane "x" doe:y').decode()
    yield request_bytes("/a?x=1", [("User-Agent", "Mozilla/5.0 (X11; Linux) [en]")])
    yield request_bytes("/odd", [("User-Agent", ODD_AGENT)])
    for path in ("/retry", "/retry?again=1", "/dead", "/accel", "/socket", "/static", "/private"):
        yield request_bytes(path, [("User-Agent", "curl/8.5")])
    yield request_bytes("/" + "a" * 3_000, [("User-Agent", "")])
    yield request_bytes('/q"b%20c?q="x"&y=[1]', [("X-Forwarded-For", "192.0.2.1, 10.0.0.1, unknown")])
    yield request_bytes("/user", [("Authorization", f"Basic {password}"), ("Cookie", 'a=b c; d="e"')])
    yield request_bytes("/two", [("X-One", "a b"), ("X-Two", "c"), ("X-Request-ID", "own id 7")])
    body = b'name=a+b&text="quoted" + 200 0.001'
    yield request_bytes("/post", [("Content-Length", str(len(body))), ("X-One", "+")], "POST") + body
    yield b"GET /old HTTP/1.0\r\n\r\n"
    yield b"GET /bad-host HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n"
    yield b"GET /no-host HTTP/1.1\r\nConnection: close\r\n\r\n"
    yield b"\x16\x03\x01\x02\x00\x01\r\n\r\n"
    yield b"GET /a b c HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"GET http://shop.example/absolute?x HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n"
    yield b"OPTIONS * HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n"
    yield request_bytes("/ipv6-host", [("Host", "[::1]:8080")])
    yield request_bytes("/accel", [("User-Agent", "200 0.001 0.002")])


def exchange(connection: socket.socket, data: bytes) -> None:
    with connection, contextlib.suppress(OSError):
        connection.settimeout(DEADLINE_S)
        connection.sendall(data)
        while connection.recv(65_536):
            pass


@pytest.fixture
def logs(serve: Serve, upstream: Callable[..., Upstream], tmp_path: Path) -> tuple[Nginx, Path]:
    """The folder with a log of every format."""
    app, port = upstream(slow(headers=[("X-Note", "one two, three")])), free_port("127.0.0.1")
    accel = upstream(slow(headers=[("X-Accel-Redirect", "/inner?y=2")]))
    path = tmp_path / "s"
    http = (
        directives(tmp_path)
        + f"""
    upstream app {{ server {app.address}; }}
    upstream retried {{ server 127.0.0.1:{port} max_fails=0; server {app.address} backup; }}
    upstream dead {{ server 127.0.0.1:{port} max_fails=0; }}
    upstream accel {{ server {accel.address}; }}
    upstream over_a_socket {{ server unix:{path}; }}
    server {{ listen unix:{path}; access_log off; return 200 ok; }}
    server {{ listen [::1]:{port + 1 if port < 65_535 else port - 1} ; {server(tmp_path)} }}
    """
    )
    nginx = serve(server(tmp_path), http=http)
    for data in requests():
        exchange(socket.create_connection(("127.0.0.1", nginx.port)), data)
    with contextlib.suppress(OSError):
        exchange(socket.create_connection(("::1", port + 1 if port < 65_535 else port - 1)), request_bytes("/six"))
    nginx.stop()
    return nginx, tmp_path


def rows(source: object) -> list[dict[str, Any]]:
    columns = [*dict.fromkeys(each for names in (*COLUMNS_OF.values(), *TEXTS_OF.values()) for each in names), "time"]
    result = sojourn.read(source, columns=columns)  # type: ignore[arg-type]
    assert result.records.reasons == {}, (source, result.records.reasons, result.records.rejects[0]["raw"])
    return result.rows.collect().to_dicts()


def plain(value: object) -> object:
    """A value, of which a missing one is - in some formats and empty in others."""
    return None if value in ("", "-") else value


def test_every_line_is_read_and_every_value_is_that_of_the_truth(logs: tuple[Nginx, Path]) -> None:
    nginx, folder = logs
    truth = rows(sojourn.log_file(folder / "truth.log", "sojourn"))
    assert len(truth) >= len(list(requests()))
    assert {row["attempts"] for row in truth} >= {0, 1, 2}
    differences = []
    for name, (_, text) in FORMATS.items():
        read = rows(sojourn.log_file(folder / f"{name}.log", f"{nginx.folder}/nginx.conf:{name}"))
        assert len(read) == len(truth), name
        for row, true in zip(read, truth, strict=True):
            differences += [
                (name, column, row[column], true[column])
                for column in compared(name, text)
                if plain(row[column]) != plain(true[column])
                and not (
                    column in OF_BACKEND and " : " in str(true["upstream_addr"]) and "$upstream_status" not in text
                )
            ]
            step = 0.001 if "$msec" in text else 1.0
            if not 0 <= (true["time"] - row["time"]).total_seconds() < step:
                differences.append((name, "time", row["time"], true["time"]))
    assert differences == []


def compared(name: str, text: str) -> list[str]:
    """Columns of a format that are the truth's."""
    values = COLUMNS_OF if name in FREE else {**COLUMNS_OF, **TEXTS_OF}
    words = text.replace("${", "$").replace("}", " ")
    return [each for variable, names in values.items() if _occurs(variable, words) for each in names]


def _occurs(variable: str, text: str) -> bool:
    following = [text[at + len(variable) : at + len(variable) + 1] for at in _places(variable, text)]
    return any(not (each.isalnum() or each == "_") for each in following)


def _places(word: str, text: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)
