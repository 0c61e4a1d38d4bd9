"""Requests of curl to nginx over TLS, recorded on loopback: an exchange each in HTTP/1.1, none in HTTP/2."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from sojourn.analyses.pcap.run import pcap as wire
from sojourn.analyses.pcap.section import wire_section
from sojourn_lab.runtime.ports import free_ports, wait_for_port
from sojourn_lab.runtime.process import Process
from test_tshark import captured

pytestmark = [
    pytest.mark.skipif(not shutil.which("tcpdump") or os.geteuid() != 0, reason="capturing needs tcpdump and root"),
    pytest.mark.skipif(not all(map(shutil.which, ("nginx", "curl", "openssl"))), reason="no nginx, curl or openssl"),
]


@pytest.fixture(scope="module")
def nginx_ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """nginx that speaks HTTP/1.1 alone, and HTTP/2, over TLS: kind -> port."""
    folder = tmp_path_factory.mktemp("nginx")
    make = "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=x -keyout key -out cert"
    subprocess.run(make.split(), cwd=folder, check=True, capture_output=True)
    ports = dict(zip(("http1.1", "http2"), free_ports(2), strict=True))
    temporary = " ".join(f"{name}_temp_path {folder}/{name};" for name in ("proxy", "fastcgi", "uwsgi", "scgi"))
    how = {"http1.1": "ssl", "http2": "ssl http2"}
    servers = "".join(
        f"server {{ listen 127.0.0.1:{port} {how[kind]}; location / {{ return 200 ok; }} }}"
        for kind, port in ports.items()
    )
    (folder / "nginx.conf").write_text(
        f"""daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
        events {{}}
        http {{
          access_log off; client_body_temp_path {folder}/body; {temporary}
          ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate cert; ssl_certificate_key key; {servers}
        }}"""
    )
    command = ["nginx", "-p", folder, "-c", folder / "nginx.conf"]
    with Process(command, name="nginx", folder=folder) as process:
        wait_for_port("127.0.0.1", ports["http2"], 20, process)
        yield ports


def record_two_requests(path: Path, port: int, *options: str) -> None:
    """Record two requests that curl sends on one connection."""
    url = f"https://127.0.0.1:{port}/"
    with captured(path, [port]):
        subprocess.run(["curl", "-sk", *options, url, "-o", os.devnull, url, "-o", os.devnull], check=True, timeout=20)


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("options", [("--http1.1",), ("--http2",)], ids=["http/1.1 offered", "http/2 offered"])
def test_a_request_of_http1_over_tls_is_one_exchange(
    version: str, options: tuple[str, ...], nginx_ports: dict[str, int], tmp_path: Path
) -> None:
    record_two_requests(
        tmp_path / "lo.pcap", nginx_ports["http1.1"], *options, f"--tlsv{version}", "--tls-max", version
    )
    result = wire(tmp_path / "lo.pcap")
    assert result.exchanges.height == 2
    assert result.connections["exchanges"].sum() == 2
    assert "tls_http2" not in result.unparsed


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_requests_of_http2_over_tls_are_not_counted(version: str, nginx_ports: dict[str, int], tmp_path: Path) -> None:
    record_two_requests(tmp_path / "lo.pcap", nginx_ports["http2"], "--http2", f"--tlsv{version}", "--tls-max", version)
    result = wire(tmp_path / "lo.pcap")
    tls = result.connections.filter(pl.col("protocol") == "tls")
    assert (tls.height > 0, result.exchanges.height) == (True, 0)
    assert result.unparsed == {"tls_http2": tls.height}
    assert any("HTTP/2 over TLS" in note for note in wire_section(result).notes)
