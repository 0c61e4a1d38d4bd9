"""Advice by the server behind nginx: kept connections, and apps that do not answer their times."""

from __future__ import annotations

import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apps_behind import fpm_command
from doctor_faults import GOOD, PROXY, location, root
from doctor_support import DEADLINE_S, Laid, app, laid
from sojourn.cli import app as command
from sojourn.doctor.app_lookup import answering_server, listening_servers, plain_address
from sojourn.doctor.app_servers import (
    BOUND,
    CLOSED,
    PER_PROCESS,
    SHARED,
    AppServer,
    server_of_headers,
    server_of_processes,
)
from sojourn.doctor.doctor import diagnose
from sojourn.doctor.findings import Diagnosis, Finding
from sojourn.doctor.nginx import diagnosed_conf
from sojourn_lab.runtime.nginx import Nginx, nginx_program, nginx_version
from sojourn_lab.runtime.ports import free_port
from sojourn_lab.runtime.process import Process
from test_doctor_log import APP, blank, log
from typer.testing import CliRunner

ROOT = Path(__file__).parents[3]
NO_NGINX = Nginx.why_unavailable()
needs_nginx = pytest.mark.skipif(NO_NGINX is not None, reason=NO_NGINX or "")
KEPT = "\n        keepalive 32;"


def installed(name: str) -> str:
    """The path of a program; skips the test where it is not installed."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    return program


def puma(folder: Path, address: str) -> list[str | Path]:
    (folder / "config.ru").write_text('run ->(_) { [200, { "Content-Type" => "text/plain" }, ["ok"]] }\n')
    return [installed("puma"), "-t", "2:2", "-b", address, folder / "config.ru"]


def gunicorn(*options: str) -> Callable[[Path, str], list[str | Path]]:
    def start(_: Path, address: str) -> list[str | Path]:
        return [sys.executable, "-m", "gunicorn", *options, "-b", logged(address), "wsgiref.simple_server:demo_app"]

    return start


def node(_: Path, address: str) -> list[str | Path]:
    where = address.removeprefix("unix://") if address.startswith("unix") else address.rpartition(":")[2]
    text = (
        f"require('http').createServer((_, res) => res.end('ok')).listen({where if where.isdigit() else repr(where)})"
    )
    return [installed("node"), "-e", text]


def php(folder: Path, address: str) -> list[str | Path]:
    return [*fpm_command(folder, address.removeprefix("unix://").removeprefix("tcp://"), children=2)]


SERVERS: dict[str, tuple[Callable[[Path, str], list[str | Path]], str, str, str]] = {
    "puma": (puma, "Puma", BOUND, "ruby"),
    "gunicorn sync": (gunicorn("-w", "2"), "gunicorn", CLOSED, "python"),
    "gunicorn gthread": (gunicorn("-w", "1", "--threads", "4"), "gunicorn", PER_PROCESS, "python"),
    "node": (node, "Node", SHARED, "node"),
    "php-fpm": (php, "PHP-FPM", BOUND, "php"),
}


@contextmanager
def serving(name: str, folder: Path, address: str) -> Iterator[None]:
    """A real server at ``tcp://127.0.0.1:PORT`` or ``unix://PATH``, as long as the block."""
    (folder / "server").mkdir(parents=True, exist_ok=True)
    process = Process(SERVERS[name][0](folder, address), name="server", folder=folder / "server")
    with process:
        process.wait_until(
            lambda: any(each.name for each in listening_servers([logged(address)]).values()),
            DEADLINE_S,
            f"{name} to listen",
        )
        yield


def logged(address: str) -> str:
    """The address as nginx logs it."""
    return address.removeprefix("tcp://").replace("unix://", "unix:")


def configured(folder: Path, name: str, *, kept: bool, unix: bool = False) -> tuple[Laid, str]:
    """A configuration with this server as its app, and the server's address."""
    text = GOOD if kept else GOOD.replace(KEPT, "")
    if name == "php-fpm":
        passing = "fastcgi_pass app; fastcgi_param HTTP_X_REQUEST_START $sojourn_stamp_sent; " + " ".join(
            f"fastcgi_hide_header {header};" for header in ("X-Queueing-Delay", "X-Service-Time", "X-Worker", "X-Route")
        )
        text = re.sub(
            r"location /(api/)? \{.*?\}", f"location /\\1 {{ fastcgi_keep_conn on; {passing} }}", text, flags=re.S
        )
    socket = folder / "app.sock"
    if unix:
        text = text.replace("server 127.0.0.1:@APP@;", f"server unix:{socket};")
    conf = laid(folder, text=text)
    return conf, f"unix://{socket}" if unix else f"tcp://127.0.0.1:{conf.ports['APP']}"


def about_kept(diagnosis: Diagnosis) -> list[str]:
    return [each.code for each in diagnosis.findings if each.code.startswith("keepalive")]


def finding_of(diagnosis: Diagnosis, code: str) -> Finding:
    """The one finding of this code."""
    (finding,) = (each for each in diagnosis.findings if each.code == code)
    return finding


@needs_nginx
@pytest.mark.parametrize("unix", [False, True], ids=["port", "unix socket"])
@pytest.mark.parametrize("name", SERVERS)
def test_kept_connections_are_advised_where_workers_share_them(tmp_path: Path, name: str, *, unix: bool) -> None:
    expected = SERVERS[name][2]
    bare, address = configured(tmp_path / "bare", name, kept=False, unix=unix)
    with serving(name, tmp_path, address):
        diagnosis = diagnose(str(bare.path), somaxconn=4096)
    assert about_kept(diagnosis) == (["keepalive-missing"] if expected == SHARED and not unix else [])
    kept, address = configured(tmp_path / "kept", name, kept=True, unix=unix)
    with serving(name, tmp_path, address):
        diagnosis = diagnose(str(kept.path), somaxconn=4096)
        assert about_kept(diagnosis) == (["keepalive-bound"] if expected == BOUND else [])
        if expected != BOUND:
            return
        finding = finding_of(diagnosis, "keepalive-bound")
        assert (finding.severity, finding.how, finding.fix) == ("warning", "remove", "keepalive 32;")
        assert SERVERS[name][1] in finding.what
        kept.apply(finding.edits)
        assert kept.accepted() == ""
        assert about_kept(diagnose(str(kept.path), somaxconn=4096)) == []


@needs_nginx
@pytest.mark.parametrize(("kept", "how"), [(True, "replace"), (False, "add")])
def test_connections_kept_by_default_are_turned_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, kept: bool, how: str
) -> None:
    """Since 1.29.7 nginx keeps connections without a line for it."""
    monkeypatch.setattr("sojourn.doctor.nginx._version", lambda: (1, 29, 7))
    conf, _ = configured(tmp_path / "conf", "php-fpm", kept=kept)
    findings = diagnose(str(conf.path), somaxconn=4096).findings
    (finding,) = (each for each in findings if each.code.startswith("keepalive"))
    assert (finding.code, finding.how, finding.fix) == ("keepalive-bound", how, "keepalive 0;")
    conf.apply(finding.edits)
    assert re.findall(r"keepalive \d+;", conf.path.read_text()) == ["keepalive 0;"]


LINES_OF_OLD = (PROXY[1], PROXY[3])
CLOSING = ("proxy_set_header Connection close;",)


def without_lines(folder: Path, *more: str) -> Laid:
    """A configuration that keeps connections only where nginx does so by default; with ``more`` in its location."""
    lines = [line for line in PROXY if line not in LINES_OF_OLD]
    text = GOOD.replace(KEPT, "").replace(location("/", *PROXY), location("/", *lines, *more))
    return laid(folder, text=text.replace(location("/api/", "proxy_read_timeout 5s;", *PROXY), ""))


@needs_nginx
@pytest.mark.parametrize("server", ["uvicorn", "mystery/1.0"], ids=["shared", "unknown"])
def test_nothing_is_missing_where_connections_are_kept_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    conf = without_lines(tmp_path / "conf")
    monkeypatch.setattr("sojourn.doctor.nginx._version", lambda: (1, 29, 6))
    assert about_kept(conf.diagnosed(server=server)) == ["keepalive-missing"]
    monkeypatch.setattr("sojourn.doctor.nginx._version", lambda: (1, 29, 7))
    assert about_kept(conf.diagnosed(server=server)) == []


@needs_nginx
@pytest.mark.parametrize("line", ["proxy_set_header Connection close;", "proxy_http_version 1.0;"])
def test_a_location_may_close_what_is_kept_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    conf = without_lines(tmp_path / "conf", line)
    monkeypatch.setattr("sojourn.doctor.nginx._version", lambda: (1, 30, 4))
    finding = finding_of(conf.diagnosed(server="uvicorn"), "keepalive-unused")
    assert (finding.severity, finding.fix) == (
        "info",
        'proxy_set_header Connection "";' if "Connection" in line else "proxy_http_version 1.1;",
    )
    conf.apply(finding.edits)
    assert about_kept(conf.diagnosed(server="uvicorn")) == []


@needs_nginx
def test_no_worker_is_bound_by_connections_that_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.doctor.nginx._version", lambda: (1, 30, 4))
    closing = without_lines(tmp_path / "closing", *CLOSING)
    with serving("puma", tmp_path, f"tcp://127.0.0.1:{closing.ports['APP']}"):
        assert about_kept(diagnose(str(closing.path), somaxconn=4096)) == []
    kept = without_lines(tmp_path / "kept")
    with serving("puma", tmp_path, f"tcp://127.0.0.1:{kept.ports['APP']}"):
        assert about_kept(diagnose(str(kept.path), somaxconn=4096)) == ["keepalive-bound"]


@needs_nginx
def test_a_version_that_is_unknown_is_named_beside_the_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = without_lines(tmp_path / "conf")
    monkeypatch.setattr("sojourn.doctor.nginx._version", lambda: None)
    for server in ("uvicorn", "mystery/1.0"):
        finding = finding_of(conf.diagnosed(server=server), "keepalive-missing")
        assert finding.why.endswith("nginx 1.29.7 and later keep them without these lines.")
    monkeypatch.setattr("sojourn.doctor.nginx._version", lambda: (1, 22, 1))
    assert "1.29.7" not in finding_of(conf.diagnosed(server="uvicorn"), "keepalive-missing").why


@needs_nginx
def test_http_2_to_the_app_keeps_connections(tmp_path: Path) -> None:
    program = nginx_program()
    assert program is not None
    version = tuple(int(part) for part in nginx_version(program).split("."))
    if version < (1, 29, 7):
        pytest.skip("nginx keeps no connection by default before 1.29.7")
    conf = without_lines(tmp_path / "conf", "proxy_http_version 2;")
    assert about_kept(conf.diagnosed(server="uvicorn")) == []


@needs_nginx
def test_nothing_is_proposed_for_an_unknown_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.doctor.nginx._version", lambda: (1, 22, 1))
    bare, _ = configured(tmp_path / "bare", "", kept=False)
    (finding,) = bare.diagnosed().findings
    assert (finding.code, finding.severity, finding.edits) == ("keepalive-missing", "info", ())
    assert (finding.how, finding.fix) == ("run", f"sojourn doctor {bare.path} --ask-backends")
    assert "Puma" in finding.why
    (of_answer,) = bare.diagnosed(server="mystery/1.0").findings
    assert (of_answer.how, of_answer.fix, of_answer.edits) == ("run", "ss -ltnp", ())
    closing = (PROXY[0], PROXY[2], "proxy_set_header Connection close;", PROXY[4])
    unused = laid(tmp_path / "unused", text=GOOD.replace(*root(*closing)))
    (finding,) = unused.diagnosed().findings
    assert (finding.code, finding.severity, finding.how, finding.edits) == ("keepalive-unused", "info", "run", ())


@needs_nginx
@pytest.mark.parametrize(("connect", "codes"), [("0.000", []), ("0.004", ["keepalive-missing"])])
def test_a_log_shows_what_connects_cost(tmp_path: Path, connect: str, codes: list[str]) -> None:
    bare, _ = configured(tmp_path / "bare", "", kept=False)

    def change(_: int, row: dict[str, str]) -> dict[str, str]:
        return {**row, "upstream_addr": f"127.0.0.1:{bare.ports['APP']}", "upstream_connect_time": connect}

    diagnosis = diagnose([log(tmp_path / "a.jsonl", change), str(bare.path)], somaxconn=4096)
    assert about_kept(diagnosis) == codes
    assert ("connecting to upstream app takes 0 ms on average" in diagnosis.checked) == (not codes)
    twice = diagnose([log(tmp_path / "a.jsonl", change), str(bare.path), str(bare.path)], somaxconn=4096)
    for code in codes:
        why = finding_of(diagnosis, code).why
        assert why.startswith("Connecting took 4.00 ms on average, on 600 answers.")
        assert finding_of(twice, code).why == why


@pytest.mark.parametrize(
    ("commands", "name", "connections", "language"),
    [
        (["puma 5.6.5 (unix:///run/app.sock) [shop]"], "Puma", BOUND, "ruby"),
        (["puma: cluster worker 0: 12 [shop]", "puma 6.4.2 (tcp://0.0.0.0:80) [shop]"], "Puma", BOUND, "ruby"),
        (["/usr/bin/ruby3.1 /usr/bin/puma -t 2:2"], "Puma", BOUND, "ruby"),
        (["unicorn master -c u.rb"], "Unicorn", CLOSED, "ruby"),
        (["/v/bin/python /v/bin/gunicorn -w 4 app:app"], "gunicorn", CLOSED, "python"),
        (["/v/bin/python -m gunicorn -k gthread app:app"], "gunicorn", PER_PROCESS, "python"),
        (["gunicorn --threads=8 app:app"], "gunicorn", PER_PROCESS, "python"),
        (["gunicorn --threads 1 app:app"], "gunicorn", CLOSED, "python"),
        (["gunicorn -k uvicorn.workers.UvicornWorker app:app"], "gunicorn", PER_PROCESS, "python"),
        (["/v/bin/python3.11 /v/bin/uvicorn app:app"], "Uvicorn", SHARED, "asgi"),
        (
            ["/v/bin/python /v/bin/uvicorn --workers 4 app:app", *["python -c spawn"] * 4],
            "Uvicorn",
            PER_PROCESS,
            "asgi",
        ),
        (["php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)", "php-fpm: pool www"], "PHP-FPM", BOUND, "php"),
        (["/usr/sbin/apache2 -k start"] * 6, "Apache", PER_PROCESS, ""),
        (["/usr/lib/jvm/bin/java -jar shop.jar"], "Java", SHARED, "java"),
        (["node server.js"], "Node", SHARED, "node"),
        (["nginx: master process nginx", *["nginx: worker process"] * 4], "another proxy", SHARED, ""),
        (["python app.py"], "", "unknown", "python"),
        (["./shop"], "", "unknown", ""),
        ([""], "", "unknown", ""),
    ],
)
def test_a_server_is_known_by_its_processes(commands: list[str], name: str, connections: str, language: str) -> None:
    server = server_of_processes(commands)
    assert (server.name, server.connections, server.language) == (name, connections, language)


@pytest.mark.parametrize(
    ("headers", "name", "connections", "language"),
    [
        ({"server": "gunicorn"}, "gunicorn", CLOSED, "python"),
        ({"server": "uvicorn"}, "Uvicorn", SHARED, "asgi"),
        ({"server": "Apache/2.4.58 (Debian)", "x-powered-by": "PHP/8.2.1"}, "Apache", PER_PROCESS, "php"),
        ({"server": "Apache-Coyote/1.1"}, "Java", SHARED, "java"),
        ({"server": "Jetty(12.0.1)"}, "Java", SHARED, "java"),
        ({"x-powered-by": "Express"}, "Node", SHARED, "node"),
        ({"x-powered-by": "PHP/8.3.1"}, "", "unknown", "php"),
        ({"x-runtime": "0.01"}, "", "unknown", "ruby"),
        ({"server": "nginx/1.22.1"}, "another proxy", SHARED, ""),
        ({"server": "SimpleHTTP/0.6 Python/3.11.2"}, "", "unknown", "python"),
        ({}, "", "unknown", ""),
    ],
)
def test_a_server_is_known_by_its_headers(headers: dict[str, str], name: str, connections: str, language: str) -> None:
    server = server_of_headers(headers)
    assert (server.name, server.connections, server.language) == (name, connections, language)


def silent_log(folder: Path, address: str) -> str:
    def change(at: int, row: dict[str, str]) -> dict[str, str]:
        return {**blank(1, *APP)(at, row), "upstream_addr": address}

    return log(folder / "silent.jsonl", change, 200)


@needs_nginx
@pytest.mark.parametrize("name", ["puma", "gunicorn sync", "node", "php-fpm"])
def test_a_silent_app_gets_the_lines_of_its_language(tmp_path: Path, name: str) -> None:
    conf, address = configured(tmp_path / "conf", name, kept=True)
    source = silent_log(tmp_path, logged(address))
    with serving(name, tmp_path, address):
        finding = finding_of(diagnose([source, str(conf.path)], somaxconn=4096), "app-silent")
    wanted = {
        "ruby": "use Sojourn::Middleware",
        "python": "WSGIMiddleware",
        "node": "sojourn-middleware",
        "php": "auto_prepend_file",
    }
    assert wanted[SERVERS[name][3]] in finding.fix
    assert finding.what.endswith(f"The app runs in {SERVERS[name][1]}.")


def test_backends_of_a_log_get_a_request_only_with_the_option(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        source = silent_log(tmp_path, f"127.0.0.1:{port}")
        by_log = finding_of(diagnose(source), "app-silent")
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):  # no connection came
            listener.accept()
    assert "X-Service-Time: " in by_log.fix
    with app(port, server="uvicorn") as requests:
        by_answer = finding_of(diagnose(source, ask_backends=True), "app-silent")
        assert "ASGIMiddleware" in by_answer.fix
        assert by_answer.what.endswith("The app runs in Uvicorn.")
    assert requests == []  # HEAD, and no GET
    assert finding_of(diagnose(source, ask_backends=True), "app-silent").fix == by_log.fix


def test_the_command_has_the_option(tmp_path: Path) -> None:
    port = free_port()
    with app(port, server="uvicorn"):
        source = silent_log(tmp_path, f"127.0.0.1:{port}")
        done = CliRunner().invoke(command, ["doctor", source, "--ask-backends"])
    assert done.exit_code == 1
    assert "ASGIMiddleware" in done.stdout


def test_a_backend_that_does_not_answer_names_no_server(tmp_path: Path) -> None:
    assert answering_server("127.0.0.1:1").name == ""
    assert answering_server(f"unix:{tmp_path}/none").name == ""
    assert answering_server("$backend").name == ""


def test_no_request_is_sent_to_a_port_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.doctor.app_lookup.HTTPConnection", pytest.fail)  # port 70000 would become 4464
    assert answering_server("127.0.0.1:70000") == AppServer()


def test_addresses_that_share_a_socket_have_one_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        servers = listening_servers([f"127.0.0.1:{port}", f"[::1]:{port}"])
    assert set(servers) == {f"127.0.0.1:{port}", f"[::1]:{port}"}


def test_servers_of_one_upstream_are_known_one_by_one(tmp_path: Path) -> None:
    two = "server 127.0.0.1:@APP@;\n        server 127.0.0.1:@SPARE@;"
    text = GOOD.replace("server 127.0.0.1:@APP@;", two).replace(*root("proxy_pass https://10.0.0.1;"))
    conf = laid(tmp_path / "two", text=text)
    _, read = diagnosed_conf(conf.path, somaxconn=4096)
    encrypted, shared = read.passes
    assert read.addresses(encrypted) == ["10.0.0.1:443"]
    first, second = (f"127.0.0.1:{conf.ports[name]}" for name in ("APP", "SPARE"))
    uvicorn = AppServer("Uvicorn", SHARED, "asgi")
    read.servers = {first: uvicorn}
    assert read.servers_of(shared) == {first: uvicorn, second: AppServer()}
    assert read.server_of(shared) == AppServer()


def test_connect_times_of_two_logs_count_together() -> None:
    diagnosis = Diagnosis(connects={"a": (100, 0.001)})
    diagnosis.add(Diagnosis(connects={"a": (300, 0.005), "b": (1, 0.002)}))
    assert diagnosis.connects == {"a": (400, pytest.approx(0.004)), "b": (1, pytest.approx(0.002))}


@pytest.mark.parametrize(
    ("written", "logged"),
    [
        ("localhost:8000", "127.0.0.1:8000"),
        ("localhost", "127.0.0.1:80"),
        ("localhost.example:8000", "localhost.example:8000"),
        ("10.0.0.1", "10.0.0.1:80"),
        ("[::1]:8000", "[::1]:8000"),
        ("unix:/run/a.sock", "unix:/run/a.sock"),
        ("/run/a.sock:/", "unix:/run/a.sock"),
    ],
)
def test_addresses_are_compared_as_nginx_logs_them(written: str, logged: str) -> None:
    assert plain_address(written) == logged


def test_no_text_names_a_package_that_no_index_has() -> None:
    """Sojourn and its middleware are installed from a checkout."""
    patterns = ("README.md", "docs/**/*.md", "analysis/sojourn/**/*.py", "lab/**/*.py", "lab/**/*.md")
    files = [file for pattern in (*patterns, "collector/**/*.py", "collector/**/*.md") for file in ROOT.glob(pattern)]
    wrong = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in files
        for line in file.read_text().splitlines()
        if re.search(r"pip install (?:[^\s`]+ )*?[\"']?sojourn(?![_/\w])", line)
    ]
    assert wrong == []


def test_files_named_in_advice_exist() -> None:
    text = (ROOT / "analysis" / "sojourn" / "doctor" / "app_servers.py").read_text()
    named = re.findall(r"(?:docs|collector)/[\w./-]*\w", text)
    assert len(named) >= 5
    assert [name for name in named if not (ROOT / name).exists()] == []
