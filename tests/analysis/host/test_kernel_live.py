"""Figures of the kernel about real sockets in a network namespace of the test."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import getpass
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import pytest
from sojourn.analyses.kernel.analysis import kernel
from sojourn.host.counters import counters
from sojourn.host.kernel_queues import KernelProbe
from sojourn.host.sample import Raindrops
from sojourn.host.sampler import KernelSampler
from sojourn.host.samples import read_samples, samples_of
from sojourn.host.servers.asker import Asker
from sojourn.host.servers.kinds import Server
from sojourn.host.sock_diag import (
    ListeningSocket,
    listening_sockets,
    listening_sockets_of_ss,
    ss_output,
    syn_recv_counts,
    syn_recv_counts_of_ss,
)
from sojourn.host.unix_diag import listening_unix_sockets, listening_unix_sockets_of_ss
from sojourn.model.errors import SojournError
from sojourn_lab.runtime.ports import free_ports, wait_for_port
from sojourn_lab.runtime.process import Process

T = TypeVar("T")
ROOT = Path(__file__).parents[3]
CLONE_NEWNET = 0x40000000
SIOCSIFADDR, SIOCSIFFLAGS, SIOCSIFNETMASK, IFF_UP = 0x8916, 0x8914, 0x891C, 0x1
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000
DEADLINE_S = 60.0
HERE, SILENT = "192.0.2.1", "192.0.2.77"  # RFC 5737; no host answers at the second


def enter_namespace() -> None:
    """Move this thread, and what it starts, to a network namespace that ends with its sockets."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    bring_up("lo")


def bring_up(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", interface.encode(), IFF_UP))


def in_namespace(function: Callable[[], T]) -> T:
    """What ``function`` returns, called in a thread in a network namespace of its own."""
    if reason := why_no_namespace():
        pytest.skip(reason)
    with ThreadPoolExecutor(1, initializer=enter_namespace) as pool:
        return pool.submit(function).result(timeout=3 * DEADLINE_S)


@cache
def why_no_namespace() -> str | None:
    if not sys.platform.startswith("linux"):
        return "network namespaces are Linux's"
    refused: list[OSError] = []

    def tried() -> None:
        try:
            enter_namespace()
        except OSError as error:
            refused.append(error)

    thread = threading.Thread(target=tried)
    thread.start()
    thread.join()
    return f"a network namespace cannot be made: {refused[0]}" if refused else None


def set_sysctl(name: str, value: int) -> None:
    Path("/proc/sys", *name.split(".")).write_text(str(value))


def eventually(condition: Callable[[], bool], what: str, seconds: float = DEADLINE_S) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited {seconds} s for {what}"
        time.sleep(0.005)


@contextmanager
def listening(backlog: int, address: str = "127.0.0.1", *, reuse: bool = False, port: int = 0) -> Iterator[int]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as listener:
        if reuse:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((address, port))
        listener.listen(backlog)
        yield listener.getsockname()[1]


def knock(port: int, times: int, stack: ExitStack) -> None:
    """Connect without waiting for an answer."""
    for _ in range(times):
        client = stack.enter_context(socket.socket())
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", port))


def listening_to(address: str, port: int, depth: int) -> ListeningSocket:
    """The only listening socket, once so many wait: a client is connected a moment before the server knows it."""
    observed: list[ListeningSocket] = []

    def holds() -> bool:
        observed[:] = listening_sockets()
        return [(each.address, each.port, each.depth) for each in observed] == [(address, port, depth)]

    eventually(holds, f"{depth} connections in the queue")
    return observed[0]


def test_a_full_accept_queue_is_seen_and_what_it_turned_away_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "kernel.jsonl"

    def filled() -> int:
        set_sysctl("net.core.somaxconn", 2)
        with listening(backlog=64) as port, ExitStack() as stack:
            with KernelSampler(path, {"app": port}, 0.02, backlogs={port: 64}):
                knock(port, 3, stack)
                eventually(lambda: listening_sockets()[0].depth == 3, "three connections in the queue")
                knock(port, 4, stack)
                eventually(lambda: counters()["ListenOverflows"] >= 4, "four SYNs turned away")
            return port

    port = in_namespace(filled)
    result = kernel(read_samples([path]))
    (app,) = result.sockets.to_dicts()
    assert (app["socket"], app["port"], app["deepest"], app["limit"], app["asked"]) == ("app", port, 3, 2, 64)
    assert app["full"] > 0
    assert result.overflows is not None
    assert result.overflows >= 4
    assert result.other_drops == 0
    assert result.settings["somaxconn"] == 2
    assert {"overflowed", "filled", "cut"} <= {finding.key for finding in result.findings}


def test_the_queue_holds_one_more_than_its_limit_whatever_the_family() -> None:
    def filled() -> None:
        for address in ("127.0.0.1", "::1"):
            with listening(2, address) as port, ExitStack() as stack:
                for _ in range(3):
                    stack.enter_context(socket.create_connection((address, port), timeout=DEADLINE_S))
                result = listening_to(address, port, 3)
                assert result.limit == 2
                (same,) = listening_sockets_of_ss(ss_output("-Htln"))
                assert same == result._replace(cookie=0)

    if shutil.which("ss") is None:
        pytest.skip("ss is not installed")
    in_namespace(filled)


@contextmanager
def listening_unix(backlog: int, path: str) -> Iterator[socket.socket]:
    """A listening Unix socket; a path that begins with @ is an abstract name."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.replace("@", "\0", 1) if path.startswith("@") else path)
        listener.listen(backlog)
        yield listener


def knock_unix(path: str, times: int, stack: ExitStack) -> list[int]:
    """Error numbers of connections that do not wait for room in the queue; 0: connected."""
    errors = []
    for _ in range(times):
        client = stack.enter_context(socket.socket(socket.AF_UNIX))
        client.setblocking(False)
        errors.append(client.connect_ex(path.replace("@", "\0", 1) if path.startswith("@") else path))
    return errors


@pytest.mark.parametrize("backlog", [0, 2])
def test_the_queue_of_a_unix_socket_holds_one_more_than_its_limit(tmp_path: Path, backlog: int) -> None:
    path = str(tmp_path / "a socket")

    def filled() -> None:
        for where in (path, f"@{path}"):
            with listening_unix(backlog, where), ExitStack() as stack:
                connected, refused = backlog + 1, 3
                assert knock_unix(where, connected + refused, stack) == [0] * connected + [errno.EAGAIN] * refused
                (row,) = listening_unix_sockets()
                assert (row.address, row.port, row.depth, row.limit) == (where, 0, connected, backlog)
                if shutil.which("ss") and backlog:  # a limit of 0 is also what ss prints where it knows none
                    assert listening_unix_sockets_of_ss(ss_output("-Hxln")) == [row._replace(cookie=0)]

    in_namespace(filled)


def test_full_unix_sockets_are_reported_beside_tcp_sockets(tmp_path: Path) -> None:
    path, app = tmp_path / "kernel.jsonl", str(tmp_path / "app.sock")

    def filled() -> None:
        set_sysctl("net.core.somaxconn", 2)
        with (
            listening(backlog=5),
            listening_unix(64, app),
            ExitStack() as stack,
            KernelSampler(path, None, 0.02, backlogs={app: 64}),
        ):
            knock_unix(app, 5, stack)
            eventually(lambda: listening_unix_sockets()[0].depth == 3, "three connections in the queue")

    in_namespace(filled)
    samples = read_samples([path])
    result = kernel(samples)
    unix, tcp = result.sockets.to_dicts()
    assert (unix["socket"], unix["address"], unix["port"]) == (app, app, None)
    assert (unix["deepest"], unix["limit"], unix["asked"], unix["syn_recv"]) == (3, 2, 64, None)
    assert (tcp["port"] is not None, tcp["deepest"], tcp["limit"]) == (True, 0, 2)
    findings = {(finding.key, finding.socket): finding.sentence for finding in result.findings}
    assert "EAGAIN" in findings["filled", app]
    assert ("cut", app) in findings
    assert result.overflows == 0
    assert read_samples([path], unix=[app]).sockets["port"].null_count() == len(samples.times)
    assert read_samples([path], ports=[tcp["port"]]).sockets["port"].null_count() == 0


def test_unix_sockets_are_selected_by_path_and_known_again(tmp_path: Path) -> None:
    app, other = str(tmp_path / "app.sock"), str(tmp_path / "other.sock")

    def selected() -> None:
        with listening(5) as port, listening_unix(5, other), listening_unix(6, app):
            probe = KernelProbe(unix={"app": app}, backlogs={app: 6})
            assert [(each.name, each.limit, each.backlog_requested) for each in probe.sample().sockets] == [
                ("app", 6, 6)
            ]
            Path(app).unlink()
            with listening_unix(7, app):  # a server that restarts while the old one is still listening
                assert [(each.name, each.limit) for each in probe.sample().sockets] == [("app", 6), ("app #2", 7)]
            both = KernelProbe({"web": port}, unix={"app": app}).sample()
            assert [(each.name, each.port) for each in both.sockets] == [("web", port), ("app", 0)]
            assert [each.name for each in KernelProbe({"web": port}).sample().sockets] == ["web"]
            assert [each.address for each in KernelProbe().sample().sockets] == ["127.0.0.1", app, other]

    in_namespace(selected)


def test_a_full_unix_socket_is_a_502_of_nginx(tmp_path: Path) -> None:
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed")
    (port,) = free_ports(1)
    app, log = str(tmp_path / "app.sock"), tmp_path / "error.log"
    configuration = tmp_path / "nginx.conf"
    user = f"user {getpass.getuser()};\n" if os.geteuid() == 0 else ""  # tmp_path is closed to others
    temporary = "".join(
        f"{name}_temp_path {tmp_path}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration.write_text(
        f"{user}daemon off; pid {tmp_path}/nginx.pid; error_log {log};\nevents {{}}\nhttp {{ access_log off;\n"
        f"{temporary}"
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://unix:{app}; }} }} }}\n"
    )
    command = [nginx, "-p", str(tmp_path), "-c", str(configuration)]
    with listening_unix(0, app), ExitStack() as stack, Process(command, name="nginx", folder=tmp_path) as process:
        wait_for_port("127.0.0.1", port, 20.0, process)
        assert knock_unix(app, 1, stack) == [0]
        client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 502")
    assert "Resource temporarily unavailable" in log.read_text()


def test_sockets_that_share_a_port_are_kept_apart_and_known_again() -> None:
    def shared() -> None:
        with listening(5, "0.0.0.0", reuse=True) as port, listening(5, "::1", port=port):
            probe = KernelProbe({"app": port})
            assert [each.name for each in probe.sample().sockets] == ["app", "app"]
            with listening(6, "0.0.0.0", reuse=True, port=port), ExitStack() as stack:
                for _ in range(5):
                    stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S))
                expected = [("app", "0.0.0.0", 5), ("app #2", "0.0.0.0", 6), ("app", "::1", 5)]

                def all_wait() -> bool:
                    sockets = probe.sample().sockets
                    assert [(each.name, each.address, each.limit) for each in sockets] == expected
                    return sum(each.depth for each in sockets) == 5

                eventually(all_wait, "five connections in the two queues")
            with listening(7, "0.0.0.0", reuse=True, port=port):
                assert [(each.name, each.limit) for each in probe.sample().sockets] == [
                    ("app", 5),
                    ("app #2", 7),
                    ("app", 5),
                ]

    in_namespace(shared)


def test_many_sockets_come_in_several_answers() -> None:
    def many() -> None:
        with ExitStack() as stack:
            backlogs = {stack.enter_context(listening(number + 1)): number + 1 for number in range(700)}
            assert {each.port: each.limit for each in listening_sockets()} == backlogs

    in_namespace(many)


def test_unfinished_handshakes_are_counted() -> None:
    scapy = pytest.importorskip("scapy.layers.inet", reason="scapy is not installed")
    if not os.access("/dev/net/tun", os.W_OK):
        pytest.skip("/dev/net/tun cannot be used here")

    def half_open() -> None:
        tun = os.open("/dev/net/tun", os.O_RDWR)
        with os.fdopen(tun, "r+b", buffering=0), listening(64, "0.0.0.0") as port, ExitStack() as stack:
            fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"t0", IFF_TUN | IFF_NO_PI))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                for request, address in ((SIOCSIFADDR, HERE), (SIOCSIFNETMASK, "255.255.255.0")):
                    arguments = struct.pack("16sHH4s8x", b"t0", socket.AF_INET, 0, socket.inet_aton(address))
                    fcntl.ioctl(any_socket, request, arguments)
            bring_up("t0")
            for number in range(40):
                syn = scapy.IP(src=SILENT, dst=HERE) / scapy.TCP(sport=2000 + number, dport=port, flags="S", seq=1)
                os.write(tun, bytes(syn))
            eventually(lambda: syn_recv_counts() == {(HERE, port): 40}, "forty handshakes under way")
            if shutil.which("ss"):
                assert syn_recv_counts_of_ss(ss_output("-Htn", "state", "syn-recv")) == {(HERE, port): 40}
            stack.enter_context(socket.create_connection((HERE, port), timeout=DEADLINE_S))
            eventually(
                lambda: (
                    [(each.name, each.depth, each.syn_recv) for each in KernelProbe().sample().sockets]
                    == [(f"0.0.0.0:{port}", 1, 40)]
                ),
                "one connection beside forty handshakes under way",
            )

    in_namespace(half_open)


@pytest.mark.parametrize("cookies", [0, 1])
def test_a_full_syn_queue_drops_or_makes_cookies(cookies: int) -> None:
    def filled() -> None:
        set_sysctl("net.ipv4.tcp_syncookies", cookies)
        set_sysctl("net.ipv4.tcp_max_syn_backlog", 1024)
        with socket.socket() as listener, ExitStack() as stack:
            # An entry remains in the SYN queue until data arrives.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 30)
            listener.bind(("127.0.0.1", 0))
            listener.listen(4)
            port = listener.getsockname()[1]
            probe = KernelProbe()
            before = probe.sample()
            knock(port, 9, stack)
            counter = "SyncookiesSent" if cookies else "TCPReqQFullDrop"
            eventually(lambda: counters()[counter] >= 3, "three more that find the SYN queue full")
            result = kernel(samples_of([before, probe.sample()]))
        keys = {finding.key for finding in result.findings}
        # The backlog limits the SYN queue, too; kernels differ in whether it holds that many or one more.
        assert result.sockets["syn_recv"][0] in (4, 5)
        assert result.overflows == 0
        if cookies:
            assert (result.syn_drops, result.other_drops) == (0, 0)
            assert keys == {"cookies", "deferred"}
        else:
            assert result.cookies == 0
            assert result.syn_drops == result.other_drops
            assert keys == {"other_drops", "cookies_off", "deferred"}

    in_namespace(filled)


def test_a_file_that_grows_too_large_becomes_the_older_part_of_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "kernel.jsonl"
    rotated = path.with_name("kernel.jsonl.1")

    def sampled() -> None:
        with listening(5) as port:
            with KernelSampler(path, {"app": port}, 0.005):
                eventually(lambda: path.read_bytes().count(b"\n") >= 5, "five samples")
            # The first sample exceeds the limit, the last one of the new file alone does not.
            with KernelSampler(path, {"app": port}, 60.0, keep=True, max_bytes=path.stat().st_size):
                assert rotated.exists()

    in_namespace(sampled)
    samples = read_samples([tmp_path])
    assert [Path(name).name for name in samples.names] == ["kernel.jsonl.1", "kernel.jsonl"]
    assert samples.times.is_sorted()
    # Either file tells the settings: it may be all that is kept.
    assert (
        read_samples([path]).settings["name"].to_list()
        == samples.settings["name"].unique(maintain_order=True).to_list()
    )


def test_a_file_that_cannot_be_written_is_said_at_once() -> None:
    if not os.access("/dev/full", os.W_OK):
        pytest.skip("there is no /dev/full")
    with pytest.raises(SojournError, match="/dev/full: No space left on device"), KernelSampler(Path("/dev/full"), {}):
        pass


def test_a_file_that_cannot_be_written_any_more_ends_the_sampling_in_words(tmp_path: Path) -> None:
    pipe = tmp_path / "kernel.jsonl"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with KernelSampler(pipe, {}, 0.01) as sampler:
        os.close(reader)
        eventually(lambda: sampler.failed is not None, "the sampler to give up")
    assert sampler.failed == f"{pipe}: Broken pipe"


def test_samples_that_could_not_be_taken_in_time_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look, slow = KernelProbe.sample, iter([0.0, 0.25])

    def looked(probe: KernelProbe) -> object:
        time.sleep(next(slow, 0.0))
        return look(probe)

    monkeypatch.setattr(KernelProbe, "sample", looked)
    path = tmp_path / "kernel.jsonl"
    with KernelSampler(path, {}, 0.05) as sampler:
        eventually(lambda: path.exists() and len(path.read_bytes().splitlines()) >= 4, "four samples")
    assert sampler.missed >= 3
    result = kernel(read_samples([path]))
    assert result.missing >= 1
    assert "were due and not taken" in result.unavailable["samples"][1]


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """``sojourn kernel --out``, recording."""
    path = tmp_path / "kernel.jsonl"
    command = [sys.executable, "-m", "sojourn", "kernel", "--out", str(path), "--period", "0.05", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            eventually(lambda: path.exists() and len(path.read_bytes().splitlines()) >= 3, "three samples")
            yield process, path
        finally:
            if process.poll() is None:
                process.kill()


def test_sigterm_ends_a_recording_with_the_file_complete(recording: tuple[subprocess.Popen[str], Path]) -> None:
    process, path = recording
    process.send_signal(signal.SIGTERM)
    document = json.loads(process.communicate(timeout=DEADLINE_S)[0])
    assert process.returncode == 0
    assert document["records"]["read"] == document["samples"] == len(path.read_bytes().splitlines())
    assert document["records"]["rejected"] == 0


CONFIG_RU = """
require "raindrops"
use Raindrops::Middleware
run ->(env) {
  if env["PATH_INFO"] == "/busy"
    File.write(ENV["BEGUN"], "")
    sleep(0.02) until File.exist?(ENV["DONE"])
  end
  [200, {}, ["ok"]]
}
"""


@contextmanager
def unicorn(folder: Path, config: Path, path: str, **environment: str) -> Iterator[int]:
    """The port of a unicorn with one worker, which has answered a request for ``path``."""
    if shutil.which("unicorn") is None or shutil.which("ruby") is None:
        pytest.skip("unicorn is not installed")
    if subprocess.run(["ruby", "-e", 'require "raindrops"'], capture_output=True, check=False).returncode:
        pytest.skip("raindrops is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "unicorn.rb").write_text(f'worker_processes 1\nlisten "127.0.0.1:{port}", backlog: 16\n')
    command = ["unicorn", "-c", str(folder / "unicorn.rb"), "--env", "none", str(config)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **environment}, stdout=log, stderr=log)
    try:
        eventually(lambda: answers(port, path), "unicorn to answer")
        yield port
    finally:
        process.terminate()
        process.wait(timeout=DEADLINE_S)


def answers(port: int, path: str) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            return client.recv(100).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def test_raindrops_and_the_kernel_agree_and_a_busy_unicorn_is_said(tmp_path: Path) -> None:
    config, begun, done = tmp_path / "config.ru", tmp_path / "begun", tmp_path / "done"
    config.write_text(CONFIG_RU)
    with unicorn(tmp_path, config, "/", BEGUN=str(begun), DONE=str(done)) as port, ExitStack() as stack:
        stack.callback(done.touch)
        url = f"http://127.0.0.1:{port}/_raindrops"
        idle = Server("unicorn", url).answer(DEADLINE_S)
        assert isinstance(idle, Raindrops)
        # The question is the one connection that is accepted.
        assert idle.listeners == {f"127.0.0.1:{port}": (1, 0)}
        assert (idle.calling, idle.writing) == (0, 0)
        for _ in range(4):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S))
            client.sendall(b"GET /busy HTTP/1.0\r\n\r\n")
        eventually(lambda: begun.exists() and depth(port) == 3, "three requests behind the one in service")
        asker = Asker(Server("unicorn", url))
        late = asker.sample(0.1)
        assert isinstance(late, str)
        # How long it waited, which is longer than its budget on a busy machine.
        waited = re.match(r"no answer for (\d+\.\d) s", late)
        assert waited is not None
        assert float(waited[1]) >= 0.1
        eventually(lambda: depth(port) == 4, "the question in the queue")
        assert isinstance(asker.sample(0.05), str)
        # The two looks put one question into the queue, not two.
        assert depth(port) == 4
        done.touch()
        answered = asker.sample(DEADLINE_S)
    assert isinstance(answered, Raindrops)
    assert answered.seconds > 0.15
    # The question was the last in the queue: it tells of an empty one.
    assert answered.listeners[f"127.0.0.1:{port}"][1] == 0


def test_the_labs_unicorn_answers_for_raindrops(tmp_path: Path) -> None:
    config, library = ROOT / "lab/backend/config.ru", ROOT / "collector/middleware/ruby/lib"
    with unicorn(tmp_path, config, "/ready", RUBYLIB=str(library)) as port:
        sample = KernelProbe({"app": port}, raindrops=[f"http://127.0.0.1:{port}"], budget=DEADLINE_S).sample()
    (app,) = sample.sockets
    (answer,) = sample.raindrops.values()
    assert (app.depth, app.limit) == (0, 16)
    assert isinstance(answer, Raindrops)
    assert answer.listeners == {f"127.0.0.1:{port}": (1, 0)}


def depth(port: int) -> int:
    return next(each.depth for each in listening_sockets() if each.port == port)


def test_the_bpftrace_script_compiles() -> None:
    bpftrace = shutil.which("bpftrace")
    if bpftrace is None or not Path("/sys/kernel/btf/vmlinux").exists() or os.geteuid() != 0:
        pytest.skip("bpftrace, the kernel's types (BTF) and root are not all here")
    script = files("sojourn.host").joinpath("accept_latency.bt")
    done = subprocess.run([bpftrace, "-d", str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
