"""The app's own log: a number written as a text has the grammar of the log record, a JSON number has JSON's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sojourn.model.errors import SojournError
from sojourn.readers.app_log import read_app_log
from sojourn.sources.log_files import app_log_file

TABLE = json.loads((Path(__file__).parents[2] / "vectors/log_lines.json").read_text("utf-8"))
CASES = [case for case in TABLE["cases"] if case["name"].startswith("request_time '")]


def test_takes_and_refuses_the_numbers_of_the_table(tmp_path: Path) -> None:
    expected, lines = [], []
    for case in CASES:
        time = json.loads(case["line"])["request_time"]
        if case["reason"] is None or not time.replace(".", "").isascii() or not time.replace(".", "").isdigit():
            lines.append(json.dumps({"request_id": str(len(lines)), "service_time": time}))
            expected.append(None if case["reason"] else case["row"]["request_time"])
    assert len(lines) > 30
    log = tmp_path / "app.jsonl"
    log.write_text("".join(f"{line}\n" for line in lines))
    read = read_app_log([log])
    rows, records = read.rows, read.records
    seconds = dict(zip(rows["request_id"], rows["span_service_time"], strict=True))
    assert [seconds.get(str(number)) for number in range(len(lines))] == pytest.approx(expected)
    assert records.reasons == {"invalid_service_time": expected.count(None)}


def test_takes_json_numbers_with_an_exponent(tmp_path: Path) -> None:
    log = tmp_path / "app.jsonl"
    log.write_text('{"request_id":"a","service_time":9e-05,"start":1.7672256e9}\n')
    read = read_app_log([log])
    rows, records = read.rows, read.records
    assert rows["span_service_time"].to_list() == [0.00009]
    assert records.reasons == {}


ID = "5f0c1d2e3f405162738495a6b7c8d9e0"
PINO = {"level": 30, "time": 1767225600250, "pid": 17, "req": {"id": 1, "headers": {"x-request-id": ID}},
        "res": {"statusCode": 200}, "responseTime": 250, "msg": "request completed"}  # fmt: skip
LOGRAGE = {"method": "GET", "path": "/", "controller": "A", "action": "b", "status": 200, "duration": 250.5,
           "view": 1.0, "request_id": ID}  # fmt: skip
CLF = '10.0.0.9 - - [01/Jan/2026:00:00:00 +0000] "GET /a b HTTP/1.1" 200 5'
# Format as given (None: recognised) and a line -> seconds, worker, until the end of the response.
LINES = {
    "gunicorn D": ('%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s %(D)s %({x-request-id}i)s %(p)s',
                   f"{CLF} 250500 {ID} <17>", 0.2505, "17", True),
    "gunicorn L": ('%(t)s %(L)s %({X-Request-Id}i)s', f"[01/Jan/2026:00:00:00 +0000] 0.250500 {ID}",
                   0.2505, None, True),
    "gunicorn M": ('%(M)s %({x-request-id}i)s', f"250 {ID}", 0.25, None, True),
    "uWSGI msecs": ('%(var.HTTP_X_REQUEST_ID) %(msecs) %(wid)', f"{ID} 250 2", 0.25, "2", True),
    "uWSGI micros": ('[%(ltime)] %(micros) %(pid) %(var.HTTP_X_REQUEST_ID)',
                     f"[01/Jan/2026:00:00:00 +0000] 250500 17 {ID}", 0.2505, "17", True),
    "morgan": (":method :url :status :res[content-length] - :response-time ms :req[x-request-id]",
               f"GET /a 200 5 - 250.500 ms {ID}", 0.2505, None, False),
    "morgan total": (':date[iso] :req[X-Request-ID] :total-time[3] ":user-agent"',
                     f'2026-01-01T00:00:00.250Z {ID} 250.500 "curl/8 x"', 0.2505, None, True),
    "Tomcat 9": ('%h %l %u %t "%r" %s %b %{ms}T %{X-Request-ID}i', f"{CLF} 250 {ID}", 0.25, None, True),
    "Tomcat 10": ('%h %l %u %t "%r" %s %b %{us}T %{X-Request-ID}i %I', f"{CLF} 250500 {ID} http-nio-80-exec-1",
                  0.2505, "http-nio-80-exec-1", True),
    "Tomcat commit": ('%t "%r" %s %F %{X-Request-ID}i', f'[01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 250 {ID}',
                      0.25, None, False),
    "Jetty, whose %I is a size": ('%{client}a %u %t "%r" %s %I %{us}T %{X-Request-ID}i',
                                  f'10.0.0.9 - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 512 250500 {ID}',
                                  0.2505, None, True),
    "JSON as given": ('{"id": "%({x-request-id}i)s", "took": {"wall": "%(L)s"}}',
                      json.dumps({"took": {"wall": 0.2505}, "id": ID, "x": 1}), 0.2505, None, True),
    "pino": (None, json.dumps(PINO), 0.25, "17", True),
    "Fastify": (None, json.dumps({"level": 30, "reqId": ID, "responseTime": 250.5, "msg": "request completed"}),
                0.2505, None, True),
    "lograge JSON": (None, json.dumps(LOGRAGE), 0.2505, None, False),
    "lograge": (None, f"method=GET path=/ format=html controller=A action=b status=200 duration=250.50 view=1.00 "
                      f"request_id={ID}", 0.2505, None, False),
    "Rails": (None, f"I, [2026-01-01T00:00:00.250000 #17]  INFO -- : [{ID}] Completed 200 OK in 250ms (Views: 1.0ms)",
              0.25, None, False),
    "JSON with a unit in its key": (None, json.dumps({"request_id": ID, "duration_ms": 250.5, "pid": 17}),
                                    0.2505, "17", True),
    "JSON with dots in its keys": (None, json.dumps({"request.id": ID, "http.duration_ms": 250.5, "pid": 17}),
                                   0.2505, "17", True),
    "JSON in nanoseconds": (None, json.dumps({"request_id": ID, "duration_nanos": 250_500_000}), 0.2505, None, True),
    "JSON in camel case": (None, json.dumps({"requestId": ID, "elapsedSeconds": 0.2505}), 0.2505, None, True),
    "own": (None, json.dumps({"request_id": ID, "service_time": 0.2505, "worker": "a"}), 0.2505, "a", True),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_reads_the_lines_of_app_servers(tmp_path: Path, name: str) -> None:
    form, line, seconds, worker, until_end = LINES[name]
    (tmp_path / "app.log").write_text(f"{line}\n{line}\n")
    log = read_app_log([app_log_file(tmp_path / "app.log", form) if form else tmp_path / "app.log"])
    assert log.records.reasons == {}
    assert log.rows["request_id"].to_list() == [ID, ID]
    assert log.rows["span_seconds"].to_list() == pytest.approx([seconds] * 2)
    assert log.rows["span_worker"].to_list() == [worker] * 2
    assert log.rows["until_end"].to_list() == [until_end] * 2


def test_other_messages_of_an_app_are_no_requests(tmp_path: Path) -> None:
    lines = [
        {"level": 30, "msg": "listening"}, PINO, {"level": 50, "msg": "oops", "req": {"id": 2}},
        {**PINO, "req": {"id": 3}}, {**PINO, "responseTime": -1},
    ]  # fmt: skip
    (tmp_path / "app.log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    log = read_app_log([tmp_path / "app.log"])
    assert log.rows["span_seconds"].to_list() == [0.25]
    assert log.records.reasons == {"other_format": 2, "missing_request_id": 1, "invalid_service_time": 1}


def test_a_dash_is_no_duration(tmp_path: Path) -> None:
    form = ":status :response-time :req[x-request-id]"
    (tmp_path / "app.log").write_text(f"- - {ID}\n200 1.5 -\n200 1.5 {ID}\n")
    log = read_app_log([app_log_file(tmp_path / "app.log", form)])
    assert log.rows["span_seconds"].to_list() == [0.0015]
    assert log.records.reasons == {"missing_service_time": 1, "missing_request_id": 1}


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ('%(h)s "%(r)s" %(D)s', "no request id: add %({x-request-id}i)s"),
        ('%(h)s "%(r)s" %({x-request-id}i)s', "no duration: add %(D)s"),
        ("%(T)s %({x-request-id}i)s", "%(T)s counts whole seconds"),
        ("%(secs) %(var.HTTP_X_REQUEST_ID)", "%(secs) counts whole seconds"),
        ('%h "%r" %D %{X-Request-ID}i', "milliseconds in Tomcat before 10"),
        (":method :url :response-time ms", "no request id: add :req[x-request-id]"),
        ("combined", "neither a name"),
        ('{"id": "%({x-request-id}i)s", "t": "x%(M)s"}', "must be one variable"),
        ('{"id": "%({x-request-id}i)s", "t": "%(M)s"', "begins as JSON but is none"),
    ],
)
def test_refuses_formats_without_what_a_join_needs(form: str, reason: str) -> None:
    with pytest.raises(SojournError, match=re.escape(reason)):
        app_log_file("app.log", form)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('INFO:     127.0.0.1:1234 - "GET / HTTP/1.1" 200 OK', "uvicorn's access log has no durations"),
        ('127.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 - 0.0123', "writes no request ids"),
        ("I, [2026-01-01T00:00:00 #17]  INFO -- : Completed 200 OK in 250ms (Views: 1.0ms)", "Rails' log has no"),
        (f"{CLF} 250500", "its format is not recognised: give --app-log-format"),
        (json.dumps({"reqId": ID, "duration": 250}), "the duration of a request is not certain"),
        (json.dumps({"reqId": ID, "duration_ms": 2, "elapsed_ms": 3}), "duration_ms, elapsed_ms"),
        (json.dumps({"duration_ms": 2}), "no request id under a usual key"),
        ("a line of something else", "its format is not recognised"),
    ],
)
def test_refuses_logs_with_the_reason(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "app.log").write_text(f"{line}\n" * 3)
    with pytest.raises(SojournError, match=re.escape(reason)) as error:
        read_app_log([tmp_path / "app.log"])
    assert str(tmp_path / "app.log") in str(error.value)
