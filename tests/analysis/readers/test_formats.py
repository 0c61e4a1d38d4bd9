"""Logs of other programs: every line of the common table, as its product documents it, becomes the row there."""

from __future__ import annotations

import gzip
import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from polars.testing import assert_frame_equal
from sojourn.components.expressions import component_sum
from sojourn.model.frame import COLUMNS
from sojourn.readers.formats.catalogue import FORMATS
from sojourn.readers.formats.detect import detected_format
from sojourn.readers.formats.from_text import format_from_text
from sojourn.store import load
from wide_tables import one_of

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


@pytest.mark.parametrize("case", one_of(3, [case for case in CASES if "row" in case]), ids=lambda case: case["name"])
def test_components_add_up_to_the_response_time(tmp_path: Path, case: dict[str, Any]) -> None:
    result = sojourn.split(written(tmp_path, *[case["line"]] * 3))
    row = result.rows.select("request_time", component_sum().alias("sum"), "queue", "queueing_delay").collect().row(0)
    assert row[1] == pytest.approx(row[0], abs=1e-9)
    assert row[2] is None  # no log says how long a request waited for a worker
    assert set(result.rows.collect()["queue_source"]) == {"none"}


@pytest.mark.parametrize("part", one_of(12, range(12)))
def test_a_store_holds_what_the_file_reader_reads(tmp_path: Path, store_dsn: str, part: int) -> None:
    """Every line is a row of its own, equal lines too; loading again adds none."""
    columns = (
        "time", "status", "request_time", "proxy_start", "proxy_queue", "upstream", "attempts", "retries", "connect",
        "header", "response", "app_service_time", "method", "vantage", "time_step",
    )  # fmt: skip
    derived = ("queueing_delay", "unattributed", "send", "transfer")

    def rows(source: object) -> pl.DataFrame:
        return sojourn.split(source, columns=columns).rows.select(*columns, *derived).collect()  # type: ignore[arg-type]

    logs = []
    for number, case in enumerate([case for case in CASES if "row" in case][part::12]):
        logs.append(tmp_path / f"{number}.log")
        logs[-1].write_text(f"{case['line']}\n" * (1 if case["row"].get("request_id") else 3))
    for _ in range(2):
        load(store_dsn, logs)
    from_files = pl.concat([rows(log) for log in logs])
    order = ("time", "request_time", "upstream", "status", "header", "method", "proxy_start")
    assert_frame_equal(rows(store_dsn).sort(*order), from_files.sort(*order), check_dtypes=False, abs_tol=1e-9)


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
    assert result.queueing_share is None


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
        ("%(tmsecs) %(status) %(msecs) %(method) %(uri)", "1769860800123 200 42 GET /a",
         {"app_service_time": 0.042, "request_time": 0.042, "uri": "/a"}),
        ('%(status) [%(ltime)] "%(uagent)" %(msecs)', '200 [31/Jan/2026:12:00:00 +0000] "x "quoted" y" 40',
         {"app_service_time": 0.04}),
        ('{"t":"%{%Y-%m-%dT%H:%M:%S%z}t","s":%>s,"us":%D,"r":"%m %U%q %H"}',
         '{"t":"2026-01-31T12:00:00+0000","s":200,"us":40826,"r":"GET /a HTTP/1.1"}', {"request_time": 0.040826}),
        ('%{%Y-%m-%dT%H:%M:%S%z}t %s %D %{Varnish:time_firstbyte}x %{Varnish:handling}x "%r"',
         '2026-01-31T12:00:00+0000 200 73845 0.030535 miss "GET http://shop.example/a HTTP/1.1"',
         {"request_time": 0.073845, "header": 0.030535, "attempts": 1, "uri": "/a"}),
        ('%{%Y-%m-%dT%H:%M:%S%z}t %s %D %{Varnish:time_firstbyte}x %{Varnish:hitmiss}x',
         "2026-01-31T12:00:00+0000 200 44 0.000034 hit", {"request_time": 4.4e-05, "header": None, "attempts": 0}),
        ("%{+Q}o %tr %s %ST %TR %Tw %Tc %Tr %Ta %r",
         '24/Nov/2026:20:06:20.873 "one" 200 0 40 0 40 80 "GET /par?ms=40 HTTP/1.1"',
         {"request_time": 0.08, "proxy_queue": 0.04, "header": 0.04, "uri": "/par?ms=40"}),
        ("%tr %ST %Ta %Tr %{+Q}[capture.req.hdr(0)] %{+Q}r",
         '24/Nov/2026:20:06:20.873 200 80 40 "x y" "GET /a HTTP/1.1"', {"request_time": 0.08, "uri": "/a"}),
        ("$msec $status $request_time", "web-1  | 1769860800.123 200 0.200", {"request_time": 0.2}),
        ("$time_iso8601 $status $request_time", "2026-01-31T12:00:00+00:00 200 0.200", {"request_time": 0.2}),
    ],
    ids=["nginx", "no answer", "nginx JSON", "Apache", "Apache with ms", "HAProxy", "Envoy", "gunicorn", "uWSGI",
         "quotes within quotes", "Apache JSON", "Varnish", "hit of Varnish", "HAProxy, all quoted", "HAProxy, quoted",
         "header of Compose", "begins with an instant"],
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
        format_from_text(text)


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
    assert records.reasons == {"other_format": 4, "empty_line": 1}
    assert [reject["line"] for reject in records.rejects] == [251, 252, 253, 254, 255]


def test_a_log_with_records_of_its_own_keeps_its_reader(tmp_path: Path) -> None:
    own = '{"time":"1769860800.123","status":"200","request_time":"0.1","request_start":"-"}'
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
