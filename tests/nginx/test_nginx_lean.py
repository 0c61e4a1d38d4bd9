"""The lean record on a real nginx: the same stamp, fewer fields, and no value that a reader could take for another."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sojourn
from apps_behind import METHOD, exchanged, nginx_before, way_to
from doctor_support import DEADLINE_S, running
from nginx_support import connect, get, logged, received, request_bytes, rows_of
from nginx_upstream import Answer, Request, Upstream, answer_with
from sojourn.doctor.nginx_headers import ANSWER_HEADERS, FAMILIES
from sojourn.doctor.nginx_records import LEAN
from sojourn_lab.runtime.nginx import Nginx

NO_NGINX = Nginx.why_unavailable()
pytestmark = pytest.mark.skipif(NO_NGINX is not None, reason=NO_NGINX or "")

Shop = Callable[..., Nginx]
Start = Callable[..., Upstream]
PROXY = "proxy_pass http://app; include sojourn/sojourn_lean_proxy.conf;"
LOCATION = f"location / {{ {PROXY} }}"
REPORT = [("X-Queueing-Delay", "0.100000"), ("X-Service-Time", "0.200000"), ("X-Worker", "7"), ("X-Route", "/items")]


def lean(conf: Path) -> None:
    """Include the lean record, and take the module out: it needs none."""
    lines = [line for line in conf.read_text().splitlines() if "load_module" not in line]
    conf.write_text("\n".join(lines).replace("sojourn/sojourn.conf", "sojourn/sojourn_lean.conf") + "\n")


@pytest.mark.parametrize("family", FAMILIES)
def test_include_stamps_logs_and_hides(tmp_path: Path, family: str) -> None:
    with way_to(family, tmp_path) as way:
        lines = " ".join([*way.lines, LEAN.include_line(family)])
        conf = nginx_before(tmp_path / "nginx", family, f"location / {{ {lines} }}")
        lean(Path(conf.path))
        assert conf.accepted() == ""
        with running(conf):
            before = time.time()
            path = METHOD if family == "grpc" else "/"
            client = [
                ("X-Request-Start", "t=1"),
                ("X-Queue-Start", "t=1"),
                ("X-Request-ID", "forged"),
                ("traceparent", "t"),
            ]
            sent, answered = exchanged(conf.ports["PORT"], family, path, client)
            after = time.time()
        (row,) = rows_of(conf.folder / "access.jsonl")
        assert conf.diagnosed().findings == []
    assert before - 0.002 <= float(sent["x-request-start"].removeprefix("t=")) <= after + 0.002
    assert sent["x-request-start"] == f"t={row['request_start']}"
    assert not {"x-queue-start", "x-request-id"} & set(sent)
    assert sent["traceparent"] == "t"
    assert not {name.lower() for name in ANSWER_HEADERS} & set(answered)
    assert (row["upstream_status"], row["request_id"], row["uri"]) == ("200", "", "")
    assert float(row["service_time"]) >= 0
    assert 0 <= float(row["queueing_delay"]) < DEADLINE_S
    assert row["worker"]


def test_no_stamp_where_none_was_sent(shop: Shop, app: Upstream) -> None:
    server = (
        "location /file { return 200 ok; } location /bare { proxy_pass http://app; } "
        f"location / {{ {PROXY} }} location /gone {{ error_page 404 = @app; return 404; }} location @app {{ {PROXY} }}"
    )
    nginx = shop(server, edit=lean)
    for path in ("/file", "/bare", "/x", "/gone"):
        get(nginx, path)
    file, bare, stamped, passed_on = logged(nginx, 4)
    assert (file["request_start"], file["upstream_addr"]) == ("", "")
    assert bare["request_start"] == ""
    assert bare["upstream_addr"]
    for row in (stamped, passed_on):
        assert float(row["time"]) - float(row["request_time"]) - 0.002 <= float(row["request_start"])
        assert float(row["request_start"]) <= float(row["time"])
    assert app.requests[-1].value("x-request-start") == f"t={passed_on['request_start']}"


def test_upload_ends_before_the_stamp(shop: Shop, app: Upstream) -> None:
    nginx = shop(LOCATION, edit=lean)
    with connect(nginx) as connection:
        connection.sendall(request_bytes(headers=[("Content-Length", "2")], method="POST"))
        connection.sendall(b"a")
        time.sleep(0.3)
        connection.sendall(b"b")
        received(connection)
    (row,) = logged(nginx)
    begun = float(row["time"]) - float(row["request_time"])
    assert float(row["request_start"]) - begun > 0.25


def test_client_that_leaves_during_its_upload(shop: Shop, app: Upstream) -> None:
    nginx = shop(LOCATION, edit=lean)
    with connect(nginx) as connection:
        connection.sendall(request_bytes(headers=[("Content-Length", "9")], method="POST"))
    (row,) = logged(nginx)
    assert (row["upstream_addr"], row["request_start"]) == ("", "")
    assert app.requests == []


def test_redirect_of_the_app_keeps_the_first_stamp(serve: Shop, upstream: Start) -> None:
    second = upstream(answer_with(REPORT))
    first = upstream(answer_with([("X-Accel-Redirect", "/inner")]))
    server = (
        f"location / {{ proxy_pass http://{first.address}; include sojourn/sojourn_lean_proxy.conf; }}"
        f"location /inner {{ internal; proxy_pass http://{second.address}; include sojourn/sojourn_lean_proxy.conf; }}"
        f"location /bare {{ proxy_pass http://{first.address}; }}"
    )
    nginx = serve(server, edit=lean)
    get(nginx, "/")
    get(nginx, "/bare")
    first_row, late = logged(nginx, 2)
    stamps = [each.value("x-request-start") for each in (*first.requests, *second.requests)]
    assert stamps == [
        f"t={first_row['request_start']}",
        None,
        f"t={first_row['request_start']}",
        f"t={late['request_start']}",
    ]
    assert float(late["request_start"]) > 0


def test_settings(shop: Shop, app: Upstream) -> None:
    http = (
        'map "" $sojourn_service { default till; } map $uri $sojourn_route { default other; ~^/users/ /users/...; }'
        'map "" $sojourn_request_id { default $request_id; } map $request_uri $sojourn_uri { "~^([^?#]*)" $1; }'
    )
    nginx = shop(LOCATION, http=http, edit=lean)
    get(nginx, "/users/17?token=secret")
    (row,) = logged(nginx)
    assert (row["service"], row["route"], row["uri"]) == ("till", "/users/...", "/users/17")
    assert app.requests[0].values("x-request-id") == [row["request_id"]]
    assert len(row["request_id"]) == 32


def test_cached_answers_have_no_times_of_the_app(serve: Shop, upstream: Start) -> None:
    """nginx keeps the app's headers with the answer, and logs them again; readers know it by the cache's status."""
    app = upstream(answer_with([*REPORT, ("Cache-Control", "max-age=60")]))
    http = f"upstream app {{ server {app.address}; }} proxy_cache_path cache keys_zone=filled:1m;"
    nginx = serve(f"location / {{ proxy_cache filled; {PROXY} }}", http=http, edit=lean)
    for _ in range(3):
        get(nginx)
    rows = logged(nginx, 3)
    assert [row["upstream_cache_status"] for row in rows] == ["MISS", "HIT", "HIT"]
    assert [row["service_time"] for row in rows] == ["0.200000"] * 3
    frame = sojourn.read(nginx.access_log, columns=("app_service_time", "app_queueing_delay", "worker", "route"))
    values = frame.rows.collect().sort("app_service_time", nulls_last=True)
    assert values["app_service_time"].to_list() == pytest.approx([0.2, None, None])
    assert values["app_queueing_delay"].to_list() == pytest.approx([0.1, None, None])
    assert values["worker"].to_list() == ["7", None, None]
    assert values["route"].to_list() == ["/items"] * 3


def queued(workers: int, work: float) -> Answer:
    """Return an app of a few workers that reports its times, as the middleware does."""
    places = ThreadPoolExecutor(workers)

    def served(connection: socket.socket, request: Request) -> None:
        begun = time.time()
        time.sleep(work)
        delay = begun - float((request.value("x-request-start") or "")[2:])
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\nX-Queueing-Delay: {delay:.6f}\r\n"
            f"X-Service-Time: {time.time() - begun:.6f}\r\nX-Worker: 1\r\nX-Route: /slow\r\n\r\nok"
        )
        connection.sendall(head.encode())

    return lambda connection, request: places.submit(served, connection, request).result()


def test_split_of_a_lean_log(serve: Shop, upstream: Start) -> None:
    """A queue with its truth: eight requests at once, 0.1 s of work each, and every line delivered twice."""
    app = upstream(queued(1, 0.1))
    nginx = serve(LOCATION, http=f"upstream app {{ server {app.address}; }}", edit=lean)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: get(nginx), range(8)))
    logged(nginx, 8)
    split = sojourn.split(nginx.access_log)
    assert split.records.accepted == 8
    assert split.verdict.cause == "queueing"
    assert split.components["service_time"]["mean"] == pytest.approx(0.1, abs=0.05)
    assert split.components["queueing_delay"]["max"] > 0.5
    log = nginx.access_log.read_bytes()
    twice = nginx.access_log.with_name("twice.jsonl")
    twice.write_bytes(log + log)
    assert sojourn.split(twice).requests == 8
