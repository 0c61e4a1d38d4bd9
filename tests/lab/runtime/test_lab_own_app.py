"""The user's own app as the server of a scenario: real servers, with and without the middleware, and every failure."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from lab_support import eventually, groups_of
from sojourn_lab.cli import app
from sojourn_lab.errors import ScenarioError
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.app_command import PLACEHOLDERS
from sojourn_lab.scenario.files import scenario_from_file, scenario_from_text
from sojourn_lab.scenario.scaling import scenario_with_time_scaled
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner, Result

needs_nginx = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
needs_php = pytest.mark.skipif(shutil.which("php") is None, reason="php is not installed")
needs_uvicorn = pytest.mark.skipif(find_spec("uvicorn") is None, reason="uvicorn is not installed")

TEXT = """
name = "own"
title = "An app of its own"
question = "Is it served?"
shows = "."
seed = 1
duration = 1.0
[topology]
backends = 2
workers = 2
{topology}
[[cases]]
name = "mixed"
paths = {{"/fast?a=b%20c" = 3, "/slow" = 1}}
load = {{kind = "constant", rate = 20}}
[[criteria]]
name = "no failure"
metric = "client.failed"
equals = 0
[[criteria]]
name = "service below a second"
metric = "split.components.service_time.mean"
below = 1
"""

WSGI = """
import os, time

def plain(environ, start_response):
    time.sleep(0.05 if environ["PATH_INFO"] == "/slow" else 0.01)
    body = (os.environ["GREETING"] + environ["HTTP_HOST"]).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]

from sojourn_middleware import WSGIMiddleware
measured = WSGIMiddleware(plain)
"""
ASGI = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})
"""
NODE = """
const http = require("http");
const answer = (request, response) => setTimeout(() => response.end("ok"), 10);
const handler = process.env.MIDDLEWARE ? require(process.env.MIDDLEWARE).wrap(answer) : answer;
http.createServer(handler).listen(process.env.PORT, process.env.HOST);
"""
PYTHON = sys.executable


def run(folder: Path, topology: str) -> tuple[Result, dict[str, Any]]:
    """Return the result of a run with these lines in its topology, and its record; empty without one."""
    path = folder / "own.toml"
    path.write_text(TEXT.format(topology=topology))
    done = CliRunner().invoke(app, ["run", str(path), "--out", str(folder / "run"), "--once", "--quiet", "--json"])
    assert "Traceback" not in done.stderr
    eventually(lambda: not groups_of(folder), 20.0, "every process of the run to be gone")
    return done, json.loads(done.stdout) if done.stdout else {}


@needs_nginx
@pytest.mark.parametrize(
    ("app_name", "source"), [("measured", "measured"), ("plain", "unknown")], ids=["middleware", "plain"]
)
def test_gunicorn_serves_the_load_and_the_run_says_whether_it_reports_its_times(
    tmp_path: Path, app_name: str, source: str
) -> None:
    (tmp_path / "module.py").write_text(WSGI)
    command = f"{PYTHON} -m gunicorn -w {{workers}} -b {{address}} --backlog {{backlog}} module:{app_name}"
    _, record = run(tmp_path, f'command = "{command}"\nready = "/"\nenv = {{GREETING = "{{name}} of "}}')
    (case,) = record["cases"]
    assert record["faults"] == []
    assert record["rows"]["client"] == record["rows"]["access"] == case["client"]["answered"] == 20
    assert case["client"]["statuses"] == {"200": 20}
    assert (case["app_times"]["source"], case["app_times"]["answers"]) == (source, 20)
    assert (case["law"], case["topology"]["server"]) == (None, "command")
    answered, service = record["criteria"]
    assert answered["passed"]
    assert (service["passed"], service["note"] != "") == (source == "measured", source == "unknown")
    assert (case["split"]["components"].get("service_time", {}).get("mean") is not None) is (source == "measured")
    log = [json.loads(line) for line in (tmp_path / "run" / "access.jsonl").read_text().splitlines()]
    assert {each["uri"].partition("?")[0] for each in log} == {"/fast", "/slow"}
    assert {each["upstream_addr"] for each in log} <= {f"127.0.0.1:{port}" for port in range(65_536)}
    assert len({each["upstream_addr"] for each in log}) == 2
    assert {each["request_start"] != "" for each in log} == {True}


@needs_nginx
def test_app_listens_on_a_unix_socket(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(WSGI)
    command = f"{PYTHON} -m gunicorn -b unix:{{socket}} module:plain"
    _, record = run(tmp_path, f'command = "{command}"\nunix = true\nenv = {{GREETING = ""}}')
    assert record["cases"][0]["client"]["statuses"] == {"200": 20}


@needs_nginx
@needs_node
@pytest.mark.parametrize("measured", [True, False], ids=["middleware", "plain"])
def test_node_reads_its_address_from_the_environment(tmp_path: Path, measured: bool) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "main.js").write_text(NODE)
    middleware = f', MIDDLEWARE = "{resource_file("middleware", "node")}"' if measured else ""
    lines = f'command = "node main.js"\ncwd = "server"\nenv = {{PORT = "{{port}}", HOST = "{{host}}"{middleware}}}'
    _, record = run(tmp_path, lines)
    (case,) = record["cases"]
    assert case["client"]["statuses"] == {"200": 20}
    assert case["app_times"]["source"] == ("measured" if measured else "unknown")
    assert case["topology"]["cwd"] == str(tmp_path / "server")


@needs_nginx
@needs_uvicorn
def test_uvicorn_serves_the_load(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(ASGI)
    _, record = run(tmp_path, f'command = "{PYTHON} -m uvicorn --host {{host}} --port {{port}} module:app"')
    assert record["cases"][0]["client"]["statuses"] == {"200": 20}


@needs_nginx
@needs_php
def test_the_server_of_php_serves_the_load(tmp_path: Path) -> None:
    (tmp_path / "index.php").write_text("<?php echo 'ok';")
    _, record = run(tmp_path, 'command = "php -S {address} index.php"\nready = "/"')
    assert record["cases"][0]["client"]["statuses"] == {"200": 20}


@needs_nginx
def test_cases_run_different_commands(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(WSGI)
    text = TEXT.format(
        topology=f'command = "{PYTHON} -m gunicorn -b {{address}} module:plain"\nenv = {{GREETING = ""}}'
    )
    second = '[[cases]]\nname = "other"\npaths = {"/fast" = 1}\nload = {kind = "constant", rate = 20}\n'
    text += second + f'topology = {{command = "{PYTHON} -m gunicorn -b {{address}} module:measured", backends = 1}}\n'
    (tmp_path / "two.toml").write_text(text)
    done = CliRunner().invoke(
        app, ["run", str(tmp_path / "two.toml"), "--out", str(tmp_path / "run"), "--once", "--json", "--quiet"]
    )
    record = json.loads(done.stdout)
    assert {case["name"]: case["app_times"]["source"] for case in record["cases"]} == {
        "mixed": "unknown",
        "other": "measured",
    }


@needs_nginx
@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ('command = "gunicron -b {address}"', ["gunicron is not installed", "PATH"]),
        ('command = "./serve {port}"', ["serve does not exist"]),
        ('command = "python3 {port}"\ncwd = "none"', ["`cwd`: there is no folder", "none"]),
    ],
)
def test_command_that_does_not_exist_is_refused_before_the_run(tmp_path: Path, topology: str, words: list[str]) -> None:
    done, _ = run(tmp_path, topology)
    assert done.exit_code == 1
    assert all(word in done.stderr for word in words)
    assert [path.name for path in tmp_path.iterdir()] == ["own.toml"]


SAYS = "import sys; print('no database', file=sys.stderr); sys.exit(3)"
SILENT = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(60)"
REFUSES = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(503)
http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
"""


@needs_nginx
@pytest.mark.parametrize(
    ("program", "words"),
    [
        (SAYS, ["the command of the app failed", "exited with 3", "no database"]),
        ("", ["must not go to the background", "exited with 0"]),
        ("import time; time.sleep(60)", ["does not listen on 127.0.0.1:", "waited 0.5 s"]),
        (SILENT, ["does not answer /health", "GET /health"]),
        (REFUSES, ["answers /health with 503", "GET /health"]),
    ],
    ids=["exits", "goes-to-the-background", "does-not-listen", "does-not-answer", "is-not-ready"],
)
def test_app_that_is_never_ready_ends_the_run_with_the_reason(tmp_path: Path, program: str, words: list[str]) -> None:
    (tmp_path / "program.py").write_text(program)
    lines = f'command = "{PYTHON} program.py {{port}}"\nready = "/health"\nready_within = 0.5'
    done, _ = run(tmp_path, lines)
    assert done.exit_code == 1
    assert all(word in done.stderr for word in words), done.stderr
    assert not (tmp_path / "run").exists()


def refusal(topology: str, case: str = 'paths = {"/" = 1}') -> list[str]:
    """Return the lines of the refusal of a scenario with these lines in its topology and case."""
    text = TEXT.format(topology=topology).replace('paths = {"/fast?a=b%20c" = 3, "/slow" = 1}', case)
    with pytest.raises(ScenarioError) as refused:
        scenario_from_text(text, "own.toml")
    return str(refused.value).splitlines()


@pytest.mark.parametrize(
    ("topology", "case"),
    [
        ('command = "run -w {worker} -b {adress}"', 'paths = {"/" = 1}'),
        ('command = "run {port"', 'paths = {"/" = 1}'),
        ('command = "run \'{port}"', 'paths = {"/" = 1}'),
        ('command = ""', 'paths = {"/" = 1}'),
        ('command = "run"', 'paths = {"/" = 1}'),
        ('command = "run {socket}"', 'paths = {"/" = 1}'),
        ('command = "run {port}"\nunix = true', 'paths = {"/" = 1}'),
        ('command = "run {port}"\nserver = "puma"', 'paths = {"/" = 1}'),
        ('env = {A = "b"}\nready = "/"', "service_time = 1"),
        ('server = "command"', 'paths = {"/" = 1}'),
        ('command = "run {port}"', "service_time = 1"),
        ("", 'paths = {"/" = 1}'),
        ('command = "run {port}"', 'paths = {"/" = 1}\nservice_time = 1'),
        ('command = "run {port}"', 'paths = {"/" = 1}\ngenerator = "siege"'),
        ('command = "run {port}"\nslowdown = [2]\nworker_log = true', 'paths = {"/" = 1}'),
    ],
)
def test_command_that_cannot_be_used_is_refused(topology: str, case: str, snapshot: SnapshotAssertion) -> None:
    assert refusal(topology, case) == snapshot


def test_every_placeholder_is_filled_and_braces_are_doubled() -> None:
    command = "run " + " ".join(f"{{{name}}}" for name in PLACEHOLDERS if name != "socket") + " {{x}}"
    scenario = scenario_from_text(TEXT.format(topology=f'command = "{command}"'), "own.toml")
    assert scenario.topology.server == "command"


def test_scale_leaves_the_start_of_the_app_alone(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(TEXT.format(topology='command = "run {port}"\nready_within = 7'))
    scaled = scenario_with_time_scaled(scenario_from_file(path), 0.5)
    assert (scaled.topology.ready_within, scaled.duration) == (7.0, 0.5)
    assert scaled.cases[0].paths == {"/fast?a=b%20c": 3.0, "/slow": 1.0}


@needs_nginx
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_app_and_its_children_end_with_the_lab(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "module.py").write_text(WSGI)
    command = f"{PYTHON} -m gunicorn -w {{workers}} -b {{address}} module:plain"
    text = TEXT.format(topology=f'command = "{command}"\nready = "/"\nenv = {{GREETING = ""}}')
    (tmp_path / "own.toml").write_text(text.replace("duration = 1.0", "duration = 60.0"))
    lab = [PYTHON, "-m", "sojourn_lab", "run", str(tmp_path / "own.toml"), "--out", str(tmp_path / "run")]
    log = tmp_path / "run.partial" / "access.jsonl"
    with subprocess.Popen(lab, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        eventually(lambda: log.exists() and log.stat().st_size > 0, 60.0, "the load to be under way")
        workers = processes_in(tmp_path)
        assert len(workers) >= 6, "two masters with two workers each"
        process.send_signal(number)
        process.wait(60.0)
    eventually(lambda: not processes_in(tmp_path), 60.0, "every process of the app to be gone")


def processes_in(folder: Path) -> set[int]:
    """Return the processes whose working folder is this one."""
    ids = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cwd").resolve() == folder.resolve():
                ids.add(int(entry.name))
    return ids
