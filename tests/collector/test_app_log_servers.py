"""App logs of real servers behind nginx: the same service times and queueing delays as the middleware reports.

Each request is timed twice: by the middleware, whose headers nginx logs, and by the server's own access log. The second
reading is made without the first: what the app answered is taken out of nginx's log.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
import sojourn
from collector_support import eventually, fetch, gunicorn, served
from node_support import INSTALLED, node, why_not_installed
from sojourn.analyses.split.result import SplitResult
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.java import compiled, tomcat_jars, tomcat_missing
from test_middleware_uwsgi import uwsgi

CLIENTS, REQUESTS, QUEUED_S = 4, 24, 0.1
REPORTED = ("queueing_delay", "service_time", "worker", "request_start", "proxy_start", "stamp")
GUNICORN = '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" %(D)s %({x-request-id}i)s %(p)s'
UWSGI = '%(addr) [%(ltime)] "%(method) %(uri) %(proto)" %(status) %(size) %(msecs) %(wid) %(var.HTTP_X_REQUEST_ID)'
MORGAN = ":method :url :status :response-time ms :req[x-request-id]"
SLEEPING_APP = """
import os, time

def application(environ, start_response):
    time.sleep(float(os.environ["SLEEP_S"]))
    start_response("200 OK", [("Content-Length", "5")])
    return [b"hello"]
"""
JSON_APP = """
'use strict';
const http = require('node:http');
const morgan = require('morgan');
const fs = require('node:fs');
const sojourn = require(process.env.MIDDLEWARE);
const cell = new Int32Array(new SharedArrayBuffer(4));
const stream = fs.createWriteStream(process.env.APP_LOG, { flags: 'a' });
const log = morgan(process.env.FORMAT, { stream });
const handler = sojourn.wrap((req, res) => {
  if (req.url === '/sleep') Atomics.wait(cell, 0, 0, 150);
  res.end('hello');
});
http.createServer((req, res) => log(req, res, () => handler(req, res))).listen(process.argv[2], '127.0.0.1');
"""


@contextmanager
def behind_nginx(port: int, folder: Path, *, second: int | None = None, more: str = "") -> Iterator[Nginx]:
    """nginx in front of an app, or of one that is tried after the first, with Sojourn's log."""
    if (reason := Nginx.why_unavailable()) is not None:
        pytest.skip(reason)
    location = f"location / {{ proxy_pass http://app; include sojourn/sojourn_proxy.conf; {more} }}"
    backup = "" if second is None else f"server 127.0.0.1:{second} backup;"
    upstream = f"upstream app {{ server 127.0.0.1:{port} max_fails=0; {backup} }}\n"
    nginx = Nginx(folder / "proxy", location, access_log=folder / "access.jsonl", http=upstream)
    with nginx:
        yield nginx


def overloaded(nginx: Nginx, count: int = REQUESTS, path: str = "/sleep") -> None:
    """Send requests of 150 ms by several clients at once, which queue on any machine; wait until all are logged."""
    with ThreadPoolExecutor(CLIENTS) as clients:
        assert all(answer.status == 200 for answer in clients.map(lambda _: fetch(nginx.port, path), range(count)))
    eventually(lambda: len(nginx.access_log.read_text().splitlines()) >= count, "nginx to log every request")


def lines_of(log: Path, count: int = REQUESTS) -> list[str]:
    """The lines of an app log when it has that many."""
    eventually(lambda: log.exists() and log.read_text().count("\n") >= count, "the app log to be written")
    return log.read_text().splitlines()


def both_readings(access_log: Path, app_log: Path, form: str) -> tuple[pl.DataFrame, SplitResult]:
    """The requests as the middleware and as the app log time them, side by side, and the second split."""
    plain = access_log.with_name("plain.jsonl")
    records = [json.loads(line) for line in access_log.read_text().splitlines()]
    plain.write_text("".join(json.dumps({k: v for k, v in r.items() if k not in REPORTED}) + "\n" for r in records))
    columns = ("request_id", "queueing_delay", "service_time", "queue_source", "worker")
    measured = sojourn.split(access_log, columns=("request_id",))
    joined = sojourn.split(plain, app_log=sojourn.app_log_file(app_log, form))
    pairs = (
        measured.rows.select(columns)
        .collect()
        .join(joined.rows.select(columns).collect(), on="request_id", suffix="_by_log")
    )
    assert len(pairs) == len(records)
    return pairs, joined


def assert_same(pairs: pl.DataFrame, around_s: float = 0.0) -> None:
    """Within 2 % or 10 ms in the median of the lines that are used; a busy machine delays what one clock does not see.

    ``around_s``: what a server does before and after the middleware, and counts.
    """
    assert set(pairs["queue_source"]) == {"stamp"}
    assert pairs["queueing_delay"].mean() > QUEUED_S, "there was no queue to measure"
    count, pairs = len(pairs), pairs.filter(pl.col("queue_source_by_log") == "duration")
    assert len(pairs) >= count // 2
    for name in ("queueing_delay", "service_time"):
        truth, difference = pairs[name], (pairs[f"{name}_by_log"] - pairs[name]).abs()
        assert difference.median() <= around_s + max(0.01, 0.02 * truth.median()), pairs


def workers_of_lines(pairs: pl.DataFrame, split: SplitResult) -> set[str]:
    """The workers by the app log, of nearly all requests.

    A server that is interrupted between its last byte and its line logs a duration that is longer than nginx's: such a
    line is not used, and says so.
    """
    match = split.audit.app_log
    assert match is not None
    assert match.matched + match.longer == len(pairs)
    assert match.longer <= len(pairs) // 2
    assert pairs["worker_by_log"].null_count() == match.longer
    return set(pairs["worker_by_log"].drop_nulls())


def logs_of(*logs: Path) -> list[os.PathLike[str]]:
    """Logs of gunicorn for the argument ``app_log``."""
    return [sojourn.app_log_file(log, GUNICORN) for log in logs]


def durations_of(log: Path) -> dict[str, float]:
    """Seconds by request id in a log of gunicorn."""
    words = [line.split() for line in log.read_text().splitlines()]
    return {each[-2]: int(each[-3]) / 1e6 for each in words}


def gunicorn_logging(log: Path, form: str, *options: str) -> list[str]:
    return gunicorn("bare_app", "--access-logfile", str(log), "--access-logformat", form, *options)


@pytest.mark.parametrize("workers", [1, 2])
def test_gunicorn_says_what_the_middleware_measures(tmp_path: Path, workers: int) -> None:
    log = tmp_path / "gunicorn.log"
    command = gunicorn_logging(log, GUNICORN, "--workers", str(workers))
    with served(command, tmp_path) as (port, _), behind_nginx(port, tmp_path) as nginx:
        overloaded(nginx, REQUESTS * workers if workers == 1 else 16)
        lines_of(log, 16)
    pairs, split = both_readings(nginx.access_log, log, GUNICORN)
    if workers == 1:
        assert_same(pairs)
    assert workers_of_lines(pairs, split) == set(pairs["worker"])
    used = pairs.drop_nulls("worker_by_log")
    assert used["worker_by_log"].to_list() == used["worker"].to_list(), "the pid of each request"
    assert split.audit.app_log is not None
    assert split.audit.app_log.step == pytest.approx(1e-6)


def test_gunicorn_in_milliseconds_is_as_coarse_as_it_says(tmp_path: Path) -> None:
    log, form = tmp_path / "gunicorn.log", GUNICORN.replace("%(D)s", "%(M)s")
    with served(gunicorn_logging(log, form), tmp_path) as (port, _), behind_nginx(port, tmp_path) as nginx:
        overloaded(nginx)
        lines_of(log)
    pairs, split = both_readings(nginx.access_log, log, form)
    assert_same(pairs)
    assert split.audit.app_log is not None
    assert split.audit.app_log.step == pytest.approx(0.001)
    assert any("steps of 1" in note for note in split.notes)


def test_milliseconds_given_as_seconds_are_refused(tmp_path: Path) -> None:
    log, form = tmp_path / "gunicorn.log", GUNICORN.replace("%(D)s", "%(M)s")
    with served(gunicorn_logging(log, form), tmp_path) as (port, _), behind_nginx(port, tmp_path) as nginx:
        overloaded(nginx, 12)
        lines_of(log, 12)
    with pytest.raises(sojourn.SojournError, match="longer than the proxy's own upstream times"):
        both_readings(nginx.access_log, log, GUNICORN.replace("%(D)s", "%(L)s"))


def test_streamed_answer_is_no_longer_service_than_its_headers(tmp_path: Path) -> None:
    log = tmp_path / "gunicorn.log"
    with served(gunicorn_logging(log, GUNICORN), tmp_path) as (port, _), behind_nginx(port, tmp_path) as nginx:
        fetch(nginx.port, "/generator")
        threads = [threading.Thread(target=fetch, args=(nginx.port, "/generator")) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        lines_of(log, 3)
    pairs, split = both_readings(nginx.access_log, log, GUNICORN)
    rows = split.rows.select("queue", "service_time", "span_seconds", "header", "response").collect()
    # The body takes 1 s: where the worker was held throughout there was no wait, and otherwise it is unknown.
    for row in rows.iter_rows(named=True):
        if row["service_time"] is not None:
            assert row["service_time"] <= row["header"] + 0.002
            assert row["queue"] == pytest.approx(0.0, abs=0.3)
    match = split.audit.app_log
    assert match is not None
    assert match.unseparable >= 1, rows
    assert match.unseparable + match.longer + match.matched == len(pairs) == 3
    assert rows.sort("header")["queue"].to_list()[-1] is None


def sleeping(folder: Path, log: Path) -> list[str]:
    """gunicorn with an app that sleeps for as long as the environment says."""
    (folder / "sleeping_app.py").write_text(SLEEPING_APP)
    options = ("--access-logfile", str(log), "--access-logformat", GUNICORN, "--pythonpath", str(folder))
    return gunicorn("sleeping_app", *options)


def test_retried_request_has_the_service_of_its_last_attempt(tmp_path: Path) -> None:
    slow, quick = tmp_path / "slow.log", tmp_path / "quick.log"
    with (
        served(sleeping(tmp_path, slow), tmp_path, {"SLEEP_S": "1.5"}, "slow") as (first, _),
        served(sleeping(tmp_path, quick), tmp_path, {"SLEEP_S": "0.1"}, "quick") as (second, _),
        behind_nginx(first, tmp_path, second=second, more="proxy_read_timeout 800ms;") as nginx,
    ):
        for number in range(1, 4):
            fetch(nginx.port)
            lines_of(slow, number)  # the slow one works on
            lines_of(quick, number)
    split = sojourn.split(nginx.access_log, app_log=logs_of(slow, quick))
    rows = split.rows.select("request_id", "attempts", "retries", "queue", "service_time").collect()
    assert set(rows["attempts"]) == {2}
    assert rows["retries"].min() >= 0.8 - 0.002
    match = split.audit.app_log
    assert match is not None
    # On a busy machine a server may be interrupted within its answer or before its line, which is not used then.
    assert match.matched >= 1
    assert (match.matched + match.longer + match.unseparable, match.superseded, match.ambiguous) == (3, 3, 0)
    assert match.superseded_seconds == pytest.approx(sum(durations_of(slow).values()), rel=1e-6)
    logged = durations_of(quick)
    served_rows = rows.drop_nulls("service_time")
    assert len(served_rows) == match.matched
    for row in served_rows.iter_rows(named=True):
        # The line bounds it from above, the sleep from below: of the first attempt's time it has nothing.
        assert 0.1 - 0.005 <= row["service_time"] <= logged[row["request_id"]] + 0.003
        assert row["queue"] < row["retries"]


def test_abandoned_request_has_the_hold_of_its_line(tmp_path: Path) -> None:
    log = tmp_path / "slow.log"
    with (
        served(sleeping(tmp_path, log), tmp_path, {"SLEEP_S": "0.8"}) as (port, _),
        behind_nginx(port, tmp_path, more="proxy_read_timeout 300ms; proxy_next_upstream off;") as nginx,
    ):
        assert fetch(nginx.port).status == 504
        lines_of(log, 1)
    split = sojourn.split(nginx.access_log, app_log=logs_of(log))
    (held,) = durations_of(log).values()
    assert held >= 0.8
    assert split.wasted == pytest.approx(held, rel=1e-6)


@pytest.mark.parametrize("duration", ["%(msecs)", "%(micros)"])
def test_uwsgi_says_what_the_middleware_measures(tmp_path: Path, duration: str) -> None:
    log, form = tmp_path / "uwsgi.log", UWSGI.replace("%(msecs)", duration)
    command = uwsgi("--module", "bare_app", "--processes", "1", "--logto", str(log), "--log-format", form)
    with served(command, tmp_path) as (port, _), behind_nginx(port, tmp_path) as nginx:
        overloaded(nginx)
        eventually(lambda: log.read_text().count("/sleep") >= REQUESTS, "uWSGI to log every request")
    pairs, split = both_readings(nginx.access_log, log, form)
    assert_same(pairs)
    assert workers_of_lines(pairs, split) == {"1"}
    assert split.audit.app_log is not None
    assert split.audit.app_log.step == pytest.approx(0.001 if "msecs" in duration else 1e-6)


def test_default_log_of_uwsgi_is_refused_for_its_missing_id(tmp_path: Path) -> None:
    log = tmp_path / "uwsgi.log"
    with served(uwsgi("--module", "bare_app", "--processes", "1", "--logto", str(log)), tmp_path) as (port, _):
        fetch(port)
        eventually(lambda: "generated" in log.read_text(), "uWSGI to log the request")
    requests = tmp_path / "requests.log"
    requests.write_text("\n".join(line for line in log.read_text().splitlines() if line.startswith("[pid")) + "\n")
    with pytest.raises(sojourn.SojournError, match="no request ids"):
        sojourn.split("docs/examples/shop.jsonl.gz", app_log=requests)


def test_request_log_of_puma_is_refused_for_its_missing_id(tmp_path: Path) -> None:
    if shutil.which("puma") is None:
        pytest.skip("puma is not installed")
    (tmp_path / "config.ru").write_text('run(lambda { |env| [200, {}, ["hello"]] })\n')
    command = ["puma", "--config", "-", "--environment", "none", "--log-requests", "--bind", "tcp://127.0.0.1:{port}",
               str(tmp_path / "config.ru")]  # fmt: skip
    with served(command, tmp_path, {"RACK_ENV": "none"}) as (port, process):
        fetch(port)
        written = eventually(
            lambda: [line for line in process.out_path.read_text().splitlines() if '"GET / ' in line], "Puma to log"
        )
    (tmp_path / "puma.log").write_text("\n".join(written) + "\n")
    with pytest.raises(sojourn.SojournError, match="CommonLogger of Rack and Puma writes no request ids"):
        sojourn.split("docs/examples/shop.jsonl.gz", app_log=tmp_path / "puma.log")


VALVE = """
        var valve = new org.apache.catalina.valves.AccessLogValve();
        valve.setDirectory(System.getenv("LOG_FOLDER"));
        valve.setPrefix("tomcat");
        valve.setSuffix(".log");
        valve.setRotatable(false);
        valve.setBuffered(false);
        valve.setPattern(System.getenv("PATTERN"));
        context.getPipeline().addValve(valve);
        tomcat.start();
"""


@pytest.mark.parametrize(
    "variable", ["%{us}T", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("%{ms}T", "%F"))]
)
def test_tomcat_says_what_the_middleware_measures(tmp_path: Path, variable: str) -> None:
    if (reason := tomcat_missing()) is not None:
        pytest.skip(reason)
    form = f'%h %l %u %t "%r" %s %b {variable} %{{X-Request-ID}}i %I'
    source = tmp_path / "TomcatApp.java"
    source.write_text(
        resource_file("backend", "TomcatApp.java").read_text().replace("        tomcat.start();\n", VALVE)
    )
    classes = compiled(source, tmp_path / "classes", tomcat_jars())
    bound = tmp_path / "port"
    env = {**os.environ, "LOG_FOLDER": str(tmp_path), "PATTERN": form}
    command = ["java", "-cp", classes, "TomcatApp", "1", "100", str(bound)]
    log = tmp_path / "tomcat.log"
    with Process(command, name="tomcat", folder=tmp_path, env=env):
        eventually(bound.exists, "Tomcat to bind a port")
        for _ in range(30):  # classes are loaded by the first ones
            fetch(int(bound.read_text()), "/sleep/0")
        with behind_nginx(int(bound.read_text()), tmp_path) as nginx:
            overloaded(nginx, path="/sleep/0.15")
            eventually(lambda: log.read_text().count("/sleep/0.15") >= REQUESTS, "Tomcat to log every request")
    pairs, split = both_readings(nginx.access_log, log, form)
    assert_same(pairs, around_s=0.002)
    assert len(workers_of_lines(pairs, split)) == 1
    assert split.audit.app_log is not None
    assert split.audit.app_log.step == pytest.approx(1e-6 if "us" in variable else 0.001)


def test_morgan_says_what_the_middleware_measures(tmp_path: Path) -> None:
    program = node()
    if reason := why_not_installed():
        pytest.skip(reason)
    log, app = tmp_path / "morgan.log", tmp_path / "app.js"
    app.write_text(JSON_APP)
    env = {
        "APP_LOG": str(log), "FORMAT": MORGAN, "NODE_PATH": str(INSTALLED / "node_modules"),
        "MIDDLEWARE": str(Path("collector/middleware/node").resolve()),
    }  # fmt: skip
    with served([program, str(app), "{port}"], tmp_path, env) as (port, _), behind_nginx(port, tmp_path) as nginx:
        overloaded(nginx)
        lines_of(log)
    pairs, split = both_readings(nginx.access_log, log, MORGAN)
    assert_same(pairs)
    assert split.audit.app_log is not None
    assert split.audit.app_log.step < 0.001
