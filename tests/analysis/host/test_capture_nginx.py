"""Ports and backends of an nginx configuration, by nginx where it is there and by the reader of our own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sojourn.host.capture_targets import capture_targets
from sojourn.host.filters import Endpoint
from sojourn.host.nginx_ports import Listen, Proxied, UnixListen, proxied_by, proxied_of
from sojourn.model.errors import CaptureError
from sojourn.nginx.syntax import configuration, parsed

NAMES = {"app.internal": ["10.0.0.1", "10.0.0.2"]}


def proxied(text: str) -> Proxied:
    """Of a text, where names are those of NAMES and an address is its own."""
    return proxied_of(parsed(text), lambda name: NAMES.get(name, [] if name.endswith(".invalid") else [name]))


@pytest.mark.parametrize(
    ("line", "listens"),
    [
        ("listen 80;", [Listen("*", 80)]),
        ("listen 80 backlog=5;", [Listen("*", 80, backlog=5)]),
        ("listen *:81 default_server reuseport;", [Listen("*", 81)]),
        ("listen [::]:82 ipv6only=on;", [Listen("[::]", 82)]),
        ("listen 127.0.0.1;", [Listen("127.0.0.1", 80)]),
        ("listen localhost:83;", [Listen("localhost", 83)]),
        ("listen 443 ssl http2 backlog=9;", [Listen("*", 443, tls=True, backlog=9)]),
        ("listen 127.0.0.1:84-86;", [Listen("127.0.0.1", 84), Listen("127.0.0.1", 85), Listen("127.0.0.1", 86)]),
        ("listen [::1]:87-88;", [Listen("[::1]", 87), Listen("[::1]", 88)]),
        ("listen 89-90;", [Listen("*", 89), Listen("*", 90)]),
        ("", [Listen("*", 80)]),
        ("listen unix:/run/nginx.sock;", []),
        ("listen 443 quic;", []),
        ("listen 53 udp;", []),
        ("listen 1-60000;", []),
        ("listen $port;", []),
        ("listen 70000;", []),
    ],
)
def test_a_listen_is_a_port_or_is_said(line: str, listens: list[Listen]) -> None:
    result = proxied(f"http {{ server {{ {line} }} }}")
    assert result.listens == listens
    assert bool(result.notes) is (not listens or listens[0].tls)
    assert all(line.split(";", maxsplit=1)[0].split()[1] in note for note in result.notes if not listens)


@pytest.mark.parametrize(
    ("line", "backends", "words"),
    [
        ("proxy_pass http://10.0.0.9;", ["10.0.0.9:80"], ""),
        ("proxy_pass http://10.0.0.9:8000/path/$uri;", ["10.0.0.9:8000"], ""),
        ("proxy_pass http://[::1]:8000/;", ["[::1]:8000"], ""),
        ("proxy_pass https://10.0.0.9/;", ["10.0.0.9:443"], "TLS to the backend"),
        ("proxy_pass http://app.internal:81;", ["10.0.0.1:81", "10.0.0.2:81"], ""),
        ("proxy_pass http://$host:8000;", [], "known at run time only"),
        ("proxy_pass $upstream;", [], "known at run time only"),
        ("proxy_pass http://unix:/run/app.sock:/path;", [], "a socket of this machine has no packets"),
        ("proxy_pass http://nowhere.invalid;", [], "no address is known"),
        ("fastcgi_pass 10.0.0.9:9000;", ["10.0.0.9:9000"], "not HTTP/1"),
        ("grpc_pass grpcs://10.0.0.9;", ["10.0.0.9:443"], "TLS to the backend"),
        ("proxy_pass http://a:b:c;", [], "not understood"),
    ],
)
def test_a_pass_is_an_endpoint_or_is_said(line: str, backends: list[str], words: str) -> None:
    result = proxied(f"server {{ location / {{ {line} }} }}")
    assert [str(each) for each in result.backends] == backends
    assert (words in " ".join(result.notes)) if words else not result.notes


def test_upstreams_are_their_servers() -> None:
    result = proxied(
        """
        upstream app { zone a 64k; server 10.0.0.1:8000 max_fails=0; server 10.0.0.1:8000 backup; server app.internal;
                       server unix:/run/app.sock; server [::1]:8001 weight=2; server "10.0.0.7:82" down; }
        server { location /a { proxy_pass http://app; } location /b { proxy_pass http://app/x; } }
        stream { server { listen 5000; proxy_pass app; } }
        """
    )
    assert [str(each) for each in result.backends] == (
        ["10.0.0.1:8000", "10.0.0.1:80", "10.0.0.2:80", "[::1]:8001", "10.0.0.7:82"]
    )
    assert result.ports == [80, 5000]
    assert result.notes == ["server unix:/run/app.sock: a socket of this machine has no packets."]
    assert result.unix_backends == ["/run/app.sock"]


def test_unix_sockets_of_nginx_and_of_its_backends_can_be_sampled(tmp_path: Path) -> None:
    conf = tmp_path / "nginx.conf"
    conf.write_text(
        "events {} http { upstream a { server unix:/run/a.sock; server unix:/run/a.sock backup; }\n"
        "server { listen unix:/run/nginx.sock backlog=64; listen unix:/run/other.sock;\n"
        "location / { proxy_pass http://a; } location /b { fastcgi_pass unix:/run/b.sock; }\n"
        "location /c { proxy_pass http://unix:/run/c.sock:/path; } } }\n"
    )
    result = proxied_by(conf)
    assert result.unix_listens == [UnixListen("/run/nginx.sock", 64), UnixListen("/run/other.sock")]
    assert result.unix_backends == ["/run/a.sock", "/run/b.sock", "/run/c.sock"]
    with pytest.raises(CaptureError, match="neither a listen port nor a backend"):
        capture_targets(conf, [], [])  # nothing of it has packets
    conf.write_text(conf.read_text().replace("listen unix:/run/other.sock;", "listen 8080;"))
    targets = capture_targets(conf, [], [])
    assert targets.listening == {"port 8080": 8080}
    assert list(targets.listening_unix) == ["/run/nginx.sock", "/run/a.sock", "/run/b.sock", "/run/c.sock"]
    assert targets.backlogs == {"/run/nginx.sock": 64}


def test_strange_but_good_syntax() -> None:
    root = parsed(
        """
        # a comment; with { marks }
        log_format j escape=json '{"a":"$b",' "\\"c\\": ${d}";
        map $host $x { default 1; "~^(?<n>a{2})" 2; 'it\\'s' 3; }
        server { content_by_lua_block { local t = { a = "}" } -- ; }
                     --[[ } ]] ngx.say('{', [==[ {{ ]==], "\\"{") }
                 server_name a.example ~^b; listen 81; location ~ "^/x{1,2}$" { return 200 "listen 99;"; } }
        """
    )
    assert [each.args for each in root.all("listen")] == [["81"]]
    assert next(root.all("log_format")).args[2:] == ['{"a":"$b",', '"c": ${d}']
    assert next(root.all("listen")).where == "nginx.conf:7"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("server { listen 80;", "the file ends within"),
        ("listen 80", "the file ends within"),
        ("server { } }", "nginx.conf:1: an unexpected }"),
        ("\n\n;", "nginx.conf:3: an unexpected ;"),
        ("server { listen }", "an unexpected }"),
        ('server { "never ends }', "not an nginx configuration"),
        ("\x1b[31m \\", "the file ends within|not an nginx configuration"),
    ],
)
def test_rejects_invalid_configuration_with_its_line(text: str, words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        parsed(text)


def test_files_are_read_here_where_nginx_refuses_them(tmp_path: Path) -> None:
    (tmp_path / "sites").mkdir()
    (tmp_path / "nginx.conf").write_text(
        "events {}\nhttp { include sites/*.conf; include none/*; include gone.conf; no_such_directive on; }"
    )
    (tmp_path / "sites/a.conf").write_text("server { listen 8081; include proxy.inc; }")
    (tmp_path / "sites/b.conf").write_text("server { listen 8082; }")
    # Relative to the first file, whichever has the include.
    (tmp_path / "proxy.inc").write_text("location / { proxy_pass http://127.0.0.1:9000; }")
    result = proxied_by(tmp_path / "nginx.conf")
    assert (result.ports, result.backends) == ([8081, 8082], [Endpoint("127.0.0.1", 9000)])
    assert "was not read by nginx itself" in result.notes[0]
    assert result.notes[1] == f"{tmp_path}/gone.conf is included, but does not exist."


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is missing")
def test_nginx_reads_its_configuration_first(tmp_path: Path) -> None:
    for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
        (tmp_path / name).mkdir()
    paths = "".join(
        f"{name}_temp_path {tmp_path}/{name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}}\nhttp {{ access_log off; {paths} include *.inc; }}"
    )
    (tmp_path / "one.inc").write_text(
        "server { listen 127.0.0.1:18081; location / { proxy_pass http://127.0.0.1:9; } }"
    )
    root, notes = configuration(tmp_path / "nginx.conf")
    assert notes == []
    assert [each.where for each in root.all("listen")] == [f"{tmp_path}/one.inc:1"]
    assert proxied_by(tmp_path / "nginx.conf").backends == [Endpoint("127.0.0.1", 9)]


def test_a_circle_of_includes_and_a_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no nginx
    (tmp_path / "a.conf").write_text("include a.conf;")
    with pytest.raises(CaptureError, match="nested more than"):
        proxied_by(tmp_path / "a.conf")
    with pytest.raises(CaptureError, match=r"none\.conf: cannot be read \(No such file"):
        proxied_by(tmp_path / "none.conf")
    (tmp_path / "empty.conf").write_text("events {}")
    with pytest.raises(CaptureError, match=r"empty\.conf: .*nginx is not installed here"):
        proxied_by(tmp_path / "empty.conf")


def test_the_projects_own_nginx_is_understood() -> None:
    result = proxied_by(Path(__file__).parents[3] / "lab/images/nginx/nginx.conf", lambda _: ["10.0.0.1"])
    assert result.ports == [8080, 8081]
    assert result.backends == [Endpoint("10.0.0.1", 8000)]
