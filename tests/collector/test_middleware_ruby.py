"""The gem for Rack: its own tests once, by case, and real servers: unicorn and Puma, from the sources and as a gem."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from collector_support import (
    CASES,
    SLACK_S,
    Answer,
    assert_queued,
    assert_two_threads_of_two_processes,
    assert_x_request_start_decides,
    eventually,
    fetch,
    fetch_parallel,
    served,
    stamp_now,
)
from prometheus_client.parser import text_string_to_metric_families
from sojourn_lab.runtime.process import Process

PACKAGE = Path(__file__).parents[2] / "collector" / "middleware" / "ruby"
CONFIG = str(Path(__file__).parent / "rack" / "config.ru")
VECTORS = Path(__file__).parents[1] / "vectors"
ANSWERS = json.loads((VECTORS / "answer_headers.json").read_text("utf-8"))["cases"]
METRICS = json.loads((VECTORS / "prometheus.json").read_text("utf-8"))["cases"]
README = (PACKAGE / "README.md").read_text("utf-8")
SERVICE_S = 0.15
# minitest --verbose: Class#test_name = 0.01 s = .
RESULT = re.compile(r"^(\w+#test_.+) = \d+\.\d+ s = (\S)$", re.M)
LOADED = 'Dir["test/*_test.rb"].sort.each { |file| require File.expand_path(file) }'
FROM_SOURCES = {"RUBYLIB": os.pathsep.join([str(PACKAGE / "lib"), *filter(None, [os.environ.get("RUBYLIB")])])}


def needs(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def environment() -> dict[str, str]:
    return {**os.environ, "LANG": "C.UTF-8", "SOJOURN_VECTORS": str(VECTORS)}


class Results:
    """The results of the gem's own tests: `.` passed, `S` skipped, `F` and `E` failed."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.text = done.stdout + done.stderr
        self.succeeded = done.returncode == 0 and not done.stderr  # warnings of ruby -w fail
        self.by_name = dict(RESULT.findall(done.stdout))

    def assert_passed(self, name: str) -> None:
        assert self.by_name.get(name) == ".", self.text


@pytest.fixture(scope="module")
def results() -> Results:
    needs("ruby")
    if subprocess.run(["ruby", "-e", 'require "minitest"'], capture_output=True, check=False).returncode:
        pytest.skip("ruby-minitest is not installed")
    command = ["ruby", "-w", "-Ilib", "-Itest", "-e", LOADED, "--", "--verbose"]
    return Results(
        subprocess.run(
            command, cwd=PACKAGE, env=environment(), capture_output=True, text=True, timeout=120, check=False
        )
    )


@pytest.mark.parametrize("name", [case["name"] for case in CASES])
def test_stamps_are_read_by_the_table(results: Results, name: str) -> None:
    results.assert_passed(f"StampTableTest#test_{name}")


@pytest.mark.parametrize("name", [case["name"] for case in ANSWERS])
def test_headers_are_sent_by_the_table(results: Results, name: str) -> None:
    results.assert_passed(f"AnswerTableTest#test_{name}")


@pytest.mark.parametrize("store", ["", "of_files_"], ids=["memory", "files"])
@pytest.mark.parametrize("name", [case["name"] for case in METRICS])
def test_metrics_are_exported_by_the_table(results: Results, name: str, store: str) -> None:
    test = f"PrometheusTableTest#test_{store}{name}"
    if results.by_name.get(test) == "S":
        pytest.skip("the gem prometheus-client is not installed")
    results.assert_passed(test)


def test_all_of_the_gems_own_tests_pass(results: Results) -> None:
    assert results.succeeded, results.text
    assert {name.partition("#")[0] for name in results.by_name} >= {
        *("MiddlewareTest", "PrometheusTest", "TelemetryTest", "WithoutPrometheusTest", "WorkerTest")
    }


@pytest.mark.parametrize(("framework", "package"), [("rail", "ruby-railties"), ("sinatra", "ruby-sinatra")])
def test_the_gem_under_a_framework(results: Results, framework: str, package: str) -> None:
    names = [name for name in results.by_name if name.startswith("FrameworksTest#test_") and framework in name]
    own = {results.by_name[name] for name in names}
    assert own, results.text
    if "S" in own:
        pytest.skip(f"{package} is not installed")
    assert own == {"."}, results.text


@pytest.fixture
def unicorn(tmp_path: Path) -> Iterator[tuple[int, Process]]:
    """Debian's unicorn with one worker, rack's own checker on both sides of the middleware."""
    needs("unicorn")
    command = ["unicorn", "--no-default-middleware", "--listen", "127.0.0.1:{port}", CONFIG]
    with served(command, tmp_path, FROM_SOURCES) as server:
        yield server


def puma(*options: str, config: str = CONFIG) -> list[str]:
    """A Puma command; --config - keeps a config/puma.rb of the folder out."""
    needs("puma")
    quiet = ("--config", "-", "--quiet", "--environment", "none")
    return ["puma", *quiet, "--bind", "tcp://127.0.0.1:{port}", *options, config]


def test_unicorn_queues_one_after_the_other(unicorn: tuple[int, Process]) -> None:
    port, master = unicorn
    fetch(port)
    answers = fetch_parallel(port, "/sleep", 4)
    assert_queued(answers, SERVICE_S)
    (worker,) = {answer.headers["x-worker"] for answer in answers}
    assert worker.isdecimal()
    assert int(worker) != master.pid


def test_unicorn_answers(unicorn: tuple[int, Process]) -> None:
    port, process = unicorn
    assert fetch(port).body == b"hello"
    assert fetch(port, "/users").headers["x-route"] == "/users/:id"
    lazy = fetch(port, "/lazy")
    assert lazy.body == b"one two"
    assert lazy.service_time < SLACK_S / 2  # in Rack the headers have left before `each`
    assert fetch(port, "/empty").status == 204
    assert fetch(port, method="HEAD").body == b""
    assert fetch(port, "/error").status == 500
    eventually(lambda: "KeyError" in process.last_lines(60), "the server to log the app's error")
    unstamped = fetch(port, headers={"X-Request-Start": "junk"})
    assert "x-queueing-delay" not in unstamped.headers
    assert re.fullmatch(r"app;dur=[0-9.]+", unstamped.headers["server-timing"])
    assert "LintError" not in process.last_lines(1000)


def test_x_request_start_decides_under_unicorn(unicorn: tuple[int, Process]) -> None:
    assert_x_request_start_decides(unicorn[0])


def test_unicorn_refuses_the_header_twice(unicorn: tuple[int, Process]) -> None:
    port, _ = unicorn
    stamps = f"X-Request-Start: {stamp_now()}\r\n" * 2
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{stamps}\r\n".encode())
        answer = b"".join(iter(lambda: client.recv(65536), b"")).lower()
    assert b"x-service-time" in answer
    assert b"x-queueing-delay" not in answer


@pytest.mark.parametrize("threads", [1, 3])
def test_puma_waiting_for_a_thread_is_queueing(tmp_path: Path, threads: int) -> None:
    """Puma accepts all four connections at once; a request waits in its list, not in the kernel."""
    with served(puma("--threads", f"{threads}:{threads}"), tmp_path, FROM_SOURCES) as (port, process):
        fetch(port)
        answers = fetch_parallel(port, "/sleep", 4)
        assert_queued(answers, SERVICE_S, threads)
        workers = {answer.headers["x-worker"] for answer in answers}
        expected = {f"{process.pid}.{number}" for number in range(1, threads + 1)}
        assert workers == (expected if threads > 1 else {str(process.pid)})
        assert "LintError" not in process.last_lines(1000)


@pytest.mark.parametrize("preload", [(), ("--preload",)], ids=["", "preload"])
def test_puma_cluster_has_a_worker_for_each_thread(tmp_path: Path, preload: tuple[str, ...]) -> None:
    with served(puma("--workers", "2", "--threads", "2:2", *preload), tmp_path, FROM_SOURCES) as (port, process):
        assert_two_threads_of_two_processes(port, process.pid)


def test_puma_answers(tmp_path: Path) -> None:
    with served(puma("--threads", "2:2"), tmp_path, FROM_SOURCES) as (port, process):
        assert fetch(port).body == b"hello"
        assert fetch(port, "/users").headers["x-route"] == "/users/:id"
        lazy = fetch(port, "/lazy")
        assert (lazy.body, lazy.service_time < SLACK_S / 2) == (b"one two", True)
        assert fetch(port, "/empty").status == 204
        assert fetch(port, method="HEAD").body == b""
        assert fetch(port, "/error").status == 500
        timing = fetch(port).headers["server-timing"]
        assert re.fullmatch(r"queue;dur=[0-9]+\.[0-9]{3}, app;dur=[0-9]+\.[0-9]{3}", timing)
        assert_x_request_start_decides(port)
        assert "LintError" not in process.last_lines(1000)


def needs_prometheus() -> None:
    needs("ruby")
    if subprocess.run(["ruby", "-e", 'require "prometheus/client"'], capture_output=True, check=False).returncode:
        pytest.skip("the gem prometheus-client is not installed")


def counted(port: int, route: str) -> dict[str, float]:
    """The samples of the delay's histogram and of the negative delays, by name and bound, as one scrape shows them."""
    labels = {"service": "shop", "route": route, "status_class": "2xx"}
    samples = {}
    for family in text_string_to_metric_families(fetch(port, "/metrics").body.decode()):
        for sample in family.samples:
            if sample.labels.items() <= {**labels, "le": "+Inf"}.items():
                samples[sample.name] = sample.value
    return samples


@pytest.mark.parametrize("preload", [(), ("--preload",)], ids=["", "preload"])
def test_workers_of_a_puma_cluster_are_summed(tmp_path: Path, preload: tuple[str, ...]) -> None:
    """Every scrape shows the requests of both workers, whichever process answers it."""
    needs_prometheus()
    command = puma("--workers", "2", "--threads", "2:2", *preload, config=str(Path(CONFIG).with_name("metered.ru")))
    with served(command, tmp_path, {**FROM_SOURCES, "METRICS": str(tmp_path / "metrics")}) as (port, process):
        answers = assert_two_threads_of_two_processes(port, process.pid)
        reported = sum(answer.queueing_delay for answer in answers)
        for _ in range(6):
            samples = counted(port, "/sleep")
            assert samples["sojourn_queueing_delay_seconds_count"] == len(answers)
            assert samples["sojourn_queueing_delay_seconds_bucket"] == len(answers)
            assert samples["sojourn_queueing_delay_seconds_sum"] == pytest.approx(reported, abs=1e-6 * len(answers))
            assert samples["sojourn_service_time_seconds_count"] == len(answers)
            assert samples["sojourn_negative_queueing_delays_total"] == 0


@pytest.mark.parametrize("workers", ["0", "2"])
def test_app_with_metrics_of_the_readme(tmp_path: Path, workers: str) -> None:
    needs_prometheus()
    (block,) = re.findall(r"^```ruby\n(# config\.ru\n.*?)```", README, re.MULTILINE | re.DOTALL)
    config = tmp_path / "config.ru"
    config.write_text(block)
    environment = {**FROM_SOURCES, **({"METRICS": str(tmp_path / "metrics")} if workers != "0" else {})}
    with served(puma("--workers", workers, config=str(config)), tmp_path, environment) as (port, _):
        for _ in range(3):
            assert fetch(port).body == b"hello\n"
        assert counted(port, "")["sojourn_queueing_delay_seconds_count"] == 3


# ---- Requests in progress

COUNTED = str(Path(CONFIG).with_name("counted.ru"))


def in_progress(port: int) -> float:
    """The requests in progress as one scrape shows them: exactly one series."""
    names = {"sojourn_requests_in_progress", "http_server_active_requests"}
    families = text_string_to_metric_families(fetch(port, "/metrics").body.decode())
    (sample,) = (sample for family in families for sample in family.samples if sample.name in names)
    assert sample.labels == ({"service": "shop"} if sample.name.startswith("sojourn") else {})
    return sample.value


def expect(port: int, requests: int) -> None:
    eventually(lambda: in_progress(port) == requests, f"{requests} requests in progress")


@contextmanager
def counting(folder: Path, command: list[str], output: str) -> Iterator[tuple[int, Process, Path]]:
    """A server of counted.ru: its port, its process, and the file that ends its requests."""
    environment = {**FROM_SOURCES, "RELEASE": str(folder / "release"), "INTERFACE": str(PACKAGE / "test")}
    if output == "prometheus":
        needs_prometheus()
        environment["METRICS"] = str(folder / "metrics")
    with served(command, folder, environment) as (port, process):
        yield port, process, folder / "release"


@contextmanager
def connected(port: int, path: str, text: bytes = b"") -> Iterator[socket.socket]:
    """A connection with a request, after this text of the response."""
    with socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        received = b""
        while text not in received:
            received += client.recv(4096)
        yield client


def status_of(client: socket.socket) -> int:
    return int(client.recv(4096).split(b" ", 2)[1])


def servers(output: str) -> list[str]:
    """The servers whose processes the output adds up."""
    return ["threads", "processes", "unicorn"] if output == "prometheus" else ["threads"]


def command_of(server: str, folder: Path) -> list[str]:
    if server == "threads":
        return puma("--threads", "6:6", config=COUNTED)
    if server == "processes":
        return puma("--workers", "2", "--threads", "6:6", config=COUNTED)
    needs("unicorn")
    config = folder / "unicorn.rb"
    config.write_text("worker_processes 6\n")
    listen = ("--listen", "127.0.0.1:{port}")
    return ["unicorn", "--no-default-middleware", "--config-file", str(config), *listen, COUNTED]


COUNTING = [(output, server) for output in ("opentelemetry", "prometheus") for server in servers(output)]


@pytest.mark.parametrize(("output", "server"), COUNTING)
def test_requests_that_the_app_holds_are_in_progress(tmp_path: Path, output: str, server: str) -> None:
    with counting(tmp_path, command_of(server, tmp_path), output) as (port, _, release):
        fetch(port)
        expect(port, 0)
        with (
            connected(port, "/held") as held,
            connected(port, "/error") as failing,
            connected(port, "/lazy", b"first"),
        ):
            expect(port, 3)
            release.touch()
            assert (status_of(held), status_of(failing)) == (200, 500)
            expect(port, 0)


@pytest.mark.parametrize(("output", "server"), COUNTING)
def test_request_of_a_client_that_has_left_ends_with_the_app(tmp_path: Path, output: str, server: str) -> None:
    with counting(tmp_path, command_of(server, tmp_path), output) as (port, _, release):
        with connected(port, "/held"), connected(port, "/lazy", b"first"):
            expect(port, 2)
        release.touch()
        expect(port, 0)


@pytest.mark.parametrize(("output", "server"), COUNTING)
@pytest.mark.parametrize(("path", "text"), [("/events", b"data: first"), ("/websocket", b"101")])
def test_lasting_connection_is_not_in_progress(
    tmp_path: Path, output: str, server: str, path: str, text: bytes
) -> None:
    with (
        counting(tmp_path, command_of(server, tmp_path), output) as (port, _, release),
        connected(port, path, text),
    ):
        expect(port, 0)
        with connected(port, "/held") as held:
            expect(port, 1)
            release.touch()
            assert status_of(held) == 200
        expect(port, 0)


def test_killed_worker_leaves_no_count(tmp_path: Path) -> None:
    """A worker that serves requests removes the file of the killed one."""
    with counting(tmp_path, command_of("processes", tmp_path), "prometheus") as (port, process, release):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        with connected(port, "/held"), connected(port, "/held"):
            expect(port, 2)
            for worker in children.read_text().split():
                os.kill(int(worker), signal.SIGKILL)

        def remaining() -> float:
            # Without a worker there is no response.
            with suppress(OSError, http.client.HTTPException):
                fetch(port)
                return in_progress(port)
            return -1

        eventually(lambda: remaining() == 0, "the gauge without those of the killed workers")
        release.touch()


@pytest.fixture(scope="module")
def gem_home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the built gem is installed."""
    needs("gem")
    folder = tmp_path_factory.mktemp("gem")
    file = folder / "sojourn-middleware.gem"
    for command in (
        ["gem", "build", "--output", str(file), "sojourn-middleware.gemspec"],
        ["gem", "install", "--local", "--no-document", "--install-dir", str(folder / "home"), str(file)],
    ):
        done = subprocess.run(command, cwd=PACKAGE, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return {"GEM_HOME": str(folder / "home")}


@pytest.mark.parametrize("server", ["puma", "rackup"])
def test_the_installed_gem_is_required_by_its_name(tmp_path: Path, gem_home: dict[str, str], server: str) -> None:
    needs(server, "puma")
    rackup = [
        "rackup",
        "--server",
        "puma",
        "--quiet",
        "--env",
        "none",
        "--host",
        "127.0.0.1",
        "--port",
        "{port}",
        CONFIG,
    ]
    with served(puma() if server == "puma" else rackup, tmp_path, gem_home) as (port, _):
        answer: Answer = fetch(port, "/users")
        assert answer.queueing_delay > -0.01
        assert answer.headers["x-route"] == "/users/:id"
