"""Every line of a real Apache is read, whichever LogFormat it has, with the values of another log of the requests."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest
import sojourn
from doctor_support import DEADLINE_S
from sojourn_lab.runtime.ports import free_port, wait_for_port
from sojourn_lab.runtime.process import Process
from test_real_logs import program_or_skip

TRUTH = "%{end:usec}t %>s %D %B"
FORMATS = {
    "combined": '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %D',
    "bare": "%h %u %t %r %>s %b %D %{User-Agent}i",
    "first": "%D %>s %{end:usec}t %r",
    "agent_in_front": "%{User-Agent}i | %r | %{end:msec}t %>s %{ms}T %B",
    "bars": "%t|%h|%>s|%D|%m|%U|%q|%H|%X|%k|%p|%P",
    "json": '{"t":"%{end:usec}t","http":{"status":%>s,"us":%D},"agent":"%{User-Agent}i","line":"%r"}',
    "conditions": '%{%d/%b/%Y %T}t.%{msec_frac}t %t %>s %D "%!200{X-One}i" %{X-One}i "%{a}C"',
    "own_names": "%t %>s %D %{start}i %{status}o %{X-Two}i",
}
US_FORMATS = tuple(name for name in FORMATS if name != "agent_in_front")
REQUESTS = (
    b"GET /a?x=1 HTTP/1.1\r\nHost: shop\r\nUser-Agent: curl/8.5\r\nConnection: close\r\n\r\n",
    b'GET /b"c%20d HTTP/1.1\r\nHost: shop\r\nUser-Agent: a "q" \\ 200 0.1 | \xc3\xa9\r\nConnection: close\r\n\r\n',
    b"GET /c HTTP/1.0\r\n\r\n",
    b"GET /d HTTP/1.1\r\nHost: shop\r\nX-One: a b\r\nX-Two: 200 5\r\nCookie: a=b c\r\nConnection: close\r\n\r\n",
    b"GET /no-host HTTP/1.1\r\nConnection: close\r\n\r\n",
    b"\x16\x03\x01\r\n\r\n",
    b"GET /a b HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n",
    b"GET /" + b"e" * 3_000 + b" HTTP/1.1\r\nHost: shop\r\nUser-Agent:\r\nConnection: close\r\n\r\n",
)


def exchange(port: int, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection, contextlib.suppress(OSError):
        connection.settimeout(DEADLINE_S)
        connection.sendall(data)
        while connection.recv(65_536):
            pass


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a log of every format."""
    program, modules, folder = (
        program_or_skip("apache2"),
        Path("/usr/lib/apache2/modules"),
        tmp_path_factory.mktemp("logs"),
    )
    if not modules.is_dir():
        pytest.skip("apache2 has no modules")
    port = free_port()
    every = {**FORMATS, "truth": TRUTH}
    own = "".join(
        f'LogFormat "{text.replace(chr(34), chr(92) + chr(34))}" {name}\nCustomLog {folder}/{name}.log {name}\n'
        for name, text in every.items()
    )
    (folder / "apache.conf").write_text(
        f"LoadModule mpm_event_module {modules}/mod_mpm_event.so\n"
        f"LoadModule authz_core_module {modules}/mod_authz_core.so\n"
        f"ServerRoot {folder}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {folder}/pid\n"
        f"Mutex file:{folder}\nErrorLog {folder}/error.log\nDocumentRoot {folder}\n{own}"
    )
    with Process([program, "-X", "-f", folder / "apache.conf"], name="apache", folder=folder) as process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        for data in REQUESTS:
            exchange(port, data)
        truth = folder / "truth.log"
        process.wait_until(lambda: truth.read_text().count("\n") >= len(REQUESTS), DEADLINE_S, "all lines")
    return folder


@pytest.mark.parametrize("name", FORMATS)
def test_every_line_is_read_with_the_values_of_the_truth(logs: Path, name: str) -> None:
    truth = [line.split() for line in (logs / "truth.log").read_text().splitlines()]
    requests = sojourn.read(
        sojourn.log_file(logs / f"{name}.log", FORMATS[name]), columns=("status", "request_time", "time")
    )
    assert requests.records.reasons == {}
    rows = requests.rows.collect().to_dicts()
    assert [row["status"] for row in rows] == [int(status) for _, status, *_ in truth]
    step = 1e-6 if name in US_FORMATS else 1e-3
    assert [row["request_time"] for row in rows] == pytest.approx(
        [int(took) / 1e6 for _, _, took, _ in truth], abs=step
    )
    assert [row["time"].timestamp() for row in rows] == pytest.approx([int(end) / 1e6 for end, *_ in truth], abs=1.1)
