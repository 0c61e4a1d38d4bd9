"""A tier behind the app, and a lock in it: the app's own log calls it service time, the tier below queueing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lab_support import missed, sound_run
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.tier import dependency_settings, plain
from sojourn_lab.scenario.topology import Topology
from sojourn_lab.scenario.topology_parts import Dependency, Mirror, Pool

needs_nginx = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")

HOLDER = """
import sys, time
import downstream
with downstream.locked():
    print(time.monotonic(), flush=True)
    time.sleep(0.3)
    print(time.monotonic(), flush=True)
"""


def test_the_lock_lets_one_process_in_at_a_time(tmp_path: Path) -> None:
    environment = {**os.environ, "LAB_LOCK": str(tmp_path / "lock"), "PYTHONPATH": str(resource_file("backend"))}
    both = [
        subprocess.Popen([sys.executable, "-c", HOLDER], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    spells = sorted(tuple(map(float, process.communicate(timeout=30)[0].split())) for process in both)
    assert spells[0][1] <= spells[1][0], "the second was let in while the first held it"


def test_without_a_lock_no_request_waits(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "LAB_LOCK"}
    environment["PYTHONPATH"] = str(resource_file("backend"))
    before = time.monotonic()
    done = subprocess.run([sys.executable, "-c", HOLDER], env=environment, capture_output=True, check=True, timeout=30)
    assert len(done.stdout.split()) == 2
    assert time.monotonic() - before < 20.0
    assert not list(tmp_path.iterdir())


def test_a_tier_behind_may_have_a_lock_and_another_speed() -> None:
    assert dependency_settings(Dependency(), "/run/lock") == {}
    settings = dependency_settings(Dependency(lock=True, slowdown=0.5), "/run/lock")
    assert settings == {"LAB_LOCK": "/run/lock", "LAB_SLOWDOWN": "0.5"}


def test_a_tier_is_of_the_same_kind_with_nothing_behind_or_beside_it() -> None:
    topology = Topology(
        server="queue", backends=3, slowdown=[2.0], standby=1, connection_cap=4, pools=[Pool("a", ["/a"])],
        dependency=Dependency(), mirror=Mirror(10.0), proxy_read_timeout=7.0,
    )  # fmt: skip
    behind = plain(topology, backends=1, workers=5)
    assert (behind.server, behind.backends, behind.workers, behind.proxy_read_timeout) == ("queue", 1, 5, 7.0)
    assert (behind.dependency, behind.mirror, behind.pools, behind.standby, behind.slowdown) == (None, None, [], 0, [])
    assert behind.connection_cap is None


@pytest.mark.scenario
@needs_nginx
def test_a_second_instance_helps_only_where_the_tier_behind_has_room(tmp_path: Path) -> None:
    # Other times than the file's: 15 ms in the app, 60 ms behind it, 12 users.
    settings = ("--set", "cases.*.service_time=0.015", "--set", "cases.*.dependency=0.06")
    users = ("--set", "cases.*.load.concurrency=12")
    record = sound_run(tmp_path, "shared-dependency", "--duration", "3", "--seed", "51", *settings, *users)
    assert missed(record) == []
    # The tier behind has a log of its own, with a split of its own.
    folder = Path(record["run"])
    behind = [json.loads(line) for line in (folder / "dependency.jsonl").read_text().splitlines()]
    assert {each["service"] for each in behind} == {
        f"{name}.r{turn}.dependency" for name in ("one", "two", "one-wide", "two-wide") for turn in (1, 2, 3)
    }
    assert len(behind) == record["rows"]["access"]


@pytest.mark.scenario
@needs_nginx
def test_a_lock_is_slow_code_above_and_a_queue_below(tmp_path: Path) -> None:
    settings = ("--set", "cases.*.service_time=0.01", "--set", "cases.*.dependency=0.06")
    record = sound_run(tmp_path, "lock", "--duration", "2.5", "--seed", "52", *settings)
    assert missed(record) == []
