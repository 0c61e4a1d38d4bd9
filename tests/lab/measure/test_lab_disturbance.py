"""How much others disturb the servers of a run: from made /proc files, and beside real busy loops."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from lab_support import cores_of_others, find_scenario
from sojourn_lab.load.plan import Latency, Quantiles, Summary, Window
from sojourn_lab.measure.disturbance import (
    DELAYED_LIMIT,
    Disturbance,
    DisturbanceSampler,
    Neighbour,
    disturbance_between,
    requested_wait,
    snapshot_of,
    what_to_do,
)
from sojourn_lab.measure.proc import TICKS, run_queue_waits_of, stat_of
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.files import scenario_from_text

pytestmark = pytest.mark.alone

LAB, GENERATOR, SERVER, WORKER, BROWSER, SHELL, KERNEL = 100, 110, 120, 121, 300, 301, 40
GROUPS = {SERVER}


def put(
    root: Path,
    pid: int,
    parent: int,
    group: int,
    cpu: float,
    waits: dict[int, float],
    name: str = "x",
    ended: float = 0.0,
) -> None:
    """Write the files of one process: `cpu` s of its own, `ended` s of its ended children, waits by thread in s."""
    fields = ["S", parent, group, *[0] * 8, round(cpu * TICKS), 0, round(ended * TICKS), 0, 20, 0, 1, 0, 7, 0, 0]
    folder = root / str(pid)
    folder.mkdir(exist_ok=True)
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, fields))}\n")
    (folder / "schedstat").write_text("0 0 0\n")
    for thread, wait in waits.items():
        (folder / "task" / str(thread)).mkdir(parents=True, exist_ok=True)
        (folder / "task" / str(thread) / "schedstat").write_text(f"{round(cpu * 1e9)} {round(wait * 1e9)} 5\n")


def machine(root: Path, *, run: float, servers: float, waited: float, outside: float, stolen: float = 0.0) -> Path:
    """Write a whole /proc: the lab, its generator and servers, a browser, and a thread of the kernel."""
    root.mkdir(exist_ok=True)
    (root / "stat").write_text(f"cpu  9 9 9 9 9 9 9 {round(stolen * TICKS)} 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")
    put(root, 1, 0, 1, 5.0, {1: 0.0}, "init")
    put(root, 2, 0, 0, 1.0, {2: 0.0}, "kthreadd")
    put(root, KERNEL, 2, 0, 3.0 + 10.0 * outside, {KERNEL: 9.0}, "ksoftirqd/0")
    put(root, LAB, 1, 99, 1.0, {LAB: 50.0}, "sojourn")
    put(root, GENERATOR, LAB, GENERATOR, 1.0 + run - servers, {GENERATOR: 60.0}, "python")
    put(root, SERVER, LAB, SERVER, 1.0, {SERVER: 2.0}, "nginx: master")
    put(root, WORKER, SERVER, SERVER, 1.0 + servers, {WORKER: 3.0 + waited / 2, 122: 4.0 + waited / 2}, "a) R (b")
    put(root, BROWSER, 1, BROWSER, 70.0 + outside, {BROWSER: 7.0}, "chromium")
    return root


def measured(tmp_path: Path, waiting: float, **later: float) -> Disturbance:
    """Return the disturbance in a window of two seconds with these processor times, waits and stolen time."""
    start = machine(tmp_path / "a", run=0.0, servers=0.0, waited=0.0, outside=0.0)
    first = snapshot_of(LAB, GROUPS, start)
    last = snapshot_of(LAB, GROUPS, machine(tmp_path / "b", **later))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "cpu_count", lambda: 2)
        return disturbance_between(first, last._replace(time=first.time + 2.0), waiting)


def test_reads_process_whose_name_holds_parentheses(tmp_path: Path) -> None:
    machine(tmp_path, run=0.5, servers=0.5, waited=0.0, outside=0.0)
    stat = stat_of(WORKER, tmp_path)
    assert (stat.name, stat.parent, stat.group, stat.cpu) == ("a) R (b", SERVER, SERVER, 1.5)


def test_wait_that_own_load_explains_is_no_disturbance(tmp_path: Path) -> None:
    # Two cores, both busy with the run, four threads that want them: a scenario that is bound by the processor.
    disturbance = measured(tmp_path, 0.0, run=4.0, servers=3.8, waited=3.6, outside=0.0)
    assert (disturbance.waited, disturbance.lost, disturbance.delayed) == (pytest.approx(3.6), 0.0, 0.0)
    assert disturbance.reasons() == []


def test_wait_beside_busy_neighbour_is_divided_by_processor_time(tmp_path: Path) -> None:
    disturbance = measured(tmp_path, 1.6, run=0.5, servers=0.4, waited=0.2, outside=1.5)
    assert disturbance.outside == pytest.approx(0.75)
    assert disturbance.lost == pytest.approx(0.2 * 1.5 / 2.0)
    assert disturbance.delayed == pytest.approx(0.15 / (1.6 + 0.4))
    assert [(each.name, each.pid) for each in disturbance.neighbours] == [("chromium", BROWSER)]
    (reason,) = disturbance.reasons()
    assert "150 ms" in reason
    assert "7.5%" in reason
    assert "0.75 of 2 cores" in reason


def test_neighbour_cannot_take_more_time_than_it_ran(tmp_path: Path) -> None:
    # Eight threads wait for the core that a neighbour has for 0.1 s: each waits, but one core did no work for 0.1 s.
    disturbance = measured(tmp_path, 0.0, run=3.9, servers=3.9, waited=20.0, outside=0.1)
    assert disturbance.lost == pytest.approx(0.1)
    assert disturbance.reasons() == []


def test_stolen_time_counts_by_servers_share(tmp_path: Path) -> None:
    disturbance = measured(tmp_path, 0.0, run=2.0, servers=1.0, waited=0.0, outside=0.0, stolen=0.4)
    assert disturbance.stolen == pytest.approx(0.2)
    assert disturbance.lost == pytest.approx(0.4 * 1.0 / 2.0)
    assert disturbance.reasons()


def test_process_two_of_a_pid_namespace_is_an_ordinary_neighbour(tmp_path: Path) -> None:
    first, last = (machine(tmp_path / name, run=0.0, servers=0.0, waited=0.0, outside=0.0) for name in "ab")
    for root, cpu in ((first, 1.0), (last, 2.5)):
        put(root, 2, 1, 2, 1.0, {2: 0.0}, "bash")
        put(root, KERNEL, 2, 2, cpu, {KERNEL: 0.0}, "make")
    begin = snapshot_of(LAB, GROUPS, first)
    disturbance = disturbance_between(begin, snapshot_of(LAB, GROUPS, last)._replace(time=begin.time + 2.0), 1.0)
    assert [(each.name, each.cores) for each in disturbance.neighbours] == [("make", pytest.approx(0.75))]


def test_thread_that_ends_while_it_is_read_loses_no_other_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(tmp_path, run=0.0, servers=0.0, waited=2.0, outside=0.0)
    names = os.listdir(tmp_path / str(WORKER) / "task")
    monkeypatch.setattr(os, "listdir", lambda _: [*names, "999"])
    assert run_queue_waits_of(WORKER, tmp_path) == {WORKER: pytest.approx(4.0), 122: pytest.approx(5.0)}
    (tmp_path / str(WORKER) / "task" / "122" / "schedstat").unlink()
    with pytest.raises(FileNotFoundError, match="schedstat"):
        run_queue_waits_of(WORKER, tmp_path)


@pytest.mark.parametrize(("waited", "void"), [(0.0499, False), (0.0501, True)])
def test_limit_is_a_share_of_what_requests_take(tmp_path: Path, waited: float, void: bool) -> None:
    disturbance = measured(tmp_path, 0.9, run=0.1, servers=0.1, waited=waited * (1.9 + 0.1) / 1.9, outside=1.9)
    assert disturbance.limit == DELAYED_LIMIT == 0.05
    assert bool(disturbance.reasons()) is void


def test_neighbour_that_ended_counts_by_the_process_that_waited_for_it(tmp_path: Path) -> None:
    first = machine(tmp_path / "a", run=0.0, servers=0.0, waited=0.0, outside=0.0)
    put(first, SHELL, 1, SHELL, 1.0, {SHELL: 0.0}, "make")
    put(first, 302, SHELL, SHELL, 40.0, {302: 0.0}, "cc")
    last = machine(tmp_path / "b", run=0.0, servers=0.0, waited=0.0, outside=0.0)
    put(last, SHELL, 1, SHELL, 1.0, {SHELL: 0.0}, "make", ended=41.5)
    begin = snapshot_of(LAB, GROUPS, first)
    disturbance = disturbance_between(begin, snapshot_of(LAB, GROUPS, last)._replace(time=begin.time + 2.0), 1.0)
    assert disturbance.outside == pytest.approx(0.75), "41.5 s less the 40 s that it had used before the window"


def test_missing_schedstat_is_said_and_makes_nothing_void(tmp_path: Path) -> None:
    machine(tmp_path, run=0.0, servers=0.0, waited=0.0, outside=0.0)
    own = os.getpid()
    put(tmp_path, own, 1, 99, 1.0, {}, "pytest")
    put(tmp_path, WORKER, own, SERVER, 1.0, {WORKER: 0.0})
    (tmp_path / str(WORKER) / "schedstat").unlink()
    (tmp_path / str(WORKER) / "task" / str(WORKER) / "schedstat").unlink()
    since = time.time()
    with DisturbanceSampler(0.1, lambda: GROUPS, tmp_path) as sampler:
        deadline = time.monotonic() + 60.0
        while "schedstat" not in (disturbance := sampler.between(Window(since, time.time()), 1.0)).unknown:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert (disturbance.delayed, disturbance.reasons()) == (None, [])


def test_advice_names_processes_then_hypervisor_then_load() -> None:
    busy = Disturbance(neighbours=[Neighbour("chro\x1b[31mmium", 7, 0.6), Neighbour("make", 9, 0.9)], stolen=0.5)
    advice = what_to_do([busy, Disturbance(neighbours=[Neighbour("make", 9, 0.4)])])
    assert advice.index("make (process 9, 90% of a core)") < advice.index("(process 7, 60% of a core)")
    assert "\x1b" not in advice
    assert "hypervisor gave 50% of a core" in what_to_do([Disturbance(stolen=0.5)])
    assert "--scale 2" in what_to_do([Disturbance(stolen=0.0)])
    assert "no such file" in what_to_do([Disturbance(unknown="no such file")])


def test_requests_of_a_case_ask_servers_for_their_service_time() -> None:
    scenario = find_scenario("grpc-pinning")
    case = scenario.cases[0]
    assert case.grpc is not None
    waiting = requested_wait(case, scenario.topology_of(case), Window(0.0, 10.0))
    assert waiting == pytest.approx(10.0 * case.grpc.rate * case.grpc.service_time)


def test_servers_of_the_user_wait_at_most_as_long_as_their_answers_take() -> None:
    text = SMALL.replace("workers = 2", 'workers = 2\ncommand = "run {port}"').replace(
        "[topology]", "[topology]\nbackends = 1"
    )
    text = re.sub(r"service_time = [\d.]+", 'paths = {"/" = 1}', text)
    scenario = scenario_from_text(text, "small")
    uncorrected = Quantiles(mean=0.2)
    summary = Summary(
        "short", Window(0.0, 10.0), 30, 30, 30, 0, 30, 0, {}, {}, 3.0, 3.0, Latency(Quantiles(), uncorrected),
        Quantiles(), Quantiles(), 0.0, [],
    )  # fmt: skip
    case, topology = scenario.cases[0], scenario.topology
    assert requested_wait(case, topology, summary.window, summary) == pytest.approx(30 * 0.2)
    uncorrected.mean = 5.0
    assert requested_wait(case, topology, summary.window, summary) == 20.0, "two workers wait no longer than the window"


def test_processor_time_is_no_waiting_of_servers() -> None:
    scenario = find_scenario("contention")
    cases = {case.name: case for case in scenario.cases}

    def idle(name: str) -> float:
        return cases[name].mean_idle + cases[name].routes[0].dependency

    assert idle("cores-w2") == 0.0
    assert idle("behind-w4") == pytest.approx(0.06)


SMALL = """
name = "small"
title = "t"
question = "q"
shows = "s"
seed = 1
duration = 3.0
[topology]
workers = 2
[[cases]]
name = "short"
service_time = 0.004
load = {kind = "closed", concurrency = 4, think_time = 0.01}
"""

BUSY = "import time\nend = time.monotonic() + 200.0\nwhile time.monotonic() < end: pass"


def lab_run(folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Return the record of a run, and what the command printed on stdout."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small.toml").write_text(SMALL)
    command = [sys.executable, "-m", "sojourn_lab", "run", str(folder / "small.toml"), "--out", str(folder / "run")]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=200, check=False)
    assert "Traceback" not in done.stderr
    assert (folder / "run" / "report.html").is_file(), done.stderr
    record: dict[str, Any] = json.loads((folder / "run" / "run.json").read_bytes())
    assert done.returncode == (0 if record["passed"] else 1)
    return record, done.stdout


@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_run_beside_busy_loops_is_void_repeated_and_says_what_to_close(tmp_path: Path) -> None:
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count() or 1)]
    try:
        record, printed = lab_run(tmp_path, "--duration", "1.5")
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert record["void"]
    disturbance = record["cases"][0]["disturbance"]
    assert disturbance["outside"] > 0.4
    assert disturbance["delayed"] > disturbance["limit"]
    assert {each["pid"] for each in disturbance["neighbours"]} & {loop.pid for loop in loops}
    assert any("the servers were disturbed" in each for each in record["void_reasons"])
    assert record["first_try"], "this is the second try"
    first = json.loads((tmp_path / "run.void" / "run.json").read_bytes())
    assert (first["void"], first["first_try"]) == (True, [])
    assert (tmp_path / "run.void" / "report.html").is_file()
    assert any(f"process {loop.pid}" in record["advice"] for loop in loops)
    assert " ".join(printed.split()).partition(" report: ")[0].count(record["advice"]) == 1
    assert printed.startswith("⚠ void again: ")
    assert printed.splitlines()[-1] == f"report: {tmp_path / 'run' / 'report.html'}"


@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_run_without_neighbours_is_not_disturbed(tmp_path: Path) -> None:
    for attempt in range(3):
        record, _ = lab_run(tmp_path / str(attempt), "--once")
        disturbance = record["cases"][0]["disturbance"]
        # Another virtual machine disturbs a run as well as another program does.
        others = cores_of_others(record["cases"][0])
        if others < 0.05:
            break
    else:
        pytest.skip(f"the machine is busy: {others:.2f} cores outside of the run, or stolen")
    assert 0.0 <= disturbance["delayed"] < disturbance["limit"]
    # The generator may have been late all the same, and the run be void for that.
    assert not any("the servers were disturbed" in each for each in record["void_reasons"])
    assert record["void"] or (record["passed"], record["advice"]) == (True, "")
