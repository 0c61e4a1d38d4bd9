"""The process layer: started, waited for, ended, and never left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sojourn_lab.errors import LabError
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime import orphan_reaper
from sojourn_lab.runtime.process import Process, group_members

DEADLINE_S = 60.0

# A parent with a child that ignores SIGTERM; both say so on standard output before they sleep.
STUBBORN_FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
print(os.getpid(), flush=True)
time.sleep(600)
"""


def command(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def has_lines(path: Path, count: int) -> bool:
    return path.exists() and path.read_text().count("\n") >= count


def test_output_goes_to_files(tmp_path: Path) -> None:
    code = "import sys; print('to out'); print('to err', file=sys.stderr)"
    with Process(command(code), name="talker", folder=tmp_path / "logs") as process:
        assert process.wait(DEADLINE_S) == 0
    assert (tmp_path / "logs" / "talker.out").read_text() == "to out\n"
    assert (tmp_path / "logs" / "talker.err").read_text() == "to err\n"
    assert process.last_lines() == "to out\nto err"
    assert process.last_lines(1) == "to err"


def test_env_and_cwd(tmp_path: Path) -> None:
    code = "import os; print(os.environ['SOME'], os.getcwd())"
    process = Process(command(code), name="p", folder=tmp_path, env={"SOME": "value"}, cwd=tmp_path.resolve())
    with process:
        process.wait(DEADLINE_S)
    assert process.out_path.read_text() == f"value {tmp_path.resolve()}\n"


def test_a_missing_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"ghost could not be started: No such file or directory: /no/such/program"):
        Process(["/no/such/program"], name="ghost", folder=tmp_path).start()


def test_waiting_fails_early_with_the_last_words(tmp_path: Path) -> None:
    code = "import sys; print('the reason', file=sys.stderr); sys.exit(3)"
    before = time.monotonic()
    with Process(command(code), name="failing", folder=tmp_path) as process, pytest.raises(LabError) as caught:
        process.wait_until(lambda: False, 500, "something that never comes")
    assert time.monotonic() - before < 100
    assert "failing exited with 3 while the lab waited for something that never comes" in str(caught.value)
    assert "the reason" in str(caught.value)


def test_waiting_has_a_deadline(tmp_path: Path) -> None:
    code = "print('still here', flush=True); import time; time.sleep(600)"
    with Process(command(code), name="sleeper", folder=tmp_path) as process:
        process.wait_until(lambda: has_lines(process.out_path, 1), DEADLINE_S, "its line")
        with pytest.raises(LabError, match=r"sleeper: waited 0\.1 s for godot\nstill here"):
            process.wait_until(lambda: False, 0.1, "godot")
        with pytest.raises(LabError, match="still runs after"):
            process.wait(0.05)


def test_stopping_is_graceful_and_repeatable(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: (print('bye', flush=True), sys.exit(7)))\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    process = Process(command(code), name="polite", folder=tmp_path, stop_signal=signal.SIGINT).start()
    process.wait_until(lambda: has_lines(process.out_path, 1), DEADLINE_S, "ready")
    assert process.running()
    assert process.stop() == 7
    assert process.stop() == 7
    assert process.exit_code() == 7
    assert not process.running()
    assert process.out_path.read_text() == "ready\nbye\n"


def test_an_end_that_has_begun_is_awaited_without_another_signal(tmp_path: Path) -> None:
    leave = tmp_path / "leave"
    code = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('bye', flush=True))\n"
        f"print('ready', flush=True); leave = pathlib.Path({str(leave)!r})\n"
        "while not leave.exists(): time.sleep(0.01)\n"
        "sys.exit(7)"
    )
    process = Process(command(code), name="slow", folder=tmp_path).start()
    process.wait_until(lambda: has_lines(process.out_path, 1), DEADLINE_S, "ready")
    process.begin_stop()
    process.wait_until(lambda: has_lines(process.out_path, 2), DEADLINE_S, "the signal to be handled")
    process.begin_stop()
    assert process.running()
    leave.touch()
    assert process.stop() == 7
    assert process.out_path.read_text() == "ready\nbye\n"


def test_a_process_that_was_never_started_can_be_stopped(tmp_path: Path) -> None:
    process = Process(command("pass"), name="idle", folder=tmp_path)
    assert process.stop() is None
    with pytest.raises(LabError, match="never started"):
        _ = process.pid


def test_starting_twice_is_refused(tmp_path: Path) -> None:
    with Process(command("pass"), name="once", folder=tmp_path) as process, pytest.raises(LabError, match="already"):
        process.start()


def test_the_whole_group_ends_even_if_it_will_not(tmp_path: Path) -> None:
    process = Process(command(STUBBORN_FAMILY), name="family", folder=tmp_path).start()
    process.wait_until(lambda: has_lines(process.out_path, 2), DEADLINE_S, "both")
    assert len(group_members(process.pid)) == 2
    assert process.stop(0.1) == -signal.SIGKILL
    assert group_members(process.pid) == []


def test_children_left_by_a_crashed_first_process_end_too(tmp_path: Path) -> None:
    code = "import os, time\nif os.fork(): os._exit(5)\nprint('child', flush=True)\ntime.sleep(600)"
    process = Process(command(code), name="orphans", folder=tmp_path).start()
    assert process.wait(DEADLINE_S) == 5
    until(lambda: has_lines(process.out_path, 1), "the child")
    assert len(group_members(process.pid)) == 1
    assert process.stop() == 5
    assert group_members(process.pid) == []


def test_an_error_in_the_block_stops_it(tmp_path: Path) -> None:
    sleeper = Process(command("import time; time.sleep(600)"), name="sleeper", folder=tmp_path)
    with pytest.raises(ZeroDivisionError), sleeper:
        _ = 1 / 0
    assert sleeper.exit_code() == -signal.SIGTERM
    assert group_members(sleeper.pid) == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_lab(tmp_path: Path, how: signal.Signals) -> None:
    lab = f"""
import pathlib, sys, time
from sojourn_lab.runtime.process import Process
family = {STUBBORN_FAMILY!r}
folder = pathlib.Path({str(tmp_path)!r})
one = Process([sys.executable, "-c", family], name="family", folder=folder).start()
two = Process([sys.executable, "-c", "import time; time.sleep(600)"], name="meek", folder=folder).start()
three = Process([sys.executable, "-c", "pass"], name="done", folder=folder).start()
three.wait(20); three.stop()
one.wait_until(lambda: one.out_path.read_text().count("\\n") == 2, 20, "the family")
print(one.pid, two.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen(command(lab), stdout=subprocess.PIPE, text=True) as popen:
        assert popen.stdout is not None
        groups = [int(word) for word in popen.stdout.readline().split()]
        assert [len(group_members(group)) for group in groups] == [2, 1]
        popen.send_signal(how)
        popen.wait(DEADLINE_S)
        until(lambda: not any(group_members(group) for group in groups), "the groups to end")


def test_the_guards_list() -> None:
    assert orphan_reaper.groups_left(["+5\n", "+6\n", "-5\n", "+7\n", "-9\n"]) == {6, 7}
    assert orphan_reaper.groups_left([]) == set()


def test_inherited_sockets_are_passed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; print(socket.socket(fileno={server.fileno()}).getsockname()[1])"
        with Process(command(code), name="heir", folder=tmp_path, pass_fds=[server.fileno()]) as process:
            assert process.wait(DEADLINE_S) == 0, process.last_lines()
        assert int(process.out_path.read_text()) == server.getsockname()[1]


def test_names_missing_resource_files() -> None:
    assert resource_file("nginx", "sojourn.conf").is_file()
    with pytest.raises(LabError, match=r"nginx/nothing\.conf is missing"):
        resource_file("nginx", "nothing.conf")
    with pytest.raises(LabError, match="no resource folder 'attic'"):
        resource_file("attic")


def test_group_members_skips_zombies(tmp_path: Path) -> None:
    child = subprocess.Popen(command("pass"), start_new_session=True)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert group_members(child.pid) == []
    assert child.wait() == 0
