"""Findings of incomplete logs, and none of a complete one."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sojourn.doctor.display import headline
from sojourn.doctor.doctor import diagnose, kind_of
from sojourn.doctor.findings import Diagnosis, Finding
from syrupy.assertion import SnapshotAssertion

BEGIN = 1767225600.0
Change = Callable[[int, dict[str, str]], dict[str, str]]


def record(number: int) -> dict[str, str]:
    """Return one of the steady requests, ten a second to each of two backends."""
    start = BEGIN + 0.05 * number + 0.001 * (number * 7 % 11)
    service = 0.010 + 0.001 * (number % 7)
    queue = 0.0 if number % 3 else 0.004
    header = round(queue + service + 0.001, 3)
    return {
        "time": f"{start + header + 0.001:.3f}",
        "request_id": f"{number:032x}",
        "service": "shop",
        "route": "/buy" if number % 2 else "/look",
        "method": "GET",
        "uri": f"/item/{number}",
        "status": "200",
        "request_time": f"{header + 0.001:.3f}",
        "request_start": f"{start:.3f}",
        "upstream_addr": f"10.0.0.{1 + number % 2}:80",
        "upstream_status": "200",
        "upstream_connect_time": "0.000",
        "upstream_header_time": f"{header:.3f}",
        "upstream_response_time": f"{header:.3f}",
        "queueing_delay": f"{queue + 0.0005:.6f}",
        "service_time": f"{service:.6f}",
        "worker": f"{number % 2}",
        "proxy": "edge",
        "stamp": "own",
        "proxy_start": f"{start:.3f}",
    }


def log(path: Path, change: Change = lambda _, row: row, count: int = 600) -> str:
    """A log of those requests, changed."""
    lines = [json.dumps(change(number, record(number))) for number in range(count)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def codes(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    return [(each.code, each.severity) for each in diagnosis.findings]


def only(diagnosis: Diagnosis) -> Finding:
    assert len(diagnosis.findings) == 1, codes(diagnosis)
    return diagnosis.findings[0]


def test_complete_log_gives_no_finding(tmp_path: Path) -> None:
    diagnosis = diagnose(log(tmp_path / "a.jsonl"))
    assert codes(diagnosis) == []
    assert not diagnosis.broken
    assert "600 of 600 lines could be used" in diagnosis.checked
    assert "each of 2 backends reports how long requests waited and how long it worked" in diagnosis.checked


def without(*keys: str) -> Change:
    return lambda _, row: {key: value for key, value in row.items() if key not in keys}


def every(number: int, **values: str) -> Change:
    """Other values in every ``number``-th record."""
    return lambda at, row: {**row, **values} if at % number == 0 else row


def blank(number: int, *keys: str) -> Change:
    return every(number, **dict.fromkeys(keys, ""))


def later(number: int, keys: tuple[str, ...], seconds: float, digits: int = 3) -> Change:
    """Times moved by ``seconds`` in every ``number``-th record."""

    def change(at: int, row: dict[str, str]) -> dict[str, str]:
        put_off = {key: f"{float(row[key]) + seconds:.{digits}f}" for key in keys}
        return {**row, **put_off} if at % number == 0 else row

    return change


def whole_seconds(_: int, row: dict[str, str]) -> dict[str, str]:
    stamp = row["request_start"].partition(".")[0]
    return {**row, "request_start": stamp, "proxy_start": stamp}


def raw_route(number: int, row: dict[str, str]) -> dict[str, str]:
    return {**row, "route": f"/item/{number}"}


APP = ("queueing_delay", "service_time", "worker")
STAMP = ("request_start", "proxy_start", "stamp")
GONE = {**dict.fromkeys(APP, ""), "status": "504", "upstream_status": "504", "upstream_header_time": "-"}
HEADER = "upstream_header_time"
# The change of the log; code and severity of the finding; a value in its sentence; a part of the fix.
CASES: dict[str, tuple[Change, str, str, str, str]] = {
    "no header time": (without(HEADER), "log-keys", "error", HEADER, f"${HEADER}"),
    "no worker key": (without("worker"), "log-keys", "info", "worker", "$upstream_http_x_worker"),
    "no time": (without("time"), "log-keys", "error", "time", '"time":"$msec"'),
    "one backend silent": (blank(2, *APP), "app-silent", "error", "10.0.0.1:80", "X-Service-Time: "),
    "one route silent": (blank(4, *APP), "app-silent", "error", "50 %", "X-Service-Time: "),
    "all silent": (blank(1, *APP), "app-silent", "error", "600 answers", "X-Service-Time: "),
    "a few stamps missing": (blank(10, *STAMP), "stamp-missing", "warning", "10 %", "sojourn_proxy.conf"),
    "no workers named": (blank(2, "worker"), "worker-missing", "warning", "300 answers", "X-Worker"),
    "no ids": (blank(2, "request_id"), "ids-missing", "warning", "50 %", "$request_id"),
    "raw routes": (raw_route, "routes-many", "warning", "600 routes, 600 of them", "~^/item/ /item/...;"),
    "stamps refused": (every(5, stamp="refused:unit"), "stamp-refused", "warning", "120 stamps", "t=${msec}"),
    "stamps too old": (every(5, stamp="refused:stale"), "stamp-refused", "warning", "stale", "$sojourn_max_age"),
    "words for seconds": (every(50, service_time="fast"), "app-garbled", "warning", "12 answers", "0.100236"),
    "abandoned requests": (every(20, **GONE), "spans-missing", "info", "30 requests (5.0 %)", "--spans"),
    "answers that stream": (
        later(10, ("upstream_response_time", "request_time", "time"), 0.2),
        "answers-streamed",
        "info",
        "60 answers (10 %)",
        "--spans",
    ),
    "a clock ahead": (
        later(2, ("queueing_delay",), 3, 6),
        "clock-skew",
        "info",
        "3,000 ms",
        "chronyc",
    ),
    "whole seconds": (whole_seconds, "clock-coarse", "warning", "1,000 ms", "t=${msec}"),
}


@pytest.mark.parametrize(("change", "code", "severity", "value", "fix"), list(CASES.values()), ids=list(CASES))
def test_reports_what_a_log_lacks(
    tmp_path: Path, snapshot: SnapshotAssertion, change: Change, code: str, severity: str, value: str, fix: str
) -> None:
    diagnosis = diagnose(log(tmp_path / "a.jsonl", change))
    finding = next(each for each in diagnosis.findings if each.code == code)
    assert finding.severity == severity
    assert value in finding.what
    assert fix in finding.fix
    assert f"{finding.what}\n{finding.why}".replace(str(tmp_path), "FOLDER") == snapshot
    assert diagnosis.broken == any(each.severity == "error" for each in diagnosis.findings)
    # Other findings follow from this one: no absent cause is reported.
    assert {each.code for each in diagnosis.findings} - {code} <= {
        "queue-negative",
        "clock-contradicts",
        "clock-unsure",
    }


def test_reports_first_refused_line(tmp_path: Path) -> None:
    source = log(tmp_path / "a.jsonl")
    lines = Path(source).read_text().splitlines()
    lines[10] = lines[10].replace('"status":', 'status"\x1b[2J:')
    Path(source).write_text("\n".join(lines) + "\n")
    finding = only(diagnose(source))
    assert (finding.code, finding.severity) == ("lines-refused", "warning")
    assert finding.where == f"{source}:11"
    assert "escape=json" in finding.fix
    assert "\x1b" not in finding.why


def test_other_log_formats(tmp_path: Path) -> None:
    combined = tmp_path / "access.log"
    combined.write_text('203.0.113.9 - - [31/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 12 "-" "curl"\n' * 5)
    assert only(diagnose(str(combined))).code == "log-format"
    assert "combined" in only(diagnose(str(combined))).what
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert only(diagnose(str(empty))).code == "log-empty"
    noise = tmp_path / "noise"
    noise.write_bytes(bytes(range(256)) * 40)
    assert only(diagnose(str(noise))).code == "log-format"
    torn = tmp_path / "torn.jsonl.gz"
    torn.write_bytes(gzip.compress(Path(log(tmp_path / "a.jsonl")).read_bytes())[:4000])
    assert "lines-refused" in {each.code for each in diagnose(str(torn)).findings}


def test_recognises_one_endless_line_quickly(tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.write_bytes(b"a" * 65_536)
    begun = time.process_time()
    assert kind_of(str(path)) == "log"
    assert time.process_time() - begun < 2


def test_no_check_passes_without_requests(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    source = log(tmp_path / "a.jsonl", blank(1, *APP))
    assert "answers name their worker" not in diagnose(source).checked
    later = diagnose(source, since=datetime(2030, 1, 1, tzinfo=UTC))
    assert (later.findings, later.checked) == ([], [])
    assert [sentence.replace(source, "LOG") for sentence in (headline(later), *later.unseen)] == snapshot


def test_silence_on_many_routes_lists_no_route(tmp_path: Path) -> None:
    def change(number: int, row: dict[str, str]) -> dict[str, str]:
        routed = {**row, "route": f"/r{number // 4 % 50}"}
        return {**routed, **dict.fromkeys(APP, "")} if number % 4 == 0 else routed

    assert only(diagnose(log(tmp_path / "a.jsonl", change))).what.endswith("on 50 % of its answers.")


def test_several_logs_and_ignored_codes(tmp_path: Path) -> None:
    first = log(tmp_path / "a.jsonl")
    second = log(tmp_path / "b.jsonl", blank(2, "request_id"))
    diagnosis = diagnose([first, second])
    assert [each["kind"] for each in diagnosis.targets] == ["log", "log"]
    assert only(diagnosis).where == second
    assert diagnose([first, second], ignored=["ids-missing"]).findings == []


CONF = """
events { worker_connections 4096; }
http {
    include sojourn/sojourn.conf;
    access_log /var/log/nginx/sojourn.jsonl sojourn;
    upstream one { server 10.0.0.2:80; keepalive 8; }
    upstream two { server 10.0.0.1:80; keepalive 8; }
    server {
        proxy_http_version 1.1;
        include sojourn/sojourn_proxy.conf;
        proxy_set_header Connection "";
        location /one/ { proxy_pass http://one; }
        location /two/ {
            proxy_pass http://two;
            %s
        }
    }
}
"""


@pytest.mark.parametrize(
    ("more", "value", "fix"),
    [
        ('proxy_set_header Connection "";', "stamp-not-inherited", "include sojourn/sojourn_proxy.conf;"),
        ("", "docs/how-to/your-own-app.md", "X-Service-Time: "),
    ],
)
def test_configuration_explains_finding_of_log(tmp_path: Path, more: str, value: str, fix: str) -> None:
    conf = tmp_path / "nginx.conf"
    conf.write_text(CONF % more)
    source = log(tmp_path / "a.jsonl", blank(2, "queueing_delay", "service_time", "worker"))
    diagnosis = diagnose([source, str(conf)], ignored=["nginx-refuses"])
    silent = next(each for each in diagnosis.findings if each.code == "app-silent")
    assert value in silent.why
    assert fix in silent.fix
    if more:
        assert silent.where.startswith(f"{conf}:15")


def test_run_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    log(run / "access.jsonl", every(20, **GONE))
    assert only(diagnose(str(run))).code == "spans-missing"
