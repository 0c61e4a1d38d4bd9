"""``sojourn capture`` as its users run it: what it prints, what it refuses, how it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sojourn.cli import app
from sojourn.host import privileges
from sojourn.model.errors import SojournError
from typer.testing import CliRunner

COMMAND = [sys.executable, "-m", "sojourn", "capture"]
needs_packets = pytest.mark.skipif(
    sys.platform != "linux" or not privileges.has_capability(privileges.NET_RAW) or shutil.which("tcpdump") is None,
    reason="tcpdump or CAP_NET_RAW is missing",
)


def capture(*arguments: object) -> Result:
    """What the command does, in this process; an error in words is the exception's."""
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, ["capture", *map(str, arguments)])


def error_of(done: Result) -> str:
    """The sentence a user gets."""
    return str(done.exception) if isinstance(done.exception, SojournError) else done.stderr


needs_capability = pytest.mark.skipif(
    not privileges.has_capability(privileges.NET_RAW), reason="CAP_NET_RAW is missing"
)


@pytest.fixture
def port() -> Iterator[int]:
    """A port with a listening socket."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


def visit(port: int, count: int = 5) -> None:
    for _ in range(count):
        socket.create_connection(("127.0.0.1", port)).close()


# A stand-in with a fixed output: the output of a real one under load is not reproducible.
FAKE = """#!/bin/sh
trap 'echo "7 packets captured" >&2; echo "12 packets received by filter" >&2
      echo "{dropped} packets dropped by kernel" >&2; exit 0' TERM
trap 'echo "tcpdump: 7 packets captured, 12 packets received by filter, 5 packets dropped by kernel" >&2' USR1
echo "tcpdump: listening on lo, link-type EN10MB" >&2
{then}
while :; do sleep 0.05; done
"""


def fake(folder: Path, *, dropped: int = 0, then: str = "") -> str:
    """A PATH on which tcpdump is the stand-in."""
    (folder / "tcpdump").write_text(FAKE.format(dropped=dropped, then=then))
    (folder / "tcpdump").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_print_records_nothing(tmp_path: Path) -> None:
    conf = tmp_path / "nginx.conf"
    conf.write_text("server { listen 8080; listen 443 ssl; location / { proxy_pass http://127.0.0.1:9000; } }")
    done = capture("--nginx", conf, "--port", 81, "--out", "/srv/x y.pcap", "--print", "--seconds", 5)
    assert done.exit_code == 0
    wanted = "tcp and (port 81 or port 443 or port 8080 or (host 127.0.0.1 and port 9000))"
    assert done.stdout.splitlines() == [
        wanted,
        "timeout --signal=INT 5 tcpdump -p -n -U -i any -s 1024 --time-stamp-precision=nano -B 16384"
        f" -w '/srv/x y.pcap' '{wanted}'",
    ]
    assert "NOTE  port 443 is TLS" in done.stderr
    document = json.loads(capture("--nginx", conf, "--out", "x.pcap", "--print", "--json").stdout)
    assert document["ports"] == [443, 8080]
    assert document["listens"][1] == {"address": "*", "port": 443, "tls": True, "backlog": None}
    assert document["backends"] == ["127.0.0.1:9000"]
    assert document["command"][-1] == document["filter"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--out", "x.pcap"], 1, "nothing to record: give --port, --backend or --nginx"),
        (["--port", "80"], 2, "Missing option '--out'"),
        (["--port", "99999", "--out", "x.pcap"], 2, "65535"),
        (["--backend", "a", "--out", "x.pcap"], 1, "'a' is not HOST:PORT"),
        (["--nginx", "/no/such.conf", "--out", "x.pcap"], 1, "/no/such.conf: cannot be read"),
        (["--port", "80", "--out", "x.pcap", "--ring-files", "3"], 2, "go together"),
        (["--port", "80", "--out", "x.pcap", "--seconds", "0"], 2, "above 0"),
        (["--port", "80", "--out", "/no/such/x.pcap"], 1, "mkdir -p /no/such"),
        (["--port", "80", "--out", "x.pcap", "--interface", "nope0"], 1, "no interface 'nope0': there are any"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], code: int, words: str) -> None:
    done = capture(*arguments)
    assert done.exit_code == code
    assert isinstance(done.exception, SojournError | SystemExit)
    assert words in error_of(done)
    assert not done.stdout


@needs_packets
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_capture_ends_cleanly_on_signals(port: int, tmp_path: Path, number: signal.Signals) -> None:
    path, kernel = tmp_path / "a.pcap", tmp_path / "kernel.jsonl"
    arguments = ["--port", str(port), "--out", str(path), "--interface", "lo", "--kernel", str(kernel), "--json"]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 60
        # The sampler begins when tcpdump listens.
        while not (kernel.exists() and kernel.stat().st_size):
            assert time.monotonic() < deadline
            assert running.poll() is None, running.communicate()
            time.sleep(0.02)
        visit(port)
        running.send_signal(number)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    document = json.loads(out)
    assert document["captured"] >= 5 * 4
    assert (document["dropped"], document["trouble"], err) == (0, None, "")
    assert document["files"] == [str(path)]
    assert document["bytes"] == path.stat().st_size
    assert document["filter"] == f"tcp and port {port}" or "vlan" in document["filter"]
    sample = json.loads(kernel.read_text().splitlines()[0])
    assert [each["port"] for each in sample["sockets"]] == [port]
    subprocess.run(["tcpdump", "-n", "-r", path], check=True, capture_output=True)


@needs_capability
def test_drops_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", fake(tmp_path, dropped=5))
    arguments: list[Any] = ["--port", 80, "--seconds", 0.2, "--interface", "lo"]
    done = capture(*arguments, "--out", tmp_path / "a.pcap")
    assert done.exit_code == 0
    assert re.match(r"7 packets, 0\.0 MB in [\d.]+ m?s: ", done.stdout)
    assert "WARNING  5 packets (42 %) were dropped before" in done.stderr
    document = json.loads(capture(*arguments, "--out", tmp_path / "b.pcap", "--json").stdout)
    assert (document["captured"], document["received"], document["dropped"]) == (7, 12, 5)


@needs_capability
def test_an_unexpected_end_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "PATH", fake(tmp_path, then='sleep 0.1; echo "tcpdump: pcap_loop: The interface\x1b" >&2; exit 1')
    )
    done = capture("--port", 80, "--interface", "lo", "--out", tmp_path / "a.pcap")
    assert done.exit_code == 1
    assert error_of(done) == r"tcpdump ended: pcap_loop: The interface\x1b"
    monkeypatch.setenv("PATH", fake(tmp_path, then='echo "tcpdump: no room" >&2; exit 1'))
    done = capture("--port", 80, "--interface", "lo", "--out", tmp_path / "a.pcap")
    assert "no room" in error_of(done)


@needs_packets
def test_scapy_says_what_it_cannot(tmp_path: Path) -> None:
    pytest.importorskip("scapy")
    # The port of the discard service: never assigned at random.
    arguments = ["--port", 9, "--out", tmp_path / "a.pcap", "--interface", "lo", "--sniffer", "scapy"]
    done = capture(*arguments, "--seconds", 0.3)
    assert done.exit_code == 0, error_of(done)
    assert "scapy is slow" in done.stderr
    assert "no packet was seen" in done.stderr
    assert "takes tcpdump" in error_of(capture(*arguments, "--force", "--ring-files", 2, "--ring-megabytes", 1))


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can change its user")
def test_a_user_without_privileges_gets_the_command_to_run(tmp_path: Path) -> None:
    none_waiting = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*none_waiting, *COMMAND, "--help"], check=False, capture_output=True).returncode:
        pytest.skip("another user may not run this checkout")
    done = subprocess.run(
        [*none_waiting, *COMMAND, "--port", "80", "--out", tmp_path / "a.pcap"],
        capture_output=True, text=True, check=False, cwd="/", timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "CAP_NET_RAW is missing" in done.stderr
    assert "sudo" in done.stderr
    assert len(done.stderr.splitlines()) == 1
