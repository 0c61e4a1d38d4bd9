"""A network namespace of a run's own: everything in it, nothing outside changed, and back again whatever happens."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from lab_support import find_scenario, needs_namespace
from sojourn_lab.cli import run_command as cli
from sojourn_lab.errors import LabError, ScenarioError
from sojourn_lab.experiments import runner
from sojourn_lab.experiments.runner import why_skipped
from sojourn_lab.results.progress import watched
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.runtime import namespace
from sojourn_lab.runtime.compose.refusals import why_not_in_containers
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.namespace import network_namespace, own_namespace, why_namespace_refused, why_sysctls_missing
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.case import Action
from sojourn_lab.scenario.files import scenario_from_text
from sojourn_lab.scenario.schema import Scenario
from sojourn_lab.scenario.topology import Topology
from sojourn_lab.scenario.topology_parts import Namespace

pytestmark = pytest.mark.alone

SOMAXCONN = Path("/proc/sys/net/core/somaxconn")
SCENARIO = """
name = "x"
title = "x"
question = "x"
shows = "x"
seed = 1
duration = 1.0
[topology]
backends = 2
{topology}
[[cases]]
name = "one"
{case}
"""
LOAD = 'service_time = 0.1\nload = {kind = "constant", rate = 1}\n'
HALF_OPEN = 'actions = [{at = 0.1, do = "half_open", count = %d}]'


def loads(topology: str = "", case: str = LOAD) -> Scenario:
    return scenario_from_text(SCENARIO.format(topology=topology, case=case), "x.toml")


@needs_namespace
def test_threads_and_processes_are_inside_and_the_machine_is_as_before() -> None:
    outside, before = own_namespace(), SOMAXCONN.read_text()
    namespaces: list[int] = []
    with network_namespace({"somaxconn": 77, "tcp_syncookies": 0}):
        inside = own_namespace()
        thread = threading.Thread(target=lambda: namespaces.append(own_namespace()))
        thread.start()
        thread.join()
        child = subprocess.run(["cat", SOMAXCONN], capture_output=True, text=True, check=True).stdout
        assert int(SOMAXCONN.read_text()) == int(child) == 77
        assert Path("/proc/sys/net/ipv4/tcp_syncookies").read_text() == "0\n"
    assert inside != outside
    assert namespaces == [inside]
    assert (own_namespace(), SOMAXCONN.read_text()) == (outside, before)


@needs_namespace
def test_its_loopback_is_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with network_namespace({}):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address, timeout=2.0)
            with socket.create_server(address) as inner:
                # The same port again, and it answers: another loopback, which is up.
                socket.create_connection(inner.getsockname(), timeout=2.0).close()
        socket.create_connection(address, timeout=2.0).close()


@needs_namespace
def test_an_error_inside_leads_back() -> None:
    outside = own_namespace()
    inside = outside

    def fail_inside() -> None:
        nonlocal inside
        with network_namespace({}):
            inside = own_namespace()
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail_inside()
    assert inside != outside
    assert own_namespace() == outside


@needs_namespace
def test_a_value_that_the_kernel_refuses_is_named_and_leads_back() -> None:
    outside = own_namespace()
    with pytest.raises(LabError, match=r"net\.ipv4\.tcp_syncookies could not be set to 999"):
        network_namespace({"tcp_syncookies": 999}).__enter__()
    assert own_namespace() == outside


def test_a_sysctl_that_the_kernel_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net" / "core").mkdir(parents=True)
    (tmp_path / "net" / "core" / "somaxconn").write_text("1\n")
    monkeypatch.setattr(namespace, "_PROC_SYS", tmp_path)
    assert why_sysctls_missing({"somaxconn": 8}) is None
    assert why_sysctls_missing({"tcp_syncookies": 1}) == "this kernel has no net.ipv4.tcp_syncookies"
    # A kernel without linear timeouts behaves as one that has 0 of them.
    assert why_sysctls_missing({"tcp_syn_linear_timeouts": 0}) is None
    topology = Topology(namespace=Namespace(tcp_syn_linear_timeouts=4))
    assert why_skipped(topology) == "this kernel has no net.ipv4.tcp_syn_linear_timeouts"
    assert why_skipped(Topology()) is None


CHILD = """
import os
from sojourn_lab.errors import LabError
from sojourn_lab.runtime.namespace import network_namespace, own_namespace
{before}
outside = own_namespace()
try:
    with network_namespace({{"somaxconn": 8}}):
        print(own_namespace() != outside, open("/proc/sys/net/core/somaxconn").read().strip())
except LabError as error:
    print(error)
print(own_namespace() == outside)
"""


def output_of_child(prefix: list[str], before: str = "") -> list[str]:
    command = [*prefix, sys.executable, "-c", CHILD.format(before=before)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")
def test_without_the_right_to_it_the_way_out_is_named() -> None:
    # Imported before, because afterwards another user would have to be able to read it.
    refused, unmoved = output_of_child([], "os.setgid(65534); os.setuid(65534)")
    assert refused.startswith("a network namespace of its own cannot be made here (Operation not permitted): ")
    assert "unshare --map-current-user --net --keep-caps sojourn lab run" in refused
    assert unmoved == "True"


def test_the_way_out_leads_there() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    way = ["unshare", "--map-current-user", "--net", "--keep-caps"]
    if (done := subprocess.run([*way, "true"], capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"user namespaces are not available here: {done.stderr.strip()}")
    assert output_of_child(way) == ["True 8", "True"]
    # Without a network namespace of its own the lab could not return: it refuses before it starts.
    refused, unmoved = output_of_child(["unshare", "--map-current-user", "--keep-caps"])
    assert "cannot be made here" in refused
    assert unmoved == "True"


def test_namespace_settings_are_validated() -> None:
    namespace = loads("namespace = {somaxconn = 8, tcp_syncookies = 0}").topology.namespace
    assert namespace == Namespace(somaxconn=8, tcp_syncookies=0)
    assert namespace.sysctls == {"somaxconn": 8, "tcp_syncookies": 0}
    for wrong in ("namespace = {somaxcon = 8}", "namespace = {tcp_syncookies = 3}", "defer_accept = 0"):
        with pytest.raises(ScenarioError, match=r"topology"):
            loads(wrong)


def test_a_case_that_has_another_namespace_inherits_nothing_of_the_scenario_s() -> None:
    scenario = loads("namespace = {somaxconn = 8}", LOAD + "topology = {namespace = {tcp_syncookies = 0}}")
    assert scenario.topology_of(scenario.cases[0]).namespace == Namespace(tcp_syncookies=0)


@pytest.mark.parametrize(
    ("topology", "case", "words"),
    [
        ("", LOAD + HALF_OPEN % 1, "needs a `namespace`"),
        ("namespace = {}", LOAD + HALF_OPEN % 151, "begins 302 half-open connections, more than 300"),
        ("namespace = {}", LOAD + HALF_OPEN % 301, "300"),
        ("namespace = {}", LOAD + 'actions = [{at = 0.1, do = "half_open"}]', "`count` is needed for `half_open`"),
        ("namespace = {}", 'websocket = {rate = 5}', "of the kind websocket, which cannot have a `namespace`"),
    ],
)  # fmt: skip
def test_half_open_connections_are_limited_to_a_namespace(topology: str, case: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        loads(topology, case)
    assert loads("namespace = {}", LOAD + HALF_OPEN % 150).cases[0].actions == [Action(0.1, "half_open", count=150)]


def test_containers_have_namespaces_of_their_own() -> None:
    reason = why_not_in_containers(find_scenario("somaxconn"))
    assert reason is not None
    assert "already has its own network namespace" in reason
    assert "`docker compose --profile capture`" in str(why_not_in_containers(find_scenario("accept-queue")))
    assert "TCP_DEFER_ACCEPT" in str(why_not_in_containers(loads("defer_accept = 1")))


def test_reason_without_entering_a_namespace() -> None:
    outside = own_namespace()
    why_namespace_refused()
    assert own_namespace() == outside


def test_run_of_all_scenarios_reports_those_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [(find_scenario("benchmark"), 1.0), (find_scenario("somaxconn"), 1.0)]
    monkeypatch.setattr(cli, "why_namespace_refused", lambda: "none can be made here")
    assert cli._runnable(both) == both[:1]
    assert capsys.readouterr().err == "sojourn lab: left out: somaxconn: none can be made here\n"
    monkeypatch.setattr(cli, "why_namespace_refused", lambda: None)
    assert cli._runnable(both) == both


@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_a_case_that_this_kernel_cannot_make_is_skipped_and_takes_nothing_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = "this kernel has no net.ipv4.tcp_syn_linear_timeouts"
    monkeypatch.setattr(runner, "why_skipped", lambda topology: lacking if topology.namespace is not None else None)
    criterion = '[[criteria]]\nname = "served"\nmetric = "client.failed"\nequals = 0.0\n'
    other = '[[cases]]\nname = "two"\nservice_time = 0.01\nload = {kind = "constant", rate = 20}\n'
    scenario = loads("", LOAD + "topology = {namespace = {tcp_syn_linear_timeouts = 4}}\n" + other + criterion)
    folder = RunFolder.claimed(tmp_path / "run")
    with watched(quiet=True) as watcher:
        run = runner.finished_run(scenario, 1.0, folder, Interrupts(), watcher)
    assert [each.name for each in run.cases] == ["one", "two"]
    assert run.learned[0] == f"one was skipped and has no figures: {lacking}."
    assert [(each.case, each.passed) for each in run.criteria] == [("two", True)]
    assert run.faults == []
