"""The include of each directive that passes requests to an app, with a real server at a port and a Unix socket."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from pathlib import Path

import grpc
import pytest
from apps_behind import METHOD, way_to
from doctor_support import DEADLINE_S, Laid, laid, running
from nginx_support import rows_of
from sojourn.doctor.nginx_headers import ANSWER_HEADERS, FAMILIES, header_name, include_name
from sojourn_lab.runtime.nginx import Nginx, nginx_program

NO_NGINX = Nginx.why_unavailable()
pytestmark = pytest.mark.skipif(NO_NGINX is not None, reason=NO_NGINX or "")

CONF = """\
@MODULE@
pid @FOLDER@/nginx.pid;
error_log @FOLDER@/error.log notice;

events {
    worker_connections 4096;
}

http {
    @TEMP@
    include sojourn/sojourn.conf;
    access_log @FOLDER@/access.jsonl sojourn;

    server {
        listen 127.0.0.1:@PORT@HTTP2;
        server_name shop.example;

        LOCATIONS
    }
}
"""


def configured(folder: Path, locations: str, *, http2: bool = False) -> Laid:
    return laid(folder, text=CONF.replace("HTTP2", " http2" if http2 else "").replace("LOCATIONS", locations))


def request(port: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return the headers that the app received and those that the client received, names in small letters."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    try:
        connection.request("GET", "/", headers={"X-Request-Start": "t=1"})
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    assert answer.status == 200, body
    return _received(body), {name.lower(): value for name, value in answer.getheaders()}


def call(port: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return the same of a gRPC call."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        body, done = channel.unary_unary(METHOD).with_call(
            b"", timeout=DEADLINE_S, metadata=(("x-request-start", "t=1"),)
        )
    metadata = [*done.initial_metadata(), *done.trailing_metadata()]
    return _received(body), {name: str(value) for name, value in metadata}


def _received(body: bytes) -> dict[str, str]:
    return {header_name(name): value for name, value in json.loads(body).items()}


@pytest.mark.parametrize("unix", [False, True], ids=["port", "unix socket"])
@pytest.mark.parametrize("family", FAMILIES)
def test_include_stamps_logs_and_hides(tmp_path: Path, family: str, unix: bool) -> None:
    with way_to(family, tmp_path, unix=unix) as way:
        lines = " ".join([*way.lines, f"include sojourn/{include_name(family)};"])
        conf = configured(tmp_path / "nginx", f"location / {{ {lines} }}", http2=family == "grpc")
        assert conf.accepted() == ""
        with running(conf):
            before = time.time()
            sent, received = (call if family == "grpc" else request)(conf.ports["PORT"])
            after = time.time()
        (row,) = rows_of(conf.folder / "access.jsonl")
        assert conf.diagnosed().findings == []
    assert before - 0.002 <= float(sent["x-request-start"].removeprefix("t=")) <= after + 0.002
    assert sent["x-request-id"] == row["request_id"]
    assert sent["traceparent"] == f"00-{row['trace_id']}-{row['span_id']}-01"
    assert not {"x-queue-start", "tracestate"} & set(sent)
    assert not {name.lower() for name in ANSWER_HEADERS} & set(received)
    assert row["upstream_addr"].startswith("unix:") is unix
    assert row["upstream_addr"] == (f"unix:{tmp_path}/app.sock" if unix else row["upstream_addr"])
    assert (row["stamp"], row["upstream_status"]) == ("own", "200")
    assert float(row["service_time"]) >= 0
    assert float(row["queueing_delay"]) < DEADLINE_S
    assert row["worker"]


def test_includes_of_all_directives_in_one_server(tmp_path: Path) -> None:
    """Nothing in one include disturbs another, and nginx accepts all of them without a warning."""
    locations = [
        f"location /{family} {{ {family}_pass {'http://' if family == 'proxy' else ''}127.0.0.1:9; "
        f"include sojourn/{include_name(family)}; include sojourn/sojourn_server_timing.conf; }}"
        for family in FAMILIES
    ]
    conf = configured(tmp_path / "nginx", "\n        ".join(locations))
    done = subprocess.run(
        [nginx_program() or "nginx", "-t", "-p", f"{conf.folder}/", "-c", conf.path],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "[warn]" not in done.stderr
    assert conf.diagnosed().findings == []
