"""A log of nginx without the times of a queue: outputs begin with the lines to add, which are enough."""

from __future__ import annotations

import html
import os
from http.client import HTTPConnection
from pathlib import Path

import pytest
import sojourn
from doctor_support import DEADLINE_S, app
from sojourn.cli import app as command
from sojourn.cli import main
from sojourn.readers.foreign_logs import TIMED
from sojourn.readers.missing_times import OPENING, lacks_times
from sojourn_lab.runtime.nginx import nginx_program
from sojourn_lab.runtime.ports import free_ports, wait_for_port
from sojourn_lab.runtime.process import Process
from typer.testing import CliRunner

EXAMPLES = Path(__file__).parents[3] / "docs/examples"
BEGIN = 1_767_225_600
CLF = '192.0.2.9 - - [01/Jan/2026:00:{:02}:{:02} +0000] "GET /{} HTTP/1.1" 200 512 "-" "curl/8"'
JSON = '{{"time_iso8601":"2026-01-01T00:{:02}:{:02}+00:00","request":"GET /{} HTTP/1.1","status":"200",'


def written(folder: Path, kind: str) -> Path:
    path = folder / "access.log"
    with path.open("w") as file:
        for number in range(600):
            place = (number // 60, number % 60, number % 3)
            seconds = f"{0.01 + 0.003 * (number % 17):.3f}"
            file.write(
                {
                    "combined": CLF.format(*place),
                    "timed": f"{CLF.format(*place)} {BEGIN + number}.{number % 997:03} {seconds}",
                    "json": f'{JSON.format(*place)}"request_time":"{seconds}"}}',
                    "apache": f"{CLF.format(*place)} {int(float(seconds) * 1e6)}",
                }[kind]
                + "\n"
            )
    return path


def run(*arguments: str | Path) -> str:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(command, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("kind", ["timed", "json"])
def test_split_and_report_begin_with_the_lines_to_add(tmp_path: Path, kind: str) -> None:
    log, page = written(tmp_path, kind), tmp_path / "r.html"
    for out in (run("split", log), run("report", log, "--html", page)):
        assert out.startswith(OPENING)
        lines = [line.strip() for line in out.splitlines()]
        assert [lines.count(line.strip()) for line in TIMED.splitlines()] == [1] * len(TIMED.splitlines())
        assert "AUDIT" not in out
        assert out.count("$upstream_response_time") == 1
    text = html.unescape(page.read_text())
    verdict = text.index('<p class="verdict')
    assert text.index(OPENING) == verdict + len('<p class="verdict unknown">')
    assert '<p class="fail"><b>Audit' not in text
    assert text.count("access_log /var/log/nginx/sojourn.jsonl timed;") == 1
    assert text.count("add $upstream_response_time") == 0
    assert "Not available" not in text
    assert {name: f'id="{name}"' in text for name in ("split", "capacity", "blame", "infer")} == {
        "split": True,
        "capacity": True,
        "blame": False,
        "infer": False,
    }


def test_error_of_a_log_without_durations_begins_the_same_and_keeps_the_lines_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path, "combined")
    monkeypatch.setattr("sys.argv", ["sojourn", "report", str(log), "--html", str(tmp_path / "r.html")])
    with pytest.raises(SystemExit) as end:
        main()
    error = capsys.readouterr().err
    assert end.value.code == 1
    assert error.startswith(f"sojourn: {OPENING} ")
    assert "600 lines read, 600 refused" in error
    assert [line.strip() for line in error.splitlines()[2:]] == [line.strip() for line in TIMED.splitlines()]


def test_logs_that_show_a_queue_or_are_not_of_nginx_keep_their_verdict(tmp_path: Path) -> None:
    inferred = sojourn.split(EXAMPLES / "plain.log.gz")
    measured = sojourn.split(EXAMPLES / "shop.jsonl.gz")
    other = sojourn.split(written(tmp_path, "apache"))
    assert other.verdict.cause == "unknown"
    for result in (inferred, measured, other):
        assert not result.lacks_times
        assert OPENING not in result.verdict.sentence
        assert result.failed_checks == result.audit.failures()


def test_nginx_writes_the_missing_times_with_these_lines(tmp_path: Path) -> None:
    program = nginx_program()
    if program is None:
        pytest.skip("nginx is not installed")
    port, backend = free_ports(2)
    log = tmp_path / "sojourn.jsonl"
    user = "user root;" if os.geteuid() == 0 else ""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temp = " ".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; {user} pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}\nhttp {{ {temp}\n"
        f"{TIMED.replace('/var/log/nginx/sojourn.jsonl', str(log))}\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{backend}; }} }} }}\n"
    )
    log.touch()
    process = Process([program, "-p", tmp_path, "-c", tmp_path / "nginx.conf"], name="nginx", folder=tmp_path)
    with app(backend), process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        for number in range(3):
            connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
            connection.request("GET", f'/{number}?a="b"')
            connection.getresponse().read()
            connection.close()
        process.wait_until(lambda: log.read_text().count("\n") >= 3, DEADLINE_S, "three lines in the log")
    result = sojourn.split(log)
    assert (result.records.accepted, result.records.rejected) == (3, 0)
    assert not lacks_times(result.records.formats)
    rows = result.rows.collect()
    assert set(rows["upstream"]) == {f"127.0.0.1:{backend}"}
    assert rows["response"].null_count() == 0
