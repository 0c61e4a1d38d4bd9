"""The recipe for Kubernetes: the page's ConfigMaps, laid out as the controllers do, in an nginx without njs."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest
import sojourn
import yaml
from recipe_support import OURS, App, blocks_of, command_environment, fetch, fetch_together
from sojourn.readers.record import KEYS
from sojourn_lab.runtime.nginx import nginx_program
from sojourn_lab.runtime.ports import free_port, wait_for_port
from sojourn_lab.runtime.process import Process

PAGE, GATEWAYS = "kubernetes-ingress-nginx.md", "gateways.md"
SERVICE_S = 0.15
# Without njs inbound stamps are not validated, and the controllers make no traceparent.
NOT_THERE = {"trace_id", "span_id", "stamp", "proxy_start"}
NOT_IN_LEAN = {"request_id", "method", "uri", "protocol", "host", "remote_addr", "limit_req_status"}

FORGED = {"X-Request-Start": "t=1", "X-Queue-Start": "t=2", "X-Request-ID": "forged"}
CONTEXT = {"traceparent": f"00-{'f0' * 16}-{'f0' * 8}-01", "tracestate": "rojo=1"}


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
        "service": "default/shop",
    }


def ingress_nginx_lean() -> dict[str, str]:
    """The same with the lean record."""
    data = yaml.safe_load(blocks_of(PAGE)["ingress-nginx-lean"])["data"]
    return {**ingress_nginx(), "http": data["http-snippet"], "log": data["log-format-upstream"]}


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
        "service": "default/shop",
    }


def gateway_fabric() -> dict[str, str]:
    """What the SnippetsFilter and the NginxProxy become in the nginx.conf of NGINX Gateway Fabric."""
    blocks = blocks_of(GATEWAYS)
    snippets = {each["context"]: each["value"] for each in yaml.safe_load(blocks["snippets.yaml"])["spec"]["snippets"]}
    log = yaml.safe_load(blocks["nginx-proxy.yaml"])["spec"]["logging"]["accessLog"]
    assert len(log["format"]) <= 4096  # limits of its definition
    assert "'" not in log["format"]
    return {
        "http": snippets["http"],
        "hide": "",
        "escape": log["escape"],
        "log": log["format"],
        "request_id": "",
        "location": snippets["http.server.location"],
        "service": "default_shop_8000",
    }


def config(folder: Path, port: int, app: App, texts: dict[str, str]) -> str:
    """An nginx.conf with those texts where the controllers put them, and no module loaded."""
    user = f"user {pwd.getpwuid(0).pw_name};" if os.geteuid() == 0 else ""
    hidden = "".join(f"proxy_hide_header {name};\n" for name in texts["hide"].split(",") if name)
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
    upstream default_shop_8000 {{ server 127.0.0.1:{app.port}; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            {texts["location"]}
            proxy_set_header Host $host;
            proxy_pass http://default_shop_8000;
        }}
        location /file {{ return 200 file; }}
    }}
}}
"""


@pytest.mark.parametrize(
    "texts", [ingress_nginx, ingress_nginx_lean, f5, gateway_fabric], ids=lambda texts: texts.__name__
)
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
                fetch(port, '/a"b%ff', {**FORGED, **CONTEXT, "Host": "shop.example"}),
                *fetch_together(port, "/c", 3),
            ]
            fetch(port, "/file")
            rows = records(tmp_path / "access.log", 5)
    for answer in answers:
        assert answer.status == 200
        assert not set(OURS) & set(answer.headers)
    *proxied, file = rows
    is_lean = texts is ingress_nginx_lean
    assert all(set(row) == set(KEYS) - NOT_THERE - (NOT_IN_LEAN if is_lean else set()) for row in rows)
    assert sorted(app.stamps) == sorted(f"t={row['request_start']}" for row in proxied)
    assert all(not set(FORGED.values()) & set(headers.values()) for headers in app.requests)
    assert {name: app.requests[0].get(name) for name in CONTEXT} == CONTEXT
    ids = {headers["x-request-id"] for headers in app.requests}
    assert len(ids) == 4
    assert is_lean or ids == {row["request_id"] for row in proxied}
    assert {(row["service"], row["route"]) for row in proxied} == {(texts()["service"], "/of/{app}")}
    assert (file["request_start"], file["queueing_delay"]) == ("", "")

    result = sojourn.split(str(tmp_path / "access.log"))
    assert result.records.rejected == 0
    assert result.sources == {"stamp": 4, "none": 1}
    waits = sorted(float(row["queueing_delay"]) for row in proxied)
    assert waits[-1] > SERVICE_S
    assert waits[0] < SERVICE_S


# What Envoy puts for each operator of the page: a request with a wait of 250 ms and a service of 100 ms.
ENVOY = {
    "%START_TIME%": "2026-01-31T12:00:00.123Z", "%DURATION%": 363, "%REQUEST_DURATION%": 0, "%RESPONSE_CODE%": 200,
    "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%": "352", "%REQ(:METHOD)%": "GET", "%PROTOCOL%": "HTTP/1.1",
    "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%": "/orders/17?a=1", "%REQ(:AUTHORITY)%": "shop.example", "%BYTES_SENT%": 512,
    "%UPSTREAM_HOST%": "10.0.0.2:8000", "%UPSTREAM_CLUSTER%": "httproute/default/shop/rule/0",
    "%REQ(X-REQUEST-START)%": "t=1769860800.123", "%RESP(X-QUEUEING-DELAY)%": "0.250321",
    "%RESP(X-SERVICE-TIME)%": "0.100210", "%RESP(X-WORKER)%": "7", "%RESP(X-ROUTE)%": "/orders/:id",
}  # fmt: skip
CONTOUR = {  # its own names of operators
    "duration": "%DURATION%", "upstream_service_time": "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
    "method": "%REQ(:METHOD)%", "response_code": "%RESPONSE_CODE%",
    "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%", "protocol": "%PROTOCOL%",
    "authority": "%REQ(:AUTHORITY)%", "request_id": "%REQ(X-REQUEST-ID)%", "bytes_sent": "%BYTES_SENT%",
    "upstream_host": "%UPSTREAM_HOST%", "upstream_cluster": "%UPSTREAM_CLUSTER%",
}  # fmt: skip


def envoy_gateway() -> dict[str, str]:
    """The JSON format of the page's EnvoyProxy."""
    page = yaml.safe_load(blocks_of(GATEWAYS)["envoy-proxy.yaml"])
    (settings,) = page["spec"]["telemetry"]["accessLog"]["settings"]
    return settings["format"]["json"]


def istio() -> dict[str, str]:
    """That of its mesh configuration, a text."""
    return json.loads(yaml.safe_load(blocks_of(GATEWAYS)["mesh-config.yaml"])["meshConfig"]["accessLogFormat"])


def contour() -> dict[str, str]:
    """That of its fields for Contour."""
    fields = (each.partition("=") for each in yaml.safe_load(blocks_of(GATEWAYS)["contour.yaml"])["json-fields"])
    return {name: operator or CONTOUR[name] for name, _, operator in fields}


@pytest.mark.parametrize("keys", [envoy_gateway, istio, contour], ids=lambda keys: keys.__name__)
def test_the_split_of_envoys_log_with_the_apps_headers(keys, tmp_path: Path) -> None:
    log = tmp_path / "envoy.log"
    lines = [
        {key: f"id-{number}" if key == "request_id" else ENVOY[operator] for key, operator in keys().items()}
        for number in range(3)
    ]
    log.write_text("".join(json.dumps(each) + "\n" for each in lines))
    columns = ("queue", "queue_source", "service_time", "header", "upload", "worker", "route", "upstream")
    result = sojourn.split(log, columns=columns)
    assert [facts.format for facts in result.records.formats] == ["envoy-json"]
    assert (result.records.accepted, result.sources) == (3, {"stamp": 3})
    row = result.rows.collect().to_dicts()[0]
    subtracted = result.to_dict()["clock"][0]["correction"]
    assert row["queue"] + subtracted == pytest.approx(0.250321 - 0.0005, abs=2e-6)  # the stamp is cut to milliseconds
    assert row["service_time"] == pytest.approx(0.100210)
    assert (row["request_time"], row["header"], row["upload"]) == (0.363, 0.352, 0.0)
    assert (row["worker"], row["route"], row["upstream"]) == ("7", "/orders/:id", "10.0.0.2:8000")


# The controller's log-format, of its documentation.
HAPROXY_LOG = (
    "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs "
    '\\"%HM %[var(txn.base)] %HV\\"'
)


def test_the_queue_of_haproxys_controller(tmp_path: Path) -> None:
    program = shutil.which("haproxy", path=f"/usr/local/sbin:/usr/sbin:{command_environment()['PATH']}")
    if program is None:
        pytest.skip("haproxy is not installed")
    data = yaml.safe_load(blocks_of(GATEWAYS)["haproxy-ingress.yaml"])["data"]
    assert int(data["pod-maxconn"]) > 1  # of a pod with several workers; the app below has one
    port = free_port()
    times = "".join(f"    timeout {name} 20s\n" for name in ("connect", "client", "server"))
    snippet = "".join(f"    {line}\n" for line in data["frontend-config-snippet"].splitlines())
    config = tmp_path / "haproxy.cfg"
    with App(SERVICE_S) as app:
        config.write_text(
            f"global\n    log stdout format raw local0\ndefaults\n    mode http\n    log global\n{times}"
            f'    log-format "{HAPROXY_LOG}"\n'
            f"frontend http\n    bind 127.0.0.1:{port}\n    http-request set-var(txn.base) base\n{snippet}"
            f"    default_backend default_shop_http\n"
            f"backend default_shop_http\n    server SRV_1 127.0.0.1:{app.port} maxconn 1\n"
        )
        with Process([program, "-db", "-f", config], name="haproxy", folder=tmp_path) as process:
            wait_for_port("127.0.0.1", port, 20, process)
            fetch_together(port, "/c", 4)
            process.wait_until(lambda: process.last_lines(50).count("GET ") == 4, 20, "four lines")
            text = process.last_lines(50)
    assert [re.fullmatch(r"t=\d{16}", stamp or "") is not None for stamp in app.stamps] == [True] * 4
    log = tmp_path / "haproxy.log"
    log.write_text("".join(f"{line}\n" for line in text.splitlines() if "GET " in line))
    columns = ("start", "upload", "proxy_queue", "upstream", "uri", "header")
    result = sojourn.split(sojourn.log_file(log, "haproxy"), columns=columns)
    assert result.records.rejected == 0
    rows = result.rows.collect()
    assert rows["proxy_queue"].min() < SERVICE_S / 2 < SERVICE_S < rows["proxy_queue"].max()
    # HAProxy sends one when the one before is answered; that they arrive at the same moment is not certain.
    sent = (rows["start"].dt.epoch("us") / 1e6 + rows["upload"] + rows["proxy_queue"]).sort().to_list()
    for earlier, later in pairwise(sent):
        assert later - earlier >= SERVICE_S - 0.01, rows
    assert set(rows["upstream"]) == {"default_shop_http/SRV_1"}
    assert rows["header"].min() >= SERVICE_S - 0.01


def test_every_stamp_of_the_page_is_one_line() -> None:
    """Of Envoy, in the form whose values the middleware reads as seconds."""
    blocks = blocks_of(GATEWAYS)
    (rule,) = yaml.safe_load(blocks["httproute.yaml"])["spec"]["rules"]
    (header,) = rule["filters"][0]["requestHeaderModifier"]["set"]
    (patch,) = yaml.safe_load(blocks["envoy-filter.yaml"])["spec"]["configPatches"]
    (added,) = patch["patch"]["value"]["request_headers_to_add"]
    stamp = "t=%START_TIME(%s.%3f)%"
    assert (header, added["header"]) == (
        {"name": "X-Request-Start", "value": stamp},
        {"key": "x-request-start", "value": stamp},
    )
    assert re.fullmatch(r"[!-~]+([\t ]?[!-~]+)*", stamp)  # Envoy Gateway accepts no other characters
    assert added["append_action"] == "OVERWRITE_IF_EXISTS_OR_ADD"


def records(log: Path, count: int) -> list[dict[str, str]]:
    """The log once it has `count` records."""
    deadline = time.monotonic() + 60
    while (text := log.read_text(errors="replace")).count("\n") < count:
        assert time.monotonic() < deadline, text
        time.sleep(0.01)
    return [json.loads(line) for line in text.splitlines()]
