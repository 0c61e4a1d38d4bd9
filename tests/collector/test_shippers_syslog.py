"""nginx's log by syslog: what arrives, how the page removes the header, and which lines are lost."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("chdb")

from clickhouse_http import StandIn
from collector_support import eventually
from nginx_requests import get
from shippers_support import Store, started
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.ports import free_port
from sojourn_lab.runtime.process import Process

HEADER = re.compile(rb"<190>[A-Z][a-z]{2} [ 0-9]\d \d\d:\d\d:\d\d (?:(\S+) )?nginx: ")
LARGEST = 65_507  # bytes: 65,535 of a packet less the headers of IPv4 and UDP
Begin = Callable[..., Nginx]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, store_in: Callable[[Path], StandIn]) -> Iterator[Store]:
    with started(tmp_path_factory.mktemp("syslog"), store_in) as store:
        yield store


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    """Return a UDP socket on a free port of 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(60)
        yield udp


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Return a function that starts nginx with a log by syslog and the same log as a file."""
    if (reason := Nginx.why_unavailable()) is not None:
        pytest.skip(reason)
    running: list[Nginx] = []

    def start(server: str) -> Nginx:
        text = f"access_log syslog:server={server} sojourn; access_log {tmp_path}/sojourn.jsonl sojourn;"
        location = "large_client_header_buffers 4 256k; location / { return 204; }"
        running.append(Nginx(tmp_path, text + location, access_log=tmp_path / "sojourn.jsonl").start())
        return running[-1]

    yield start
    for nginx in running:
        nginx.stop()


def lines(nginx: Nginx, count: int) -> list[bytes]:
    """Return the lines of the log file, once there are as many."""

    def logged() -> list[bytes]:
        text = nginx.access_log.read_bytes()
        return text.splitlines() if text.count(b"\n") >= count and text.endswith(b"\n") else []

    return eventually(logged, f"{count} lines")


def silent(receiver: socket.socket) -> bool:
    """Return whether nothing has arrived."""
    receiver.setblocking(False)
    try:
        return not receiver.recv(1 << 17)
    except BlockingIOError:
        return True
    finally:
        receiver.settimeout(60)


@pytest.mark.parametrize(("option", "host"), [("", True), (",nohostname", False)])
def test_message_is_a_header_and_the_line(option: str, host: bool, begin: Begin, receiver: socket.socket) -> None:
    nginx = begin(f"127.0.0.1:{receiver.getsockname()[1]}{option}")
    get(nginx.port, b"/a\xff")
    message = receiver.recv(1 << 17)
    header = HEADER.match(message)
    assert header is not None, message
    assert (header[1] == socket.gethostname().encode()) == host
    assert [message[header.end() :]] == lines(nginx, 1)


def test_page_removes_the_header_in_the_store(
    store: Store, begin: Begin, receiver: socket.socket, tmp_path: Path
) -> None:
    store.empty()
    nginx = begin(f"127.0.0.1:{receiver.getsockname()[1]}")
    for number in range(3):
        get(nginx.port, f"/{number}".encode())
    messages = tmp_path / "syslog.txt"
    messages.write_bytes(b"".join(receiver.recv(1 << 17) + b"\n" for _ in range(3)) + b"<190>no record\n")
    for _ in range(2):
        done = store.run("syslog messages", {"/var/log/sojourn/syslog.txt": messages})
        assert (done.returncode, done.stdout) == (0, "")
    assert store.counts() == (3, 1)
    assert store.http.ask("SELECT uri FROM requests FINAL ORDER BY uri") == [{"uri": f"/{n}"} for n in range(3)]
    assert store.http.ask("SELECT raw, reason FROM dead_letters FINAL") == [
        {"raw": "<190>no record", "reason": "invalid_json"}
    ]


def test_line_larger_than_a_datagram_is_lost_as_a_whole(begin: Begin, receiver: socket.socket) -> None:
    nginx = begin(f"127.0.0.1:{receiver.getsockname()[1]},nohostname")
    get(nginx.port, b"/")
    overhead = len(receiver.recv(1 << 17)) - 1
    sizes = []
    # Numbers in the record, such as the length of the request, take a few bytes more or less.
    for length in range(LARGEST - overhead - 20, LARGEST - overhead + 20, 2):
        get(nginx.port, b"/" + b"a" * (length - 1))
        if not silent(receiver):
            sizes.append(length)
    get(nginx.port, b"/last")
    last = receiver.recv(1 << 17)
    assert b'"uri":"/last"' in last
    logged = lines(nginx, 22)
    header = len(last) - len(logged[-1])
    arrived = [len(line) + header for line in logged[1:-1]]
    assert len(sizes) == sum(size <= LARGEST for size in arrived)
    assert 0 < len(sizes) < len(arrived)
    assert "Message too long" in nginx.error_log_text()


def test_line_of_a_full_unix_socket_or_none_is_lost_and_nginx_answers(begin: Begin, tmp_path: Path) -> None:
    path = tmp_path / "log.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(path))
        receiver.settimeout(60)
        nginx = begin(f"unix:{path},nohostname")
        # More than UDP can carry in one message.
        get(nginx.port, b"/" + b"a" * 100_000)
        message = receiver.recv(1 << 18)
        header = HEADER.match(message)
        assert header is not None
        assert [message[header.end() :]] == lines(nginx, 1)
        count = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text()) + 20
        for number in range(count):
            assert get(nginx.port, f"/{number}".encode()) == 204
        waiting = 0
        while not silent(receiver):
            waiting += 1
        assert 0 < waiting < count
    assert len(lines(nginx, count + 1)) == count + 1


def test_lines_are_lost_while_the_receiver_is_away(begin: Begin) -> None:
    port = free_port()
    nginx = begin(f"127.0.0.1:{port},nohostname")
    for number in range(5):
        assert get(nginx.port, f"/away/{number}".encode()) == 204
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", port))
        receiver.settimeout(60)
        get(nginx.port, b"/back/0")  # may be lost, too: the error of the line before is reported with it
        get(nginx.port, b"/back/1")
        while b'"uri":"/back/1"' not in (message := receiver.recv(1 << 17)):
            assert b'"uri":"/away/' not in message
    assert len(lines(nginx, 7)) == 7
    assert "Connection refused" in nginx.error_log_text()


def test_rsyslog_writes_the_lines_of_the_log(store: Store, begin: Begin, tmp_path: Path) -> None:
    program = shutil.which("rsyslogd", path="/usr/sbin:/sbin:/usr/bin")
    if program is None:
        pytest.skip("rsyslog is not installed (apt-get install rsyslog): its configuration was not run")
    port = free_port()
    config, output = tmp_path / "rsyslog.conf", tmp_path / "written.jsonl"
    config.write_text(store.block("rsyslog.conf", {"5140": port, "/var/log/sojourn/sojourn.jsonl": output}))
    command = [program, "-n", "-f", str(config), "-i", str(tmp_path / "rsyslog.pid")]
    with Process(command, name="rsyslogd", folder=tmp_path) as rsyslog:
        rsyslog.wait_until(lambda: f":{port:04X} " in Path("/proc/net/udp").read_text(), 60, "rsyslog's port")
        nginx = begin(f"127.0.0.1:{port}")
        paths = [b"/", b'/quo"te', b"/raw\xff\xfe", b"/%0a%09", "/ümlaut".encode(), b"/" + b"a" * 60_000]
        for path in paths:
            get(nginx.port, path)
        logged = lines(nginx, len(paths))
        rsyslog.wait_until(lambda: output.exists() and output.read_bytes().count(b"\n") >= len(paths), 60, "lines")
    assert output.read_bytes().splitlines() == logged
