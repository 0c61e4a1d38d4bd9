"""The parts of docker-compose.yml that are our own, really built, brought up and put under load.

Needs a Docker engine with compose, and an image debian:bookworm-slim to build from; skipped where one is missing.
The images of others are not needed here: Vector and Prometheus of this machine take the place of theirs, a recorder of
requests that of ClickHouse, and Grafana is not started.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sojourn
from sojourn_lab.runtime.ports import free_ports

sys.path.insert(0, str(Path(__file__).parents[1] / "collector" / "vector"))

# The path comes first.
from clickhouse_http import StandIn
from sojourn.store import init
from vector_run import vector_program

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[2]
BASE = os.environ.get("SOJOURN_BASE", "debian:bookworm-slim")
UP = ["nginx", "listen-nginx", "listen-app1", "listen-app2"]
ATTEMPTS = 3
VECTOR_IMAGE = f"sojourn-test-vector:{os.getpid()}"
PROMETHEUS_IMAGE = f"sojourn-test-prometheus:{os.getpid()}"

# Takes the place of ClickHouse: accepts every request and writes it to its output, a line of JSON each.
RECORDER = """
import base64, json, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

one_line_at_a_time = threading.Lock()

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        line = json.dumps([self.path, dict(self.headers), base64.b64encode(body).decode()])
        with one_line_at_a_time:
            print(line, flush=True)
        self.do_GET()

    def log_message(self, *arguments):
        pass

ThreadingHTTPServer(("", 8123), Handler).serve_forever()
"""
PING = "import urllib.request as u; u.urlopen('http://127.0.0.1:8123/ping', timeout=2)"
READY = "import urllib.request as u; u.urlopen('http://127.0.0.1:9090/-/ready', timeout=2)"


def docker(*arguments: str, check: bool = True, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, cwd=ROOT, check=False, env={**os.environ, **(env or {})}
    )
    assert not check or done.returncode == 0, (
        f"docker {' '.join(arguments)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    return done


def why_not() -> str | None:
    if shutil.which("docker") is None:
        return "docker is missing"
    if docker("version", check=False).returncode:
        return "no Docker engine is running"
    if docker("compose", "version", check=False).returncode or docker("buildx", "version", check=False).returncode:
        return "docker has no compose or buildx plugin"
    if docker("image", "inspect", BASE, check=False).returncode:
        return f"there is no image {BASE} to build from (docker pull {BASE})"
    return None


class Stack:
    """A compose project of its own name, gone with all its volumes afterwards."""

    def __init__(self, override: Path) -> None:
        self.name = f"sojourn-test-{os.getpid()}"
        self._files = ["-f", "docker-compose.yml", "-f", str(override)]
        port, self.prometheus = free_ports(2)
        self._env = {
            "SOJOURN_HTTP_PORT": str(port),
            "SOJOURN_PROMETHEUS_PORT": str(self.prometheus),
            # A small bound, so that a run of the test sees a rotation.
            "SOJOURN_LOG_BYTES": "150000",
            "COMPOSE_BAKE": "false",
        }

    def __call__(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return docker("compose", "-p", self.name, *self._files, *arguments, check=check, env=self._env)

    def logs_folder(self, to: Path) -> Path:
        self("cp", "nginx:/var/log/sojourn/.", str(to))
        return to


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    reason = why_not()
    if reason is not None:
        pytest.skip(f"the stack is not brought up: {reason}")
    override = tmp_path_factory.mktemp("compose") / "override.yml"
    services: dict[str, dict[str, Any]] = {
        # On a busy machine they go first, or the figures would be the neighbours'.
        name: {"cpu_shares": 200_000}
        for name in (*UP, "app1", "app2", "prepare", "load", "lab")
    }
    for name in ("app1", "app2", "nginx", "prepare"):
        # Where the mirrors of a build are reached through the host, as behind a corporate proxy.
        services[name]["build"] = {"network": "host"}
    services["vector"] = services["vector-spans"] = {"image": VECTOR_IMAGE}
    services["prometheus"] = {
        "image": PROMETHEUS_IMAGE,
        "healthcheck": {"test": ["CMD", "python3", "-c", READY]},
    }
    services["clickhouse"] = {
        "image": "sojourn-tools:0.1.0",
        "entrypoint": ["python3", "-c", RECORDER],
        "ulimits": {"nofile": {"soft": 1024, "hard": 1024}},
        "healthcheck": {"test": ["CMD", "python3", "-c", PING]},
    }
    override.write_text(json.dumps({"services": services}))
    up = Stack(override)
    up("build", "--quiet")
    try:
        up("up", "--detach", "--no-build", "--wait", *UP)
        yield up
    finally:
        up("--profile", "*", "down", "--volumes", "--timeout", "5", check=False)


def eventually(condition: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        with contextlib.suppress(Exception):
            time.sleep(0.2)


def whole_lines(path: Path) -> list[bytes]:
    """The lines of a copy of a log, without the last one if the copy was made in the middle of it."""
    text = path.read_bytes()
    return text[: text.rfind(b"\n") + 1].splitlines()


def measured(stack: Stack, command: list[str]) -> dict[str, Any]:
    """What a command of the lab measured; a run that calls itself void, on a busy machine, is repeated."""
    record: dict[str, Any] = {}
    for attempt in range(ATTEMPTS):
        done = stack("run", "--rm", "-T", "--no-deps", *(word.format(attempt=attempt) for word in command), check=False)
        assert done.stdout, done.stderr
        record = json.loads(done.stdout)
        if not record["void"]:
            break
    return record


@pytest.mark.timeout(1500)
def test_compose_run_equals_the_law_and_the_process_runtime(stack: Stack, tmp_path: Path) -> None:
    """Closed loop, two workers, 0.1 s of work: R = N·S/2, so queueing is 0.1 s at 4 users and 0.3 s at 8.

    The same cases as processes of one container, the lab's own runtime, have to come to the same. On a machine too busy
    for either, R = N/X still holds, with the throughput X the client saw (interactive response time law).
    """
    # The first request of a process imports what it exports spans with.
    stack("run", "--rm", "--no-deps", "load", "--concurrency", "4", "--duration", "1", "--name", "warm", check=False)
    load = ["--duration", "8", "--json"]
    of = {n: measured(stack, ["load", "--concurrency", f"{n}", "--name", f"c{n}-{{attempt}}", *load]) for n in (4, 8)}
    folder = stack.logs_folder(tmp_path / "logs")
    result = sojourn.split([str(folder / "access.jsonl*")], by=["service"])
    assert result.records.rejected == 0
    assert result.audit.identity_max_error < 1e-9
    assert result.audit.app_known == 1.0
    rows: dict[str, dict[str, Any]] = {row["service"]: row for row in result.by["service"]}  # type: ignore[misc]
    values = {users: rows[client["case"]] for users, client in of.items()}
    for users, client in of.items():
        assert values[users]["requests"] == client["offered"]
        law = users / client["achieved_rate"] - values[users]["service_time"]["mean"]
        assert values[users]["queueing_delay"]["mean"] == pytest.approx(law, rel=0.1, abs=0.01)

    run = measured(stack, ["lab", "run", "benchmark", "--duration", "4", "--json", "--once"])
    assert len(run["cases"]) == 6
    listed = stack("run", "--rm", "--entrypoint", "ls", "lab", "/lab/runs")
    assert listed.stdout.startswith("benchmark-")
    if run["void"] or any(client["void"] for client in of.values()):
        pytest.skip("the machine is too busy to compare the two runtimes: every run called itself void")
    processes = {case["name"]: case["split"]["components"]["queueing_delay"]["mean"] for case in run["cases"]}
    for users, law in ((4, 0.1), (8, 0.3)):
        assert values[users]["queueing_delay"]["mean"] == pytest.approx(law, abs=0.03)
        assert values[users]["queueing_delay"]["mean"] == pytest.approx(processes[f"c{users}-s100"], abs=0.03)


@pytest.mark.timeout(600)
def test_queues_are_sampled_and_logs_rotated(stack: Stack, tmp_path: Path) -> None:
    stack("run", "--rm", "--no-deps", "load", "--concurrency", "12", "--duration", "15", check=False)

    def rotated() -> bool:
        return (stack.logs_folder(tmp_path / "logs") / "access.jsonl.1").exists()

    eventually(rotated, 30, "the log to rotate")
    folder = tmp_path / "logs"
    samples = [json.loads(line) for line in whole_lines(folder / "listen-app1.jsonl")]
    assert {sample["limit"] for sample in samples} == {64}
    assert max(sample["depth"] for sample in samples) >= 3, "twelve users, two workers: five wait at each app"
    served = sojourn.split([str(folder / "access.jsonl*")])
    assert served.records.rejected == 0


@pytest.mark.timeout(600)
def test_after_a_crash_of_nginx_its_queue_is_sampled_again(stack: Stack, tmp_path: Path) -> None:
    """The engine starts nginx again in another network: a process in the old one sees nothing, and must detect it."""
    stack("exec", "-T", "nginx", "sh", "-c", "kill -9 $(cat /run/nginx/nginx.pid)", check=False)
    crashed = time.time()

    def sampled_again() -> bool:
        (*_, last) = whole_lines(stack.logs_folder(tmp_path / "logs") / "listen-nginx.jsonl")
        # A sample just after the crash may still be one of the old network.
        return bool(json.loads(last)["time"] > crashed + 15)

    eventually(sampled_again, 120, "nginx's accept queue to be sampled again")
    stack("up", "--detach", "--no-build", "--wait", "--no-deps", *UP)


@pytest.mark.timeout(600)
def test_passwords_are_made_once_and_for_those_who_need_them(stack: Stack) -> None:
    def seen(script: str, user: str = "0:0") -> str:
        return stack("run", "--rm", "-T", "--user", user, "--entrypoint", "sh", "prepare", "-c", script).stdout

    listing = "cd /secrets && stat -c '%n %u:%g %a %s' *"
    stack("run", "--rm", "-T", "prepare")
    first = seen(listing)
    assert first.splitlines() == [
        "clickhouse_admin 10003:10003 400 48",
        "clickhouse_reader 472:10003 440 48",
        "clickhouse_writer 10002:10003 440 48",
        "grafana_admin 472:0 400 48",
    ]
    migrations = ("cd /secrets && sha256sum clickhouse_admin clickhouse_reader clickhouse_writer", "10003:10003")
    sums = seen(*migrations)
    assert len({line.split()[0] for line in sums.splitlines()}) == 3
    assert f"<password_sha256_hex>{sums.split()[0]}<" in seen("cat /clickhouse-users/sojourn.xml", "101:101")

    # Again, and after a run that was stopped just before a password got its name: the others stay as they are.
    seen(
        "echo stopped > /secrets/.grafana_admin; chmod 400 /secrets/.grafana_admin; chown 472:0 /secrets/.grafana_admin"
    )
    seen("rm /secrets/grafana_admin")
    output = stack("run", "--rm", "-T", "prepare")
    assert seen(listing) == first
    assert seen(*migrations) == sums
    new = seen("cat /secrets/grafana_admin", "472:0")
    assert len(new) == 48
    assert new not in output.stdout + output.stderr


@pytest.mark.timeout(600)
def test_a_capture_records_what_passes(stack: Stack) -> None:
    stack("--profile", "capture", "up", "--detach", "--no-build", "--no-deps", "capture")

    def recorded(least: int) -> bool:
        # The files are for the eyes of the one who records.
        size = ["sh", "-c", "cat /captures/nginx.pcap* | wc -c"]
        done = stack("exec", "-T", "--user", "10001", "capture", *size, check=False)
        return done.returncode == 0 and int(done.stdout or 0) >= least

    eventually(lambda: recorded(24), 60, "the capture to begin")
    stack("run", "--rm", "--no-deps", "load", "--concurrency", "1", "--duration", "1", check=False)
    eventually(lambda: recorded(2_000), 30, "packets in the capture")
    stack("stop", "--timeout", "20", "capture")
    assert stack("ps", "--all", "--format", "{{.ExitCode}}", "capture").stdout.split() == ["0"]
    assert " packets, " in stack("logs", "--no-log-prefix", "capture").stdout


@pytest.fixture
def vector_image(stack: Stack, tmp_path: Path) -> Iterator[None]:
    """An image with the Vector of this machine, on top of one that has the libraries it may be linked to."""
    shutil.copy(vector_program(), tmp_path / "vector")
    (tmp_path / "Dockerfile").write_text(
        'FROM sojourn-tools:0.1.0\nCOPY vector /usr/bin/vector\nENTRYPOINT ["/usr/bin/vector"]\nCMD []\n'
    )
    docker("build", "--quiet", "--tag", VECTOR_IMAGE, str(tmp_path))
    try:
        yield
    finally:
        stack("rm", "--stop", "--force", "log-files", "vector", "vector-spans", "clickhouse", check=False)
        docker("image", "rm", VECTOR_IMAGE, check=False)


@pytest.mark.usefixtures("vector_image")
@pytest.mark.timeout(600)
def test_the_agent_sends_lines_spans_and_samples_as_the_writer(stack: Stack, tmp_path: Path) -> None:
    """The requests of the agent in its container, repeated to the embedded engine, become the rows of a load."""
    pytest.importorskip("chdb")
    stack("up", "--detach", "--no-build", "--wait", "--no-deps", "clickhouse", "vector", "vector-spans", "log-files")
    load = ["load", "--concurrency", "4", "--duration", "4", "--name", "shipped", "--json"]
    client = json.loads(stack("run", "--rm", "-T", "--no-deps", *load, check=False).stdout)
    secret = ["run", "--rm", "-T", "--user", "10002", "--entrypoint", "cat", "prepare", "/secrets/clickhouse_writer"]
    password = stack(*secret).stdout
    sent = 0
    with StandIn(tmp_path / "store", ("sojourn_writer", password)) as store:
        init(store.dsn())

        def count(rows: str) -> int:
            return int(store.ask(f"SELECT count() AS n FROM {rows}")[0]["n"])

        def arrived() -> bool:
            nonlocal sent
            for line in stack("logs", "--no-log-prefix", "clickhouse").stdout.splitlines()[sent:]:
                path, headers, body = json.loads(line)
                status, _, answer = store.request("POST", path, base64.b64decode(body), headers)
                assert status == 200, answer
                sent += 1
            requests, spans = count(of_load), count(spans_of_load)
            sockets = count("(SELECT DISTINCT socket FROM listen_queue)")
            log_is_read = count("log_files_read WHERE source LIKE '%/access.jsonl' AND read = size AND size > 0")
            complete = requests == spans == client["offered"] and sockets >= 3 and log_is_read > 0
            return complete and count("pipeline_metrics") > 0

        of_load = "requests FINAL WHERE service = 'shipped'"
        spans_of_load = f"spans FINAL WHERE request_id IN (SELECT request_id FROM {of_load})"
        eventually(arrived, 60, "the rows of the load")
        sources = store.ask(f"SELECT DISTINCT source FROM {of_load}")
        assert sources == [{"source": "vector:/var/log/sojourn/access.jsonl"}]
        sockets = store.ask("SELECT DISTINCT machine, socket FROM listen_queue ORDER BY socket")
        assert sockets == [{"machine": "vector", "socket": name} for name in ("app1", "app2", "nginx")]
        assert count("dead_letters") == 0
        assert count("line_gaps") == 0


@pytest.fixture
def prometheus_image(stack: Stack, tmp_path: Path) -> Iterator[None]:
    """An image with the Prometheus of this machine, whose folders belong to the user that prom/prometheus has."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    shutil.copy(program, tmp_path / "prometheus")
    (tmp_path / "Dockerfile").write_text(
        "FROM sojourn-tools:0.1.0\nUSER 0:0\nCOPY prometheus /bin/prometheus\n"
        "RUN mkdir /prometheus && chown 65534:65534 /prometheus\n"
        'USER 65534:65534\nWORKDIR /prometheus\nENTRYPOINT ["/bin/prometheus"]\nCMD []\n'
    )
    docker("build", "--quiet", "--tag", PROMETHEUS_IMAGE, str(tmp_path))
    try:
        yield
    finally:
        stack("rm", "--stop", "--force", "prometheus", "export", check=False)
        docker("image", "rm", PROMETHEUS_IMAGE, check=False)


@pytest.mark.usefixtures("prometheus_image")
@pytest.mark.timeout(600)
def test_prometheus_has_the_delays_that_the_log_has(stack: Stack, tmp_path: Path) -> None:
    stack("up", "--detach", "--no-build", "--wait", "--no-deps", "export", "prometheus")

    def api(path: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{stack.prometheus}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def value(query: str) -> float:
        result = api("query", query=query)["result"]
        return float(result[0]["value"][1]) if result else 0.0

    load = ["load", "--concurrency", "6", "--duration", "8", "--name", "metered", "--json"]
    client = json.loads(stack("run", "--rm", "-T", "--no-deps", *load, check=False).stdout)
    of_load = 'sojourn_queueing_delay_seconds_{}{{service="metered"}}'
    eventually(lambda: value('sum(sojourn_requests_total{service="metered"})') == client["offered"], 60, "the requests")
    folder = stack.logs_folder(tmp_path / "logs")
    result = sojourn.split([str(folder / "access.jsonl*")], by=["service"])
    (row,) = [row for row in result.by["service"] if row["service"] == "metered"]
    negative = 'sum(sojourn_negative_queueing_delay_seconds_total{service="metered"})'
    total = value(f"sum({of_load.format('sum')})") - value(negative)
    mean = total / value(f"sum({of_load.format('count')})")
    # The exporter and the split may estimate the clock offset from different requests.
    assert mean == pytest.approx(row["queueing_delay"]["mean"], abs=0.002)  # type: ignore[index]
    assert mean > 0.1, "six users, two workers of 0.1 s"
    # Two workers are busy for 8 s of a window of at most a minute.
    # The window moves: both are gauges of one computation, queried together.
    needed = 'sojourn_workers_needed{service="metered",method="replay"} >= 2'
    busy = 'on (service) sojourn_offered_load_workers{service="metered"} > 0.1'
    eventually(lambda: value(f"{needed} and {busy}") >= 2, 60, "the signals")
    exemplars = api(
        "query_exemplars", query=of_load.format("bucket"), start=str(time.time() - 600), end=f"{time.time()}"
    )
    assert any(each["labels"].get("trace_id") for series in exemplars for each in series["exemplars"])
    groups = api("rules")["groups"]
    assert [rule["lastError"] for group in groups for rule in group["rules"] if rule.get("lastError")] == []
    targets = api("targets")["activeTargets"]
    assert {target["labels"]["job"]: target["health"] for target in targets} == {"sojourn": "up", "prometheus": "up"}
