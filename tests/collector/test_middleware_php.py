"""The middleware for PHP: its own tests with the shared tables (PHPUnit), and PHP-FPM and Apache's mod_php."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from collector_support import (
    CASES,
    SLACK_S,
    assert_queued,
    assert_x_request_start_decides,
    eventually,
    fetch,
    fetch_parallel,
    served,
    stamp_now,
)
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.ports import free_port, wait_for_port
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.others import fpm_program

APP = Path(__file__).parent / "php" / "app.php"
PACKAGE = resource_file("middleware", "php")
README = (PACKAGE / "README.md").read_text("utf-8")
ANSWERS = json.loads((Path(__file__).parents[1] / "vectors" / "answer_headers.json").read_text("utf-8"))["cases"]
APACHE_MODULES = Path("/usr/lib/apache2/modules")
PARAMS = Path("/etc/nginx/fastcgi_params")
SERVICE_S = 0.15
DEADLINE_S = 60.0
BUFFER = "php_admin_value[output_buffering]"
MEASURED = {"x-queueing-delay", "x-service-time", "x-worker"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The result of each test of the package by its name: empty if it passed, else what PHPUnit printed."""
    if shutil.which("phpunit") is None:
        pytest.skip("phpunit is not installed")
    report = tmp_path_factory.mktemp("phpunit") / "report.xml"
    command = ["phpunit", "--configuration", str(PACKAGE), "--log-junit", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert report.is_file(), done.stdout + done.stderr
    assert done.returncode in {0, 1, 2}, done.stdout + done.stderr
    texts = {}
    for case in ET.parse(report).iter("testcase"):
        failures = [each.text or each.tag for each in case if each.tag in {"failure", "error", "warning"}]
        skipped = ["skipped"] if case.find("skipped") is not None else []
        name = case.get("class", "").rpartition("\\")[2]
        texts[f"{name}: {case.get('name')}"] = "\n".join([*failures, *skipped])
    return texts


@pytest.mark.parametrize("name", [case["name"] for case in CASES])
def test_stamps_are_read_as_the_table_says(results: dict[str, str], name: str) -> None:
    assert results[f'StampTest: testReadsTable with data set "{name}"'] == ""


@pytest.mark.parametrize("name", [case["name"] for case in ANSWERS])
def test_headers_are_those_of_the_table(results: dict[str, str], name: str) -> None:
    assert results[f'MeasurementTest: testAnswersTable with data set "{name}"'] == ""


def test_all_other_tests_of_the_package_pass(results: dict[str, str]) -> None:
    assert {name: text for name, text in results.items() if text and text != "skipped"} == {}
    classes = {name.partition(":")[0] for name in results}
    assert classes == {path.stem for path in PACKAGE.glob("tests/*Test.php")}


def test_no_test_of_the_package_is_skipped(results: dict[str, str]) -> None:
    skipped = {name.partition(":")[0] for name, text in results.items() if text == "skipped"}
    if skipped:
        pytest.skip(
            f"skipped in {', '.join(sorted(skipped))}: needs php-nyholm-psr7, php-symfony-http-kernel, "
            "php-illuminate-routing and php-illuminate-events"
        )


def test_composer_accepts_the_package(tmp_path: Path) -> None:
    if shutil.which("composer") is None:
        pytest.skip("composer is not installed")
    environment = {**os.environ, "COMPOSER_ALLOW_SUPERUSER": "1", "COMPOSER_HOME": str(tmp_path)}
    command = ["composer", "validate", "--strict", "--no-interaction", f"--working-dir={PACKAGE}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_source_compiles_without_warning() -> None:
    if shutil.which("php") is None:
        pytest.skip("php is not installed")
    for path in (PACKAGE / "auto_prepend.php", *(PACKAGE / "src").glob("*.php")):
        done = subprocess.run(["php", "-n", "-d", "error_reporting=-1", "-l", path], capture_output=True, check=False)
        assert done.stdout.startswith(b"No syntax errors"), done.stdout.decode()


def test_a_command_is_not_measured(tmp_path: Path) -> None:
    if shutil.which("php") is None:
        pytest.skip("php is not installed")
    script = tmp_path / "script.php"
    script.write_text("<?php echo json_encode(class_exists('Sojourn\\Middleware\\Measurement', false));")
    command = ["php", "-n", "-d", f"auto_prepend_file={PACKAGE / 'auto_prepend.php'}", str(script)]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"false"


@dataclass(frozen=True)
class Server:
    """A PHP server with one worker: its HTTP port, what it logs, and the file of the spans."""

    kind: str
    port: int
    process: Process
    log: Path
    spans: Path


def settings_of(folder: Path, **settings: str) -> dict[str, str]:
    """The environment variables of the app."""
    return {
        "SPANS": str(folder / "spans.jsonl"),
        "OPENTELEMETRY": str(folder / "package/tests/opentelemetry.php"),
        **settings,
    }


@contextmanager
def fpm(folder: Path, variables: Mapping[str, str], *ini: str) -> Iterator[Server]:
    """nginx before a PHP-FPM with one child. The test sends the stamp: nginx passes it on unchanged."""
    program = fpm_program()
    if program is None:
        pytest.skip("php-fpm is not installed")
    if (reason := Nginx.why_unavailable()) is not None or not PARAMS.is_file():
        pytest.skip(reason or f"nginx without {PARAMS}")
    address, log = folder / "php.sock", folder / "fpm.log"
    user = "user = root\n" if os.geteuid() == 0 else ""
    environment = "".join(f'env[{name}] = "{value}"\n' for name, value in variables.items())
    (folder / "fpm.conf").write_text(
        f"[global]\nerror_log = {log}\n[app]\n{user}listen = {address}\npm = static\npm.max_children = 1\n"
        f"catch_workers_output = yes\nphp_admin_flag[log_errors] = on\n"
        f"php_admin_flag[display_errors] = off\n{environment}"
        f'php_admin_value[auto_prepend_file] = "{folder}/package/auto_prepend.php"\n' + "\n".join(ini)
    )
    location = (
        f"location / {{ include {PARAMS}; fastcgi_param SCRIPT_FILENAME {folder}/app.php;"
        f" fastcgi_pass unix:{address}; }}"
    )
    command = [program, "-n", "-F", "-R", "-y", str(folder / "fpm.conf")]
    with Process(command, name="php-fpm", folder=folder) as process:
        process.wait_until(address.exists, DEADLINE_S, "PHP-FPM to listen")
        with Nginx(folder, location, access_log=folder / "access.jsonl").start() as nginx:
            yield Server("fpm", nginx.port, process, log, folder / "spans.jsonl")


@contextmanager
def apache(folder: Path, variables: Mapping[str, str], *ini: str) -> Iterator[Server]:
    """Apache with mod_php and one process."""
    program = shutil.which("apache2", path=f"{os.environ['PATH']}:/usr/sbin")
    modules = sorted(APACHE_MODULES.glob("libphp*.so"))
    if program is None or not modules or not (APACHE_MODULES / "mod_mpm_prefork.so").is_file():
        pytest.skip("Apache with mod_php is not installed (package libapache2-mod-php)")
    loaded = [("mpm_prefork_module", "mod_mpm_prefork.so"), ("authz_core_module", "mod_authz_core.so")]
    loaded += [("dir_module", "mod_dir.so"), ("env_module", "mod_env.so"), ("php_module", modules[-1].name)]
    lines = [f"LoadModule {name} {APACHE_MODULES / file}" for name, file in loaded]
    lines += [f'SetEnv {name} "{value}"' for name, value in variables.items()]
    lines += [f"php_admin_value {' '.join(line.split('[')[1].split('] = '))}" for line in ini]
    log = folder / "error.log"
    (folder / "apache.conf").write_text(
        "\n".join(lines)
        + f"""
ServerName localhost
ServerRoot {folder}
PidFile {folder}/apache.pid
ErrorLog {log}
DocumentRoot {folder}
{"User #65534" if os.geteuid() == 0 else ""}
{"Group #65534" if os.geteuid() == 0 else ""}
KeepAlive Off
StartServers 1
ServerLimit 1
MaxRequestWorkers 1
FallbackResource /app.php
php_admin_value auto_prepend_file {folder}/package/auto_prepend.php
php_admin_flag log_errors on
php_admin_flag display_errors off
<FilesMatch "\\.php$">
    SetHandler application/x-httpd-php
</FilesMatch>
"""
    )
    command = [program, "-DFOREGROUND", "-f", str(folder / "apache.conf"), "-c", "Listen 127.0.0.1:{port}"]
    with served(command, folder / "server", name="apache") as (port, process):
        yield Server("apache", port, process, log, folder / "spans.jsonl")


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder with the app and the package that every user can enter: Apache's children are not root."""
    with tempfile.TemporaryDirectory(prefix="sojourn-php-") as name:
        folder = Path(name)
        shutil.copy(APP, folder)
        shutil.copytree(PACKAGE, folder / "package", ignore=shutil.ignore_patterns("vendor"))
        (folder / "spans.jsonl").touch()
        folder.chmod(0o755)
        (folder / "spans.jsonl").chmod(0o666)
        yield folder


SERVERS = {"fpm": fpm, "apache": apache}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Each server with Server-Timing enabled."""
    with ExitStack() as stack:
        folder = stack.enter_context(open_folder())
        variables = settings_of(folder, SOJOURN_SERVER_TIMING="on")
        yield stack.enter_context(SERVERS[request.param](folder, variables, f"{BUFFER} = 4096"))


def worker_of(server: Server) -> str:
    """The name of the only worker."""
    return fetch(server.port).headers["x-worker"]


def test_requests_wait_in_turn(server: Server) -> None:
    worker = worker_of(server)
    answers = fetch_parallel(server.port, "/sleep", 4)
    assert_queued(answers, SERVICE_S)
    assert {answer.headers["x-worker"] for answer in answers} == {worker}
    assert worker.isdecimal()
    assert int(worker) != server.process.pid


def test_x_request_start_decides(server: Server) -> None:
    assert_x_request_start_decides(server.port)


def test_route_and_own_headers(server: Server) -> None:
    assert fetch(server.port, "/users").headers["x-route"] == "/users/{id}"
    own = fetch(server.port, "/own")
    assert (own.headers["x-route"], own.headers["x-worker"]) == ("/own/route", worker_of(server))
    assert 0 <= own.queueing_delay + 0.002 < SLACK_S
    refused = fetch(server.port, "/own", {"X-Request-Start": "junk"})
    assert "x-queueing-delay" not in refused.headers
    assert refused.service_time < SLACK_S


def raw_response(port: int, path: str, headers: str) -> bytes:
    """The head of a response as bytes, where `fetch` would join repeated headers."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n".encode())
        return b"".join(iter(lambda: client.recv(65536), b"")).partition(b"\r\n\r\n")[0].lower()


def test_server_timing_is_added_once_to_the_own_one(server: Server) -> None:
    head = raw_response(server.port, "/own", f"X-Request-Start: {stamp_now()}\r\n").decode()
    values = re.findall(r"^server-timing: (.*?)\r?$", head, re.M)
    assert values[0] == "db;dur=1"
    assert len(values) == 2
    assert re.fullmatch(r"queue;dur=\d+\.\d{3}, app;dur=\d+\.\d{3}", values[1])
    (alone,) = re.findall(r"^server-timing: (.*?)\r?$", raw_response(server.port, "/", "").decode(), re.M)
    assert alone.startswith("app;dur=")


@pytest.mark.parametrize("server", ["apache"], indirect=True)  # before PHP-FPM it is nginx that has both headers
def test_the_header_sent_twice_is_refused(server: Server) -> None:
    head = raw_response(server.port, "/", f"X-Request-Start: {stamp_now()}\r\n" * 2)
    assert b"x-service-time" in head
    assert b"x-queueing-delay" not in head


def test_service_time_ends_when_headers_leave(server: Server) -> None:
    flushed = fetch(server.port, "/flush")
    assert flushed.body == b"one two"
    assert flushed.service_time < SERVICE_S
    if server.kind == "fpm":
        finished = fetch(server.port, "/finish")
        assert finished.body == b"finished"
        assert finished.service_time < SERVICE_S


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/error", 500, b""),
        ("/memory", 500, b""),
        ("/page", 503, b"sorry"),
        ("/exit", 200, b"exited"),
        ("/empty", 204, b""),
        ("/globals", 200, b'["_GET","_POST","_COOKIE","_FILES","_SERVER","path"]'),
    ],
)
def test_other_ends_of_a_script_are_measured(server: Server, path: str, status: int, body: bytes) -> None:
    answer = fetch(server.port, path)
    assert answer.status == status
    assert answer.body == body or status == 500
    assert answer.headers.keys() >= MEASURED
    assert answer.service_time < SLACK_S


def test_head_has_the_headers_and_no_body(server: Server) -> None:
    answer = fetch(server.port, method="HEAD")
    assert answer.body == b""
    assert answer.headers.keys() >= MEASURED


def test_callback_of_the_app_and_measurements_are_both_sent(server: Server) -> None:
    answer = fetch(server.port, "/callback")
    assert answer.headers["x-app"] == "called"
    assert answer.headers.keys() >= MEASURED


def test_ignored_request_has_no_measurements(server: Server) -> None:
    answer = fetch(server.port, "/ignored")
    assert answer.body == b"ignored"
    assert not answer.headers.keys() & {*MEASURED, "server-timing"}


def test_client_cannot_set_options(server: Server) -> None:
    names = ("SOJOURN_MAX_AGE", "Sojourn-Max-Age", "SOJOURN-MAX-AGE", "Http-Sojourn-Max-Age")
    old = {"X-Request-Start": f"t={time.time() - 5:.3f}", **dict.fromkeys(names, "0")}
    assert fetch(server.port, headers=old).queueing_delay > 4.9


def spans_of(server: Server, path: str, **headers: str) -> list[dict[str, Any]]:
    """The spans of one request, once its script has ended."""
    before = len(server.spans.read_text().splitlines())
    fetch(server.port, path, headers)
    fetch(server.port)  # by the same worker: the script before it has ended
    return [json.loads(line) for line in server.spans.read_text().splitlines()[before:]]


def test_span_is_started_at_the_end_with_the_time_of_the_start(server: Server) -> None:
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    (span,) = spans_of(server, "/span?secret", traceparent=traceparent, **{"X-Request-ID": "abc"})
    assert (span["name"], span["kind"], span["status"]) == ("GET /span/{id}", 2, "Unset")
    assert span["parentSpanId"] == "b7ad6b7169203331"
    assert 0.02 <= (span["endNs"] - span["startNs"]) / 1e9 < SLACK_S
    attributes = span["attributes"]
    assert attributes["url.path"] == "/span"
    assert attributes["http.request.header.x-request-id"] == ["abc"]
    assert attributes["http.response.status_code"] == 200
    assert attributes["queueing.worker"] == worker_of(server)
    assert 0.02 <= attributes["queueing.service_time"] < SLACK_S
    ((name, stamp_ns, _),) = span["events"]
    assert name == "http.proxy.request.started"
    assert span["startNs"] - stamp_ns == pytest.approx(1e9 * attributes["queueing.delay"], abs=2)
    ((histogram, unit, value, labels),) = span["delays"]
    assert (histogram, unit, value) == ("queueing.delay", "s", attributes["queueing.delay"])
    assert labels["http.route"] == "/span/{id}"


def test_span_of_the_app_gets_the_attributes(server: Server) -> None:
    (span,) = spans_of(server, "/span/own")
    assert span["name"] == "of the app"
    assert span["attributes"]["queueing.status"] == "ok"
    assert span["attributes"]["http.route"] == "/span/own"
    assert len(span["delays"]) == 1


def test_fatal_error_is_in_the_span(server: Server) -> None:
    (span,) = spans_of(server, "/span/error")
    assert span["attributes"]["error.type"] == "DomainException"
    assert span["attributes"]["http.response.status_code"] == 500
    assert span["status"] == "Error"
    assert "exception" in [name for name, *_ in span["events"]]


def test_ignored_request_has_no_span(server: Server) -> None:
    assert spans_of(server, "/span/ignored") == []


@pytest.mark.parametrize("kind", SERVERS)
def test_options_of_the_server_and_one_warning_for_invalid_ones(kind: str) -> None:
    with open_folder() as folder:
        variables = settings_of(folder, SOJOURN_MAX_AGE="60", SOJOURN_MAX_FUTURE="soon", SOJOURN_TELEMETRY="off")
        with SERVERS[kind](folder, variables) as server:
            old = {"X-Request-Start": f"t={time.time() - 61:.3f}"}
            for _ in range(3):
                answer = fetch(server.port, headers=old)
                assert answer.headers.keys() >= MEASURED - {"x-queueing-delay"}
                assert not answer.headers.keys() & {"x-queueing-delay", "server-timing"}
            ahead = fetch(server.port, headers={"X-Request-Start": f"t={time.time() + 5:.3f}"})
            assert -5.1 < ahead.queueing_delay < 0
            assert spans_of(server, "/span") == []
            warning = 'SOJOURN_MAX_FUTURE must be a number of seconds, zero or more, not "soon"; 10 is used'
            eventually(lambda: warning in server.log.read_text(errors="replace"), "the warning")
            assert server.log.read_text(errors="replace").count(warning) == 1


def test_headers_survive_without_output_buffer_and_with_callback_only_until_the_first_flush() -> None:
    """The app's callback replaces the package's: then a response that is sent early has no measurements."""
    with open_folder() as folder, fpm(folder, settings_of(folder), f"{BUFFER} = 0") as server:
        assert fetch(server.port, "/users").headers.keys() >= MEASURED
        answer = fetch(server.port, "/callback")
        assert answer.headers["x-app"] == "called"
        assert not answer.headers.keys() & MEASURED


# ---- Requests in progress: PHP-FPM's own status page

HELD = """<?php
for ($deadline = time() + 60; !file_exists(getenv('RELEASE')); usleep(10_000)) {
    clearstatcache();
    if (time() > $deadline) {
        throw new RuntimeException('not released');
    }
}
if (str_starts_with($_SERVER['REQUEST_URI'], '/error')) {
    throw new DomainException('of the app');
}
echo 'ended';
"""


@contextmanager
def fpm_with_status(folder: Path, children: int) -> Iterator[tuple[int, Path]]:
    """nginx before a PHP-FPM with the README's status page: the port, and the file that ends the requests."""
    program = fpm_program()
    if program is None:
        pytest.skip("php-fpm is not installed")
    if (reason := Nginx.why_unavailable()) is not None or not PARAMS.is_file():
        pytest.skip(reason or f"nginx without {PARAMS}")
    (pool,) = re.findall(r"^```ini\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (location,) = re.findall(r"^```nginx\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    backend, status = free_port(), free_port()
    assert (pool.count("127.0.0.1:9001"), location.count("127.0.0.1:9001")) == (1, 1)
    user = "user = root\n" if os.geteuid() == 0 else ""
    (folder / "held.php").write_text(HELD)
    (folder / "fpm.conf").write_text(
        f"[global]\nerror_log = {folder}/fpm.log\n[app]\n{user}listen = 127.0.0.1:{backend}\npm = static\n"
        f"pm.max_children = {children}\nenv[RELEASE] = {folder}/release\n"
        f"php_admin_value[auto_prepend_file] = {PACKAGE}/auto_prepend.php\n" + pool.replace("9001", str(status))
    )
    app = (
        f"location / {{ include {PARAMS}; fastcgi_param SCRIPT_FILENAME {folder}/held.php;"
        f" fastcgi_pass 127.0.0.1:{backend}; }}"
    )
    command = [program, "-n", "-F", "-R", "-y", str(folder / "fpm.conf")]
    with Process(command, name="php-fpm", folder=folder) as process:
        wait_for_port("127.0.0.1", backend, DEADLINE_S, process)
        wait_for_port("127.0.0.1", status, DEADLINE_S, process)
        locations = location.replace("9001", str(status)) + app
        with Nginx(folder, locations, access_log=folder / "access.jsonl").start() as nginx:
            yield nginx.port, folder / "release"


def fpm_status(port: int) -> tuple[int, int]:
    """The active processes and the listen queue; the text and the JSON have the same names."""
    page = json.loads(fetch(port, "/fpm-status?json").body)
    text = dict(line.split(":", 1) for line in fetch(port, "/fpm-status").body.decode().splitlines() if ":" in line)
    assert set(page) - {"processes"} <= set(text)
    return page["active processes"], page["listen queue"]


def test_status_page_of_fpm_has_the_requests_in_progress(tmp_path: Path) -> None:
    """Busy children and the requests that wait for one, read while no child is free; a client leaves, the app fails."""
    with fpm_with_status(tmp_path, 2) as (port, release):
        assert fpm_status(port) == (0, 0)
        with ExitStack() as clients:
            for path in ("/", "/error", "/", "/"):
                client = clients.enter_context(socket.create_connection(("127.0.0.1", port), 20))
                client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            eventually(lambda: fpm_status(port) == (2, 2), "two requests in service and two that wait")
            client.close()
            release.touch()
            eventually(lambda: fpm_status(port) == (0, 0), "the end of the requests")
