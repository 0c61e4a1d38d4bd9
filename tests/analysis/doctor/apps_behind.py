"""Real servers behind nginx, one for each way to an app; each answers with the headers that reached it, as JSON."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from doctor_support import Laid, laid
from sojourn.doctor.nginx_headers import header_name
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.ports import free_ports
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.others import fpm_program

DEADLINE_S = 20.0
METHOD = "/shop.Cart/Show"
WSGI_APP = """\
import json
from sojourn_middleware import WSGIMiddleware

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({key: value for key, value in environ.items() if key.startswith("HTTP_")}).encode()]

application = WSGIMiddleware(app, telemetry=False)
"""
MEASURED = {"X-Queueing-Delay": "0.000010", "X-Service-Time": "0.001000", "X-Worker": "1", "X-Route": "/all"}
PHP_APP = """\
<?php
"""
PHP_APP += "".join(f"header('{name}: {value}');\n" for name, value in MEASURED.items())
PHP_APP += """\
echo json_encode(array_filter($_SERVER, fn($key) => str_starts_with($key, 'HTTP_'), ARRAY_FILTER_USE_KEY));
"""
CGI_NAMES = ("REQUEST_METHOD $request_method", "QUERY_STRING $query_string", "SERVER_PROTOCOL $server_protocol")
WSGI_NAMES = (*CGI_NAMES, "PATH_INFO $uri", "SERVER_NAME $server_name", "SERVER_PORT $server_port")


CONF = """\
@MODULE@
pid @FOLDER@/nginx.pid;
error_log @FOLDER@/error.log notice;

events {
    worker_connections 4096;
}

http {
    @TEMP@
    LOG

    server {
        listen 127.0.0.1:@PORT@HTTP2;
        server_name shop.example;
        SERVER
    }
}
"""
INCLUDED = "include sojourn/sojourn.conf;\n    access_log @FOLDER@/access.jsonl sojourn;"


def nginx_before(folder: Path, family: str, server: str, log: str = INCLUDED) -> Laid:
    """nginx with the text of a server block, which speaks HTTP/2 for gRPC, and of the log at its http level."""
    values = {"HTTP2": " http2" if family == "grpc" else "", "SERVER": server, "LOG": log}
    text = CONF
    for name, value in values.items():
        text = text.replace(name, value)
    return laid(folder, text=text)


def exchanged(
    port: int, family: str, path: str, headers: list[tuple[str, str]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Send one request, and return the headers that the app and the client received, names in small letters."""
    if family == "grpc":
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            metadata = tuple((name.lower(), value) for name, value in headers)
            body, call = channel.unary_unary(path).with_call(b"", timeout=DEADLINE_S, metadata=metadata)
        received = [*call.initial_metadata(), *call.trailing_metadata()]
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        try:
            connection.putrequest("GET", path)
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            body, received = answer.read(), answer.getheaders()
            assert answer.status == 200, body
        finally:
            connection.close()
    sent = {header_name(name): value for name, value in json.loads(body).items()}
    return sent, {name.lower(): str(value) for name, value in received}


@dataclass(frozen=True)
class Way:
    """A way from nginx to an app: the lines that lead there, without a stamp."""

    family: str
    lines: tuple[str, ...]


def fpm_command(folder: Path, address: str, children: int = 1) -> list[str]:
    """The command of a PHP-FPM that listens at ``address``; skips the test where it is not installed."""
    program = fpm_program()
    if program is None:
        pytest.skip("php-fpm is not installed")
    user = "user = root\n" if os.geteuid() == 0 else ""
    settings = folder / "fpm.conf"
    settings.write_text(
        f"[global]\nerror_log = {folder}/fpm.log\ndaemonize = no\n"
        f"[app]\n{user}listen = {address}\npm = static\npm.max_children = {children}\n"
    )
    return [program, "--nodaemonize", "--allow-to-run-as-root", "--fpm-config", str(settings)]


def _uwsgi_command(folder: Path, family: str, address: str) -> list[str]:
    """The command of a uWSGI that speaks the protocol of a family; skips the test where it is not installed."""
    program = shutil.which("uwsgi") or shutil.which("uwsgi-core")
    if program is None:
        pytest.skip("uwsgi is not installed (package uwsgi-core)")
    if not any(Path("/usr/lib/uwsgi/plugins").glob("python3*_plugin.so")):
        pytest.skip("uwsgi's plugin python3 is not installed (package uwsgi-plugin-python3)")
    protocol = {"proxy": "--http-socket", "uwsgi": "--uwsgi-socket", "scgi": "--scgi-socket"}[family]
    listening = [program, "--plugin", "python3", protocol, address, "--need-app", "--die-on-term"]
    middleware = resource_file("middleware", "python", "src")
    return [*listening, "--wsgi-file", str(folder / "app.py"), "--pythonpath", str(middleware)]


@contextmanager
def way_to(family: str, folder: Path, *, unix: bool = False) -> Iterator[Way]:
    """A server for a family of directives, as long as the block; skips the test where it is not installed.

    It listens at a port, or with ``unix`` at the socket ``app.sock`` in the folder.
    """
    address = f"{folder}/app.sock" if unix else f"127.0.0.1:{free_ports(1)[0]}"
    scheme = {"proxy": "http://", "grpc": "" if unix else "grpc://"}.get(family, "")
    passing = f"{family}_pass {scheme}{'unix:' if unix else ''}{address};"
    if family == "grpc":
        with _grpc_server(f"unix:{address}" if unix else address):
            yield Way(family, (passing,))
        return
    if family == "fastcgi":
        (folder / "app.php").write_text(PHP_APP)
        command = fpm_command(folder, address)
        lines = [f"fastcgi_param {each};" for each in (*CGI_NAMES, f"SCRIPT_FILENAME {folder}/app.php")]
    else:
        (folder / "app.py").write_text(WSGI_APP)
        command = _uwsgi_command(folder, family, address)
        lines = [f"{family}_param {each};" for each in WSGI_NAMES] if family != "proxy" else []
    with Process(command, name=family, folder=folder / "servers") as process:
        process.wait_until(lambda: _listens(address), DEADLINE_S, f"a listener at {address}")
        yield Way(family, (passing, *lines))


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket(socket.AF_INET if host else socket.AF_UNIX) as client:
        return client.connect_ex((host, int(port)) if host else address) == 0


class _Show(grpc.GenericRpcHandler):
    """Answers every call with its metadata, named as CGI names headers, and with the headers of a middleware."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """The handler of one call."""
        names: dict[str, list[str]] = {}
        for name, value in details.invocation_metadata:
            names.setdefault("HTTP_" + name.upper().replace("-", "_"), []).append(str(value))
        text = json.dumps({name: ",".join(values) for name, values in names.items()}).encode()

        def show(_request: bytes, context: grpc.ServicerContext) -> bytes:
            context.send_initial_metadata(tuple((name.lower(), value) for name, value in MEASURED.items()))
            return text

        return grpc.unary_unary_rpc_method_handler(show)


@contextmanager
def _grpc_server(address: str) -> Iterator[None]:
    server = grpc.server(ThreadPoolExecutor(1), handlers=(_Show(),))
    server.add_insecure_port(address)
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait(DEADLINE_S)
