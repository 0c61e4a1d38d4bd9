"""The recipe for a balancer in front: the page's HAProxy before an nginx that trusts it, before an app."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sojourn
from recipe_support import (
    App,
    blocks_of,
    command_environment,
    fetch,
    fetch_together,
    log_lines,
    run_check,
    why_no_nginx,
)
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.ports import free_port, wait_for_port
from sojourn_lab.runtime.process import Process

PAGE = "load-balancer-in-front.md"
SERVICE_S = 0.2


def haproxy_program() -> str | None:
    """Return the path of haproxy, which may be in sbin and not on PATH."""
    return shutil.which("haproxy", path="/usr/local/sbin:/usr/sbin:" + command_environment()["PATH"])


@pytest.fixture
def app() -> Iterator[App]:
    with App(SERVICE_S) as one:
        yield one


@pytest.fixture
def nginx(tmp_path: Path, app: App) -> Iterator[Nginx]:
    """nginx that trusts the page's balancer, whose address is this machine's here."""
    if (reason := why_no_nginx()) is not None:
        pytest.skip(reason)
    blocks = blocks_of(PAGE)
    trusted = blocks["trusted.conf"].replace("10.0.0.7", "127.0.0.1")
    server = f"location / {{ include sojourn/sojourn_proxy.conf; proxy_pass http://127.0.0.1:{app.port}; }}"
    alb = blocks["alb.conf"].replace("/var/log/nginx", str(tmp_path))
    # An access_log of the location's own level would replace the other one: beside it, it joins.
    http = re.sub(r"^access_log.*\n", "", alb, flags=re.M)
    server = f"{re.search('^access_log.*$', alb, re.M)[0]} access_log {tmp_path}/access.jsonl sojourn; {server}"
    one = Nginx(tmp_path, server, http=http, access_log=tmp_path / "access.jsonl", files={"trusted.conf": trusted})
    with one.start():
        yield one
    assert one.alerts() == []


@pytest.fixture
def balancer(tmp_path: Path, nginx: Nginx) -> Iterator[int]:
    """The page's HAProxy, and beside it the same one with a queue of its own: at most one request in nginx."""
    program = haproxy_program()
    if program is None:
        pytest.skip("haproxy is not installed")
    port = free_port()
    page = blocks_of(PAGE)["haproxy.cfg"]
    assert ("bind :80" in page, "10.0.0.8:80" in page) == (True, True)
    page = page.replace("bind :80", f"bind 127.0.0.1:{port}").replace(
        "10.0.0.8:80", f"127.0.0.1:{nginx.port} maxconn 1"
    )
    times = "".join(f"    timeout {name} 20s\n" for name in ("connect", "client", "server"))
    config = tmp_path / "haproxy.cfg"
    config.write_text(f"defaults\n    mode http\n{times}\n{page}")
    checked = subprocess.run([program, "-c", "-f", config], capture_output=True, text=True, timeout=30, check=False)
    assert checked.returncode == 0, checked.stderr
    with Process([program, "-db", "-f", config], name="haproxy", folder=tmp_path) as process:
        wait_for_port("127.0.0.1", port, 20, process)
        yield port


def test_the_balancers_stamp_reaches_the_app_and_a_clients_does_not(
    app: App, nginx: Nginx, balancer: int, tmp_path: Path
) -> None:
    before = time.time()
    answer = fetch(balancer, "/a", {"X-Request-Start": "t=1", "X-Queue-Start": "t=1", "X-Request-ID": "spoofed"})
    assert answer.status == 200
    assert "x-queueing-delay" not in answer.headers
    (line,) = log_lines(nginx.access_log, "/a", 1)
    row = json.loads(line)
    assert row["stamp"] == "inbound"
    assert app.stamps == [f"t={row['request_start']}"]
    assert before - 0.01 <= float(row["request_start"]) <= float(row["proxy_start"]) + 0.001 <= time.time()
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", row["request_id"])

    printed = run_check(PAGE, f"http://127.0.0.1:{balancer}/b", nginx.access_log, "/b", 1)
    assert [line.split('"')[1] for line in printed] == ["request_start", "stamp", "proxy_start"]
    assert printed[1] == '"stamp":"inbound"'

    fetch(nginx.port, "/c", {"X-Amzn-Trace-Id": "Root=1-67891233-abcdef012345678912345678"})
    (line,) = log_lines(nginx.access_log, "/c", 1)
    joined = [json.loads(one) for one in (tmp_path / "alb.jsonl").read_text().splitlines()]
    assert joined[-1] == {
        "request_id": json.loads(line)["request_id"],
        "amzn_trace_id": "Root=1-67891233-abcdef012345678912345678",
    }


def test_a_queue_in_the_balancer_lies_between_the_two_stamps(nginx: Nginx, balancer: int, tmp_path: Path) -> None:
    fetch_together(balancer, "/queued", 4)
    rows = [json.loads(line) for line in log_lines(nginx.access_log, "/queued", 4)]
    between = sorted(float(row["proxy_start"]) - float(row["request_start"]) for row in rows)
    # HAProxy lets one at a time through: the last one waited for the others there. In the log the app's delay has it.
    assert between[0] < SERVICE_S < between[-1]
    for row in rows:
        waited = float(row["proxy_start"]) - float(row["request_start"])
        assert float(row["queueing_delay"]) >= waited - 0.002
    result = sojourn.split(str(nginx.access_log))
    assert result.sources == {"stamp": 4}
    assert result.to_dict()["components"]["queueing_delay"]["max"] < between[-1]
    assert abs(result.to_dict()["audit"]["identity_max_error"]) < 1e-6

    program = tmp_path / "before_nginx.py"
    program.write_text(blocks_of(PAGE)["before_nginx.py"])
    done = subprocess.run(
        [sys.executable, program, nginx.access_log],
        capture_output=True, text=True, timeout=60, check=False, env=command_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    figures = [float(one) for one in re.findall(r"\d+\.\d+", done.stdout)]
    assert figures[-1] == pytest.approx(between[-1], abs=0.01)
