"""``sojourn serve`` as a process: its address, its end, its errors, and logs that are being written."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from page_client import SHOP
from served import served, until
from sojourn.cli import app
from typer.testing import CliRunner


def test_prints_an_address_that_answers_and_ends_in_order() -> None:
    with served(SHOP, "--quiet") as page:
        assert page.get("source").json()["requests"] == 3087
        assert httpx.get(page.address).headers["content-type"].startswith("text/html")
        other = httpx.get(page.address.partition("?")[0] + "api/source")
        assert other.status_code == 401
        page.process.send_signal(signal.SIGTERM)
        assert page.process.wait(30) == 143
        assert page.process.stderr is not None
        assert page.process.stderr.read() == ""


def test_interrupt_ends_the_page_without_a_traceback() -> None:
    with served(SHOP, "--quiet") as page:
        page.process.send_signal(signal.SIGINT)
        assert page.process.wait(30) == 130
        assert page.process.stderr is not None
        assert "Traceback" not in page.process.stderr.read()


def test_listens_on_the_loopback_interface_only() -> None:
    with served(SHOP, "--quiet") as page:
        port = urlsplit(page.address).port
        listening = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        own = [
            line.split()[1]
            for line in listening
            if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
        ]
        assert own == [f"0100007F:{port:04X}"]


def test_refuses_a_port_in_use_with_its_number() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "sojourn", "serve", SHOP, "--port", str(port)],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(f"sojourn: --port {port}: ")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["missing.jsonl"], 1, "missing.jsonl"),
        ([SHOP, "--follow", "--since", "10m"], 2, "--follow"),
        ([SHOP, "--follow", "--spans", "x"], 2, "--follow"),
        (["chdb:///x", "--follow"], 1, "a store is not followed"),
        ([SHOP, "--port", "70000"], 2, "--port"),
        ([SHOP, "--workers", "none"], 2, "--workers"),
    ],
)
def test_refuses_what_it_cannot_serve(arguments: list[str], code: int, part: str) -> None:
    done = CliRunner().invoke(app, ["serve", *arguments])
    assert done.exit_code == code
    assert part in (done.output + str(done.exception))


def _line(number: int, ended: float) -> str:
    fields = {
        "time": f"{ended:.3f}", "request_id": f"{number:032x}", "service": "shop", "route": "/r", "method": "GET",
        "uri": "/", "status": "200", "request_time": "0.030", "request_start": f"{ended - 0.03:.3f}",
        "proxy_start": f"{ended - 0.03:.3f}", "upstream_addr": "10.0.0.1:80", "upstream_status": "200",
        "upstream_connect_time": "0.000", "upstream_header_time": "0.030", "upstream_response_time": "0.030",
        "queueing_delay": "0.010000", "service_time": "0.020000", "worker": str(number % 2), "proxy": "edge",
        "stamp": "own",
    }  # fmt: skip
    return json.dumps(fields) + "\n"


def test_follows_a_log_that_is_written_and_rotated(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.touch()
    with served(str(log), "--follow") as page:
        waiting = page.get("source")
        assert waiting.status_code == 200
        assert waiting.json()["unavailable"].endswith("no request yet")

        def write(first: int, count: int) -> None:
            with log.open("a", encoding="utf-8") as file:
                file.writelines(_line(first + number, time.time() - 1 + number / count) for number in range(count))

        def requests() -> int:
            answer = page.get("source")
            return int(answer.json()["requests"]) if "requests" in answer.json() else 0

        write(0, 40)
        until(lambda: requests() == 40)
        first = page.get("source").json()
        assert first["follows"] is True
        write(40, 25)
        until(lambda: requests() == 65)
        log.rename(tmp_path / "access.jsonl.1")
        write(65, 10)
        until(lambda: requests() == 75)
        latest = page.get("source").json()
        assert latest["generation"] > first["generation"]
        assert page.get("figures").json()["queueing"]["mean"] == pytest.approx(0.010, abs=2e-3)
        assert page.get("lanes").json()["backends"] == ["10.0.0.1:80"]
