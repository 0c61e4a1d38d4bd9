"""The parts of docker-compose.yml that are our own, really built, brought up and put under load.

Needs a Docker engine with compose, and an image debian:bookworm-slim to build from; skipped where one is missing.
The images of others (ClickHouse, Vector, Grafana) are not needed here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sojourn

ROOT = Path(__file__).parents[2]
BASE = os.environ.get("SOJOURN_BASE", "debian:bookworm-slim")
UP = ["nginx", "rotate", "listen-nginx", "listen-app1", "listen-app2"]


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
        return "no Docker engine answers"
    if docker("compose", "version", check=False).returncode or docker("buildx", "version", check=False).returncode:
        return "docker has no compose or buildx plugin"
    if docker("image", "inspect", BASE, check=False).returncode:
        return f"there is no image {BASE} to build from (docker pull {BASE})"
    return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Stack:
    """A compose project of its own name, gone with all its volumes afterwards."""

    def __init__(self, override: Path) -> None:
        self.name = f"sojourn-test-{os.getpid()}"
        self._files = ["-f", "docker-compose.yml", "-f", str(override)]
        # A small bound, so that a run of the test sees a rotation.
        self._env = {"SOJOURN_HTTP_PORT": str(free_port()), "SOJOURN_LOG_BYTES": "150000", "COMPOSE_BAKE": "false"}

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
    # Where the mirrors of a build are reached through the host, as behind a corporate proxy.
    built = {name: {"build": {"network": "host"}} for name in ("app1", "app2", "nginx", "prepare")}
    override.write_text(json.dumps({"services": built}))
    up = Stack(override)
    up("build", "--quiet")
    try:
        up("up", "--detach", "--no-build", *UP)
        yield up
    finally:
        up("--profile", "*", "down", "--volumes", "--timeout", "5", check=False)


def eventually(condition: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        with contextlib.suppress(Exception):
            time.sleep(0.2)


@pytest.mark.timeout(1500)
def test_what_compose_measures_is_the_law(stack: Stack, tmp_path: Path) -> None:
    """Closed loop, two workers, 0.1 s of work: R = N·S/2, so queueing is 0.1 s at 4 users and 0.3 s at 8.

    The process runtime is held to the same law by its own tests, so the two agree within the sum of the tolerances.
    """
    for users in ("4", "8"):
        stack(
            "run",
            "--rm",
            "--no-deps",
            "load",
            "--concurrency",
            users,
            "--duration",
            "8",
            "--name",
            f"c{users}",
            check=False,
        )
    folder = stack.logs_folder(tmp_path / "logs")
    result = sojourn.split([str(folder / "access.jsonl*")], by=["service"])
    assert result.records.rejected == 0
    means = {row["service"]: row["queueing_delay"]["p50"] for row in result.by["service"]}  # type: ignore[index]
    assert means["c4"] == pytest.approx(0.1, rel=0.25)
    assert means["c8"] == pytest.approx(0.3, rel=0.15)
    assert result.audit.identity_max_error < 1e-9
    assert result.audit.app_known == 1.0


@pytest.mark.timeout(600)
def test_queues_are_sampled_and_logs_rotated(stack: Stack, tmp_path: Path) -> None:
    stack("run", "--rm", "--no-deps", "load", "--concurrency", "12", "--duration", "15", check=False)

    def rotated() -> bool:
        return (stack.logs_folder(tmp_path / "logs") / "access.jsonl.1").exists()

    eventually(rotated, 30, "the log to rotate")
    folder = tmp_path / "logs"
    samples = [json.loads(line) for line in (folder / "listen-app1.jsonl").read_text().splitlines()]
    assert {sample["limit"] for sample in samples} == {64}
    assert max(sample["depth"] for sample in samples) >= 3, "twelve users, two workers: five wait at each app"
    served = sojourn.split([str(folder / "access.jsonl*")])
    assert served.records.rejected == 0


@pytest.mark.timeout(600)
def test_a_scenario_runs_in_the_lab(stack: Stack) -> None:
    done = stack("run", "--rm", "lab", "run", "benchmark", "--scale", "0.2", "--duration", "3", "--json", check=False)
    run = json.loads(done.stdout)
    assert run["void"] is False or "generator" in str(run["void_reasons"]), run["void_reasons"]
    assert len(run["cases"]) == 6
    listed = stack("run", "--rm", "--entrypoint", "ls", "lab", "/work/runs")
    assert listed.stdout.startswith("benchmark-")


@pytest.mark.timeout(600)
def test_passwords_are_made_once_and_for_those_who_need_them(stack: Stack) -> None:
    look = [
        "run",
        "--rm",
        "--entrypoint",
        "sh",
        "-T",
        "prepare",
        "-c",
        "cd /secrets && stat -c '%n %u %g %a %s' *; sha256sum /clickhouse-users/*.xml",
    ]
    stack("run", "--rm", "-T", "prepare")
    first = stack(*look).stdout
    rights = {
        name: (uid, gid, mode)
        for name, uid, gid, mode, _ in (line.split() for line in first.splitlines() if line.count(" ") == 4)
    }
    assert rights == {
        "clickhouse_admin": ("10003", "10003", "400"),
        "clickhouse_writer": ("10002", "10003", "440"),
        "clickhouse_reader": ("472", "10003", "440"),
        "grafana_admin": ("472", "0", "400"),
    }
    assert all(line.endswith(" 48") for line in first.splitlines() if line.count(" ") == 4)
    stack("run", "--rm", "-T", "prepare")
    assert stack(*look).stdout == first


@pytest.mark.timeout(600)
def test_a_capture_records_what_passes(stack: Stack) -> None:
    stack("--profile", "capture", "up", "--detach", "--no-build", "--no-deps", "capture")
    stack("run", "--rm", "--no-deps", "load", "--concurrency", "1", "--duration", "1", check=False)

    def recorded() -> bool:
        done = stack("exec", "-T", "capture", "sh", "-c", "cat /captures/nginx.pcap* | wc -c", check=False)
        return done.returncode == 0 and int(done.stdout or 0) > 2_000

    eventually(recorded, 30, "packets in the capture")
