"""Stamps of a user's own: the fixes, applied one after the other, end in a log whose stamp is the one that was sent."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from doctor_support import DEADLINE_S, Laid, app, got, laid, running
from sojourn.doctor.doctor import diagnose
from sojourn.doctor.findings import Finding
from sojourn_lab.runtime.nginx import Nginx
from test_doctor_log import log

NO_NGINX = Nginx.why_unavailable()
pytestmark = pytest.mark.skipif(NO_NGINX is not None, reason=NO_NGINX or "")

WORK_S = 0.05
MOST_STEPS = 6
KEYS = (
    '{"time":"$msec","status":"$status","request_time":"$request_time","upstream_addr":"$upstream_addr",'
    '"upstream_connect_time":"$upstream_connect_time","upstream_header_time":"$upstream_header_time",'
    '"upstream_response_time":"$upstream_response_time","method":"$request_method","uri":"$uri",'
    '"request_id":"$request_id"@KEY@}'
)
CONF = """\
@MODULE@
pid @FOLDER@/nginx.pid;
error_log @FOLDER@/error.log notice;
events { worker_connections 4096; }
http {
    @TEMP@
    log_format j escape=json '@KEYS@';
    access_log @FOLDER@/access.jsonl j;
    @HTTP@
    upstream app { server 127.0.0.1:@APP@; }
    server {
        listen 127.0.0.1:@PORT@;
        server_name shop.example;
        @SERVER@
        location / {
            @LOCATION@
            proxy_pass http://app;
        }
        location /api/ {
            @API@
            proxy_pass http://app;
        }
    }
}
"""
SENT = "proxy_set_header X-Request-Start"
OWN_MAP = 'map "" $sojourn_sent { default $msec; }'


@dataclass(frozen=True)
class Own:
    """Lines of a configuration with a stamp of its own, by their place; and a key of its format."""

    location: str = ""
    api: str = ""
    server: str = ""
    http: str = ""
    key: str = ""

    def laid(self, folder: Path) -> Laid:
        text = CONF.replace("@KEYS@", KEYS)
        values = {"HTTP": self.http, "SERVER": self.server, "LOCATION": self.location, "API": self.api, "KEY": self.key}
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        return laid(folder, text=text)


def everywhere(line: str, **others: str) -> Own:
    return Own(location=line, api=line, **others)


LOGGED = ',"request_start":"$%s"'
FORMS = {
    "$msec": everywhere(f"{SENT} $msec;"),
    "t=$msec": everywhere(f'{SENT} "t=${{msec}}";'),
    "X-Queue-Start": everywhere('proxy_set_header X-Queue-Start "t=${msec}";'),
    "both headers": everywhere(f"{SENT} t=$msec; proxy_set_header X-Queue-Start t=$msec;"),
    "in the server": Own(server=f"{SENT} $msec;"),
    "in http": Own(http=f"{SENT} t=$msec;"),
    "in one location of two": Own(location=f"{SENT} $msec;"),
    "a map": everywhere(f"{SENT} t=$begun;", http='map "" $begun { default $msec; }'),
    "a map of a text": everywhere(f"{SENT} $begun;", http='map "" $begun { default "t=${msec}"; }'),
    "a map of a map": everywhere(
        f"{SENT} $sent;", http='map "" $begun { default $msec; } map "" $sent { default "t=$begun"; }'
    ),
    "a volatile map": everywhere(f"{SENT} $begun;", http='map "" $begun { volatile; default $msec; }'),
    "set in the server": everywhere(f"{SENT} t=$begun;", server="set $begun $msec;"),
    "set of a text": everywhere(f"{SENT} $begun;", server="set $begun t=$msec;"),
    "another form in each location": Own(
        location=f"{SENT} $begun;", api=f'{SENT} "t=${{msec}}";', http='map "" $begun { default $msec; }'
    ),
    "no stamp": Own(),
    "the log's own time": everywhere(f"{SENT} $msec;", key=LOGGED % "msec"),
    "logged, and not sent": everywhere(f"{SENT} $msec;", http=OWN_MAP, key=LOGGED % "sojourn_sent"),
    "logged, and sent in one location": Own(
        location=f"{SENT} t=$sojourn_sent;", api=f"{SENT} $msec;", http=OWN_MAP, key=LOGGED % "sojourn_sent"
    ),
    "sent twice, the logged one first": everywhere(
        f"{SENT} t=$sojourn_sent; {SENT} $msec;", http=OWN_MAP, key=LOGGED % "sojourn_sent"
    ),
    "sent twice, the logged one last": everywhere(
        f"{SENT} $msec; {SENT} t=$sojourn_sent;", http=OWN_MAP, key=LOGGED % "sojourn_sent"
    ),
    "logged with t=": everywhere(
        f"{SENT} t=$begun;", http='map "" $begun { default $msec; }', key=',"request_start":"t=$begun"'
    ),
    "a date is logged": everywhere(f"{SENT} t=$msec;", key=LOGGED % "time_iso8601"),
    "a variable of nginx is logged": everywhere(f"{SENT} t=$msec;", key=LOGGED % "connection"),
    "a date is sent": everywhere(f"{SENT} $time_iso8601;"),
    "a client's is sent": everywhere(f"{SENT} $http_x_request_start;"),
}


def errors(conf: Laid) -> list[Finding]:
    return [each for each in conf.diagnosed().findings if each.severity == "error"]


def mended(conf: Laid) -> list[str]:
    """Apply the fix of the first error until there is none; return their codes."""
    codes = []
    while left := errors(conf):
        assert len(codes) < MOST_STEPS, (codes, conf.path.read_text())
        codes.append(left[0].code)
        conf.apply(left[0].edits)
        assert conf.accepted() == "", (codes, conf.path.read_text())
    return codes


def logged_and_sent(conf: Laid) -> list[tuple[dict[str, str], list[str]]]:
    """Run the configuration; return (record, stamps that the app got) of one request to either location."""
    with app(conf.ports["APP"], WORK_S) as requests, running(conf):
        for path in ("/a", "/api/b"):
            got(conf.ports["PORT"], path, {"X-Request-Start": "t=1", "X-Queue-Start": "t=1"})
        path_of_log = conf.folder / "access.jsonl"
        deadline = time.monotonic() + DEADLINE_S
        while path_of_log.read_bytes().count(b"\n") < 2:
            assert time.monotonic() < deadline, path_of_log.read_text()
            time.sleep(0.005)
        records = [json.loads(line) for line in path_of_log.read_text().splitlines()]
    return [(row, request.get("x-request-start", [])) for row, request in zip(records, requests, strict=True)]


@pytest.mark.parametrize("form", FORMS)
def test_the_stamp_that_is_logged_is_the_one_that_was_sent(tmp_path: Path, form: str) -> None:
    conf = FORMS[form].laid(tmp_path / "own")
    assert conf.accepted() == ""
    assert mended(conf)
    conf.apply(tuple(edit for each in conf.diagnosed().findings if each.code == "headers-pass" for edit in each.edits))
    for record, stamps in logged_and_sent(conf):
        assert [float(stamp.removeprefix("t=")) for stamp in stamps] == [float(record["request_start"])], stamps
        begun = float(record["time"]) - float(record["upstream_response_time"])
        assert float(record["request_start"]) <= begun + 0.002
        assert float(record["time"]) - float(record["request_start"]) >= 0.9 * WORK_S


@pytest.mark.parametrize("form", ["logged, and not sent", "the log's own time"])
def test_before_the_fix_the_log_holds_the_end(tmp_path: Path, form: str) -> None:
    conf = FORMS[form].laid(tmp_path / "own")
    assert [each.code for each in errors(conf)][-1] in ("log-stamp", "log-keys")
    for record, _ in logged_and_sent(conf):
        assert record["request_start"] == record["time"]
    of_log = {each.code: each for each in diagnose(str(conf.folder / "access.jsonl")).findings}
    assert of_log["log-stamp"].severity == "error"


GOOD_KEYS = (
    ',"queueing_delay":"$upstream_http_x_queueing_delay","service_time":"$upstream_http_x_service_time"'
    ',"worker":"$upstream_http_x_worker","proxy":"$hostname"'
)


@pytest.mark.parametrize(
    "own",
    [
        everywhere(f"{SENT} t=$sojourn_sent;", http=OWN_MAP, key=LOGGED % "sojourn_sent" + GOOD_KEYS),
        everywhere(f"{SENT} $b;", http='map "" $b { default $msec; }', key=LOGGED % "b" + GOOD_KEYS),
        everywhere(f"{SENT} t=$b;", server="set $b $msec;", key=LOGGED % "b" + GOOD_KEYS),
        everywhere(
            f"{SENT} $s;",
            http='map "" $b { default $msec; } map "" $s { default "t=$b"; }',
            key=LOGGED % "b" + GOOD_KEYS,
        ),
        everywhere(
            'proxy_set_header X-Queue-Start "t=${b}";',
            http='map "" $b { default $msec; }',
            key=LOGGED % "b" + GOOD_KEYS,
        ),
    ],
    ids=["sojourn_sent", "a map", "set", "a map of a map", "X-Queue-Start"],
)
def test_one_stamp_that_is_sent_and_logged_gives_no_error(tmp_path: Path, own: Own) -> None:
    conf = own.laid(tmp_path / "own")
    assert conf.accepted() == ""
    assert errors(conf) == []


TODAY = """\
events { worker_connections 4096; }
http {
  log_format j escape=json '%s';
  access_log /var/log/nginx/a.log j;
  upstream app { server 10.0.0.5:8000; }
  server {
    listen 80;
    location / {
      %s
      proxy_pass http://app;
    }
  }
}
"""


def codes_and_fixes(tmp_path: Path, keys: str, lines: str) -> dict[str, Finding]:
    conf = tmp_path / "nginx.conf"
    conf.write_text(TODAY % (KEYS.replace("@KEY@", keys), lines))
    return {each.code: each for each in diagnose(str(conf), somaxconn=4096).findings}


def test_log_keys_replaces_the_stamp(tmp_path: Path) -> None:
    finding = codes_and_fixes(tmp_path, "", f"{SENT} $msec;")["log-keys"]
    lines = finding.fix.splitlines()
    at = lines.index(f"{SENT} t=$sojourn_sent;")
    assert re.match(rf"# in place of {re.escape(SENT)} \$msec; in .*/nginx\.conf:9:", lines[at - 1])
    assert lines[:2] == ["# in http:", OWN_MAP]
    assert not any("beside" in line for line in lines)
    assert sum("$sojourn_sent" in edit.text and SENT in edit.text for edit in finding.edits) == 1


@pytest.mark.parametrize("swapped", [False, True])
def test_stamp_twice_keeps_the_logged_stamp(tmp_path: Path, *, swapped: bool) -> None:
    lines = [f"{SENT} t=$sojourn_sent;", f"{SENT} $msec;"]
    keys = LOGGED % "sojourn_sent" + GOOD_KEYS
    text = "\n      ".join(lines[::-1] if swapped else lines)
    conf = tmp_path / "nginx.conf"
    conf.write_text((TODAY % (KEYS.replace("@KEY@", keys), text)).replace("http {", f"http {{ {OWN_MAP}", 1))
    finding = next(each for each in diagnose(str(conf), somaxconn=4096).findings if each.code == "stamp-twice")
    assert (finding.how, finding.fix) == ("remove", f"{SENT} $msec;")


def test_a_logged_variable_that_is_not_sent_is_an_error(tmp_path: Path) -> None:
    conf = tmp_path / "nginx.conf"
    keys = LOGGED % "sojourn_sent" + GOOD_KEYS
    text = TODAY % (KEYS.replace("@KEY@", keys), f"{SENT} $msec;")
    conf.write_text(text.replace("http {", f"http {{ {OWN_MAP}", 1))
    diagnosis = diagnose(str(conf), somaxconn=4096)
    (finding,) = [each for each in diagnosis.findings if each.severity == "error"]
    assert (finding.code, finding.how, finding.fix) == ("log-stamp", "replace", f"{SENT} t=$sojourn_sent;")
    assert finding.where.startswith(f"{conf}:9, inside location /")


def test_the_configuration_is_the_cause_of_a_log_whose_stamp_is_the_end(tmp_path: Path) -> None:
    conf = tmp_path / "nginx.conf"
    keys = LOGGED % "sojourn_sent" + GOOD_KEYS
    text = TODAY % (KEYS.replace("@KEY@", keys), f"{SENT} $msec;")
    conf.write_text(text.replace("http {", f"http {{ {OWN_MAP}", 1))
    source = log(tmp_path / "a.log", lambda _, row: {**without_own(row), "request_start": row["time"]})
    diagnosis = diagnose([source, str(conf)], somaxconn=4096)
    of_log = next(each for each in diagnosis.findings if each.code == "log-stamp" and "100 %" in each.what)
    assert of_log.fix == f"{SENT} t=$sojourn_sent;"
    assert "Cause in the configuration (log-stamp)" in of_log.why


def without_own(row: dict[str, str]) -> dict[str, str]:
    """A record without the keys that only sojourn.conf writes."""
    return {key: value for key, value in row.items() if key not in ("proxy_start", "stamp")}


@pytest.mark.parametrize(
    ("family", "line"),
    [
        ("uwsgi", "uwsgi_param HTTP_X_REQUEST_START t=$sojourn_sent;"),
        ("fastcgi", "fastcgi_param HTTP_X_REQUEST_START t=$sojourn_sent;"),
        ("scgi", "scgi_param HTTP_X_REQUEST_START t=$sojourn_sent;"),
        ("grpc", "grpc_set_header X-Request-Start t=$sojourn_sent;"),
    ],
)
def test_stamps_of_other_protocols(tmp_path: Path, family: str, line: str) -> None:
    """Parameters of CGI and headers of gRPC are replaced and compared as those of proxy_pass."""
    conf = Own(location=line.replace("t=$sojourn_sent", "$msec"), api=f"{SENT} $msec;").laid(tmp_path / "own")
    target = "grpc://app" if family == "grpc" else "app"
    text = conf.path.read_text()
    conf.path.write_text(text.replace("proxy_pass http://app;", f"{family}_pass {target};", 1))
    assert conf.accepted() == ""
    assert mended(conf) == ["log-keys"]
    assert line in conf.path.read_text()
    assert f"{SENT} t=$sojourn_sent;" in conf.path.read_text()
    conf.path.write_text(conf.path.read_text().replace(line, line.replace("t=$sojourn_sent", '"t=${msec}"')))
    (finding,) = errors(conf)
    assert (finding.code, finding.fix) == ("log-stamp", line)


@pytest.mark.parametrize(
    ("value", "key"), [("$msec", "$sojourn_logged_start"), ("$begun", "$begun"), ("$msec", "$begun")]
)
def test_a_stamp_of_ones_own_beside_sojourn_conf(tmp_path: Path, value: str, key: str) -> None:
    """With sojourn.conf its variables are sent and logged; a variable of one's own may stay."""
    conf = everywhere(
        f"{SENT} {value};",
        http='include sojourn/sojourn.conf; map "" $begun { default $msec; }',
        key=f',"request_start":"{key}"' + GOOD_KEYS,
    ).laid(tmp_path / "own")
    assert conf.accepted() == ""
    same = value == key
    assert bool(mended(conf)) is not same
    assert ("$sojourn_stamp_sent" in conf.path.read_text()) is not same
    assert ('"request_start":"$sojourn_logged_start"' in conf.path.read_text()) is not same
