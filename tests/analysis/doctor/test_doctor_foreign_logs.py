"""Logs that other programs wrote: every command names the format, and what a split needs besides."""

from __future__ import annotations

import gzip
import json
import shutil
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from textwrap import indent

import pytest
from doctor_support import DEADLINE_S, app
from sojourn import SojournError
from sojourn.cli import app as command
from sojourn.doctor.doctor import diagnose
from sojourn.invocation.reading import requests_of
from sojourn.readers.foreign_logs import foreign_format
from sojourn_lab.runtime.ports import free_port, free_ports, wait_for_port
from sojourn_lab.runtime.process import Process
from test_doctor_log import record
from typer.testing import CliRunner

CLF = '192.0.2.9 - - [31/Jan/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 512'
AGENT = '"http://shop.example/" "curl/8.5 \\"x\\""'
CADDY = {
    "level": "info", "ts": 1646861401.5241024, "logger": "http.log.access", "msg": "handled request",
    "request": {
        "remote_ip": "127.0.0.1", "remote_port": "41342", "proto": "HTTP/2.0", "method": "GET", "host": "localhost",
        "uri": "/", "headers": {"User-Agent": ["curl/7.82.0"], "Accept": ["*/*"], "X-Long": ["a" * 3_000]},
        "tls": {"resumed": False, "version": 772, "cipher_suite": 4865, "proto": "h2", "server_name": "shop.example"},
    },
    "bytes_read": 0, "user_id": "", "duration": 0.000929675, "size": 10900, "status": 200,
}  # fmt: skip
TRAEFIK = {
    "ClientAddr": "192.0.2.9:52140", "Duration": 55302000, "OriginDuration": 54120000, "Overhead": 1182000,
    "RequestMethod": "GET", "RequestPath": "/", "RouterName": "shop@docker", "OriginStatus": 200,
    "StartUTC": "2026-01-31T12:00:00.123456789Z", "time": "2026-01-31T12:00:00Z",
}  # fmt: skip
ISTIO = {
    "start_time": "2026-01-31T12:00:00.310Z",
    "response_flags": "-",
    "response_code": 200,
    "duration": 226,
    "upstream_host": "10.0.2.1:80",
}
OWN_JSON = {"remote_addr": "192.0.2.9", "time_local": "31/Jan/2026:12:00:00", "status": "200", "request_time": "0.1"}
# A line in the shape of each product's documentation -> a part of the format's name.
SAMPLES = {
    "common": (CLF, "common or combined"),
    "combined": (f"{CLF} {AGENT}", "common or combined"),
    "combined of IPv6 and a user": (f"2001:db8::1 - Jane Doe{CLF[13:]} {AGENT}", "common or combined"),
    "combined with a forwarded address": (f'{CLF} {AGENT} "192.0.2.7"', "common or combined"),
    "combined with times": (f"{CLF} {AGENT} 0.123 0.120", "with $request_time and"),
    "combined with named times": (
        f'{CLF} {AGENT} rt=0.123 uct="0.000" uht="0.120" urt="0.120"',
        "with $request_time, $upstream_connect_time",
    ),
    "combined with times of retries": (f"{CLF} {AGENT} rt=0.123 urt=0.060, 0.060", "with $request_time and"),
    "Apache with %D": (f"{CLF} {AGENT} 123456", "Apache"),
    "Apache's common with %D": (f"{CLF} 123456", "Apache"),
    "ingress-nginx": (
        f"{CLF} {AGENT} 411 0.123 [default-shop-80] [] 10.1.0.7:8000 512 0.123 200 0123456789abcdef0123456789abcdef",
        "ingress-nginx",
    ),
    "Traefik": (f'{CLF} {AGENT} 7 "shop@docker" "http://10.0.0.2:8000" 55ms', "Traefik's access log"),
    "Traefik without a router": (f'{CLF} "-" "-" 7 - - 0ms', "Traefik's access log"),
    "Traefik JSON": (json.dumps(TRAEFIK), "Traefik's JSON"),
    "HAProxy through syslog": (
        "Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 "
        '10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"',
        "HAProxy's HTTP log",
    ),
    "HAProxy, a bad request": (
        '192.0.2.9:33317 [06/Feb/2009:12:14:14.655] w w/<NOSRV> -1/-1/-1/-1/0 400 0 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>"',
        "HAProxy's HTTP log",
    ),
    "HAProxy in TCP mode": (
        "Feb  6 12:12:56 localhost haproxy[14387]: 10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/0/5007 212 "
        "-- 0/0/0/0/3 0/0",
        "HAProxy's TCP log",
    ),
    "Envoy": (
        '[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" '
        '"cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"',
        "Envoy",
    ),
    "Envoy as Istio sets it": (json.dumps(ISTIO), "Envoy"),
    "ALB": (
        "https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.086 "
        '0.048 0.037 200 200 0 57 "GET https://www.example.com:443/ HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128',
        "AWS",
    ),
    "ALB without a target": (
        "http 2018-11-30T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 - -1 -1 -1 502 - 34 "
        '366 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - -',
        "AWS",
    ),
    "Classic Load Balancer": (
        "2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 "
        '200 0 29 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.38.0" - -',
        "AWS",
    ),
    "Caddy": (json.dumps(CADDY, separators=(",", ":")), "Caddy"),
    "uWSGI": (
        "[pid: 717|app: 0|req: 1/1] 192.0.2.9 () {36 vars in 583 bytes} [Sat Jan 31 12:00:00 2026] GET / => generated "
        "2 bytes in 101 msecs (HTTP/1.1 200) 2 headers in 79 bytes (1 switches on core 0)",
        "uWSGI",
    ),
    "nginx's error log": ("2026/01/31 12:00:00 [error] 123#123: *1 connect() failed (111: Unknown error)", "error log"),
    "JSON of nginx's variables": (json.dumps(OWN_JSON), "nginx's variables"),
    "JSON of an app": ('{"level":"info","msg":"started"}', "JSON lines without the keys"),
}
LONG_S = 5.0  # of processor time: a pattern that backtracks without end needs far more for these lines
NGINX_LINE = "access_log /var/log/nginx/sojourn.jsonl"
OF_NGINX = {name for name in SAMPLES if name.startswith(("common", "combined", "nginx's error log"))}


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout, and the error a user gets."""
    result = CliRunner().invoke(command, [str(each) for each in arguments])
    return result.exit_code, result.stdout, str(result.exception or "")


def written(folder: Path, text: str, count: int = 50) -> Path:
    path = folder / "access.log"
    path.write_text(f"{text}\n" * count)
    return path


UNREADABLE = {
    name: SAMPLES[name]
    for name in (
        "common", "combined", "combined of IPv6 and a user", "combined with a forwarded address",
        "HAProxy in TCP mode", "nginx's error log", "JSON of an app",
    )
}  # fmt: skip


@pytest.mark.parametrize(("text", "name"), UNREADABLE.values(), ids=UNREADABLE)
def test_split_names_the_format_in_place_of_an_empty_table(tmp_path: Path, text: str, name: str) -> None:
    path = written(tmp_path, text)
    code, out, error = run("split", path)
    assert (code, out) == (1, "")
    assert f"{path} is " in error
    assert name in error.partition(" is ")[2].partition(". It holds ")[0]
    assert "50 lines read, 50 refused" in error
    assert "; it lacks " in error
    assert len(error) < 900


def test_a_combined_log_without_times_says_what_to_add(tmp_path: Path) -> None:
    error = run("report", written(tmp_path, SAMPLES["combined"][0]), "--html", tmp_path / "r.html")[2]
    assert "missing_request_time 50" in error
    assert all(f'":"{variable}"' in error for variable in ("$msec", "$request_time", "$upstream_response_time"))
    (finding,) = diagnose(str(tmp_path / "access.log")).findings
    assert indent(finding.fix, "    ") in error


@pytest.mark.parametrize(("text", "name"), SAMPLES.values(), ids=SAMPLES)
def test_the_doctor_names_it_too_and_keeps_nginx_lines_for_nginx(
    tmp_path: Path, request: pytest.FixtureRequest, text: str, name: str
) -> None:
    findings = diagnose(str(written(tmp_path, text))).findings
    which = request.node.callspec.id
    if which == "JSON of nginx's variables":  # which keys are missing is more than that
        assert (findings[0].code, '"time":"$msec"' in findings[0].fix) == ("log-keys", True)
        return
    finding = next(each for each in findings if each.code == "log-format")
    assert finding.severity == ("error" if which in UNREADABLE else "info")
    assert name in finding.what
    assert (finding.how == "run") == (not finding.into)


@pytest.mark.parametrize("arguments", [("blame",), ("depth",), ("report", "--html", "r.html"), ("watch", "--once")])
def test_other_commands_end_with_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, error = run(arguments[0], written(tmp_path, SAMPLES["nginx's error log"][0]), *arguments[1:])
    assert (code, out) == (1, "")
    assert "is nginx's error log. It has " in error


def test_a_compressed_log_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "access.log.gz"
    path.write_bytes(gzip.compress(f"{SAMPLES['common'][0]}\n".encode() * 20))
    assert "access.log.gz is the common or combined format" in run("split", path)[2]


def test_json_keeps_its_counts(tmp_path: Path) -> None:
    code, out, error = run("split", written(tmp_path, SAMPLES["combined"][0]), "--json")
    assert (code, "common or combined" in error) == (1, True)
    reasons = {"missing_request_time": 50}
    assert json.loads(out)["records"] == {
        "read": 50,
        "accepted": 0,
        "rejected": 50,
        "reasons": reasons,
        "dropped": {},
        "set_apart": None,
    }


def test_the_log_that_has_the_format_is_named(tmp_path: Path) -> None:
    unknown, errors = tmp_path / "a.log", written(tmp_path, SAMPLES["nginx's error log"][0])
    unknown.write_text("nothing of the kind\n")
    assert f"{errors} is nginx's error log" in run("split", unknown, errors)[2]


def test_a_few_foreign_lines_are_counted_by_reason(tmp_path: Path) -> None:
    path = written(tmp_path, SAMPLES["combined"][0], 5)
    path.write_text(path.read_text() + "".join(f"{json.dumps(record(number))}\n" for number in range(45)))
    code, out, _ = run("split", path)
    assert code == 0
    assert "5 of 50 lines refused: invalid_json 5" in " ".join(out.split())
    refused = next(each for each in diagnose(str(path)).findings if each.code == "lines-refused")
    assert "common or combined" in refused.what
    assert "--rejects" in refused.fix


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"time":"1767225600.1","status":"200","request_time":"0.1","uri":"/\\x22"}', "sojourn doctor says"),
        ("a line of text", "text in a format that is not recognised"),
        ("a" * 100_000, "text in a format that is not recognised"),
    ],
    ids=["invalid JSON", "text", "a long line"],
)
def test_a_format_that_is_unknown_is_not_named(tmp_path: Path, text: str, words: str) -> None:
    assert foreign_format([text] * 200) is None
    error = run("split", written(tmp_path, text))[2]
    assert words in error
    assert "--log-format" in error
    assert len(error) < 1_000


@pytest.mark.parametrize(
    "text", ['"' * 5_000, "a:1 [" * 1_000, " " * 5_000 + "a:1 ", "\\" * 5_000, f"{CLF} " + '"x' * 999]
)
def test_no_line_makes_a_pattern_backtrack_for_long(text: str) -> None:
    begun = time.process_time()
    foreign_format([text] * 20)
    assert time.process_time() - begun < LONG_S


def test_the_last_line_of_a_watch_names_the_format(tmp_path: Path) -> None:
    view = json.loads(run("watch", written(tmp_path, SAMPLES["nginx's error log"][0]), "--once", "--json")[1])
    assert any("this is nginx's error log" in note for note in view["notes"])


def test_a_configuration_does_not_explain_the_log_of_another_product(tmp_path: Path) -> None:
    conf = tmp_path / "nginx.conf"
    conf.write_text("events {} http { server { location / { proxy_pass http://127.0.0.1:8000; } } }")
    findings = diagnose([str(written(tmp_path, SAMPLES["Caddy"][0])), str(conf)]).findings
    (finding,) = (each for each in findings if each.code == "log-format")
    assert finding.fix.startswith("vars sojourn_start t={time.now.unix_ms}\nheader_up X-Request-Start ")


def requested(port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    connection.request("GET", '/path?a="b"', headers={"User-Agent": 'x "quoted" y'})
    connection.getresponse().read()
    connection.close()


def logged(process: Process, port: int, text: Callable[[], str], mark: str) -> str:
    """The log of a real program after three requests; each of its lines holds the mark."""
    with process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        for _ in range(3):
            requested(port)
        process.wait_until(lambda: text().count(mark) >= 3, DEADLINE_S, "three lines in the log")
        return text()


def test_the_log_of_a_real_haproxy_in_tcp_mode(tmp_path: Path) -> None:
    program = shutil.which("haproxy", path="/usr/local/sbin:/usr/sbin:/usr/bin")
    if program is None:
        pytest.skip("haproxy is not installed")
    port, backend = free_ports(2)
    log = tmp_path / "haproxy.log"
    (tmp_path / "haproxy.cfg").write_text(
        "global\n log stdout format raw local0\n"
        "defaults\n mode tcp\n log global\n option tcplog\n"
        " timeout connect 5s\n timeout client 5s\n timeout server 5s\n"
        f"frontend www\n bind 127.0.0.1:{port}\n default_backend apps\nbackend apps\n server one 127.0.0.1:{backend}\n"
    )
    process = Process([program, "-db", "-f", tmp_path / "haproxy.cfg"], name="haproxy", folder=tmp_path)
    with app(backend):
        text = logged(process, port, lambda: process.last_lines(20), "/one ")
    log.write_text("".join(f"{each}\n" for each in text.splitlines() if "/one " in each))
    assert "HAProxy's TCP log" in run("split", log)[2]


def test_the_log_of_a_real_apache_without_times(tmp_path: Path) -> None:
    program = shutil.which("apache2", path="/usr/sbin:/usr/bin")
    modules = Path("/usr/lib/apache2/modules")
    if program is None or not modules.is_dir():
        pytest.skip("apache2 is not installed")
    port, log = free_port(), tmp_path / "access.log"
    log.touch()
    (tmp_path / "apache.conf").write_text(
        f"LoadModule mpm_event_module {modules}/mod_mpm_event.so\n"
        f"LoadModule authz_core_module {modules}/mod_authz_core.so\n"
        f"ServerRoot {tmp_path}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {tmp_path}/pid\n"
        f"Mutex file:{tmp_path}\nErrorLog {tmp_path}/error.log\nDocumentRoot {tmp_path}\n"
        f'LogFormat "%h %l %u %t \\"%r\\" %>s %b \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" own\n'
        f"CustomLog {log} own\n"
    )
    process = Process([program, "-X", "-f", tmp_path / "apache.conf"], name="apache", folder=tmp_path)
    logged(process, port, log.read_text, "/path")
    assert "common or combined" in run("split", log)[2]


def test_an_error_and_no_more_reaches_a_python_program(tmp_path: Path) -> None:
    with pytest.raises(SojournError, match="is nginx's error log"):
        requests_of([str(written(tmp_path, SAMPLES["nginx's error log"][0]))])
