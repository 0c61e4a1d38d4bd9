"""`sojourn lab load` and `sojourn lab listen`: the lab's generator and sampler beside a stack that runs already."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from lab_support import eventually
from sojourn_lab.cli import app
from typer.testing import CliRunner

COMMAND = [sys.executable, "-m", "sojourn_lab"]


class Sleeper(BaseHTTPRequestHandler):
    """Answers at once and records the requests."""

    protocol_version = "HTTP/1.1"
    received: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.received.append((self.path, self.headers["X-Lab-Case"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    requested: list[tuple[str, str | None]] = []
    handler = type("Handler", (Sleeper,), {"received": requested})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", requested
        running.shutdown()
        thread.join()


def lab(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.parametrize("model", [("--concurrency", "2"), ("--rate", "40")])
def test_load_is_offered_and_ends_by_itself(
    server: tuple[str, list[tuple[str, str | None]]], tmp_path: Path, model: tuple[str, str]
) -> None:
    url, requested = server
    log = tmp_path / "client.jsonl"
    done = lab(
        "load", url, *model, "--duration", "1", "--service-time", "0.02", "--name", "c2", "--client-log", log, "--json"
    )
    summary = json.loads(done.stdout)
    assert summary["answered"] == summary["offered"] > 10
    assert set(requested) == {("/sleep/0.020000", "c2")}
    assert len(requested) == len(log.read_text().splitlines())
    assert done.returncode == (1 if summary["void"] else 0)
    assert ("the generator was the bottleneck" in done.stderr) == bool(summary["void"])


def test_load_for_people(server: tuple[str, list[tuple[str, str | None]]]) -> None:
    done = CliRunner().invoke(app, ["load", server[0], "--concurrency", "1", "--duration", "0.3"])
    assert "response p50" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["load", "http://127.0.0.1:1"], 2, "--concurrency (closed loop) or --rate (open loop)"),
        (
            ["load", "http://127.0.0.1:1", "--concurrency", "1", "--rate", "1"],
            2,
            "--concurrency (closed loop) or --rate (open loop)",
        ),
        (["load", "nowhere", "--concurrency", "1"], 1, "nowhere: not a URL"),
        (["load", "http://127.0.0.1:1", "--concurrency", "1", "--name", "a b"], 2, "--name a b"),
        (["load", "http://127.0.0.1:1", "--rate", "5", "--duration", "9999"], 2, "--duration"),
        (["load", "http://127.0.0.1:1", "--rate", "5", "--duration", "0.5"], 1, "no request was answered"),
        (
            ["load", "http://127.0.0.1:1", "--rate", "5", "--duration", "0.5", "--client-log", "/nowhere/x"],
            1,
            "/nowhere/x",
        ),
        (["listen", "app", "--out", "x"], 2, "app: not NAME=PORT"),
        (["listen", "app=70000", "--out", "x"], 2, "not NAME=PORT"),
        (["listen", "app=80", "--out", "/nowhere/x"], 1, "/nowhere/x: No such file"),
    ],
)
def test_rejects_loads_that_cannot_be_generated(arguments: list[str], code: int, words: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert words in done.stderr.replace("\n", " ")
    assert done.exit_code == code


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux netlink is not available")
def test_samples_are_appended_rotated_and_end_with_a_signal(tmp_path: Path) -> None:
    out = tmp_path / "listen.jsonl"
    before = 150
    out.write_text('{"time":1.0,"socket":"app","port":1,"depth":0,"limit":1}\n' * before)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(6)
        port = listener.getsockname()[1]
        command = [*COMMAND, "listen", f"app={port}", "--out", out, "--every", "0.05", "--max-bytes", "10000"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as sampler:
            rotated = tmp_path / "listen.jsonl.1"
            eventually(rotated.exists, 60, "the file to be rotated")
            sampler.send_signal(signal.SIGTERM)
            assert sampler.wait(60) == 0
            assert sampler.stderr is not None
            assert sampler.stderr.read() == ""
    lines = [json.loads(line) for path in (rotated, out) for line in path.read_text().splitlines()]
    assert {line["time"] for line in lines[:before]} == {1.0}
    assert {(line["depth"], line["limit"]) for line in lines[before:]} == {(0, 6)}
    assert rotated.stat().st_size > 10_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux netlink is not available")
def test_closed_socket_ends_the_sampler_if_configured(tmp_path: Path) -> None:
    out = tmp_path / "listen.jsonl"
    with socket.socket() as listener, socket.socket() as never:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        never.bind(("127.0.0.1", 0))  # bound, and never listening: no other program can take the port
        sockets = [f"app={listener.getsockname()[1]}", f"other={never.getsockname()[1]}"]
        command = [*COMMAND, "listen", *sockets, "--out", out, "--every", "0.05", "--gone", "0.5"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as sampler:
            eventually(lambda: out.exists() and len(out.read_bytes().splitlines()) > 20, 60, "a second of samples")
            assert sampler.poll() is None, "one of two sockets is there"
            listener.close()
            assert sampler.wait(60) == 1
            assert sampler.stderr is not None
            assert f"no socket of {', '.join(sockets)} has existed for 0.5 s" in sampler.stderr.read().replace(
                "\n", " "
            )
    assert {json.loads(line)["socket"] for line in out.read_text().splitlines()} == {"app"}
