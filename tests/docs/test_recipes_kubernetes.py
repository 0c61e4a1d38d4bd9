"""The recipe for Kubernetes: the page's ConfigMaps, laid out as the controllers do, in an nginx without njs."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import time
from pathlib import Path

import pytest
import sojourn
import yaml
from recipe_support import OURS, App, blocks_of, fetch, fetch_together
from sojourn.readers.record import KEYS
from sojourn_lab.runtime.nginx import nginx_program
from sojourn_lab.runtime.ports import free_port, wait_for_port
from sojourn_lab.runtime.process import Process

PAGE = "kubernetes-ingress-nginx.md"
SERVICE_S = 0.15
# Without njs inbound stamps are not validated, and the controllers make no traceparent.
NOT_THERE = {"trace_id", "span_id", "stamp", "proxy_start"}

FORGED = {
    "X-Request-Start": "t=1",
    "X-Queue-Start": "t=2",
    "X-Request-ID": "forged",
    "traceparent": f"00-{'f0' * 16}-{'f0' * 8}-01",
    "tracestate": "forged=1",
}


def ingress_nginx() -> dict[str, str]:
    """What the ConfigMap becomes in the controller's nginx.conf."""
    data = yaml.safe_load(blocks_of(PAGE)["ingress-nginx"])["data"]
    assert data["log-format-escape-json"] == "true"
    return {
        "http": data["http-snippet"],
        "hide": data["hide-headers"],
        "escape": "json",
        "log": data["log-format-upstream"],
        "request_id": 'map $http_x_request_id $req_id { default $http_x_request_id; "" $request_id; }',
        "location": 'set $namespace "default"; set $service_name "shop"; proxy_set_header X-Request-ID $req_id;\n'
        + data["location-snippet"],
    }


def f5() -> dict[str, str]:
    """The same for F5's controller, with the log format that the page tells one to derive."""
    data = yaml.safe_load(blocks_of(PAGE)["f5"])["data"]
    log = ingress_nginx()["log"].replace("$req_id", "$request_id")
    return {
        "http": data["http-snippets"],
        "hide": data["proxy-hide-headers"],
        "escape": data["log-format-escaping"],
        "log": log.replace("$namespace/$service_name", "$resource_namespace/$service"),
        "request_id": "",
        "location": 'set $resource_namespace "default"; set $service "shop";\n' + data["location-snippets"],
    }


def config(folder: Path, port: int, app: App, texts: dict[str, str]) -> str:
    """An nginx.conf with those texts where the controllers put them, and no module loaded."""
    user = f"user {pwd.getpwuid(0).pw_name};" if os.geteuid() == 0 else ""
    hidden = "".join(f"proxy_hide_header {name};\n" for name in texts["hide"].split(","))
    temp = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""
{user} daemon off; pid {folder}/nginx.pid; events {{ }}
http {{
    variables_hash_max_size 2048; {temp}
    log_format upstreaminfo escape={texts["escape"]} '{texts["log"]}';
    access_log {folder}/access.log upstreaminfo;
    {texts["request_id"]}
    {hidden}
    {texts["http"]}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            {texts["location"]}
            proxy_set_header Host $host;
            proxy_pass http://127.0.0.1:{app.port};
        }}
        location /file {{ return 200 file; }}
    }}
}}
"""


@pytest.mark.parametrize("texts", [ingress_nginx, f5], ids=lambda texts: texts.__name__)
def test_the_lines_write_the_record_without_njs(texts, tmp_path: Path) -> None:
    program = nginx_program()
    if program is None:
        pytest.skip("nginx is not installed")
    port = free_port()
    with App(SERVICE_S) as app:
        (tmp_path / "nginx.conf").write_text(config(tmp_path, port, app, texts()))
        command = [program, "-p", tmp_path, "-e", tmp_path / "error.log", "-c", tmp_path / "nginx.conf"]
        checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False, timeout=30)
        assert checked.returncode == 0, checked.stderr
        assert "warn" not in checked.stderr
        with Process(command, name="nginx", folder=tmp_path) as process:
            wait_for_port("127.0.0.1", port, 60, process)
            answers = [
                fetch(port, '/a"b%ff', {**FORGED, "Host": "shop.example"}),
                *fetch_together(port, "/c", 3),
            ]
            fetch(port, "/file")
            rows = records(tmp_path / "access.log", 5)
    for answer in answers:
        assert answer.status == 200
        assert not set(OURS) & set(answer.headers)
    *proxied, file = rows
    assert all(set(row) == set(KEYS) - NOT_THERE for row in rows)
    assert sorted(app.stamps) == sorted(f"t={row['request_start']}" for row in proxied)
    assert all(not set(FORGED.values()) & set(headers.values()) for headers in app.requests)
    assert {headers["x-request-id"] for headers in app.requests} == {row["request_id"] for row in proxied}
    assert {(row["service"], row["route"]) for row in proxied} == {("default/shop", "/of/{app}")}
    assert (file["request_start"], file["queueing_delay"]) == ("", "")

    result = sojourn.split(str(tmp_path / "access.log"))
    assert result.records.rejected == 0
    assert result.sources == {"stamp": 4, "none": 1}
    waits = sorted(float(row["queueing_delay"]) for row in proxied)
    assert waits[-1] > SERVICE_S
    assert waits[0] < SERVICE_S


def records(log: Path, count: int) -> list[dict[str, str]]:
    """The log once it has `count` records."""
    deadline = time.monotonic() + 60
    while (text := log.read_text(errors="replace")).count("\n") < count:
        assert time.monotonic() < deadline, text
        time.sleep(0.01)
    return [json.loads(line) for line in text.splitlines()]
