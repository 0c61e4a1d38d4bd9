"""The Go middleware: its modules' own tests, the README followed literally, and a real net/http server."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from collector_support import (
    CASES,
    SLACK_S,
    assert_queued,
    assert_x_request_start_decides,
    eventually,
    fetch,
    fetch_parallel,
    served,
)
from prometheus_client.parser import text_string_to_metric_families
from sojourn_lab.runtime.process import Process

MODULE = Path(__file__).parents[2] / "collector" / "middleware" / "go"
APP = Path(__file__).parent / "go" / "main.go"
README = (MODULE / "README.md").read_text("utf-8")
PROGRAMS = dict(re.findall(r"^```go\n// (\S+): main\.go\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))
COMMANDS = dict(re.findall(r"^```sh\n# ([^\n]+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))
ANSWERS = json.loads((Path(__file__).parents[1] / "vectors" / "answer_headers.json").read_text("utf-8"))["cases"]
IN_PROGRESS = json.loads((Path(__file__).parents[1] / "vectors" / "prometheus.json").read_text("utf-8"))["in_progress"]
OLDEST = (1, 22)
SERVICE_S = 0.15
# Without a cache of earlier builds, Go compiles its standard library first.
BUILD_DEADLINE_S = 200
OFFLINE = {"GOPROXY": "off"}
# Without a C compiler, the standard library is built in less time.
PURE = {"CGO_ENABLED": "0"}


def go(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None, deadline_s: float = BUILD_DEADLINE_S
) -> subprocess.CompletedProcess[str]:
    """Run go with the settings of a user who has none."""
    usual = {"GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off", "GO111MODULE": "", **PURE}
    return subprocess.run(
        ["go", *arguments],
        cwd=folder,
        env={**os.environ, **usual, **(env or {})},
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )


@pytest.fixture(scope="module", autouse=True)
def version() -> tuple[int, int]:
    """The version of Go; the tests are skipped without one that is new enough."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    text = go(MODULE.parent, "env", "GOVERSION").stdout.strip()
    match = re.match(r"go(\d+)\.(\d+)", text)
    numbers = (int(match[1]), int(match[2])) if match else (0, 0)
    if numbers < OLDEST:
        pytest.skip(f"{text or 'go'} is older than Go {OLDEST[0]}.{OLDEST[1]}")
    return numbers


@dataclass
class Outcome:
    """The result of one Go test, `pass`, `fail` or `skip`, and its output."""

    result: str = "unfinished"
    output: list[str] = field(default_factory=list)


def outcomes(folder: Path, *options: str, env: Mapping[str, str] | None = None) -> dict[str, Outcome]:
    """Run the tests of a module once. The tests and subtests by name, in the order of their start."""
    done = go(folder, "test", "-json", "-count=1", "-vet=off", *options, "./...", env=env)
    results: dict[str, Outcome] = {}
    other: list[str] = []
    for line in done.stdout.splitlines():
        event = json.loads(line)
        if "Test" not in event:
            other.append(event.get("Output", ""))
            continue
        outcome = results.setdefault(event["Test"], Outcome())
        if event["Action"] in {"pass", "fail", "skip"}:
            outcome.result = event["Action"]
        outcome.output.append(event.get("Output", ""))
    assert results, done.stderr + "".join(other)
    return results


@pytest.fixture(scope="module")
def core() -> dict[str, Outcome]:
    """The module's tests."""
    return outcomes(MODULE)


def subtests(results: Mapping[str, Outcome], test: str) -> list[Outcome]:
    return [outcome for name, outcome in results.items() if name.startswith(f"{test}/")]


def assert_passed(outcome: Outcome) -> None:
    assert outcome.result == "pass", "".join(outcome.output)


def assert_all_passed(results: Mapping[str, Outcome]) -> None:
    failed = {name: "".join(outcome.output) for name, outcome in results.items() if outcome.result != "pass"}
    assert failed == {}


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case["name"] for case in CASES])
def test_table(core: dict[str, Outcome], index: int) -> None:
    cases = subtests(core, "TestStampTable")
    assert len(cases) == len(CASES)
    assert_passed(cases[index])


@pytest.mark.parametrize("index", range(len(ANSWERS)), ids=[case["name"] for case in ANSWERS])
def test_headers_of_the_response(core: dict[str, Outcome], index: int) -> None:
    cases = subtests(core, "TestAnswerTable")
    assert len(cases) == len(ANSWERS)
    assert_passed(cases[index])


def test_module(core: dict[str, Outcome], version: tuple[int, int]) -> None:
    skipped = {name for name, outcome in core.items() if outcome.result == "skip"}
    assert skipped <= (set() if version >= (1, 23) else {"TestPatternReachesMiddlewaresOutside"})
    assert_all_passed({name: outcome for name, outcome in core.items() if name not in skipped})


@pytest.mark.thorough
def test_module_has_no_races() -> None:
    if shutil.which("gcc") is None and shutil.which("clang") is None:
        pytest.skip("the race detector needs a C compiler")
    results = outcomes(MODULE, "-race", env={"CGO_ENABLED": "1"})
    assert_all_passed({name: outcome for name, outcome in results.items() if outcome.result != "skip"})


def test_code_is_formatted_and_vetted() -> None:
    done = go(MODULE, "vet", "./...")
    assert done.returncode == 0, done.stderr
    files = [str(file) for file in (*MODULE.rglob("*.go"), APP)]
    formatted = subprocess.run(["gofmt", "-l", *files], capture_output=True, text=True, timeout=60, check=False)
    assert (formatted.returncode, formatted.stdout) == (0, "")


@pytest.mark.thorough
def test_parser_of_stamps_agrees_with_its_reference() -> None:
    done = go(MODULE, "test", "-run", "^$", "-fuzz", "^FuzzStamp$", "-fuzztime", "100000x", "-parallel", "1", ".")
    assert done.returncode == 0, done.stdout


@cache
def why_not_downloaded(name: str) -> str | None:
    """Download what a nested module depends on, unless Go has it already. Return why that failed."""
    try:
        done = go(MODULE / name, "mod", "download", deadline_s=60)
    except subprocess.TimeoutExpired as error:
        return str(error)
    return done.stderr.strip()[-300:] if done.returncode else None


def nested(name: str) -> Path:
    """Return the folder of a nested module; the test is skipped if what it depends on cannot be downloaded."""
    if (reason := why_not_downloaded(name)) is not None:
        pytest.skip(f"the modules that {name} depends on cannot be downloaded: {reason}")
    return MODULE / name


FRAMEWORKS = pytest.param("frameworks", marks=pytest.mark.thorough)  # to build them takes longer than all others


@pytest.mark.parametrize("name", ["otel", FRAMEWORKS])
def test_nested_module(name: str) -> None:
    assert_all_passed(outcomes(nested(name)))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["otel", "frameworks"])
def test_nested_module_is_vetted(name: str) -> None:
    done = go(nested(name), "vet", "./...")
    assert done.returncode == 0, done.stderr


# ---- The README


def test_every_block_of_the_readme_is_known() -> None:
    assert set(PROGRAMS) == {"net/http", "chi", "gin", "echo", "gauge", "otel"}
    assert set(COMMANDS) == {"install", "install with OpenTelemetry"}
    assert README.count("```go\n") + README.count("```sh\n") == len(PROGRAMS) + len(COMMANDS)


def test_options_of_the_table_are_the_options_there_are() -> None:
    documented = re.findall(r"^\| `(\w+)\(", README, re.MULTILINE)
    source = "".join(file.read_text("utf-8") for file in MODULE.glob("*.go") if not file.name.endswith("_test.go"))
    assert sorted(documented) == sorted(re.findall(r"^func ([A-Z]\w*)\(.*\) Option \{", source, re.MULTILINE))


def new_module(folder: Path, program: str, commands: str, env: Mapping[str, str]) -> Path:
    """Follow the README in a new module: its commands, with this checkout, and its program. Return the executable."""
    assert go(folder, "mod", "init", "shop").returncode == 0
    (folder / "main.go").write_text(program)
    for line in commands.splitlines():
        program_name, *arguments = line.replace("../sojourn/collector/middleware/go", str(MODULE)).split(" ")
        assert program_name == "go"
        done = go(folder, *arguments, env=env)
        assert done.returncode == 0, done.stderr
    done = go(folder, "build", "-o", "shop", ".", env=env)
    assert done.returncode == 0, done.stderr
    return folder / "shop"


def serves_the_readme(executable: Path, folder: Path, route: str | None, worker: str) -> None:
    with served([str(executable), "{port}"], folder) as (port, _):
        answer = fetch(port, "/users/7")
    assert answer.status == 200
    assert -0.01 < answer.queueing_delay < SLACK_S
    assert 0 <= answer.service_time < SLACK_S
    assert re.fullmatch(worker, answer.headers["x-worker"])
    assert answer.headers.get("x-route") == route


def on_a_free_port(program: str) -> str:
    """The program, with a port from its arguments; otherwise as it is."""
    address = '"127.0.0.1:8000"'
    assert program.count(address) == 1
    return program.replace(address, '"127.0.0.1:"+os.Args[1]').replace("import (\n", 'import (\n\t"os"\n', 1)


def test_install_without_a_network(tmp_path: Path, version: tuple[int, int]) -> None:
    executable = new_module(tmp_path, on_a_free_port(PROGRAMS["net/http"]), COMMANDS["install"], OFFLINE)
    serves_the_readme(executable, tmp_path, "/users/{id}" if version >= (1, 23) else None, r"\d+\.[1-8]")


def test_gauge_of_the_readme(tmp_path: Path) -> None:
    executable = new_module(tmp_path, on_a_free_port(PROGRAMS["gauge"]), COMMANDS["install"], OFFLINE)
    with served([str(executable), "{port}"], tmp_path) as (port, _):
        assert fetch(port, "/users/7").body == b"user 7\n"
        metrics = fetch(port, "/metrics")
    name, labels, value = IN_PROGRESS["name"], {"service": "shop"}, 0
    (family,) = text_string_to_metric_families(metrics.body.decode())
    assert (family.name, family.type, family.documentation) == (name, IN_PROGRESS["kind"], IN_PROGRESS["help"])
    assert [(sample.name, sample.labels, sample.value) for sample in family.samples] == [(name, labels, value)]


def test_install_with_opentelemetry(tmp_path: Path, version: tuple[int, int]) -> None:
    nested("otel")
    commands = COMMANDS["install with OpenTelemetry"]
    executable = new_module(tmp_path, on_a_free_port(PROGRAMS["otel"]), commands, {})
    serves_the_readme(executable, tmp_path, "/users/{id}" if version >= (1, 23) else None, r"\d+")


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "route"), [("chi", "/users/{id}"), ("gin", "/users/:id"), ("echo", "/users/:id")])
def test_programs_of_the_readme(name: str, route: str, tmp_path: Path) -> None:
    frameworks = nested("frameworks")
    requirements = (frameworks / "go.mod").read_text()
    (tmp_path / "go.mod").write_text(requirements.replace("=> ../", f"=> {MODULE}/"))
    shutil.copy(frameworks / "go.sum", tmp_path)
    (tmp_path / "main.go").write_text(on_a_free_port(PROGRAMS[name]))
    done = go(tmp_path, "build", "-o", "shop", ".")
    assert done.returncode == 0, done.stderr
    serves_the_readme(tmp_path / "shop", tmp_path, route, r"\d+\.[1-8]")


# ---- A real server


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The app of these tests, built once."""
    folder = tmp_path_factory.mktemp("go")
    return new_module(folder, APP.read_text("utf-8"), COMMANDS["install"], OFFLINE)


@pytest.fixture(params=[1, 2])
def limited(request: pytest.FixtureRequest, executable: Path, tmp_path: Path) -> Iterator[tuple[int, int, Process]]:
    """The limit, the port and the process of a server."""
    limit = int(request.param)
    with served([str(executable), "127.0.0.1:{port}", str(limit)], tmp_path) as (port, process):
        yield limit, port, process


@pytest.fixture
def server(executable: Path, tmp_path: Path) -> Iterator[tuple[int, Process]]:
    """A server without a limit."""
    with served([str(executable), "127.0.0.1:{port}", "0"], tmp_path) as running:
        yield running


def test_requests_queue_for_places(limited: tuple[int, int, Process], version: tuple[int, int]) -> None:
    limit, port, process = limited
    fetch(port)
    answers = fetch_parallel(port, "/sleep", 4)
    assert_queued(answers, SERVICE_S, at_once=limit)
    workers = {answer.headers["x-worker"] for answer in answers}
    assert workers == {f"{process.pid}.{place}" for place in range(1, limit + 1)}
    route = "/sleep" if version >= (1, 23) else None
    assert {answer.headers.get("x-route") for answer in answers} == {route}


def test_requests_overlap_without_a_limit(server: tuple[int, Process]) -> None:
    port, process = server
    fetch(port)
    answers = fetch_parallel(port, "/sleep", 4)
    assert_queued(answers, SERVICE_S, at_once=4)
    assert {answer.headers["x-worker"] for answer in answers} == {str(process.pid)}


def test_responses(server: tuple[int, Process]) -> None:
    port, process = server
    assert fetch(port).body == b"hello"
    user = fetch(port, "/users/7")
    assert (user.status, user.headers["x-route"]) == (404, "/users/{id}")
    timing = re.fullmatch(r"queue;dur=(-?[0-9.]+), app;dur=([0-9.]+)", user.headers["server-timing"])
    assert timing is not None
    assert float(timing[1]) == pytest.approx(1000 * user.queueing_delay)
    assert float(timing[2]) == pytest.approx(1000 * user.service_time)
    lazy = fetch(port, "/lazy")
    assert lazy.body == b"one two"
    assert lazy.service_time < SERVICE_S
    head = fetch(port, method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert "x-queueing-delay" in head.headers
    assert "x-queueing-delay" not in fetch(port, headers={"X-Request-Start": "junk"}).headers
    with pytest.raises(http.client.RemoteDisconnected):
        fetch(port, "/panic")
    eventually(lambda: "exploded" in process.last_lines(60), "the server to log the panic")
    assert fetch(port).status == 200


def test_x_request_start_decides_under_net_http(server: tuple[int, Process]) -> None:
    assert_x_request_start_decides(server[0])
