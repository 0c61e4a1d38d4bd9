"""The request that reaches a location, for every form of listen, server_name and location."""

from __future__ import annotations

from pathlib import Path

import pytest
from sojourn.doctor.nginx_levels import Conf
from sojourn.install.targets import Target, target_of
from sojourn.nginx.syntax import reading_of_files


def target(folder: Path, server: str, location: str = "location / { proxy_pass http://a; }") -> Target | str:
    (folder / "nginx.conf").write_text(f"events {{}} http {{ server {{ {server} {location} }} }}")
    (handover,) = Conf(folder / "nginx.conf", reading_of_files(folder / "nginx.conf")).passes
    return target_of(handover.level)


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("", ("127.0.0.1", 80)), ("listen 8080;", ("127.0.0.1", 8080)), ("listen *:81;", ("127.0.0.1", 81)),
        ("listen [::]:83;", ("::1", 83)), ("listen [::1]:84;", ("::1", 84)), ("listen 10.0.0.5:85;", ("10.0.0.5", 85)),
        ("listen localhost;", ("localhost", 80)), ("listen unix:/run/n.sock;", "/run/n.sock"),
        ("listen 443 quic; listen 444;", ("127.0.0.1", 444)),
    ],
)  # fmt: skip
def test_address(tmp_path: Path, listen: str, address: object) -> None:
    request = target(tmp_path, listen)
    assert isinstance(request, Target)
    assert request.address == address


@pytest.mark.parametrize(
    ("listen", "tls", "http2", "proxy_protocol"),
    [
        ("listen 80;", False, False, False), ("listen 443 ssl;", True, False, False),
        ("listen 443 ssl http2;", True, False, False), ("listen 80 http2;", False, True, False),
        ("listen 80 proxy_protocol;", False, False, True),
    ],
)  # fmt: skip
def test_protocol(tmp_path: Path, listen: str, tls: bool, http2: bool, proxy_protocol: bool) -> None:
    request = target(tmp_path, listen)
    assert isinstance(request, Target)
    assert (request.tls, request.http2, request.proxy_protocol) == (tls, http2, proxy_protocol)


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("", "localhost"), ("server_name _;", "localhost"), ("server_name shop.example b.example;", "shop.example"),
        ("server_name .shop.example;", "shop.example"), ("server_name *.shop.example;", "www.shop.example"),
        (r"server_name ~^www\d+\.shop\.de$;", "www1.shop.de"),
        (r"server_name ~^(?<user>[a-z]+)\.example\.com$;", "www.example.com"),
    ],
)  # fmt: skip
def test_host(tmp_path: Path, name: str, host: str) -> None:
    request = target(tmp_path, name)
    assert isinstance(request, Target)
    assert request.host == host


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/", "/"), ("/api/", "/api/"), ("= /exact", "/exact"), ("^~ /first", "/first"), (r"~ \.php$", "/index.php"),
        (r"~* ^/(api|auth)/", "/api/"), (r"~ ^/v[0-9]+/(?<rest>.*)$", "/v1/a"), (r'~ "^/[a-z]{2}/x"', "/aa/x"),
        ("@named", None),
    ],
)  # fmt: skip
def test_path(tmp_path: Path, location: str, path: str | None) -> None:
    request = target(tmp_path, "", f"location {location} {{ proxy_pass http://a; }}")
    assert (request.path if isinstance(request, Target) else None) == path


def test_no_request_reaches_an_internal_location(tmp_path: Path) -> None:
    assert target(tmp_path, "", "location /x { internal; proxy_pass http://a; }") == "it is internal"
