"""Figures of real application servers about the queues before their workers."""

from __future__ import annotations

import getpass
import http.client
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sojourn.analyses.kernel.analysis import kernel
from sojourn.host.kernel_queues import KernelProbe
from sojourn.host.sample import WorkerQueue
from sojourn.host.samples import samples_of
from sojourn.host.servers.address import parse
from sojourn.host.servers.fastcgi import fastcgi_text
from sojourn.host.servers.kinds import NO_ANSWER, server_of
from sojourn_lab.runtime.ports import free_ports
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.others import fpm_program

ROOT = Path(__file__).parents[3]
DEADLINE_S = 60.0
JARS = sorted(Path("/usr/share/java").glob("tomcat10-*.jar"))


def eventually(condition: Callable[[], bool], what: str, seconds: float = DEADLINE_S) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited {seconds} s for {what}"
        time.sleep(0.01)


def figures(server: str) -> WorkerQueue:
    answer = server_of(server).answer(10.0)
    assert isinstance(answer, WorkerQueue)
    return answer


def becomes(server: str, condition: Callable[[WorkerQueue], bool], what: str) -> WorkerQueue:
    """The first answer that meets the condition."""
    answers: list[WorkerQueue] = []

    def holds() -> bool:
        try:
            answers.append(figures(server))
        except NO_ANSWER:
            return False  # it starts
        return condition(answers[-1])

    try:
        eventually(holds, what)
    except AssertionError as error:
        raise AssertionError(f"{error}; the last answer: {answers[-1:]}") from None
    return answers[-1]


@contextmanager
def running(command: list[str], folder: Path, name: str, **environment: str) -> Iterator[Process]:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{name} is not installed")
    with Process(command, name=name, folder=folder, cwd=folder, env={**os.environ, **environment}) as process:
        yield process


def waiting_clients(port: int, path: str, count: int, stack: ExitStack) -> list[http.client.HTTPConnection]:
    """Clients that have sent a request each, and read nothing."""
    clients = []
    for _ in range(count):
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        stack.callback(client.close)
        client.request("GET", path)
        clients.append(client)
    return clients


# PHP-FPM

POOL = """\
[{name}]
{user}listen = {listen}
listen.backlog = 16
pm = static
pm.max_children = 1
pm.status_path = /status
pm.status_listen = {status}
"""


@contextmanager
def php_fpm(folder: Path, listen: str, status: str) -> Iterator[None]:
    program = fpm_program()
    if program is None:
        pytest.skip("php-fpm is not installed")
    user = f"user = {getpass.getuser()}\n" if os.geteuid() == 0 else ""
    pool = POOL.format(name="app", user=user, listen=listen, status=status)
    (folder / "fpm.conf").write_text(f"[global]\nerror_log = {folder}/fpm-error.log\ndaemonize = no\n{pool}")
    (folder / "wait.php").write_text(
        "<?php touch(__DIR__ . '/started');\n"
        "while (!file_exists(__DIR__ . '/done')) { clearstatcache(); usleep(5000); }"
    )
    command = [program, "-n", "--allow-to-run-as-root", "--nodaemonize", "--fpm-config", str(folder / "fpm.conf")]
    with running(command, folder, "php-fpm"):
        yield


@contextmanager
def requests_to_php(address: str, folder: Path, count: int) -> Iterator[None]:
    """Requests over FastCGI that last until the block ends."""
    script = str(folder / "wait.php")
    with ThreadPoolExecutor(count) as pool:
        answers = [pool.submit(fastcgi_text, parse(address), script, DEADLINE_S) for _ in range(count)]
        try:
            yield
        finally:
            (folder / "done").touch()
        assert [answer.result() for answer in answers] == [""] * count


def test_php_fpm_reports_what_waits_in_the_backlog_of_its_port(tmp_path: Path) -> None:
    app, status = free_ports(2)
    server = f"php-fpm=127.0.0.1:{status}/status"
    with php_fpm(tmp_path, f"127.0.0.1:{app}", f"127.0.0.1:{status}"):
        # The page may answer before the pool has counted its child.
        idle = (0, 1, 0, 16)
        becomes(server, lambda each: (each.busy, each.workers, each.waiting, each.limit) == idle, "an idle child")
        probe = KernelProbe({"app": app}, servers=[server], budget=10.0)
        samples = [probe.sample()]
        with requests_to_php(f"127.0.0.1:{app}", tmp_path, 3):
            full = (2, 1, 1, 0)
            becomes(
                server,
                lambda each: (each.waiting, each.busy, each.workers, each.limit_reached) == full,
                "two requests behind the one in service",
            )
            samples.append(probe.sample())
            (listener,) = samples[-1].sockets
            assert listener.depth == 2
        becomes(server, lambda each: (each.waiting, each.busy, each.requests) == (0, 0, 3), "an idle child again")
        samples.append(probe.sample())
    result = kernel(samples_of(samples))
    (row,) = result.servers.to_dicts()
    assert row == {
        **row, "server": f"127.0.0.1:{status}/status", "kind": "php-fpm", "answers": 3, "unanswered": 0, "workers": 1,
        "busy": 1, "waiting": 0, "deepest": 2, "limit": 16, "all_busy": 1, "saturated": 1, "requests": 3,
        "limit_reached": 0,
    }  # fmt: skip
    assert "saturated" in {finding.key for finding in result.findings}


def test_the_queue_of_php_fpm_at_a_unix_socket_is_known_from_the_kernel_only(tmp_path: Path) -> None:
    app, status = tmp_path / "app.sock", tmp_path / "status.sock"
    server = f"php-fpm=unix:{status}:/status"
    with php_fpm(tmp_path, str(app), str(status)):
        becomes(server, lambda _: True, "an answer")
        probe = KernelProbe(unix={"app": str(app)})
        with requests_to_php(f"unix:{app}", tmp_path, 3):
            eventually(lambda: [each.depth for each in probe.sample().sockets] == [2], "two connections in the queue")
            busy = (1, None, None)
            becomes(server, lambda each: (each.busy, each.waiting, each.limit) == busy, "the one child to be busy")


def test_a_status_page_that_needs_the_only_child_does_not_answer_while_it_is_busy(tmp_path: Path) -> None:
    app, status = free_ports(2)
    own = f"php-fpm=127.0.0.1:{app}/status"
    with php_fpm(tmp_path, f"127.0.0.1:{app}", f"127.0.0.1:{status}"):
        # Without pm.status_listen the child that answers is busy with the query.
        becomes(own, lambda each: (each.busy, each.workers) == (1, 1), "an answer")
        probe = KernelProbe({"app": app}, servers=[own], budget=0.05)
        with requests_to_php(f"127.0.0.1:{app}", tmp_path, 1):
            eventually((tmp_path / "started").exists, "the child to be busy")
            eventually(lambda: probe.sample().sockets[0].depth == 1, "the query in the queue")
            for _ in range(3):
                sample = probe.sample()
                (answer,) = sample.servers.values()
                assert answer.reason is not None
                assert "the query waits in the measured queue" in answer.reason
                # All samples sent one query.
                assert sample.sockets[0].depth == 1


def test_php_fpm_answers_through_nginx(tmp_path: Path) -> None:
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed")
    app, status, front = free_ports(3)
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(
        f"daemon off; pid {tmp_path}/nginx.pid; error_log {tmp_path}/error.log;\nevents {{}}\nhttp {{\n"
        f"access_log off; client_body_temp_path {tmp_path}; proxy_temp_path {tmp_path}; fastcgi_temp_path {tmp_path};\n"
        f"uwsgi_temp_path {tmp_path}; scgi_temp_path {tmp_path};\n"
        f"server {{ listen 127.0.0.1:{front};\n location = /fpm/status {{ fastcgi_pass 127.0.0.1:{status};\n"
        "fastcgi_param SCRIPT_FILENAME /status; fastcgi_param SCRIPT_NAME /status;\n"
        "fastcgi_param REQUEST_METHOD GET; fastcgi_param QUERY_STRING $query_string; }\n"
        "location / { return 404; } } }\n"
    )
    with (
        php_fpm(tmp_path, f"127.0.0.1:{app}", f"127.0.0.1:{status}"),
        running([nginx, "-p", str(tmp_path), "-c", str(configuration)], tmp_path, "nginx"),
    ):
        server = f"php-fpm=http://127.0.0.1:{front}/fpm/status?full"
        idle = (1, 0, 16)
        becomes(server, lambda each: (each.workers, each.waiting, each.limit) == idle, "the figures of an idle child")
        with pytest.raises(ValueError, match="it answered 404"):
            figures(f"php-fpm=http://127.0.0.1:{front}/none")
        with pytest.raises(ValueError, match="it answered 404"):
            figures(f"php-fpm=127.0.0.1:{app}/none.php")


# uWSGI

WSGI = """\
import os, time

def application(environ, start_response):
    while not os.path.exists(os.environ["DONE"]):
        time.sleep(0.005)
    start_response("200 OK", [])
    return [b"done"]
"""


@pytest.mark.parametrize("form", ["tcp", "unix", "http"])
def test_uwsgi_reports_its_backlog_and_its_cores(tmp_path: Path, form: str) -> None:
    app, stats = free_ports(2)
    (tmp_path / "app.py").write_text(WSGI)
    at, server = {
        "tcp": ([f"127.0.0.1:{stats}"], f"uwsgi=127.0.0.1:{stats}"),
        "unix": ([f"{tmp_path}/stats.sock"], f"uwsgi=unix:{tmp_path}/stats.sock"),
        "http": ([f"127.0.0.1:{stats}", "--stats-http"], f"uwsgi=http://127.0.0.1:{stats}/"),
    }[form]
    command = [
        "uwsgi", "--plugin", "python3", "--http-socket", f"127.0.0.1:{app}", "--wsgi-file", str(tmp_path / "app.py"),
        "--master", "--die-on-term", "--listen", "8", "--processes", "2", "--threads", "2", "--stats", *at,
    ]  # fmt: skip
    done = tmp_path / "done"
    with running(command, tmp_path, "uwsgi", DONE=str(done)), ExitStack() as stack:
        ready = (4, 0, 8, 0, 0, 0)
        becomes(
            server,
            lambda each: (
                (each.workers, each.busy, each.limit, each.waiting, each.limit_reached, each.requests) == ready
            ),
            "an idle uWSGI",
        )
        clients = waiting_clients(app, "/", 7, stack)
        # The master counts the backlog once a second; what it saw may be older than the number of busy cores.
        full = (3, 4, 4)
        becomes(
            server,
            lambda each: (each.waiting, each.busy, each.workers) == full,
            "four busy cores and three connections in the backlog",
        )
        done.touch()
        assert {client.getresponse().status for client in clients} == {200}
        becomes(server, lambda each: (each.waiting, each.busy, each.requests) == (0, 0, 7), "an idle uWSGI again")


# Puma

PUMA = """\
bind "tcp://127.0.0.1:{port}?backlog=16"
threads 1, 1
workers {workers}
worker_check_interval 1
{control}
app do |env|
  sleep(0.005) until File.exist?(ENV["DONE"]) if env["PATH_INFO"] == "/slow"
  [200, {{ "Content-Length" => "4" }}, ["done"]]
end
"""


@contextmanager
def puma(folder: Path, port: int, workers: int, control: str, done: Path) -> Iterator[None]:
    (folder / "puma.rb").write_text(PUMA.format(port=port, workers=workers, control=control))
    with running(["puma", "-C", str(folder / "puma.rb"), "-e", "none"], folder, "puma", DONE=str(done)):
        yield


def test_puma_queues_requests_on_kept_connections_and_leaves_new_ones_to_the_kernel(tmp_path: Path) -> None:
    port, control = free_ports(2)
    done = tmp_path / "done"
    server = f"puma=http://127.0.0.1:{control}/stats?token=secret"
    app = f'activate_control_app "tcp://127.0.0.1:{control}", {{ auth_token: "secret" }}'
    with puma(tmp_path, port, 0, app, done), ExitStack() as stack:
        # A thread that starts is not free yet.
        idle = (0, 1, 0, 0)
        becomes(server, lambda each: (each.busy, each.workers, each.waiting, each.requests) == idle, "an idle Puma")
        kept = waiting_clients(port, "/quick", 3, stack)
        assert [client.getresponse().read() for client in kept] == [b"done"] * 3
        for client in kept:
            client.request("GET", "/slow")
        full = (2, 1, 1)
        becomes(
            server,
            lambda each: (each.waiting, each.busy, each.workers) == full,
            "one request in service and two of kept connections that wait",
        )
        new = waiting_clients(port, "/slow", 2, stack)
        probe = KernelProbe({"app": port}, servers=[server], budget=10.0)

        def both_queues() -> tuple[int, object]:
            sample = probe.sample()
            (answer,) = sample.servers.values()
            return sample.sockets[0].depth, answer.waiting

        eventually(lambda: both_queues() == (2, 2), "two connections that Puma does not accept, beside the two others")
        done.touch()
        assert [client.getresponse().read() for client in (*kept, *new)] == [b"done"] * 5
        becomes(server, lambda each: (each.waiting, each.busy) == (0, 0), "an idle Puma again")
        with pytest.raises(ValueError, match="it answered 403"):
            figures(server.replace("secret", "guess"))


def test_the_figures_of_a_puma_cluster_are_the_sums_of_its_workers(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    done, control = tmp_path / "done", tmp_path / "control.sock"
    server = f"puma=unix:{control}:/stats"
    with (
        puma(tmp_path, port, 2, f'activate_control_app "unix://{control}", {{ no_token: true }}', done),
        ExitStack() as stack,
    ):
        idle = (0, 2, 0)
        becomes(server, lambda each: (each.busy, each.workers, each.waiting) == idle, "both workers' reports")
        clients = waiting_clients(port, "/slow", 2, stack)
        becomes(server, lambda each: each.busy == 2, "two busy workers")
        done.touch()
        assert [client.getresponse().read() for client in clients] == [b"done"] * 2


# Tomcat


@pytest.fixture(scope="module")
def queued_tomcat(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs the compiled Tomcat, without its arguments."""
    if shutil.which("javac") is None or shutil.which("java") is None:
        pytest.skip("no JDK is installed")
    if not JARS:
        pytest.skip("libtomcat10-java is not installed")
    classes = tmp_path_factory.mktemp("classes")
    classpath = ":".join(map(str, JARS))
    source = Path(__file__).with_name("QueuedTomcat.java")
    command = ["javac", "-Xlint:-options", "-nowarn", "-cp", classpath, "-d", str(classes), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *flags, "-cp", f"{classpath}:{classes}", "QueuedTomcat"]


def test_tomcat_reports_the_queue_of_its_shared_executor(tmp_path: Path, queued_tomcat: list[str]) -> None:
    done = tmp_path / "done"
    command = [*queued_tomcat, str(tmp_path), "a/b@c", str(done)]
    with running(command, tmp_path, "tomcat") as process, ExitStack() as stack:
        process.wait_until(lambda: printed_ports(process.out_path) is not None, DEADLINE_S, "the ports of Tomcat")
        ports = printed_ports(process.out_path)
        assert ports is not None
        app, admin = ports
        server = f"tomcat=http://reader:a%2Fb%40c@127.0.0.1:{admin}"
        # One thread of the executor, three of the connector that answers, of which one is busy with the query.
        idle = (1, 0, 4, None)
        becomes(server, lambda each: (each.busy, each.waiting, each.workers, each.limit) == idle, "an idle Tomcat")
        clients = waiting_clients(app, "/app", 3, stack)
        full = (2, 2)
        becomes(server, lambda each: (each.waiting, each.busy) == full, "two requests behind the one in service")
        only = f"{server}/manager/jmxproxy/?qry=Tomcat:type=Executor,*"
        of_executor = (2, 1, 1)
        becomes(only, lambda each: (each.waiting, each.busy, each.workers) == of_executor, "the executor alone")
        done.touch()
        assert [client.getresponse().read() for client in clients] == [b"done"] * 3
        becomes(only, lambda each: (each.waiting, each.busy) == (0, 0), "an idle executor")
        with pytest.raises(ValueError, match="it answered 401"):
            figures(f"tomcat=http://reader:wrong@127.0.0.1:{admin}")
        sample = KernelProbe({}, servers=[server], budget=10.0).sample()
        assert list(sample.servers) == [f"http://reader:…@127.0.0.1:{admin}"]


def printed_ports(log: Path) -> tuple[int, int] | None:
    for line in log.read_text().splitlines():
        words = line.split()
        if len(words) == 2 and all(word.isdecimal() for word in words):
            return int(words[0]), int(words[1])
    return None


# Node

NODE = """\
const http = require("http");
const pending = [];
http.createServer(wrap((request, response) => {
  if (request.url === "/busy") {
    for (const until = performance.now() + 300; performance.now() < until;);
    response.end("done");
  } else if (request.url === "/release") {
    while (pending.length) pending.pop().end("done");
    response.end("done");
  } else {
    pending.push(response);
  }
})).listen(Number(process.argv[2]), "127.0.0.1");
http.createServer(statsHandler()).listen(Number(process.argv[3]), "127.0.0.1");
"""


def test_node_reports_its_event_loop_and_the_requests_in_progress(tmp_path: Path) -> None:
    package = json.dumps(str(ROOT / "collector/middleware/node"))
    (tmp_path / "app.js").write_text(f"const {{ statsHandler, wrap }} = require({package});\n{NODE}")
    port, stats = free_ports(2)
    server = f"node=http://127.0.0.1:{stats}/"
    command = ["node", str(tmp_path / "app.js"), str(port), str(stats)]
    with running(command, tmp_path, "node"), ExitStack() as stack:
        idle = becomes(server, lambda _: True, "an answer")
        assert (idle.waiting, idle.busy, idle.workers, idle.requests) == (None, 0, None, 0)
        clients = waiting_clients(port, "/held", 2, stack)
        held = becomes(server, lambda each: each.busy == 2, "two requests in progress")
        assert held.event_loop_utilisation is not None
        assert held.instance.isdecimal()
        (blocked,) = waiting_clients(port, "/busy", 1, stack)
        becomes(
            server,
            lambda each: (each.event_loop_delay_max or 0) > 0.2 and each.requests == 3,
            "the delay of the loop that the third request blocks",
        )
        assert blocked.getresponse().read() == b"done"
        (release,) = waiting_clients(port, "/release", 1, stack)
        assert [client.getresponse().read() for client in (*clients, release)] == [b"done"] * 3


# The command


def test_the_command_shows_and_records_the_queues_of_servers(tmp_path: Path) -> None:
    from sojourn.cli import app  # noqa: PLC0415
    from typer.testing import CliRunner  # noqa: PLC0415

    path = tmp_path / "kernel.jsonl"
    status = {
        "listen queue": 2, "max listen queue": 3, "listen queue len": 16, "idle processes": 0, "active processes": 1,
        "total processes": 1, "max children reached": 0, "slow requests": 0, "accepted conn": 5,
    }  # fmt: skip
    body = json.dumps(status).encode()
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        port = listening.getsockname()[1]

        def serve() -> None:
            while True:
                connection = listening.accept()[0]
                with connection:
                    if not connection.recv(10_000):
                        return
                    connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + body)

        serving = pool.submit(serve)
        url = f"http://user:geheim@127.0.0.1:{port}/status?token=geheim"
        arguments = ["kernel", "--server", f"php-fpm={url}", "--out", str(path), "--seconds", "0.5", "--period", "0.5"]
        recorded = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"}).invoke(app, [*arguments, "--port", str(port)])
        socket.create_connection(("127.0.0.1", port)).close()  # the last one, without a request
        serving.result(timeout=DEADLINE_S)
    assert recorded.exit_code == 0, recorded.output
    shown = f"http://user:…@127.0.0.1:{port}/status?token=…"
    assert "geheim" not in recorded.output + path.read_text()
    document = json.loads(CliRunner().invoke(app, ["kernel", str(path), "--json"]).stdout)
    (row,) = document["servers"]
    assert (row["server"], row["kind"], row["waiting"]) == (shown, "php-fpm", 2)
    assert row["saturated"] == row["answers"] >= 1
    assert [finding["server"] for finding in document["findings"] if finding["key"] == "saturated"] == [shown]
    assert document["raindrops"] == []


def test_servers_are_queried_at_the_same_time() -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        ports = [each.getsockname()[1] for each in silent]
        probe = KernelProbe({}, servers=[f"uwsgi=127.0.0.1:{port}" for port in ports], budget=0.1)
        answers = probe.sample().servers
        for each in silent:
            each.settimeout(DEADLINE_S)
            each.accept()[0].close()
        reasons = [answer.reason or "" for answer in answers.values()]
        # Each had the whole budget: none was queried only after another one.
        assert all(float(reason.removeprefix("no answer for ").removesuffix(" s")) >= 0.1 for reason in reasons)
