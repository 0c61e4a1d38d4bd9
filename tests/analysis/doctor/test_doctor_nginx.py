"""Each broken configuration gives one finding, whose lines mend it; the good one gives none."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from doctor_faults import (
    CONNECTION,
    FAULTS,
    GOOD,
    HIDES,
    HOST,
    LISTEN,
    LOG,
    OWN_LOG,
    PASS,
    PROXY,
    REST,
    SERVER,
    SOMAXCONN,
    STAMP,
    UPSTREAM,
    VERSION,
    Fault,
    location,
    root,
)
from doctor_support import laid
from sojourn.doctor.doctor import diagnose
from sojourn.doctor.nginx_headers import bare_lines
from sojourn.doctor.nginx_levels import Level, Pass
from sojourn.doctor.nginx_upstream import _seconds
from sojourn.nginx import syntax as nginx_syntax
from sojourn_lab.runtime.nginx import Nginx

NO_NGINX = Nginx.why_unavailable()
pytestmark = pytest.mark.skipif(NO_NGINX is not None, reason=NO_NGINX or "")


def test_good_configuration_gives_no_finding(tmp_path: Path) -> None:
    conf = laid(tmp_path / "good")
    assert conf.accepted() == ""
    diagnosis = conf.diagnosed()
    assert diagnosis.findings == []
    assert len(diagnosis.checked) == 7
    assert not diagnosis.broken


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_finding_of_each_fault_and_its_fix(tmp_path: Path, fault: Fault) -> None:
    conf = laid(tmp_path / "broken", fault)
    assert conf.accepted() == ""  # nginx itself accepts it
    diagnosis = conf.diagnosed(fault.somaxconn, server=fault.server)
    assert [(each.code, each.severity) for each in diagnosis.findings] == [(fault.code, fault.severity)]
    finding = diagnosis.findings[0]
    line = conf.filled(fault.line)
    assert any(each.endswith(line) for each in finding.fix.splitlines()), finding.fix
    assert str(conf.folder) in finding.where
    assert diagnosis.broken == (fault.severity == "error")

    # The fix, applied to the text, mends it; a command mends the machine.
    if finding.how == "run":
        assert conf.diagnosed(max(SOMAXCONN, 65535)).findings == []
        return
    conf.apply(finding.edits)
    assert conf.accepted() == ""
    assert conf.diagnosed(fault.somaxconn, server=fault.server).findings == [], conf.path.read_text()


def test_faults_cover_the_codes() -> None:
    assert len(FAULTS) >= 12
    assert len({fault.code for fault in FAULTS}) >= 25


OWN_STAMP, *OWN_REST = bare_lines("proxy")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('"request_start":"$sojourn_logged_start",', "", "log-keys"),
        ("$sojourn_logged_start", "$msec", "log-stamp"),
    ],
)
def test_own_stamp_and_own_log(tmp_path: Path, old: str, new: str, code: str) -> None:
    """Without include files of Sojourn, one variable is sent and logged as the stamp after the fix."""
    text = re.sub(r"location /api/ \{.*?\}", "", GOOD, flags=re.S).replace(LOG, OWN_LOG.replace(old, new))
    text = re.sub(
        r"location / \{.*?\}",
        " ".join(["location / {", PASS, VERSION, CONNECTION, OWN_STAMP, *OWN_REST, *HIDES, "}"]),
        text,
        flags=re.S,
    )
    for own_values, own in (
        ("include sojourn/sojourn.conf;", ""),
        ("map $uri $sojourn_route", "map $uri $own_route"),
        ("$sojourn_uri", "$uri"),
    ):
        text = text.replace(own_values, own)
    conf = laid(tmp_path / "own", text=text)
    assert conf.accepted() == ""
    (finding,) = conf.diagnosed().findings
    assert finding.code == code
    conf.apply(finding.edits)
    assert conf.accepted() == ""
    assert conf.diagnosed().findings == []


@pytest.mark.parametrize(
    "edits",
    [
        (root(*PROXY[:-1], STAMP, "proxy_pass_request_headers off;", *HIDES),),
        (
            root(*PROXY[:-1], STAMP, *REST[:1], "proxy_set_header X-Request-ID $id;", *REST[2:], *HIDES),
            (
                UPSTREAM,
                "    geo $realip_remote_addr $inside { default 0; 10.0.0.0/8 1; }\n"
                f"    map $inside $id {{ default $request_id; 1 $http_x_request_id; }}\n\n{UPSTREAM}",
            ),
        ),
    ],
    ids=["no header of a client is sent on", "the id of an address of one's own"],
)
def test_headers_that_do_not_pass(tmp_path: Path, edits: tuple[tuple[str, str], ...]) -> None:
    conf = laid(tmp_path / "fine", Fault("", "", edits, ""))
    assert conf.accepted() == ""
    assert conf.diagnosed().findings == []


def test_own_stamp_is_the_same_everywhere(tmp_path: Path) -> None:
    """A location that stamps by X-Queue-Start, or not at all, gets the stamp that another one sends and logs."""
    own_map = f'    map "" $mine {{ default $msec; }}\n\n{UPSTREAM}'
    lines = ["proxy_set_header X-Queue-Start t=$mine;", *OWN_REST[1:], *HIDES]
    edits = (root(*PROXY[:-1], *lines), (UPSTREAM, own_map), ("include sojourn/sojourn.conf;", ""), (LOG, ""))
    text = GOOD.replace(location("/api/", "proxy_read_timeout 5s;", *PROXY), location("/api/", PASS))
    text = text.replace("map $uri $sojourn_route", "map $uri $own_route")
    conf = laid(tmp_path / "own", Fault("", "", edits, ""), text)
    assert conf.accepted() == ""
    findings = [each for each in conf.diagnosed().findings if each.code in ("headers-pass", "stamp-missing")]
    assert {each.code: each.fix.splitlines()[0] for each in findings} == {
        "headers-pass": "proxy_set_header X-Request-Start t=$mine;",
        "stamp-missing": "proxy_set_header X-Request-Start t=$mine;",
    }


@pytest.mark.parametrize("around", [(PASS, VERSION, HOST, CONNECTION), ()], ids=["a pass beside it", "alone"])
def test_headers_are_not_set_in_a_condition(tmp_path: Path, around: tuple[str, ...]) -> None:
    """nginx allows proxy_pass in an if of a location, and proxy_set_header only in the location."""
    lines = (*around, "if ($arg_other) {", PASS, "}")
    conf = laid(tmp_path / "if", Fault("", "", (root(*lines),), ""))
    assert conf.accepted() == ""
    findings = conf.diagnosed(server="uvicorn").findings
    assert [each.code for each in findings][:1] == ["stamp-missing"]
    assert {each.subject for each in findings} == {"location /"}
    conf.apply(tuple(edit for each in findings for edit in each.edits))
    assert conf.accepted() == ""
    assert conf.diagnosed(server="uvicorn").findings == [], conf.path.read_text()


def test_backlog_applies_to_every_server_of_an_address(tmp_path: Path) -> None:
    other = f"{SERVER}\n    }}\n\n    server {{\n        {LISTEN.replace(';', ' backlog=9999;')}"
    conf = laid(tmp_path / "two", Fault("", "", ((SERVER, other),), ""))
    assert conf.accepted() == ""
    (finding,) = conf.diagnosed().findings
    assert finding.code == "backlog-capped"
    assert "(backlog=9999)" in finding.what


def test_includes_match_names_in_dump_of_nginx(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one.conf").write_text("server { listen 127.0.0.1:1; include ./a/b/*.conf; }\n")
    (tmp_path / "a" / "b" / "two.conf").write_text("server_name two;\n")
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}} http {{ access_log off; include ./a/*.conf; }}\n"
    )
    read = nginx_syntax.reading(tmp_path / "nginx.conf")
    assert read.refusal is None
    http = read.root.block[-1]
    assert [each.name for each in http.block] == ["access_log", "server"]
    assert [each.name for each in http.block[1].block] == ["listen", "server_name"]


def test_includes_are_relative_to_a_link(tmp_path: Path) -> None:
    conf = laid(tmp_path / "a")
    (tmp_path / "elsewhere").mkdir()
    conf.path.rename(tmp_path / "elsewhere" / "real.conf")
    conf.path.symlink_to(tmp_path / "elsewhere" / "real.conf")
    assert conf.accepted() == ""
    assert conf.diagnosed().findings == []


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("http://app", "app"),
        ("https://10.0.0.1:8443/api", "10.0.0.1:8443"),
        ("http://unix:/run/app.sock:/", "/run/app.sock:/"),
        ("unix:/run/app.sock", "/run/app.sock"),
        ("unix:///run/app.sock", "/run/app.sock"),
    ],
)
def test_target_of_a_pass(text: str, target: str) -> None:
    level = Level(nginx_syntax.parsed(f"uwsgi_pass {text};"))
    assert Pass(level, level.own("uwsgi_pass")[0], level).target == target


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30), ("500ms", 0.5), ("1m", 60), ("1m30s", 90), ("1h 1m", 3660), ("", 0)]
)
def test_reads_times_of_nginx(text: str, seconds: float) -> None:
    assert _seconds(text) == seconds


def test_survives_mutated_configurations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are removed, doubled and moved; nginx is not available to refuse the text."""
    monkeypatch.setattr(nginx_syntax, "_dump_of_nginx", lambda _: ([], "nginx refuses it (no)"))
    rng = random.Random(7)
    conf = laid(tmp_path / "a")
    marks = [";", "{", "}", '"', '""', "$", "off", "²", "\x00", "é", "~^(", ""]
    diagnosed = 0
    for _ in range(150):
        text = GOOD
        for fault in rng.sample(FAULTS, 3):
            for old, new in fault.edits:
                text = text.replace(old, new)
        words = re.split(r"(\s+)", text)
        for _ in range(rng.randint(0, 4)):
            words[rng.randrange(len(words))] = rng.choice([*marks, words[rng.randrange(len(words))]])
        conf.path.write_text("".join(words))
        diagnosed += bool(diagnose(str(conf.path), somaxconn=128).findings)
    assert diagnosed > 100


TWO_APPS = """\
@MODULE@
pid @FOLDER@/nginx.pid;
error_log @FOLDER@/error.log notice;
events { worker_connections 4096; }
http {
    @TEMP@
    include sojourn/sojourn.conf;
    server {
        listen 127.0.0.1:@PORT@;
        server_name shop.example;
        access_log @FOLDER@/shop.jsonl sojourn;
        location / { include sojourn/sojourn_proxy.conf; proxy_pass http://127.0.0.1:@APP@; }
    }
    server {
        listen 127.0.0.1:@PORT@;
        server_name blog.example;
        %s
        location / { include sojourn/sojourn_proxy.conf; proxy_pass http://127.0.0.1:@INNER@; }
    }
    server {
        listen 127.0.0.1:@PORT@;
        server_name wiki.example;
        location /a/ { access_log @FOLDER@/a.log combined; proxy_pass http://127.0.0.1:@INNER@;
                       include sojourn/sojourn_proxy.conf; }
        location /b/ { access_log @FOLDER@/b.log combined; proxy_pass http://127.0.0.1:@INNER@;
                       include sojourn/sojourn_proxy.conf; }
    }
}
"""


@pytest.mark.parametrize("own", ["access_log @FOLDER@/blog.log combined;", "access_log off;"])
def test_proposes_a_log_file_of_its_own(tmp_path: Path, own: str) -> None:
    """The log of one app holds no requests of another."""
    conf = laid(tmp_path / "two", text=TWO_APPS % own)
    findings = [each for each in conf.diagnosed().findings if each.code in ("log-missing", "log-off")]
    names = ["sojourn-blog.example", "sojourn-wiki.example-a", "sojourn-wiki.example-b"]
    assert sorted(each.fix for each in findings) == [
        f"access_log {conf.folder}/{name}.jsonl sojourn;" for name in names
    ]
    conf.apply(tuple(edit for each in findings for edit in each.edits))
    assert conf.accepted() == ""
    assert [each for each in conf.diagnosed().findings if each.code.startswith("log")] == []


def test_servers_of_one_name_get_a_file_each(tmp_path: Path) -> None:
    text = TWO_APPS % "access_log @FOLDER@/blog.log combined;"
    conf = laid(
        tmp_path / "same", text=text.replace("wiki.example", "blog.example").replace("/a/", "/").replace("/b/", "= /")
    )
    fixes = [each.fix for each in conf.diagnosed().findings if each.code == "log-missing"]
    assert len(set(fixes)) == len(fixes) == 3


def test_an_unlogged_configuration_gets_one_log(tmp_path: Path) -> None:
    text = re.sub(r"access_log @FOLDER@/\S+ \w+;", "", TWO_APPS % "")
    findings = [
        each for each in laid(tmp_path / "none", text=text).diagnosed().findings if each.code == "include-missing"
    ]
    missing = [each for each in laid(tmp_path / "no", text=text).diagnosed().findings if each.code == "log-missing"]
    assert (len(findings), len(missing)) == (0, 1)
    assert missing[0].fix == "access_log /var/log/nginx/sojourn.jsonl sojourn;"
