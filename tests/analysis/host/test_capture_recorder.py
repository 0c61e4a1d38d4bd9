"""The recorder on real packets: no packet missing at either end, no process left, and an error for each failure."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sojourn.host import limits, privileges
from sojourn.host.filters import Endpoint, capture_filter
from sojourn.host.recorder import Recorder
from sojourn.host.sniffer import ScapyRecorder
from sojourn.host.tcpdump import Ring
from sojourn.model.errors import CaptureError

needs_packets = pytest.mark.skipif(
    sys.platform != "linux" or not privileges.has_capability(privileges.NET_RAW) or shutil.which("tcpdump") is None,
    reason="tcpdump or CAP_NET_RAW is missing",
)


class Server:
    """Listens on loopback and answers every connection with a close."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._socket.getsockname()[1]

    def visits(self, count: int, octets: bytes = b"x") -> set[int]:
        """So many connections, one after the other; their clients' ports."""
        ports = set()
        for _ in range(count):
            with socket.create_connection(("127.0.0.1", self.port)) as client:
                ports.add(client.getsockname()[1])
                accepted, _address = self._socket.accept()
                client.sendall(octets)
                accepted.recv(1 << 20)
                accepted.close()
                assert client.recv(1) == b""
        return ports

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def server() -> Iterator[Server]:
    produced = Server()
    yield produced
    produced.close()


def lines_of(path: Path, expression: str = "tcp") -> list[str]:
    """What tcpdump reads from a file; it fails on a record that is cut."""
    done = subprocess.run(
        ["tcpdump", "-n", "-S", "-r", path, expression], capture_output=True, text=True, check=False, timeout=20
    )
    assert "truncated" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def clients_in(paths: list[Path], port: int) -> tuple[set[int], set[int]]:
    """Ports of the clients whose first SYN, and of those whose server's FIN, is in the files."""
    syns, fins = set(), set()
    for path in paths:
        for line in lines_of(path, "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0"):
            source, target = (int(part.rstrip(":").rpartition(".")[2]) for part in line.split(" IP ")[1].split()[0:3:2])
            if "Flags [S]," in line and target == port:
                syns.add(source)
            elif "Flags [F" in line and source == port:
                fins.add(target)
    return syns, fins


# --- what is in the file


@needs_packets
@pytest.mark.parametrize("immediate", [False, True])
def test_from_the_first_packet_to_the_last(server: Server, tmp_path: Path, immediate: bool) -> None:
    path = tmp_path / "all.pcap"
    with Recorder(path, ports=[server.port], interface="lo", immediate=immediate) as recorder:
        ports = server.visits(20)
    syns, fins = clients_in([path], server.port)
    assert ports <= syns
    assert ports <= fins
    assert recorder.summary.captured == len(lines_of(path)) >= 20 * 7
    assert recorder.summary.dropped == 0
    assert recorder.trouble is None
    assert recorder.files() == [path]
    assert path.stat().st_mode & 0o077 == 0


@needs_packets
def test_an_endpoint_on_any_interface_in_a_ring_and_with_little_of_each(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "ring.pcap"
    hosts = [Endpoint("127.0.0.1", server.port)]
    with Recorder(path, hosts=hosts, interface="lo", ring=Ring(3, 1), snaplen=0) as recorder:
        server.visits(200, b"x" * 20_000)
    files = recorder.files()
    assert {each.name for each in files} == {"ring.pcap0", "ring.pcap1", "ring.pcap2"}
    assert all(each.stat().st_size < 1_200_000 for each in files)
    assert 200 < sum(len(lines_of(each)) for each in files) < recorder.summary.captured
    assert recorder.summary.dropped == 0

    short = tmp_path / "short.pcap"
    with Recorder(short, ports=[server.port], snaplen=96, immediate=True):
        server.visits(20, b"x" * 20_000)
    assert 0 < short.stat().st_size < 120 * len(lines_of(short)) + 24


@needs_packets
def test_it_ends_by_itself_after_so_many(server: Server, tmp_path: Path) -> None:
    with Recorder(tmp_path / "n.pcap", ports=[server.port], interface="lo", packets=9, immediate=True) as recorder:
        server.visits(3)
        assert recorder.wait(60)
    assert recorder.summary.captured == len(lines_of(tmp_path / "n.pcap")) == 9
    assert recorder.trouble is None


@needs_packets
def test_records_in_the_given_namespace(server: Server, tmp_path: Path) -> None:
    apart = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], check=False).returncode:
        pytest.skip("no network namespace can be made here")
    arguments: dict[str, Any] = {"ports": [server.port], "interface": "lo", "immediate": True}
    with (
        Recorder(tmp_path / "apart.pcap", **arguments, prefix=apart) as recorder,
        Recorder(tmp_path / "here.pcap", **arguments),
    ):
        server.visits(3)
    assert recorder.summary.captured == 0
    assert lines_of(tmp_path / "apart.pcap") == []
    assert lines_of(tmp_path / "here.pcap")


@needs_packets
def test_scapy_records_the_same(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scapy")
    path = tmp_path / "s.pcap"
    arguments: dict[str, Any] = {"ports": [server.port], "filter": capture_filter([server.port]), "interface": "lo"}
    for attempt in ("with libpcap", "without"):
        with ScapyRecorder(path, **arguments, overwrite=True, snaplen=96) as recorder:
            ports = server.visits(20, b"x" * 5_000)
        syns, fins = clients_in([path], server.port)
        assert ports <= syns, attempt
        assert ports <= fins
        assert recorder.summary.captured == len(lines_of(path))
        assert max(len(line) for line in lines_of(path)) > 0
        assert path.stat().st_size < 120 * recorder.summary.captured + 24
        assert bool(recorder.notes) is (attempt == "without")

        def cannot(*_: object) -> None:
            raise ImportError("libpcap is not available")

        monkeypatch.setattr("scapy.arch.linux.attach_filter", cannot)
    with ScapyRecorder(tmp_path / "n.pcap", **arguments, packets=5) as recorder:
        server.visits(3)
        assert recorder.wait(60)
    assert len(lines_of(tmp_path / "n.pcap")) == 5


# --- no process is left


def children_of(name: str, argument: str) -> list[int]:
    """Processes of this name with an argument that contains this."""
    matches = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if words[0].endswith(name) and any(argument in word for word in words):
            matches.append(int(entry.name))
    return matches


def eventually(condition: Any, what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.02)


@needs_packets
def test_tcpdump_ends_with_the_program_that_is_killed(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "left.pcap"
    program = f"""
        import sys, time
        from sojourn.host.recorder import Recorder
        with Recorder({str(path)!r}, ports=[{server.port}], interface="lo", immediate=True):
            print("ready", flush=True)
            time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        server.visits(5)
        assert children_of("tcpdump", str(path))
        # The packets arrive, then the parent process ends at once.
        eventually(lambda: path.stat().st_size > 2_000, "packets")
        os.kill(parent.pid, signal.SIGKILL)
    eventually(lambda: not children_of("tcpdump", str(path)), "tcpdump to end")
    assert len(lines_of(path)) > 5


@needs_packets
def test_nothing_runs_on_after_an_exception(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"), Recorder(tmp_path / "e.pcap", ports=[server.port], immediate=True):
        raise ValueError("mine")
    assert not children_of("tcpdump", str(tmp_path))
    assert not children_of("sh", "kill -TERM") or all(
        "e.pcap" not in Path(f"/proc/{pid}/cmdline").read_text() for pid in children_of("sh", "kill -TERM")
    )


# --- what goes wrong


@needs_packets
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"interface": "nope0"}, "No such device"),
        ({"filter": "tcp prot 3"}, "syntax error"),
        ({"prefix": ["/no/such/program"]}, "cannot be started"),
        ({"user": "no-such-user"}, "no-such-user"),
    ],
)
def test_why_tcpdump_does_not_record(tmp_path: Path, given: dict[str, Any], words: str) -> None:
    with pytest.raises(CaptureError, match=words), Recorder(tmp_path / "x.pcap", **{"ports": [1], **given}):
        pytest.fail("it records")


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_text("mine")
    with (
        pytest.raises(CaptureError, match=r"a\.pcap is there already.*--force"),
        Recorder(tmp_path / "a.pcap", ports=[1]),
    ):
        pytest.fail("it records")
    assert (tmp_path / "a.pcap").read_text() == "mine"
    with pytest.raises(CaptureError, match="no such folder"), Recorder(tmp_path / "none/a.pcap", ports=[1]):
        pytest.fail("it records")


@needs_packets
def test_a_full_disk_ends_it_and_is_said(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Recorder(tmp_path / "full.pcap", ports=[server.port], interface="lo", immediate=True) as recorder:
        server.visits(3)
        full = shutil.disk_usage(tmp_path)._replace(free=1_000_000)
        monkeypatch.setattr(limits.shutil, "disk_usage", lambda _: full)
        assert not recorder.wait(60)
    assert recorder.trouble is not None
    assert "no room left (1.0 MB)" in recorder.trouble
    assert lines_of(tmp_path / "full.pcap")


# --- privileges


def test_a_files_capability_is_seen(tmp_path: Path) -> None:
    program = tmp_path / "tcpdump"
    shutil.copy("/bin/true", program)
    assert not privileges.file_carries_net_raw(str(program))
    if shutil.which("setcap") is None or subprocess.run(["setcap", "cap_net_raw+ep", program], check=False).returncode:
        pytest.skip("setcap is missing, or may not be used here")
    assert privileges.file_carries_net_raw(str(program))
    subprocess.run(["setcap", "cap_net_raw+p", program], check=True)
    assert not privileges.file_carries_net_raw(str(program))
    subprocess.run(["setcap", "cap_net_admin+ep", program], check=True)
    assert not privileges.file_carries_net_raw(str(program))


def test_what_is_missing_comes_with_what_mends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privileges, "has_capability", lambda _: False)
    program = tmp_path / "tcpdump"
    shutil.copy("/bin/true", program)
    monkeypatch.setattr(privileges, "tcpdump_path", lambda: str(program))
    result = privileges.missing_for_capture(tmp_path / "none", "nope0", command=["sojourn", "capture", "--port", "80"])
    assert "CAP_NET_RAW is missing" in result[0]
    assert f"sudo setcap cap_net_raw+ep {program}, or sudo sojourn capture --port 80" in result[0]
    assert result[1].startswith("no interface 'nope0': there are any, ")
    assert "lo" in result[1]
    assert result[2] == f"{tmp_path}/none: no such folder that this user may enter: mkdir -p {tmp_path}/none"
    assert "setcap" not in privileges.missing_for_capture(tmp_path, sniffer="scapy")[0]
    monkeypatch.setattr(privileges.sys, "platform", "darwin")
    assert "on Linux only" in privileges.missing_for_capture(tmp_path)[0]


def test_root_becomes_a_user_with_write_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        assert privileges.user_for(tmp_path) is None
        return
    monkeypatch.delenv("SUDO_UID", raising=False)
    open_folder = Path("/tmp")
    assert privileges.user_for(tmp_path) == "root"  # pytest's folders are root's alone
    none_waiting = str(privileges.pwd.getpwnam("nobody").pw_uid)
    monkeypatch.setenv("SUDO_UID", none_waiting)
    assert privileges.user_for(open_folder) == "nobody"
    assert privileges.user_for(tmp_path) == "root"
    monkeypatch.setattr(privileges, "has_capability", lambda _: False)
    assert privileges.user_for(open_folder) is None
