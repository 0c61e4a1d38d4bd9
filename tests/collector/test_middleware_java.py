"""The Java middleware: its own tests by Maven, with the shared tables, and real servers with one and two threads."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from collector_support import (
    CASES,
    Answer,
    assert_queued,
    assert_x_request_start_decides,
    eventually,
    fetch,
    fetch_parallel,
    stamp_now,
)
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.java import compiled, tomcat_jars, tomcat_missing

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "collector" / "middleware" / "java"
BUILD = ROOT / ".tools" / "middleware-java"
ANSWERS = json.loads((ROOT / "tests" / "vectors" / "answer_headers.json").read_text())["cases"]
METRICS = json.loads((ROOT / "tests" / "vectors" / "prometheus.json").read_text())["cases"]
SERVICE_S = 0.15
MAVEN_DEADLINE_S = 200.0
PACKAGES_MISSING = re.compile(
    r"offline mode|not been downloaded|Could not (?:resolve|transfer|find artifact)|Unknown host"
)


@dataclass(frozen=True)
class Report:
    """Results of Maven's run: the failure's text by class and test, empty if the test has passed or was skipped."""

    failures: dict[tuple[str, str], str]

    def of(self, name: str, test: str) -> str:
        """The failure of one test; it must have run."""
        assert (name, test) in self.failures, f"{name} has no test {test!r}"
        return self.failures[name, test]


def maven(*options: str) -> subprocess.CompletedProcess[str]:
    shutil.rmtree(BUILD / "surefire-reports", ignore_errors=True)
    command = ["mvn", "--batch-mode", "--no-transfer-progress", "-f", str(PROJECT), f"-Dsojourn.build={BUILD}"]
    return subprocess.run(
        [*command, *options, "test"],
        capture_output=True, text=True, check=False, timeout=MAVEN_DEADLINE_S,
        env={**os.environ, "MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def report() -> Report:
    """The package's own tests, run once; from the local repository of Maven, or else once with the registry."""
    for program in ("mvn", "javac"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    done = maven("--offline")
    files = list(BUILD.glob("surefire-reports/TEST-*.xml"))
    if not files and PACKAGES_MISSING.search(done.stdout):
        done = maven()
        files = list(BUILD.glob("surefire-reports/TEST-*.xml"))
        if not files and PACKAGES_MISSING.search(done.stdout):
            pytest.skip("Maven could not fetch the libraries of the tests")
    assert files, done.stdout[-8000:] + done.stderr
    failures = {}
    for file in files:
        for case in ElementTree.parse(file).getroot().iter("testcase"):
            problems = [*case.findall("failure"), *case.findall("error")]
            name = case.attrib["classname"].rpartition(".")[2]
            failures[name, case.attrib["name"]] = "\n".join(each.text or "" for each in problems)
    # Maven fails for a reason of its own, such as a JVM that has ended early, with no failed test.
    assert done.returncode == 0 or any(failures.values()), done.stdout[-8000:]
    return Report(failures)


@pytest.mark.parametrize("name", [case["name"] for case in CASES])
def test_reads_stamp_by_the_table(report: Report, name: str) -> None:
    assert report.of("StampTableTest", f"readsStamp(Case) {name}") == ""


@pytest.mark.parametrize("name", [case["name"] for case in ANSWERS])
def test_sets_headers_by_the_table(report: Report, name: str) -> None:
    for test in ("setsHeadersInTomcat", "setsHeadersInHttpServer"):
        assert report.of("AnswerTableTest", f"{test}(Case) {name}") == ""


@pytest.mark.parametrize("name", [case["name"] for case in METRICS])
def test_exports_metrics_by_the_table(report: Report, name: str) -> None:
    for test in ("exportsMetricsInTomcat", "exportsMetricsInHttpServer"):
        assert report.of("PrometheusTableTest", f"{test}(Case) {name}") == ""
    assert report.of("PrometheusTableTest", "helpTextsAndKindsAreThoseOfTheTable") == ""


@pytest.mark.parametrize(
    "name",
    [
        *("HttpServerTest", "IsolationTest", "JettyTest", "PrometheusTest", "ReadmeTest", "SojournFilterTest"),
        *("SpringBootTest", "TelemetryTest", "TomcatTest", "WebXmlTest", "WorkerNumbersTest"),
    ],
)
def test_own_tests_pass(report: Report, name: str) -> None:
    results = {test: failure for (each, test), failure in report.failures.items() if each == name}
    assert results
    assert {test: failure for test, failure in results.items() if failure} == {}


def test_every_class_of_tests_is_run(report: Report) -> None:
    classes = {file.stem for file in PROJECT.glob("src/test/java/**/*Test.java")} - {"ContainerTest"}
    assert {name for name, _ in report.failures} == classes


@pytest.fixture(scope="module")
def class_paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The class paths of the lab's two servers in Java, compiled with the sources of the package."""
    if (reason := tomcat_missing()) is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("classes")
    jars = {"App": [], "TomcatApp": tomcat_jars()}
    sources = {program: resource_file("backend", f"{program}.java") for program in jars}
    return {program: compiled(sources[program], folder / program, jars[program]) for program in jars}


@contextmanager
def server(program: str, class_path: str, threads: int, folder: Path) -> Iterator[tuple[int, Process]]:
    """A server with a number of threads; it binds a free port of its own and writes it to a file."""
    file = folder / "port"
    command = ["java", "-Dsun.net.httpserver.nodelay=true", "-cp", class_path, program, str(threads), "100", str(file)]
    with Process(command, name="server", folder=folder) as process:
        eventually(file.exists, f"{program} to bind a port")
        port = int(file.read_text())
        # The first requests pay for classes that are loaded late.
        for _ in range(threads):
            fetch(port, "/sleep/0")
        yield port, process


def assert_workers(answers: list[Answer], pid: int, threads: int) -> None:
    assert {answer.headers["x-worker"] for answer in answers} == {f"{pid}.{number + 1}" for number in range(threads)}
    assert {answer.headers["x-route"] for answer in answers} == {"/sleep/{seconds}"}


@pytest.mark.parametrize("program", ["App", "TomcatApp"])
def test_one_thread_serves_one_request_after_the_other(
    program: str, class_paths: dict[str, str], tmp_path: Path
) -> None:
    with server(program, class_paths[program], 1, tmp_path) as (port, process):
        answers = fetch_parallel(port, f"/sleep/{SERVICE_S}", 4)
        assert_queued(answers, SERVICE_S)
        assert_workers(answers, process.pid, 1)
        assert_x_request_start_decides(port)
        repeated = fetch(port, "/sleep/abc", {"X-Request-Start": f"{stamp_now()}, {stamp_now()}"})
        assert repeated.status == 400
        assert "x-queueing-delay" not in repeated.headers
        assert "x-worker" not in fetch(port, "/ready").headers


def test_two_threads_of_tomcat_serve_two_requests_at_once(class_paths: dict[str, str], tmp_path: Path) -> None:
    with server("TomcatApp", class_paths["TomcatApp"], 2, tmp_path) as (port, process):
        answers = fetch_parallel(port, f"/sleep/{SERVICE_S}", 4)
        assert_queued(answers, SERVICE_S, at_once=2)
        assert_workers(answers, process.pid, 2)
