"""curl asks nginx over TLS, recorded on loopback: an exchange per request in HTTP/1.1, none made up in HTTP/2."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from sojourn.explain.wire.wire import wire
from sojourn.sections.wire import wire_section
from test_tshark import captured, listening, wait_until

pytestmark = [
    pytest.mark.skipif(not shutil.which("tcpdump") or os.geteuid() != 0, reason="capturing needs tcpdump and root"),
    pytest.mark.skipif(not all(map(shutil.which, ("nginx", "curl", "openssl"))), reason="no nginx, curl or openssl"),
]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """nginx that speaks HTTP/1.1 alone, and HTTP/2, over TLS: kind -> port."""
    folder = tmp_path_factory.mktemp("nginx")
    make = [
        "openssl",
        "req",
        "-x509",
        "-nodes",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-subj",
        "/CN=x",
    ]
    subprocess.run([*make, "-keyout", folder / "key", "-out", folder / "cert"], check=True, capture_output=True)
    with listening() as one, listening() as two:
        found = {"http1.1": one.getsockname()[1], "http2": two.getsockname()[1]}
    temporary = " ".join(f"{name}_temp_path {folder}/{name};" for name in ("proxy", "fastcgi", "uwsgi", "scgi"))
    how = {"http1.1": "ssl", "http2": "ssl http2"}
    servers = "".join(
        f"server {{ listen 127.0.0.1:{port} {how[kind]}; location / {{ return 200 ok; }} }}"
        for kind, port in found.items()
    )
    (folder / "nginx.conf").write_text(
        f"""daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
        events {{}}
        http {{
          access_log off; client_body_temp_path {folder}/body; {temporary}
          ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate cert; ssl_certificate_key key; {servers}
        }}"""
    )
    process = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")])

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", found["http2"])) == 0

    try:
        wait_until(answers)
        yield found
    finally:
        process.terminate()
        process.wait(timeout=10)


def asked(path: Path, port: int, *options: str) -> None:
    """Record two requests of curl on one connection."""
    url = f"https://127.0.0.1:{port}/"
    with captured(path, [port]):
        subprocess.run(["curl", "-sk", *options, url, "-o", os.devnull, url, "-o", os.devnull], check=True, timeout=20)


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("options", [("--http1.1",), ("--http2",)], ids=["http/1.1 offered", "http/2 offered"])
def test_a_request_of_http1_over_tls_is_one_exchange(
    version: str, options: tuple[str, ...], ports: dict[str, int], tmp_path: Path
) -> None:
    asked(tmp_path / "lo.pcap", ports["http1.1"], *options, f"--tlsv{version}", "--tls-max", version)
    found = wire(tmp_path / "lo.pcap")
    assert found.exchanges.height == 2
    assert found.connections["exchanges"].sum() == 2
    assert "tls_http2" not in found.unparsed


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_requests_of_http2_over_tls_are_not_counted(version: str, ports: dict[str, int], tmp_path: Path) -> None:
    asked(tmp_path / "lo.pcap", ports["http2"], "--http2", f"--tlsv{version}", "--tls-max", version)
    found = wire(tmp_path / "lo.pcap")
    spoken = found.connections.filter(pl.col("protocol") == "tls")
    assert (spoken.height > 0, found.exchanges.height) == (True, 0)
    assert found.unparsed == {"tls_http2": spoken.height}
    assert any("HTTP/2 inside of TLS" in note for note in wire_section(found).notes)
