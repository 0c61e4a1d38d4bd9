"""kill -9 in the middle: of a result, of a load, of parts of a run; what is left is never taken for a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sojourn.cli import app as commands
from sojourn_lab.cli import app as lab_commands
from sojourn_lab.errors import LabError
from sojourn_lab.results import run_record
from sojourn_lab.results.progress import watched
from sojourn_lab.results.run_context import RunContext
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import group_members
from sojourn_lab.runtime.runtime import ProcessRuntime
from sojourn_lab.runtime.server_faults import server_faults
from sojourn_lab.scenario.files import scenario_from_file
from sojourn_lab.scenario.topology import Topology
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "docs/examples/six-requests.jsonl.gz"
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("lab", "nginx", "store")]

from lab_support import groups_of, small_scenario  # noqa: E402
from nginx_support import LOCATION, app_upstream, get, rows_of  # noqa: E402
from nginx_upstream import Upstream  # noqa: E402
from store_support import record, write_log  # noqa: E402

DEADLINE_S = 60.0
needs_nginx = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")


def eventually(what: str, true: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.02)


@contextmanager
def started(script: str, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A Python program that has said a line; it is killed with -9 when the block is left."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "half\n"
            yield program
        finally:
            program.kill()
    assert program.returncode == -signal.SIGKILL


# --- results


HALF_A_FILE = """
import os, sys, time
import polars as pl
whole = pl.LazyFrame.sink_parquet

def half(rows, path, **options):
    whole(rows, path, **options)
    os.truncate(path, os.path.getsize(path) // 2)
    print("half", flush=True)
    time.sleep(600)

pl.LazyFrame.sink_parquet = half
from sojourn.cli import main
sys.argv = ["sojourn", "--no-config", "split", sys.argv[1], "--parquet", sys.argv[2]]
main()
"""


def test_half_a_parquet_file_has_not_the_name_of_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    path.write_text("the old one")
    with started(HALF_A_FILE, SHOP, path):
        pass
    assert path.read_text() == "the old one"
    (half,) = [each for each in tmp_path.iterdir() if each != path]
    assert half.name.startswith("r.parquet.")
    assert half.name.endswith(".partial")
    done = CliRunner().invoke(commands, ["--no-config", "split", str(half)])
    assert "not a readable Parquet file" in str(done.exception)


MUCH = """
import os, sys, time
from sojourn.readers import spool
spool.rows_in_memory = lambda _: 10
take, calls = spool.Spool.add, []

def some(spooled, rows, *expected):
    take(spooled, rows)
    print("half", flush=True)
    while True:  # a signal between the check of the interpreter and a long sleep would be seen after the sleep
        time.sleep(0.05)

spool.Spool.add = some
from sojourn.cli import main
sys.argv = ["sojourn", "--no-config", "split", sys.argv[1], "--rejects", sys.argv[2]]
main()
"""


def test_a_terminated_command_removes_its_temporary_files(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-c", MUCH, str(SHOP), str(tmp_path / "rejects.jsonl")]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "half\n"
        assert list(temporary.glob("sojourn-*/*.parquet"))
        assert list(tmp_path.glob("rejects.jsonl.*.partial"))
        program.send_signal(signal.SIGTERM)
        _, output = program.communicate(timeout=DEADLINE_S)
    assert (program.returncode, output) == (143, "")
    assert [each.name for each in tmp_path.rglob("*")] == ["tmp"]


# --- stores


HALF_A_LOAD = """
import sys, time
from sojourn.store import init, load
from sojourn.store.senders import LineSender
dsn, log = sys.argv[1:]
init(dsn)
LineSender.__init__.__defaults__ = (None, 20_000)
insert, calls = LineSender._insert, []

def some(sender, batch):
    if len(calls) == 3:
        print("half", flush=True)
        time.sleep(600)
    calls.append(1)
    return insert(sender, batch)

LineSender._insert = some
import sojourn.readers.lines as lines
chunks = lines._chunks
lines._chunks = lambda log, size, room: chunks(log, 20_000, room)
load(dsn, log)
"""
LOADED_AGAIN = """
import sys
from sojourn.store import connect, load
dsn, log = sys.argv[1:]
load(dsn, log)
with connect(dsn) as store:
    print(store.client.query("SELECT count(), uniqExact(request_id) FROM requests FINAL").result_rows)
    print(store.client.query("SELECT sum(requests) FROM rollup_minute FINAL").result_rows)
"""


def test_a_load_that_was_killed_is_completed_and_two_at_once_are_one_too_many(tmp_path: Path) -> None:
    pytest.importorskip("chdb")
    log = write_log(tmp_path / "a.jsonl", *(record(n) for n in range(1_000)))
    dsn = f"chdb://{tmp_path}/store"
    load = [sys.executable, "-m", "sojourn", "--no-config", "store", "load", dsn, str(log)]
    with started(HALF_A_LOAD, dsn, log):
        second = subprocess.run(load, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
        assert second.returncode == 1
        # The engine prints lines of its own before.
        reason = (
            "cannot be opened: another process has it open, or the folder is not a store, or too much of a table is "
            "damaged, which the engine's message before this one then names"
        )
        assert second.stderr.splitlines()[-1] == f"sojourn: {dsn}: {reason}"
        assert "Traceback" not in second.stderr
    again = [sys.executable, "-c", LOADED_AGAIN, dsn, str(log)]
    counted = subprocess.check_output(again, text=True, timeout=DEADLINE_S)
    assert counted.splitlines() == ["[(1000, 1000)]", "[(1000,)]"]


# --- runs


@pytest.mark.parametrize("verb", ["split", "show", "compare"])
def test_no_command_accepts_a_killed_run(tmp_path: Path, verb: str) -> None:
    folder = tmp_path / "run.partial"
    folder.mkdir()
    (folder / "access.jsonl").write_text(
        '{"time":"1767225600.000","request_time":"0.1","status":"200","request_start":"-"}\n'
    )
    (folder / "run.json").write_text("{}")
    values = {
        "show": ["show", str(folder)],
        "compare": ["compare", str(folder), str(folder)],
    }.get(verb, ["--no-config", verb, str(folder)])
    done = CliRunner().invoke(lab_commands if verb in ("show", "compare") else commands, values)
    assert done.exit_code == 1
    assert any(words in done.output + str(done.exception) for words in ("did not finish", "was never finished"))


@needs_nginx
def test_a_worker_of_nginx_that_is_killed_tears_no_line(tmp_path: Path) -> None:
    """Its master starts another; what was answered is in the log, line by line, and the lab finds out."""
    app = Upstream()
    log = tmp_path / "access.jsonl"
    with Nginx(tmp_path / "nginx", LOCATION, access_log=log, http=app_upstream(app.address)) as nginx:
        master = nginx.process.pid
        answered = [f"/{n}" for n in range(20) if get(nginx, f"/{n}").status == 200]
        eventually("twenty lines", lambda: log.read_bytes().count(b"\n") == 20)
        (worker,) = [pid for pid in group_members(master) if pid != master]
        os.kill(worker, signal.SIGKILL)
        eventually("another worker", lambda: {*group_members(master)} - {master, worker})
        answered += [f"/{n}" for n in range(20, 40) if get(nginx, f"/{n}").status == 200]
    app.close()
    assert len(answered) == 40
    assert [row["uri"] for row in rows_of(log)] == answered
    assert "exited on signal 9" in nginx.error_log_text()


@needs_nginx
def test_parts_of_a_run_that_are_killed_are_said(tmp_path: Path) -> None:
    """A worker of an app server in the middle of a request; then a whole app server; then nginx."""
    (tmp_path / "logs").mkdir()
    runtime = ProcessRuntime(Topology(backends=2), tmp_path, tmp_path / "logs", Interrupts())
    with runtime:
        assert runtime.nginx is not None
        nginx, (first, second) = runtime.nginx, runtime.backends
        runtime.settle(DEADLINE_S)
        assert server_faults(runtime) == []
        (worker,) = [pid for pid in group_members(first.process.pid) if pid != first.process.pid]
        asking = [threading.Thread(target=get, args=(nginx, "/sleep/2.0")) for _ in range(2)]
        for each in asking:
            each.start()
        eventually("both to be at work", lambda: not first.answers(0.1) and not second.answers(0.1))
        os.kill(worker, signal.SIGKILL)
        for each in asking:
            each.join(DEADLINE_S)
        eventually("both lines", lambda: runtime.access_log.read_bytes().count(b"\n") == 2)
        logged = rows_of(runtime.access_log)
        assert [row["status"] for row in logged] == ["200", "200"], "nginx tried the other backend"
        assert [row["upstream_status"] for row in logged] == ["200", "502, 200"]
        killed = ["backend-1: a worker was ended by SIGKILL"]
        eventually("its master to see it", lambda: server_faults(runtime) == killed)
        runtime.settle(DEADLINE_S)
        os.killpg(second.process.pid, signal.SIGKILL)
        with pytest.raises(LabError, match="backend-2 exited with -9"):
            runtime.settle(DEADLINE_S)
        groups = [first.process.pid, second.process.pid, nginx.process.pid]
        os.killpg(nginx.process.pid, signal.SIGKILL)
        eventually("its end", lambda: nginx.process.exit_code() is not None)
        with pytest.raises(LabError, match=r"nginx ended \(-9\)"):
            runtime.settle(DEADLINE_S)
    assert not any(group_members(group) for group in groups)


def test_server_fault_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder.claimed(tmp_path / "run")
    interrupts = Interrupts()
    scenario = scenario_from_file(small_scenario(tmp_path))
    with watched(quiet=True) as watcher:
        context = RunContext(scenario, folder, interrupts, watcher, ProcessRuntime)
    context.runtimes.append(ProcessRuntime(Topology(), folder.partial, folder.logs, interrupts))
    for name in ("write_pictures", "write_report"):
        monkeypatch.setattr(run_record, name, lambda *_, **__: None)
    # A torn line of a disk that was full, and a whole one.
    whole = '{"time":2.0,"socket":"nginx","port":80,"depth":3,"limit":511}\n'
    (folder.partial / "listen.jsonl").write_text('{"time":1.0,"soc\n' + whole)
    assert [each.deepest for each in run_record.deepest_queues(context.listen_log, 0.0, 9.0)] == [3]
    monkeypatch.setattr(run_record, "server_faults", lambda _: ["backend-1: a worker was ended by SIGKILL"])
    run = run_record.run_record(context, scale=1.0, started=0.0, changes={})
    assert "backend-1: a worker was ended by SIGKILL" in run.faults
    assert not run.passed


@needs_nginx
def test_a_run_whose_generator_is_killed_ends_and_leaves_nothing_behind(tmp_path: Path) -> None:
    scenario = small_scenario(tmp_path, duration=60.0)
    partial = tmp_path / "run.partial"
    command = [sys.executable, "-m", "sojourn_lab", "run", str(scenario), "--out", str(tmp_path / "run"), "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as lab:
        log = partial / "access.jsonl"
        eventually("the load", lambda: log.exists() and log.stat().st_size > 0)
        groups = groups_of(partial) - {lab.pid}
        (generator,) = [
            pid for pid in groups if b"sojourn_lab.load.generator" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        os.kill(generator, signal.SIGKILL)
        _, output = lab.communicate(timeout=DEADLINE_S)
    assert lab.returncode == 1
    assert "c2.generator exited with -9 while the lab waited for the load of case c2 to end" in output
    assert f"everything is down, logs are in {partial}" in output
    assert not (tmp_path / "run").exists()
    eventually("every process to be gone", lambda: not any(group_members(group) for group in groups))
