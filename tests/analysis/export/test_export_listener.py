"""The exporter's listener: Prometheus's conventions, TLS and passwords, and few connections for a limited time."""

from __future__ import annotations

import http.client
import resource
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import bcrypt
import pytest
from export_support import exported
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_server import exporting
from sojourn.export import listener
from sojourn.export.listener import MetricsServer, most_connections
from sojourn.export.web_config import WebConfig
from sojourn.model.errors import SojournError
from watch_support import EPOCH, record, until

PASSWORD = "correct horse"
USERS = f"basic_auth_users: {{alice: {bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}}}\n"
TLS = "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with certificate and key of a server, and of a client: each signs itself."""
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("server", "client"):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
             "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{name}.key", "-out",
             f"{name}.crt"], cwd=folder, check=True, capture_output=True,
        )  # fmt: skip
    return folder


@contextmanager
def serving(folder: Path, web: WebConfig | None = None, host: str = "127.0.0.1") -> Iterator[MetricsServer]:
    """Yield a server of one request's metrics."""
    log = folder / "access.jsonl"
    log.write_bytes(record(EPOCH, 0.02, trace_id="0" * 31 + "1"))
    with exported([log]) as exporter:
        server = MetricsServer(exporter, host, 0, web)
        try:
            yield server
        finally:
            server.close()


def address_of(server: MetricsServer) -> tuple[str, int]:
    host, _, port = server.url.split("/")[2].rpartition(":")
    return host, int(port)


def answered(
    server: MetricsServer, path: str = "/metrics", method: str = "GET", **headers: str
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(*address_of(server), timeout=20)
    connection.request(method, path, headers=headers)
    return connection.getresponse()


def test_only_the_metrics_are_served(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        plain = answered(server)
        body = plain.read()
        assert plain.status == 200
        assert b"sojourn_requests_total" in body
        assert int(plain.headers["Content-Length"]) == len(body)
        for path in ("/", "/metrics/", "/favicon.ico", "/admin", "/../metrics", "//["):
            assert answered(server, path).status == 404
        head = answered(server, method="HEAD")
        assert (head.status, head.read()) == (200, b"")
        assert head.headers["Content-Type"] == plain.headers["Content-Type"]
        assert int(head.headers["Content-Length"]) > 1_000
        refused = answered(server, method="POST")
        assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")
        assert b"sojourn_requests_total" not in answered(server, "/metrics?name[]=sojourn_retries_total").read()


def test_malformed_accept_is_the_text_format(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path) as server:
        for accept, media_type in (
            ("", "text/plain"),
            ("application/openmetrics-text; version=abc", "text/plain"),
            ("application/openmetrics-text; version=", "text/plain"),
            ("application/openmetrics-text; version=1.0.0.0.0.0.0", "text/plain"),
            ("text/plain; version=2.0.0", "text/plain"),
            (";;;=,,\xe9", "text/plain"),
            ("nonsense, application/openmetrics-text; version=1.0.0; q=0.5", "application/openmetrics-text"),
            ("application/openmetrics-text; version=2.0.0", "application/openmetrics-text"),
        ):
            answer = answered(server, Accept=accept)
            text = answer.read().decode()
            assert answer.status == 200, accept
            assert answer.headers["Content-Type"].startswith(media_type), accept
            assert 'sojourn_service_time_seconds_count{route="/"' in text
            assert ("schema:" in text) == (accept == "application/openmetrics-text; version=2.0.0")
    assert not capfd.readouterr().err


def test_client_that_leaves_early_causes_no_message(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serving(tmp_path) as server:
        for sent in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + b"\0" * 50):
            with socket.create_connection(address_of(server)) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
                client.sendall(sent)
        assert answered(server).status == 200
    assert not capfd.readouterr().err


def test_idle_connections_do_not_keep_a_scrape_away(tmp_path: Path) -> None:
    """The oldest connection without a request makes room for the next one."""
    with serving(tmp_path) as server, ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(address_of(server))) for _ in range(200)]
        for client in idle[::2]:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost:")
        begun = time.monotonic()
        assert answered(server).status == 200
        assert time.monotonic() - begun < 5
        # All but the latest have been ended.
        for client in idle[: 200 - listener.MOST_CONNECTIONS]:
            client.settimeout(20)
            assert client.recv(1) == b""


def test_slow_connection_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte now and then does not prolong it."""
    monkeypatch.setattr(listener, "LONGEST", 0.3)
    with serving(tmp_path) as server, socket.create_connection(address_of(server)) as client:
        client.settimeout(0.05)
        received = None
        deadline = time.monotonic() + 60
        while received != b"":
            assert time.monotonic() < deadline
            try:
                client.send(b"G")
                received = client.recv(1)
            except TimeoutError:
                pass
            except ConnectionError:
                received = b""


def test_descriptors_are_left_for_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, expected in ((1_048_576, 32), (256, 32), (64, 8), (4, 1), (resource.RLIM_INFINITY, 32)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        assert most_connections() == expected


def test_rotations_are_counted_while_connections_are_idle(tmp_path: Path) -> None:
    """254 idle connections at 256 descriptors; the log is rotated twice."""
    log = tmp_path / "access.log"
    log.touch()
    with exporting(tmp_path, str(log)) as served, ExitStack() as stack:
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (256, 256))
        host, _, port = served.target.rpartition(":")
        for _ in range(254):
            stack.enter_context(socket.create_connection((host, int(port))))
        for rotation in range(3):
            with log.open("ab", buffering=0) as writer:
                writer.write(b"".join(record(time.time()) for _ in range(50)))
            until(lambda rotation=rotation: served.value("sojourn_requests_total") == 50 * (rotation + 1))
            log.rename(f"{log}.{rotation}")
        assert "Traceback" not in served.errors


def test_log_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    """Without a descriptor for the new file of a rotation, its requests are not counted, and that is said."""
    log = tmp_path / "access.log"
    log.touch()
    with exporting(tmp_path, str(log)) as served:
        until(lambda: served.value("sojourn_log_unopened") == 0)
        soft, hard = resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (3, hard))
        lines = record(time.time()) * 20
        log.rename(f"{log}.1")
        log.write_bytes(lines)
        until(lambda: f"log: {log}: cannot be opened (Too many open files)" in served.errors)
        (tmp_path / "new.log").write_bytes(lines)
        (tmp_path / "new.log").rename(log)
        until(lambda: f"log: {log}: {len(lines)} bytes of a file that could not be opened are lost" in served.errors)
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        until(lambda: f"log: {log}: is open" in served.errors)
        until(lambda: served.value("sojourn_requests_total") == 20)
        assert served.value("sojourn_log_lost_bytes_total") == len(lines)
        assert served.value("sojourn_log_unopened") == 0
        assert served.errors.count("\n") == 4


def test_passwords(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(USERS, encoding="utf-8")
    with serving(tmp_path, WebConfig(str(file))) as server:
        for name, password, status in (
            ("alice", PASSWORD, 200), ("alice", PASSWORD, 200), ("alice", "wrong", 401), ("bob", PASSWORD, 401),
            ("alice", "x" * 100, 401), ("", "", 401),
        ):  # fmt: skip
            encoded = b64encode(f"{name}:{password}".encode()).decode()
            answer = answered(server, Authorization=f"Basic {encoded}")
            assert answer.status == status, (name, password)
        for authorization in ("Basic", "Basic %%%", "Bearer abc", "Basic " + b64encode(b"\xff\xfe").decode()):
            assert answered(server, Authorization=authorization).status == 401
        without = answered(server, "/nowhere")
        assert (without.status, without.headers["WWW-Authenticate"]) == (401, "Basic")


def test_tls_and_certificates_of_clients(tmp_path: Path, certificates: Path) -> None:
    file = certificates / "web.yaml"
    file.write_text(
        TLS.replace("}", ", client_auth_type: RequireAndVerifyClientCert, client_ca_file: client.crt}") + USERS,
        encoding="utf-8",
    )
    context = ssl.create_default_context(cafile=certificates / "server.crt")
    with serving(tmp_path, WebConfig(str(file))) as server:
        assert server.url.startswith("https://127.0.0.1:")
        with pytest.raises((OSError, http.client.HTTPException)):
            urllib.request.urlopen(server.url, timeout=20, context=context)
        with socket.create_connection(address_of(server)) as plain:
            plain.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert b"sojourn" not in plain.recv(1_000)
        context.load_cert_chain(certificates / "client.crt", certificates / "client.key")
        request = urllib.request.Request(server.url)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, timeout=20, context=context)
        request.add_header("Authorization", "Basic " + b64encode(f"alice:{PASSWORD}".encode()).decode())
        request.add_header("Accept", "application/openmetrics-text")
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            assert list(text_string_to_metric_families(answer.read().decode()))


def test_renewed_certificate_is_served(tmp_path: Path, certificates: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("crt", "key"):
        (tmp_path / f"server.{name}").write_bytes((certificates / f"server.{name}").read_bytes())
    file = tmp_path / "web.yaml"
    file.write_text(TLS, encoding="utf-8")
    with serving(tmp_path, WebConfig(str(file))) as server:
        before = ssl.get_server_certificate(address_of(server))
        (tmp_path / "server.crt").write_text("half of a certifi", encoding="utf-8")
        assert ssl.get_server_certificate(address_of(server)) == before
        assert "what was read before remains" in capfd.readouterr().err
        for name in ("crt", "key"):
            (tmp_path / f"server.{name}").write_bytes((certificates / f"client.{name}").read_bytes())
        assert ssl.get_server_certificate(address_of(server)) == (certificates / "client.crt").read_text()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", ""),
        ("tls_server_config: {cert_file: server.crt}", "key_file"),
        ("tls_server_config: {cert_file: none.crt, key_file: server.key}", "none.crt"),
        ("tls_server_config: {cert_file: server.crt, key_file: client.key}", "server.crt, client.key"),
        (TLS + "http_server_config: {http2: true}", "http_server_config"),
        (TLS.replace("}", ", client_allowed_sans: [a]}"), "client_allowed_sans"),
        (TLS.replace("}", ", client_auth_type: RequireAnyClientCert}"), "RequireAnyClientCert"),
        (TLS.replace("}", ", client_auth_type: RequireAndVerifyClientCert}"), "client_ca_file"),
        (TLS.replace("}", ", client_ca_file: client.crt}"), "client_auth_type"),
        (TLS.replace("}", ", min_version: TLS10}"), "TLS10"),
        (TLS.replace("}", ", min_version: TLS13, max_version: TLS12}"), "min_version"),
        ("basic_auth_users: {alice: secret}", "bcrypt"),
        ("basic_auth_users: [alice]", "basic_auth_users"),
        ("- a", "Expected `object"),
        ("a: [", "supported"),
    ],
)
def test_what_is_not_supported_is_refused(certificates: Path, text: str, reason: str) -> None:
    file = certificates / "refused.yaml"
    file.write_text(text, encoding="utf-8")
    if not reason:
        assert not WebConfig(str(file)).protects
        return
    with pytest.raises(SojournError) as error:
        WebConfig(str(file))
    assert str(error.value).startswith(f"--web.config.file {file}: ")
    assert reason in str(error.value)
    assert "secret" not in str(error.value)


def test_listening_beyond_loopback_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(USERS, encoding="utf-8")
    with serving(tmp_path) as server:
        assert not server.warning
    with serving(tmp_path, host="::") as server:
        assert "--web.config.file" in server.warning
    with serving(tmp_path, WebConfig(str(file)), host="::") as server:
        assert not server.warning
