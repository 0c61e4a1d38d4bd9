"""The Rack middleware: the shared table and the Rack protocol in one ruby process, and a real unicorn."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from collector_support import (
    CASES,
    NOW_US,
    SLACK_S,
    assert_queued,
    assert_x_request_start_decides,
    eventually,
    fetch,
    fetch_parallel,
    served,
    stamp_now,
)
from sojourn_lab.runtime.process import Process

RACK = Path(__file__).parent / "rack"
VECTORS = Path(__file__).parents[1] / "vectors" / "request_start.json"
SERVICE_S = 0.15


def ruby(script: str, *arguments: str) -> Any:
    """What the script answers; warnings of ruby -w fail the test."""
    if shutil.which("ruby") is None:
        pytest.skip("ruby is not installed")
    done = subprocess.run(
        ["ruby", "-w", str(RACK / script), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def checked() -> Any:
    return ruby("check.rb", str(VECTORS))


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case["name"] for case in CASES])
def test_table(checked: Any, index: int) -> None:
    case, result = CASES[index], checked["table"][index]
    assert result["read"] == case.get("start_us", case.get("reason"))
    delay = f"{(NOW_US - case['start_us']) / 1e6:.6f}" if "start_us" in case else None
    assert result["headers"].get("X-Queueing-Delay") == delay
    assert result["headers"]["X-Service-Time"] == "1.250000"


def test_bodies_are_the_same_objects(checked: Any) -> None:
    assert checked["untouched"] == [True] * 5


def test_headers_are_replaced_in_a_copy(checked: Any) -> None:
    assert checked["frozen"] == {"X-Service-Time": "1.250000", "X-Worker": str(checked["pid"])}
    assert checked["frozen_after"] == {"X-Worker": "the app's"}
    assert checked["route"]["X-Route"] == "/%C3%A9%0D%0AX: y"
    assert "x-route" not in checked["route"]


def test_hostile_values_are_refused(checked: Any) -> None:
    for name in ("not_utf8", "newline", "long_blank"):
        assert "X-Queueing-Delay" not in checked[name]
        assert checked[name]["X-Service-Time"] == "1.250000"


def test_the_stamp_is_read_before_the_app_can_change_it(checked: Any) -> None:
    assert checked["changed_env"]["X-Queueing-Delay"] == "0.500000"


def test_errors_and_odd_answers_pass_through(checked: Any) -> None:
    assert checked["nil"] is None
    assert checked["error"] == "KeyError"
    assert checked["exit"] == "SystemExit"


def test_bad_limits_are_refused_at_once(checked: Any) -> None:
    assert checked["bad_limits"] == ["ArgumentError"] * 5


def test_only_the_outer_of_two_measures(checked: Any) -> None:
    assert checked["inner"] == {"X-Service-Time": "1.250000", "X-Worker": str(checked["pid"])}


def test_threads_have_small_numbers_that_are_reused(checked: Any) -> None:
    pid = checked["pid"]
    assert sorted(checked["together"]) == [f"{pid}.{number}" for number in (1, 2, 3, 4)]
    assert checked["later"] == f"{pid}.1"


def test_rack_3_gets_lower_case_names() -> None:
    headers = ruby("rack3.rb")
    assert set(headers) == {"x-queueing-delay", "x-service-time", "x-worker", "content-type"}
    assert 1.99 <= float(headers["x-queueing-delay"]) < 2 + SLACK_S  # the stamp is rounded to a millisecond
    assert headers["x-worker"].isdecimal()


@pytest.fixture
def unicorn(tmp_path: Path) -> Iterator[tuple[int, Process]]:
    """Debian's unicorn with one worker, rack's own checker on both sides of the middleware."""
    if shutil.which("unicorn") is None:
        pytest.skip("unicorn is not installed")
    command = ["unicorn", "--no-default-middleware", "--listen", "127.0.0.1:{port}", str(RACK / "config.ru")]
    with served(command, tmp_path) as server:
        yield server


def test_unicorn_queues_one_after_the_other(unicorn: tuple[int, Process]) -> None:
    port, master = unicorn
    fetch(port)
    answers = fetch_parallel(port, "/sleep", 4)
    assert_queued(answers, SERVICE_S)
    (worker,) = {answer.headers["x-worker"] for answer in answers}
    assert worker.isdecimal()
    assert int(worker) != master.pid


def test_unicorn_answers(unicorn: tuple[int, Process]) -> None:
    port, process = unicorn
    assert fetch(port).body == b"hello"
    assert fetch(port, "/users").headers["x-route"] == "/users/:id"
    lazy = fetch(port, "/lazy")
    assert lazy.body == b"one two"
    assert lazy.service_time < SLACK_S / 2  # in Rack the headers have left before `each`
    assert fetch(port, "/empty").status == 204
    assert fetch(port, method="HEAD").body == b""
    assert fetch(port, "/error").status == 500
    eventually(lambda: "KeyError" in process.last_lines(60), "the server to log the app's error")
    unstamped = fetch(port, headers={"X-Request-Start": "junk"})
    assert "x-queueing-delay" not in unstamped.headers
    assert "LintError" not in process.last_lines(1000)


def test_x_request_start_decides_under_unicorn(unicorn: tuple[int, Process]) -> None:
    assert_x_request_start_decides(unicorn[0])


def test_unicorn_refuses_the_header_twice(unicorn: tuple[int, Process]) -> None:
    port, _ = unicorn
    stamps = f"X-Request-Start: {stamp_now()}\r\n" * 2
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{stamps}\r\n".encode())
        answer = b"".join(iter(lambda: client.recv(65536), b"")).lower()
    assert b"x-service-time" in answer
    assert b"x-queueing-delay" not in answer
