"""Logs of other programs: every line of the common table, as its product documents it, becomes the row there."""

from __future__ import annotations

import gzip
import json
import shutil
import time
from collections.abc import Callable
from datetime import datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from doctor_support import DEADLINE_S, app
from polars.testing import assert_frame_equal
from sojourn.model.components import component_sum
from sojourn.model.frame import COLUMNS
from sojourn.readers.formats.catalogue import FORMATS
from sojourn.readers.formats.detect import detected_format
from sojourn.readers.formats.given import given_format
from sojourn.store import load
from sojourn_lab.runtime.process import Process, free_port, free_ports, wait_for_port

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "vectors/log_formats.json").read_text())["cases"]
IDS = [case["name"] for case in CASES]
BEGIN = '192.0.2.9 - - [31/Jan/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 512 "-" "curl/8"'
LONG_S = 5.0  # of processor time: a pattern that backtracks without end needs far more


def written(folder: Path, *lines: str) -> Path:
    path = folder / "access.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def rows_of(source: object, **options: Any) -> list[dict[str, Any]]:
    return sojourn.read(source, columns=COLUMNS, **options).rows.collect().to_dicts()  # type: ignore[arg-type]


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.replace(tzinfo=None).isoformat(timespec="microseconds") if isinstance(value, datetime) else value
        for name, value in row.items()
        if value not in (None, "")
    }


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_reads_a_documented_line(tmp_path: Path, case: dict[str, Any]) -> None:
    requests = sojourn.read(written(tmp_path, *[case["line"]] * 3))
    (facts,) = requests.records.formats
    assert (facts.format, facts.certainty) == (case["format"], case["certainty"])
    if "reason" in case:
        assert requests.records.reasons == {case["reason"]: 3}
        return
    rows = [plain(row) for row in requests.rows.collect().to_dicts()]
    # A request that is named by an id is there once.
    assert len(rows) == (1 if "request_id" in case["row"] else 3)
    for row in rows:
        for name, value in case["row"].items():
            assert row.get(name) == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value), name


@pytest.mark.parametrize("case", [case for case in CASES if "row" in case], ids=lambda case: case["name"])
def test_components_add_up_to_the_response_time(tmp_path: Path, case: dict[str, Any]) -> None:
    result = sojourn.split(written(tmp_path, *[case["line"]] * 3))
    row = result.rows.select("request_time", component_sum().alias("sum"), "queue", "queueing_delay").collect().row(0)
    assert row[1] == pytest.approx(row[0], abs=1e-9)
    assert row[2] is None  # no log says how long a request waited for a worker
    assert set(result.rows.collect()["queue_source"]) == {"none"}


@pytest.mark.parametrize("case", [case for case in CASES if "row" in case], ids=lambda case: case["name"])
def test_a_store_holds_what_the_file_reader_reads(tmp_path: Path, store_dsn: str, case: dict[str, Any]) -> None:
    """Every line is a row of its own, equal lines too; loading again adds none."""
    log = written(tmp_path, *[case["line"]] * 3)
    if case["row"].get("request_id"):
        log = written(tmp_path, case["line"])
    for _ in range(2):
        load(store_dsn, log)
    kept = (
        "time", "status", "request_time", "proxy_start", "proxy_queue", "upstream", "attempts", "retries", "connect",
        "header", "response", "app_service_time", "method", "vantage", "time_step",
    )  # fmt: skip
    derived = ("queueing_delay", "unattributed", "send", "transfer")
    from_file, from_store = (
        sojourn.split(source, columns=kept).rows.select(*kept, *derived).collect() for source in (log, store_dsn)
    )
    assert_frame_equal(from_store, from_file, check_dtypes=False, abs_tol=1e-9)


def test_proxy_queue_is_queueing_and_a_component(tmp_path: Path) -> None:
    waited = next(case for case in CASES if case["name"] == "HAProxy, waited in its queue")
    result = sojourn.split(written(tmp_path, *[waited["line"]] * 100))
    assert result.means["proxy_queue"] == pytest.approx(1.5)
    assert result.verdict.cause == "queueing"
    assert "proxy's own queue" in result.verdict.sentence
    assert result.means["queue"] == 0
    assert result.queueing_share == pytest.approx(1.501 / 1.571)


def test_time_of_an_app_server_is_service_and_its_queue_unknown(tmp_path: Path) -> None:
    line = next(case for case in CASES if case["name"] == "uWSGI")["line"]
    result = sojourn.split(written(tmp_path, *[line] * 100))
    assert (result.means["service_time"], result.means["unattributed"]) == (pytest.approx(0.101), 0)
    assert result.components["queueing_delay"]["mean"] is None
    assert result.queueing_share == 0


@pytest.mark.parametrize(
    ("appended", "format", "certainty"),
    [
        ("0.123 0.120", "$request_time $upstream_response_time", "likely"),
        ("0.120 0.123", "$upstream_response_time $request_time", "likely"),
        ("0.123", "$request_time", "likely"),
        ("0.123 0.000 0.119 0.120",
         "$request_time $upstream_connect_time $upstream_header_time $upstream_response_time", "likely"),
        ('"0.120" "0.123"', '"$upstream_response_time" "$request_time"', "likely"),
        ("rt=0.123 urt=0.120", "rt=$request_time urt=$upstream_response_time", "sure"),
        ('urt="0.120" rt="0.123"', 'urt="$upstream_response_time" rt="$request_time"', "sure"),
        ("1769860800.123 0.123 0.120 10.0.0.1:80 .",
         "$msec $request_time $upstream_response_time $upstream_addr $column_5", "likely"),
        ("0.123 unix:/run/app.sock 0.120", "$request_time $upstream_addr $upstream_response_time", "likely"),
    ],
)  # fmt: skip
def test_meaning_of_appended_values_follows_from_labels_and_sizes(appended: str, format: str, certainty: str) -> None:  # noqa: A002
    detected = detected_format([f"{BEGIN} {appended}"] * 20)
    assert detected is not None
    assert detected.name.partition('"$http_user_agent" ')[2] == format
    assert detected.certainty == certainty


def test_the_column_that_is_always_longest_is_the_response_time() -> None:
    """Of the first line alone the two could not be distinguished."""
    lines = [f"{BEGIN} 0.010 0.010", f"{BEGIN} 0.010 0.012", f"{BEGIN} - 0.000"]
    detected = detected_format(lines)
    assert detected is not None
    assert detected.name.endswith("$upstream_response_time $request_time")


@pytest.mark.parametrize(
    ("text", "line", "row"),
    [
        ("$msec $status $request_time $upstream_response_time", "1769860800.123 200 0.200 0.150, 0.040",
         {"request_time": 0.2, "retries": 0.15, "header": 0.04, "attempts": 2}),
        ("[$time_iso8601] $status $request_time ($upstream_header_time)", "[2026-01-31T12:00:00+00:00] 504 60.001 (-)",
         {"status": 504, "request_time": 60.001, "attempts": 0}),
        ('{"t":"$msec","s":$status,"d":"$request_time","u":"$upstream_response_time"}',
         '{"t":"1769860800.123","s":200,"d":"0.200","u":"0.150"}', {"request_time": 0.2, "header": 0.15}),
        ("%{end:usec}t %>s %D %{BALANCER_WORKER_NAME}e", "1769860800123456 200 250000 http://10.0.0.1:80",
         {"request_time": 0.25, "upstream": "http://10.0.0.1:80", "vantage": "whole"}),
        ('%t "%r" %>s %{ms}T', '[31/Jan/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 42',
         {"request_time": 0.042, "uri": "/a"}),
        ("%tr %ST %TR/%Tw/%Tc/%Tr/%Td %b %s", "06/Feb/2009:12:14:14.655 200 10/20/30/40/50 app srv1",
         {"request_time": 0.15, "proxy_queue": 0.02, "connect": 0.03, "header": 0.07, "response": 0.12}),
        ("%START_TIME(%s.%3f)% %RESPONSE_CODE% %DURATION% %REQUEST_DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
         "1769860800.123 200 100 20 70", {"request_time": 0.1, "header": 0.07, "attempts": 1}),
        ('%(t)s "%(r)s" %(s)s %(M)s %(p)s', '[31/Jan/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 42 <17>',
         {"app_service_time": 0.042, "vantage": "app", "worker": "<17>"}),
        ("%(tmsec) %(status) %(msecs) %(method) %(uri)", "1769860800123 200 42 GET /a",
         {"app_service_time": 0.042, "request_time": 0.042, "uri": "/a"}),
    ],
    ids=["nginx", "no answer", "nginx JSON", "Apache", "Apache with ms", "HAProxy", "Envoy", "gunicorn", "uWSGI"],
)  # fmt: skip
def test_a_given_format_is_read(tmp_path: Path, text: str, line: str, row: dict[str, Any]) -> None:
    (read,) = rows_of(sojourn.log_file(written(tmp_path, line), text))
    assert {name: read[name] for name in row} == row


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "neither the name of a format"),
        ("$remote_addr $status", r"time \(\$msec\), request_time \(\$request_time\)"),
        ("combined", r"request_time \(\$request_time\)"),
        ("%h %>s %D %{%c}t", "this format of a time is not read"),
        ("%h %>s %{h}T %t", "Apache has the units s, ms, us"),
    ],
)
def test_refuses_a_format_that_no_request_can_be_read_by(text: str, message: str) -> None:
    with pytest.raises(sojourn.SojournError, match=message):
        given_format(text)


def test_reads_the_log_format_of_a_configuration(tmp_path: Path) -> None:
    conf = tmp_path / "nginx.conf"
    conf.write_text(
        "events {} http { log_format timed escape=json '$msec $status '\n '$request_time $upstream_response_time';\n"
        "log_format other '$remote_addr'; }"
    )
    log = written(tmp_path, "1769860800.123 200 0.200 0.150")
    (row,) = rows_of(sojourn.log_file(log, f"{conf}:timed"))
    assert (row["request_time"], row["header"]) == (0.2, 0.15)
    with pytest.raises(sojourn.SojournError, match=r"there is no log_format 'mian'; there is other, timed"):
        sojourn.log_file(log, f"{conf}:mian")


def test_lines_of_another_form_are_refused_one_by_one(tmp_path: Path) -> None:
    good = f"{BEGIN} 0.123 0.120"
    bad = ["GET / who knows", f"{BEGIN} x 0.120", "", f"{BEGIN} 0.123 -1", good[:60]]
    records = sojourn.read(written(tmp_path, *[good] * 250, *bad)).records
    assert records.accepted == 250
    assert records.reasons == {"other_format": 3, "invalid_request_time": 1, "empty_line": 1}
    assert [reject["line"] for reject in records.rejects] == [251, 252, 253, 254, 255]


def test_a_log_with_records_of_its_own_keeps_its_reader(tmp_path: Path) -> None:
    own = '{"time":"1769860800.123","status":"200","request_time":"0.1"}'
    records = sojourn.read(written(tmp_path, *[BEGIN] * 5, own)).records
    assert (records.accepted, records.formats) == (1, [])


def test_every_file_has_a_format_of_its_own(tmp_path: Path) -> None:
    lines = {case["name"]: case["line"] for case in CASES}
    (tmp_path / "a.log").write_text(f"{lines['Envoy']}\n" * 3)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(f"{lines['Caddy']}\n".encode() * 4))
    requests = sojourn.read(str(tmp_path / "*.log*"))
    assert {facts.format for facts in requests.records.formats} == {"envoy", "caddy"}
    assert len(requests.rows.collect()) == 1 + 4  # equal lines with a request id are one request


def test_columns_of_the_users_own_are_those_of_the_format(tmp_path: Path) -> None:
    log = sojourn.log_file(written(tmp_path, "1769860800.123 200 0.2 acme"), "$msec $status $request_time $tenant")
    assert sojourn.read(log, columns=("status", "tenant")).rows.collect().rows() == [(200, "acme")]


@pytest.mark.parametrize(
    "text", ['"' * 5_000, "a:1 [" * 1_000, " " * 5_000 + "a:1 ", "\\" * 5_000, f"{BEGIN} " + '"x' * 999,
             BEGIN + " 0.1" * 999],
)  # fmt: skip
def test_no_line_makes_a_pattern_backtrack_for_long(text: str) -> None:
    begun = time.process_time()
    detected_format([text] * 20)
    assert time.process_time() - begun < LONG_S


def test_every_named_format_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/log-formats.md").read_text()
    assert [name for name in FORMATS if f"`{name}`" not in page] == []


def requested(port: int, count: int = 3) -> None:
    for _ in range(count):
        connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        connection.request("GET", '/path?a="b"', headers={"User-Agent": 'x "quoted" y'})
        connection.getresponse().read()
        connection.close()


def logged(process: Process, port: int, text: Callable[[], str], mark: str) -> str:
    with process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        requested(port)
        process.wait_until(lambda: text().count(mark) >= 3, DEADLINE_S, "three lines in the log")
        return text()


def test_reads_the_log_of_a_real_haproxy(tmp_path: Path) -> None:
    program = shutil.which("haproxy", path="/usr/local/sbin:/usr/sbin:/usr/bin")
    if program is None:
        pytest.skip("haproxy is not installed")
    port, backend = free_ports(2)
    (tmp_path / "haproxy.cfg").write_text(
        "global\n log stdout format raw local0\n"
        "defaults\n mode http\n log global\n option httplog\n"
        " timeout connect 5s\n timeout client 5s\n timeout server 5s\n"
        f"frontend www\n bind 127.0.0.1:{port}\n default_backend apps\nbackend apps\n server one 127.0.0.1:{backend}\n"
    )
    process = Process([program, "-db", "-f", tmp_path / "haproxy.cfg"], name="haproxy", folder=tmp_path)
    with app(backend):
        text = logged(process, port, lambda: process.last_lines(20), "/one ")
    log = written(tmp_path, *(each for each in text.splitlines() if "/one " in each))
    result = sojourn.split(log, columns=("uri",))
    assert (result.requests, result.records.rejected, result.records.formats[0].format) == (3, 0, "haproxy")
    rows = result.rows.collect()
    assert rows["upstream"].to_list() == ["apps/one"] * 3
    assert rows["uri"].to_list() == ["/path?a=#22b#22"] * 3  # as HAProxy escapes it
    assert rows.select((component_sum() - pl.col("request_time")).abs().max()).item() < 1e-9


def test_reads_the_log_of_a_real_apache(tmp_path: Path) -> None:
    program, modules = shutil.which("apache2", path="/usr/sbin:/usr/bin"), Path("/usr/lib/apache2/modules")
    if program is None or not modules.is_dir():
        pytest.skip("apache2 is not installed")
    port, log = free_port(), tmp_path / "access.log"
    log.touch()
    form = '%h %l %u %t \\"%r\\" %>s %b \\"%{Referer}i\\" \\"%{User-Agent}i\\" %{end:usec}t %D'
    (tmp_path / "apache.conf").write_text(
        f"LoadModule mpm_event_module {modules}/mod_mpm_event.so\n"
        f"LoadModule authz_core_module {modules}/mod_authz_core.so\n"
        f"ServerRoot {tmp_path}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {tmp_path}/pid\n"
        f"Mutex file:{tmp_path}\nErrorLog {tmp_path}/error.log\nDocumentRoot {tmp_path}\n"
        f'LogFormat "{form}" own\nCustomLog {log} own\n'
    )
    process = Process([program, "-X", "-f", tmp_path / "apache.conf"], name="apache", folder=tmp_path)
    begun = time.time()
    logged(process, port, log.read_text, "/path")
    rows = rows_of(sojourn.log_file(log, form))
    assert len(rows) == 3
    assert all(begun - 1 < row["time"].timestamp() < time.time() + 1 for row in rows)
    assert all(0 < row["request_time"] < DEADLINE_S and row["vantage"] == "whole" for row in rows)
