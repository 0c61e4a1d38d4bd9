"""The command and its page: exit codes, JSON, sections, and errors of nginx."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from doctor_faults import FAULTS
from doctor_support import laid
from sojourn.cli import app
from sojourn.doctor.command import sections
from sojourn.doctor.doctor import diagnose
from sojourn.doctor.findings import Finding
from sojourn.doctor.nginx import BUILTIN_INCLUDES
from sojourn.doctor.nginx_headers import FAMILIES
from sojourn.doctor.nginx_records import FULL, LEAN, RECORDS
from sojourn.nginx import syntax as nginx_syntax
from sojourn.nginx.syntax import parsed, reading
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.nginx import Nginx
from test_doctor_log import CASES, log
from typer.testing import CliRunner

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "doctor.md"
PACKAGE = Path(__file__).parents[3] / "analysis" / "sojourn" / "doctor"
NO_NGINX = Nginx.why_unavailable()
needs_nginx = pytest.mark.skipif(NO_NGINX is not None, reason=NO_NGINX or "")


def run(*arguments: str, columns: int = 80) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": str(columns), "NO_COLOR": "1"}).invoke(app, ["doctor", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_exit_codes_and_json(tmp_path: Path) -> None:
    good = log(tmp_path / "good.jsonl")
    bad = log(tmp_path / "bad.jsonl", CASES["one backend silent"][0])
    assert run(good)[0] == 0
    code, out, err = run(good, bad, "--json")
    assert (code, err) == (1, "")
    document = json.loads(out)
    assert document["broken"] is True
    assert document["counts"] == {"error": 1, "warning": 0, "info": 0}
    (finding,) = document["findings"]
    assert finding["link"] == "docs/reference/doctor.md#app-silent"
    assert {"code", "severity", "subject", "what", "why", "fix", "where", "how", "into", "edits"} <= set(finding)
    assert run(good, bad, "--ignore", "app-silent")[0] == 0


def test_rejects_wrong_usage(tmp_path: Path) -> None:
    assert run()[0] == 2
    assert run(log(tmp_path / "a.jsonl"), "--ignore", "nonsense")[0] == 2
    for target in (str(tmp_path / "nothing.conf"), str(tmp_path / "nothing.jsonl"), str(tmp_path)):
        result = CliRunner().invoke(app, ["doctor", target])
        assert result.exit_code == 1
        assert type(result.exception).__name__ in ("SojournError", "CaptureError")


def test_wraps_sentences_at_40_columns_and_keeps_fixes_whole(tmp_path: Path) -> None:
    _, out, _ = run(log(tmp_path / "a.jsonl", CASES["all silent"][0]), columns=40)
    fixes = [line for line in out.splitlines() if line.startswith("      ")]
    assert "      X-Queueing-Delay: 0.012000" in fixes
    assert all(len(line) <= 40 for line in out.splitlines() if not line.startswith("      ") and "/" not in line)


def test_every_code_has_a_section_and_every_section_a_code() -> None:
    known = sections()
    text = "".join(file.read_text() for file in PACKAGE.glob("*.py"))
    output = set(re.findall(r'"([a-z]+(?:-[a-z]+)+|reuseport)"', text)) & set(known)
    assert output == set(known)
    assert {fault.code for fault in FAULTS} | {case[1] for case in CASES.values()} <= set(known)
    for code, section in known.items():
        assert "```" in section or re.search(r"^    \S", section, re.M), f"{code} has no line that mends it"


def test_explain_prints_section_of_code() -> None:
    code, out, _ = run("--explain", "stamp-missing")
    assert code == 0
    assert "include sojourn/sojourn_proxy.conf;" in out
    assert "stamp-not-inherited" not in out.splitlines()[0]
    result = CliRunner().invoke(app, ["doctor", "--explain", "nonsense"])
    assert result.exit_code == 1
    assert "stamp-missing" in str(result.exception)


@needs_nginx
def test_page_shows_output_of_command(tmp_path: Path) -> None:
    blocks = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    conf = next(b.split("\n", 1)[1] for b in blocks if b.startswith("$ cat"))
    shown = next(b.split("\n", 1)[1] for b in blocks if b.startswith("$ cd"))
    laid_out = laid(tmp_path / "nginx")
    module = laid_out.filled("@MODULE@").replace("\n", " ")
    temp = laid_out.filled("@TEMP@")
    assert conf.startswith("events {\n")
    # Settings of this machine go onto existing lines, so that line numbers do not change.
    laid_out.path.write_text(conf.replace("events {", f"{module} events {{", 1).replace("http {", f"http {{ {temp}", 1))
    _, out, _ = run(str(laid_out.path), "--somaxconn", "4096", columns=400)
    out = out.replace(str(laid_out.folder), "/etc/nginx")
    assert " ".join(out.split()) == " ".join(shown.split())


@needs_nginx
def test_reports_refusal_of_nginx(tmp_path: Path) -> None:
    conf = laid(tmp_path / "a")
    text = conf.path.read_text()
    conf.path.write_text(text.replace("keepalive 32;", "keepaliv 32;"))
    diagnosis = conf.diagnosed()
    finding = diagnosis.findings[0]
    assert (finding.code, finding.severity) == ("nginx-refuses", "error")
    assert 'unknown directive "keepaliv"' in finding.what

    conf.path.write_text(text.replace("server 127.0.0.1", "server nowhere.invalid; server 127.0.0.1", 1))
    finding = next(each for each in conf.diagnosed().findings if each.code == "nginx-refuses")
    assert finding.severity == "warning"  # another machine may know that name

    lines = [line for line in text.splitlines() if not line.startswith("load_module")]
    conf.path.write_text("\n".join(lines))
    if 'unknown directive "js_' in conf.accepted():
        assert [each.code for each in conf.diagnosed().findings] == ["njs-missing"]
        conf.apply(conf.diagnosed().findings[0].edits)
        assert "load_module modules/ngx_http_js_module.so;" in conf.path.read_text().splitlines()[0]


@pytest.mark.parametrize(
    "refusal",
    ['nginx refuses it (open() "/run/nginx.pid" failed (13: Permission denied))', "nginx is not installed here"],
)
def test_unavailable_nginx_is_not_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: str) -> None:
    """An ordinary user may not have a live configuration tested."""
    monkeypatch.setattr(nginx_syntax, "_dump_of_nginx", lambda _: ([], refusal))
    result = laid(tmp_path / "a").diagnosed()
    assert result.findings == []
    assert any(refusal in sentence for sentence in result.unseen)


@needs_nginx
def test_configuration_without_sojourn(tmp_path: Path) -> None:
    conf = laid(tmp_path / "a")
    text = conf.path.read_text()
    for line in ("include sojourn/sojourn.conf;", "include sojourn/sojourn_proxy.conf;"):
        text = text.replace(line, "")
    text = re.sub(r"access_log .*;", "", re.sub(r"map \$uri \$sojourn_route \{.*?\}", "", text, flags=re.S))
    conf.path.write_text(text)
    diagnosis = conf.diagnosed()
    assert [each.code for each in diagnosis.findings] == ["include-missing", "stamp-missing", "stamp-missing"]
    conf.apply(tuple(edit for each in diagnosis.findings for edit in each.edits))
    log_line = f"access_log {conf.folder}/sojourn.jsonl sojourn;"
    conf.path.write_text(conf.path.read_text().replace("access_log /var/log/nginx/sojourn.jsonl sojourn;", log_line))
    assert conf.accepted() == ""
    assert conf.diagnosed().findings == []


def test_configuration_of_another_machine(tmp_path: Path) -> None:
    """Only nginx.conf was copied here: the contents of the includes are built in."""
    conf = laid(tmp_path / "a")
    for file in (conf.folder / "sojourn").iterdir():
        file.unlink()
    diagnosis = diagnose(str(conf.path), somaxconn=4096)
    assert {each.code for each in diagnosis.findings} <= {"nginx-refuses"}
    assert not diagnosis.broken
    assert any("sojourn.conf" in sentence for sentence in diagnosis.unseen)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("record", RECORDS)
def test_builtin_includes_equal_files(record: str, family: str) -> None:
    name = RECORDS[record].include_name(family)
    directives = [(each.name, each.args) for each in parsed(resource_file("nginx", name).read_text()).block]
    assert [(each.name, each.args) for each in parsed(BUILTIN_INCLUDES[name]).block] == directives


@pytest.mark.parametrize(("name", "file"), [(FULL.http, "sojourn_variables.conf"), (LEAN.http, LEAN.http)])
def test_builtin_http_include_has_the_keys_of_the_file(name: str, file: str) -> None:
    main = resource_file("nginx", file).read_text()
    for key in re.findall(r'"(\w+)":', BUILTIN_INCLUDES[name]):
        assert f'"{key}":' in main


def test_file_of_conf_d_alone(tmp_path: Path) -> None:
    file = tmp_path / "shop.conf"
    file.write_text(
        "server { listen 80; location / { proxy_pass http://app; } }\n"
        "server { listen 81; location / { proxy_pass http://app; proxy_request_buffering off; } }\n"
    )
    diagnosis = diagnose(str(file), somaxconn=4096)
    assert sorted({each.code for each in diagnosis.findings}) == ["stamp-missing", "upload-unbuffered"]
    assert not diagnosis.broken  # the levels above are unknown
    assert any(sentence.startswith(str(file)) for sentence in diagnosis.unseen)


@pytest.mark.parametrize(
    ("family", "line"),
    [
        ("uwsgi", "uwsgi_param HTTP_X_REQUEST_START $sojourn_stamp_sent;"),
        ("fastcgi", "fastcgi_hide_header X-Worker;"),
        ("scgi", "scgi_param HTTP_TRACEPARENT $sojourn_traceparent if_not_empty;"),
        ("grpc", "grpc_set_header X-Request-Start $sojourn_stamp_sent;"),
    ],
)
@pytest.mark.parametrize("case", ["nothing included", "include of proxy_pass", "folder of an earlier version"])
@needs_nginx
def test_apps_behind_other_protocols(tmp_path: Path, family: str, line: str, case: str) -> None:
    conf = laid(tmp_path / "a")
    include = f"include sojourn/{FULL.include_name(family)};"
    scheme = "grpc://" if family == "grpc" else ""
    wrong = "include sojourn/sojourn_proxy.conf;" if case == "include of proxy_pass" else ""
    if case == "folder of an earlier version":
        (conf.folder / "sojourn" / FULL.include_name(family)).unlink()
    inside = f"{wrong}\n            {family}_pass {scheme}127.0.0.1:9;"
    more = f"location /other/ {{\n            {inside}\n        }}\n    }}\n}}\n"
    conf.path.write_text(conf.path.read_text().rstrip().removesuffix("}").rstrip().removesuffix("}") + more)
    finding: Finding
    (finding,) = conf.diagnosed().findings
    assert (finding.code, finding.subject) == ("stamp-missing", "location /other/")
    assert (finding.how == "replace") is bool(wrong)
    assert ("sojourn_proxy.conf" in finding.what) is bool(wrong)
    lines = finding.fix.splitlines()
    assert (line in lines) is (case == "folder of an earlier version")
    assert (include in lines) is (case != "folder of an earlier version")
    conf.apply(finding.edits)
    assert wrong == "" or wrong not in conf.path.read_text().partition("location /other/")[2]
    assert conf.accepted() == ""
    assert conf.diagnosed().findings == []


def test_places_are_exact_to_the_character(tmp_path: Path) -> None:
    (tmp_path / "one.conf").write_text("# a comment\n  gzip on; server { listen 80; }\n")
    main = tmp_path / "nginx.conf"
    main.write_text("http {\n    include one.conf;\n    include nothing.conf;\n}\n")
    read = reading(main)
    (http,) = read.root.block
    gzip, server, left = http.block
    for each in (gzip, server):
        assert each.via is not None
        assert each.via.place.line == 2
    text = read.files[gzip.place.file]
    assert text[gzip.place.begin : gzip.place.end] == "gzip on;"
    assert text[server.place.begin : server.close] == "server { listen 80; }"
    assert (gzip.place.line, gzip.place.indent) == (2, "  ")
    assert (left.name, left.args) == ("include", ["nothing.conf"])  # its file does not exist
