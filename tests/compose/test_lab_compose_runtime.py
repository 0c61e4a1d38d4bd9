"""Scenarios with their parts in containers: what they measure, and that they leave nothing behind.

The configuration of a project is tested anywhere. The rest needs a Docker engine with compose and the images of
docker-compose.yml (`docker compose build`); it is skipped, and says why, where one is missing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sojourn_lab.errors import LabError
from sojourn_lab.runtime.compose import ComposeRuntime, why_not_in_containers
from sojourn_lab.runtime.compose.engine import (
    OWNER_LABEL,
    docker,
    engine_here,
    image_ids,
    image_of,
    owner_gone,
    owner_here,
    remove_leftovers,
)
from sojourn_lab.runtime.compose.nginx_conf import nginx_text
from sojourn_lab.runtime.compose.parts import parts_of
from sojourn_lab.runtime.compose.project import Place, project_text
from sojourn_lab.runtime.compose.runtime import user_inside
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.scenario.case import Action
from sojourn_lab.scenario.files import scenario_from_file, scenario_from_text, shipped_scenario_paths
from sojourn_lab.scenario.topology import Topology
from sojourn_lab.scenario.topology_parts import Dependency, Mirror, Pool, QueueRules

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[2]
PLACE = Place("sojourn-lab-x", Path("/runs/a $HOME/compose"), "1000:1000", "here|boot|1|2", processors=4)


def services_of(topology: Topology, *, sampled: bool = True, place: Place = PLACE) -> dict[str, Any]:
    services: dict[str, Any] = json.loads(project_text(place, parts_of(topology), sampled=sampled))["services"]
    return services


# ---- The configuration of a project


def test_every_container_is_confined_and_says_whose_it_is() -> None:
    topology = Topology(backends=2, standby=1, workers=3, pools=[Pool("slow", ["/slow"], workers=2)])
    services = services_of(topology)
    apps = ["backend-1", "backend-2", "backend-3", "slow-1"]
    assert set(services) == {"nginx", *apps, "listen-nginx", *(f"listen-{app}" for app in apps)}
    for name, service in services.items():
        assert service["read_only"], name
        assert service["user"] == "1000:1000", name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert 0 < service["cpus"] <= 4, name
        assert int(service["mem_limit"].removesuffix("m")) <= 1024, name
        assert service["labels"] == {OWNER_LABEL: PLACE.owner}, name
        assert all(port.startswith("127.0.0.1::") for port in service.get("ports", [])), (
            "no name but this machine's own"
        )
    assert services["nginx"]["depends_on"].keys() == set(apps)
    assert services["listen-slow-1"]["network_mode"] == "service:slow-1"
    assert set(services_of(topology, sampled=False)) == {"nginx", *apps}


def test_a_server_gets_the_settings_of_the_scenario() -> None:
    lifo = Topology(backends=1, server="queue", workers=3, backlog=9, discipline="lifo", rules=QueueRules(capacity=5))
    command = services_of(lifo)["backend-1"]["entrypoint"]
    for option, value in (("--workers", "3"), ("--backlog", "9"), ("--discipline", "lifo"), ("--capacity", "5")):
        assert command[command.index(option) + 1] == value
    slow = services_of(Topology(backends=2, slowdown=[1.0, 2.5]))
    assert "LAB_SLOWDOWN" not in slow["backend-1"]["environment"]
    assert slow["backend-2"]["environment"]["LAB_SLOWDOWN"] == "2.5"
    assert services_of(Topology(backlog=9000))["backend-1"]["sysctls"]["net.core.somaxconn"] == "9000"


def test_nginx_gets_the_same_configuration_as_with_processes_and_the_idle_addresses() -> None:
    topology = Topology(
        backends=2, standby=1, nginx_workers=2, balancer="least_conn", connection_cap=7, pools=[Pool("slow", ["/slow"])]
    )
    parts = parts_of(topology)
    first = parts.main.upstreams
    text = nginx_text(parts.main, parts, first)
    assert first.own == ["backend-1:8000", "backend-2:8000"]
    assert "worker_processes 2;" in text
    assert "server backend-2:8000 max_conns=7;" in text
    assert "server backend-3:8000" not in text, "it stands by"
    assert "server backend-3:8000" in nginx_text(parts.main, parts, first.after(Action(0.0, "add_backend")))
    assert "/slow lab_pool_slow;" in text
    assert all(f"location = /ready/{app.name} {{" in text for app in parts.apps)


def test_compose_itself_takes_it_and_reads_no_variable_in_a_path(tmp_path: Path) -> None:
    try:
        docker("compose", "version")
    except LabError as error:
        pytest.skip(str(error))
    topology = Topology()
    file = tmp_path / "compose.yaml"
    file.write_text(project_text(PLACE, parts_of(topology), sampled=True))
    read = json.loads(docker("compose", "--file", str(file), "config", "--format", "json"))
    sources = {mount["source"].rpartition("/")[0] for mount in read["services"]["nginx"]["volumes"]}
    assert {source.replace("$$", "$") for source in sources} == {"/runs/a $HOME/compose"}
    assert read["networks"]["web"]["internal"]


def test_its_images_are_those_that_docker_compose_yml_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    for part in ("app", "nginx", "tools"):
        monkeypatch.delenv(f"SOJOURN_{part.upper()}_IMAGE", raising=False)
        assert f"image: {image_of(part)}\n" in text
    monkeypatch.setenv("SOJOURN_APP_IMAGE", "registry.example/app:7")
    assert image_of("app") == "registry.example/app:7"


def test_no_container_is_root_on_the_machine() -> None:
    assert user_inside(1000, 100, rootless=False) == (1000, 100)
    assert 0 not in user_inside(0, 0, rootless=False)
    assert user_inside(1000, 100, rootless=True) == (0, 0), "a rootless engine's root is user 1000"


def test_only_what_a_process_of_this_host_left_is_left_over() -> None:
    mine = owner_here()
    host, boot, pid, start = mine.split("|")
    assert not owner_gone(mine)
    assert owner_gone(f"{host}|{boot}|{pid}|{int(start) + 1}"), "another process had this number"
    assert owner_gone(f"{host}|another boot|{pid}|{start}")
    assert not owner_gone(f"elsewhere|{boot}|1|1"), "another machine's: it may use the same engine"
    assert not owner_gone("")


SMALL = """
name = "contained"
title = "t"
question = "q"
shows = "s"
seed = 11
duration = 4.0
timeout = 20.0
TOPOLOGY
[[cases]]
name = "c8"
service_time = 0.15
load = {kind = "closed", concurrency = 8}
"""


def scenario(topology: str = "", old: str = "", new: str = "") -> Any:
    return scenario_from_text(SMALL.replace("TOPOLOGY", topology).replace(old, new), "x")


def test_rejects_parts_without_container_before_the_start() -> None:
    assert why_not_in_containers(scenario()) is None
    refused = why_not_in_containers(scenario('[topology]\nserver = "unicorn"'))
    assert refused is not None
    assert "no image of the lab contains unicorn" in refused
    own = why_not_in_containers(
        scenario('[topology]\ncommand = "run {port}"', "service_time = 0.15", 'paths = {"/" = 1}')
    )
    assert own is not None
    assert "processes of this machine" in own
    shipped = {path.stem: why_not_in_containers(scenario_from_file(path)) for path in shipped_scenario_paths()}
    assert shipped["benchmark"] is None
    for name in ("websocket", "grpc-pinning", "collector"):
        assert f"`docker compose run --rm lab run {name}`" in (shipped[name] or "")


# ---- Without an engine, or without images


def test_names_missing_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="docker is not installed"):
        engine_here()
    fake = tmp_path / "docker"
    fake.write_text("#!/bin/sh\necho \"docker: 'compose' is not a docker command.\" >&2; exit 1\n")
    fake.chmod(0o755)
    with pytest.raises(LabError, match="no compose plugin"):
        engine_here()
    fake.write_text(
        '#!/bin/sh\n[ "$1" = compose ] && echo 2.30 && exit\necho "Cannot connect to the daemon" >&2; exit 1\n'
    )
    with pytest.raises(LabError, match=r"no Docker engine is running .*Cannot connect"):
        engine_here()


@pytest.fixture
def engine() -> None:
    try:
        engine_here()
        image_ids([image_of(part) for part in ("app", "nginx", "tools")])
    except LabError as error:
        pytest.skip(f"no containers here: {error}")


def left_in_engine(folder: Path | None = None) -> list[str]:
    """The containers and networks of runs of this process, or of any where `folder` is given."""
    label = f"label={OWNER_LABEL}" if folder is not None else f"label={OWNER_LABEL}={owner_here()}"
    listed = docker("ps", "--all", "--format", "{{.Names}}", "--filter", label)
    listed += docker("network", "ls", "--format", "{{.Name}}", "--filter", label)
    return [name for name in listed.split() if folder is None or project_in(folder) in name]


def project_in(folder: Path) -> str:
    (file,) = folder.glob("**/compose/compose.yaml")
    name: str = json.loads(file.read_text())["name"]
    return name


def eventually(holds: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.1)


def runtime_in(folder: Path, topology: Topology) -> ComposeRuntime:
    return ComposeRuntime(topology, folder, folder / "logs", Interrupts())


@pytest.mark.usefixtures("engine")
def test_an_image_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_NGINX_IMAGE", "sojourn-nginx:of-nowhere")
    with pytest.raises(LabError, match="no image sojourn-nginx:of-nowhere: `docker compose build`"):
        runtime_in(tmp_path, Topology()).__enter__()
    assert left_in_engine() == []


@pytest.mark.usefixtures("engine")
def test_a_broken_image_is_one_clear_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # nginx's image has no gunicorn: that container cannot start.
    monkeypatch.setenv("SOJOURN_APP_IMAGE", image_of("nginx"))
    with pytest.raises(LabError, match="gunicorn") as broken:
        runtime_in(tmp_path, Topology(backends=1)).__enter__()
    assert "\n" not in str(broken.value)
    assert left_in_engine() == []


@pytest.mark.usefixtures("engine")
def test_an_app_that_ends_is_said_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = tmp_path / "backend"
    app.mkdir()
    (app / "app.py").write_text("raise RuntimeError('no app today')\n")
    target = "sojourn_lab.runtime.compose.shared_folders.resource_file"
    monkeypatch.setattr(target, lambda name, *_: app if name == "backend" else ROOT / name)
    with pytest.raises(LabError, match="the container of backend-1 ended with exit code"):
        runtime_in(tmp_path, Topology(backends=1)).__enter__()
    assert "no app today" in (tmp_path / "logs" / "containers.log").read_text()
    assert left_in_engine() == []


# ---- With one


@pytest.mark.usefixtures("engine")
def test_a_request_goes_through_every_container_and_leaves_its_traces(tmp_path: Path) -> None:
    topology = Topology(
        backends=1,
        standby=1,
        server="queue",
        discipline="lifo",
        slowdown=[1.0, 2.0],
        pools=[Pool("slow", ["/slow"])],
        backlog=33,
    )

    def status_of(path: str) -> None:
        request = urllib.request.Request(runtime.url + path, headers={"X-Lab-Case": "c-x"})
        with urllib.request.urlopen(request, timeout=10.0) as answer:
            assert answer.status == 200
            assert answer.headers["X-Queueing-Delay"] is None, "nginx strips it"

    with runtime_in(tmp_path, topology) as runtime:
        for path in ("/sleep/0.01", "/sleep/0.01?route=/slow", "/sleep/0.01"):
            status_of(path)
        runtime.perform(Action(0.0, "add_backend"))
        for _ in range(4):
            status_of("/sleep/0.1")
        runtime.settle(deadline=10.0)
    assert left_in_engine() == []
    rows = [json.loads(line) for line in runtime.access_log.read_text().splitlines()]
    assert [row["service"] for row in rows] == ["c-x"] * 7, "what the lab asks itself is in no log"
    own, pool = rows[0]["upstream_addr"], rows[1]["upstream_addr"]
    assert rows[2]["upstream_addr"] == own != pool
    after = [row["upstream_addr"] for row in rows[3:]]
    assert after.count(own) == 2, "the second backend gets every other one"
    by_new = [float(row["service_time"]) for row in rows[3:] if row["upstream_addr"] != own]
    assert all(seconds >= 0.2 for seconds in by_new), "and is twice as slow"
    spans = {each.name: each.spans.read_text().count("\n") for each in runtime.backends if each.spans is not None}
    assert spans == {"backend-1": 4, "backend-2": 2, "slow-1": 1}
    samples = [json.loads(line) for line in runtime.listen_log.read_text().splitlines()]
    limits = {sample["socket"]: sample["limit"] for sample in samples}
    assert limits == {"nginx": 511, "backend-1": 33, "backend-2": 33, "slow-1": 33}
    assert [sample["time"] for sample in samples] == sorted(sample["time"] for sample in samples)
    assert runtime.versions["nginx"] != "unknown"
    assert runtime.versions[f"image {image_of('app')}"].startswith("sha256:")
    assert min(runtime.spin_up, runtime.tear_down) > 0.0


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "sojourn_lab", "run", *arguments, "--quiet"]


@pytest.mark.usefixtures("engine")
def test_tiers_behind_and_beside_have_containers_too(tmp_path: Path) -> None:
    """A request asks the dependency, whose app servers share a lock, and a copy of it goes to the dark ones."""
    topology = Topology(backends=1, dependency=Dependency(backends=2, lock=True), mirror=Mirror(100.0, slowdown=2.0))
    with runtime_in(tmp_path, topology) as runtime:

        def status_of(_: int) -> int:
            request = urllib.request.Request(f"{runtime.url}/sleep/0.01?dependency=0.1", headers={"X-Lab-Case": "c"})
            with urllib.request.urlopen(request, timeout=10.0) as answer:
                answer.read()
                return int(answer.status)

        assert [status_of(n) for n in range(3)] == [200] * 3
        runtime.settle(deadline=10.0)
        runtime.perform(Action(0.0, "mirror", 0.0))
        assert status_of(3) == 200
        runtime.settle(deadline=10.0)
    assert left_in_engine() == []
    files = ("access.jsonl", "dependency.jsonl", "dark.jsonl")
    logs = {name: (tmp_path / name).read_text().splitlines() for name in files}
    assert [len(lines) for lines in logs.values()] == [4, 4, 3], "the last was not copied"
    rows, copies = ([json.loads(line) for line in logs[name]] for name in ("access.jsonl", "dark.jsonl"))
    assert {row["request_id"] for row in copies} == {row["request_id"] for row in rows[:3]}
    assert all(float(row["service_time"]) >= 0.02 for row in copies)
    assert all(float(row["service_time"]) >= 0.11 for row in rows), "to the app the other tier is its own work"
    answers = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert len(answers) == 4
    assert len((tmp_path / "dark-answers.jsonl").read_text().splitlines()) == 3


@pytest.mark.usefixtures("engine")
def test_containers_measure_what_processes_measure_and_the_law_says(tmp_path: Path) -> None:
    """Closed loop, eight users, two workers: the wait is N·S/2 - S, three times the service time."""
    (tmp_path / "contained.toml").write_text(SMALL.replace("TOPOLOGY", ""))
    values = {}
    for kind in ("process", "compose"):
        to = tmp_path / kind
        done = subprocess.run(
            [*command(str(tmp_path / "contained.toml")), "--runtime", kind, "--out", str(to), "--json", "--once"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        values[kind] = json.loads(done.stdout)
        assert values[kind]["runtime"] == kind
        assert values[kind]["faults"] == []
    assert left_in_engine(tmp_path / "compose") == []
    if any(run["void"] for run in values.values()):
        pytest.skip("the machine is too busy to compare the two runtimes: a run called itself void")
    waits = {kind: run["cases"][0]["split"]["components"]["queueing_delay"]["mean"] for kind, run in values.items()}
    (case,) = values["compose"]["cases"]
    assert case["law"]["queueing_delay"] == pytest.approx(0.45)
    assert waits["compose"] == pytest.approx(0.45, rel=0.1)
    assert waits["compose"] == pytest.approx(waits["process"], rel=0.1)
    assert case["client"]["failed"] == 0
    assert case["split"]["audit"]["identity_max_error"] < 1e-6
    assert {depth["socket"] for depth in case["listen"]} == {"nginx", "backend-1", "backend-2"}
    assert max(depth["deepest"] for depth in case["listen"]) >= 2
    assert values["compose"]["rows"]["spans"] == values["compose"]["rows"]["access"]


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run whose containers are being made."""
    (tmp_path / "contained.toml").write_text(SMALL.replace("TOPOLOGY", "").replace("4.0", "60.0"))
    lab = subprocess.Popen(
        [*command(str(tmp_path / "contained.toml")), "--runtime", "compose", "--out", str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        logs = tmp_path / "run.partial" / "logs"
        eventually(lambda: (logs / "compose-up.err").exists() or lab.poll() is not None, 60.0, "compose to begin")
        eventually(lambda: left_in_engine(tmp_path) or lab.poll() is not None, 60.0, "the first network")
        assert lab.poll() is None, lab.communicate()
        yield lab
    finally:
        lab.kill()
        lab.communicate()


@pytest.fixture
def running(starting: subprocess.Popen[str], tmp_path: Path) -> subprocess.Popen[str]:
    """A run in containers in the middle of its one case."""
    shared = tmp_path / "run.partial" / "compose"

    def answering() -> bool:
        # The generator says that it begins before it sends anything.
        return any(len(log.read_bytes().splitlines()) > 1 for log in shared.rglob("access.jsonl"))

    eventually(lambda: answering() or starting.poll() is not None, 60.0, "requests to be answered")
    assert starting.poll() is None, starting.communicate()
    assert len(left_in_engine(tmp_path)) == 8, "nginx, two apps, their samplers and two networks"
    return starting


@pytest.mark.usefixtures("engine")
def test_an_interrupt_in_the_middle_of_the_start_leaves_nothing(
    starting: subprocess.Popen[str], tmp_path: Path
) -> None:
    starting.send_signal(signal.SIGINT)
    _, output = starting.communicate(timeout=60.0)
    assert starting.returncode == 128 + signal.SIGINT
    assert "everything is down" in output
    assert left_in_engine(tmp_path) == []


@pytest.mark.usefixtures("engine")
def test_a_lab_killed_in_the_middle_of_the_start_leaves_nothing(
    starting: subprocess.Popen[str], tmp_path: Path
) -> None:
    starting.kill()
    starting.wait(timeout=10.0)

    def quiet() -> bool:
        # Twice: what a container is made of may still be on its way.
        seen = left_in_engine(tmp_path)
        time.sleep(2.0)
        return not seen and not left_in_engine(tmp_path)

    eventually(quiet, 60.0, "the keeper to remove what there is")


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(running: subprocess.Popen[str], number: signal.Signals, tmp_path: Path) -> None:
    running.send_signal(number)
    _, output = running.communicate(timeout=60.0)
    assert running.returncode == 128 + number
    assert "everything is down" in output
    assert left_in_engine(tmp_path) == []
    logged = (tmp_path / "run.partial" / "access.jsonl").read_text().splitlines()
    assert len(logged) > 1, "what was measured is still there"


@pytest.mark.usefixtures("engine")
def test_a_killed_lab_leaves_nothing(running: subprocess.Popen[str], tmp_path: Path) -> None:
    running.kill()
    running.wait(timeout=10.0)
    eventually(lambda: left_in_engine(tmp_path) == [], 60.0, "the keeper to remove the containers")


@pytest.mark.usefixtures("engine")
def test_removes_containers_of_an_earlier_lab() -> None:
    host, boot, *_ = owner_here().split("|")
    gone = f"{host}|{boot}|{os.getpid()}|1"
    project = f"sojourn-lab-test{os.getpid()}"
    labels = ["--label", f"com.docker.compose.project={project}"]
    docker("network", "create", *labels, "--label", f"{OWNER_LABEL}={gone}", f"{project}_web")
    try:
        docker("create", *labels, "--label", f"{OWNER_LABEL}={gone}", "--name", project, image_of("nginx"))
        assert remove_leftovers() == [project]
        listed = docker("ps", "--all", "--quiet", "--filter", f"name={project}")
        assert listed + docker("network", "ls", "--quiet", "--filter", f"name={project}") == ""
    finally:
        subprocess.run(["docker", "rm", "--force", project], capture_output=True, check=False)
        subprocess.run(["docker", "network", "rm", f"{project}_web"], capture_output=True, check=False)
