"""nginx configurations: parsed or refused with one sentence, and what is said of one never breaks off."""

from __future__ import annotations

from pathlib import Path
from random import Random

from sojourn.doctor.findings import Diagnosis
from sojourn.doctor.nginx import _run_checks, with_builtin_includes
from sojourn.doctor.nginx_levels import Conf
from sojourn.host.nginx_ports import endpoints, proxied_of
from sojourn.model.errors import CaptureError
from sojourn.nginx.syntax import Directive, Reading, parsed

from fuzz import nasty

PACKAGES: tuple[str, ...] = ("sojourn",)
_ADDRESSES = {"app": ["10.0.0.1"], "localhost": ["127.0.0.1", "::1"]}
_WORDS = (
    "listen", "80", "443 ssl", "80-90", "[::]:80", "unix:/s", "127.0.0.1:8080", "backlog=511", "udp", "quic",
    "server_name", "_",
    "proxy_pass", "http://app", "https://app:8443/x", "http://$host", "grpc_pass", "grpc://app:50051",
    "upstream", "app",
    "server", "location", "/", "~", r"\.php$", "if", "($http_x)", "map", "$uri", "default", "proxy_set_header",
    "X-Request-Start",
    "t=$msec", "t=${msec}", "access_log", "/var/log/a.jsonl", "sojourn", "log_format", "escape=json",
    "'{\"time\":\"$msec\",'",
    "proxy_hide_header", "X-Service-Time", "set_real_ip_from", "10.0.0.0/8", "real_ip_header",
    "proxy_next_upstream", "error timeout",
    "proxy_read_timeout", "60s", "keepalive", "32", "max_conns=", "weight=0", "include",
    "sojourn/sojourn.conf", "sojourn/sojourn_proxy.conf",
    "worker_processes", "auto", "events", "http", "stream", "proxy_buffering", "off", "content_by_lua_block",
    "limit_except", "GET",
)  # fmt: skip
_SOUND = """
events {} http {
    include sojourn/sojourn.conf;
    log_format own escape=json '{"time":"$msec","status":"$status",'
        '"request_time":"$request_time","request_start":"$msec"}';
    upstream app { server 10.0.0.1:8000 max_fails=3; server [::1]:8000 backup; keepalive 32; }
    server { listen 80 backlog=511; listen 443 ssl; access_log /var/log/nginx/a.jsonl own;
        location / { include sojourn/sojourn_proxy.conf; proxy_pass http://app;
            proxy_set_header X-Request-Start "t=${msec}"; }
        location ~ ^/api { if ($request_method = POST) { proxy_pass http://app; } } }
}
"""


def check(data: bytes) -> None:
    """The parser, the packets' places, and the doctor's look."""
    text = data.decode("utf-8", "replace")
    for word in text.split()[:3]:
        try:
            endpoints(word, _resolved)
        except CaptureError as error:
            _one_sentence(error)
    try:
        root = parsed(text)
    except CaptureError as error:
        _one_sentence(error)
        return
    for each in root.all(*{each.name for each in root.block}):
        assert text[each.place.begin : each.place.end].rstrip().endswith((";", "{")), each
    proxied = proxied_of(root, _resolved)
    assert all(0 < port < 65536 for port in proxied.ports)
    _diagnosed(root, text)


def _resolved(name: str) -> list[str]:
    return _ADDRESSES.get(name, [])


def _diagnosed(root: Directive, text: str) -> None:
    path = Path("/etc/nginx/nginx.conf")
    with_builtin_includes(root, path)
    diagnosis = Diagnosis()
    _run_checks(Conf(path, Reading(root, None, (), {"nginx.conf": text})), diagnosis)
    for finding in diagnosis.findings:
        assert "\x1b" not in finding.what, finding


def _one_sentence(error: CaptureError) -> None:
    assert str(error)
    assert "\n" not in str(error), error


def generated(rng: Random) -> bytes:
    """A sound configuration, damaged; or words of the language in any order; or very deep blocks."""
    kind = rng.random()
    if kind < 0.5:
        words = _SOUND.split(" ")
        for _ in range(rng.randrange(1, 6)):
            words[rng.randrange(len(words))] = rng.choice((*_WORDS, nasty.number(rng), nasty.text(rng), ";", "{", "}"))
        return " ".join(words).encode("utf-8", "surrogatepass")
    if kind < 0.97:
        return " ".join(
            rng.choice((*_WORDS, ";", ";", "{", "}", nasty.number(rng), nasty.text(rng))) for _ in range(30)
        ).encode("utf-8", "surrogatepass")
    depth = rng.choice((100, 1000, 3000))
    return b"http{" * depth + b"listen 80;" + b"}" * rng.choice((depth, depth - 1))
