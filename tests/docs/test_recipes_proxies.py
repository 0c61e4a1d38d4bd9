"""The recipes for Caddy, Traefik, kamal-proxy and Thruster: the page in the real proxy, and one worker."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
import yaml
from recipe_support import App, blocks_of, command_environment, fetch
from sojourn.components.expressions import component_sum
from sojourn.readers.formats.record_sql import OWN_STAMP
from sojourn_lab.runtime.ports import free_port, free_ports, wait_for_port
from sojourn_lab.runtime.process import Process

PAGE = "other-proxies.md"
SERVICE_S = 0.1
COUNT = 5
CLOSE_S = 0.002
BUSY_S = 0.05
OF_PAST = 600  # s before now, of a client's stamp: the middleware accepts an hour
DEADLINE_S = 20.0


class TimedApp(App):
    """Remembers the stamp of each request, by its path, and the instants before and behind the middleware's reading.

    The bounds hold whatever else the machine does between the two.
    """

    def __init__(self) -> None:
        super().__init__(SERVICE_S)
        self.started: dict[str, tuple[float, float]] = {}
        self.stamped: dict[str, float] = {}
        self.paths: list[str] = []
        self._before = 0.0

    def measured(self) -> Callable[..., Any]:
        inner = super().measured()

        def outer(environ: dict[str, str], start_response: Callable[..., Any]) -> Any:
            self._before = time.time()
            return inner(environ, start_response)

        return outer

    def __call__(self, environ: dict[str, str], start_response: Callable[..., Any]) -> list[bytes]:
        path = environ["PATH_INFO"]
        self.started[path] = self._before, time.time()
        self.paths.append(path)
        if stamp := environ.get("HTTP_X_REQUEST_START"):
            digits = stamp.removeprefix("t=").replace(".", "")
            self.stamped[path] = int(digits[:16].ljust(16, "0")) / 1e6  # the unit is that of its digits
        return super().__call__(environ, start_response)


@pytest.fixture
def app() -> Iterator[TimedApp]:
    with TimedApp() as one:
        yield one


def program(name: str) -> str:
    path = shutil.which(name, path=command_environment()["PATH"])
    if path is None:
        pytest.skip(f"{name} is not installed: its recipe was not run")
    return path


def replaced(text: str, changes: dict[str, str]) -> str:
    """The text of a page with what stands for the reader's own; each must be there."""
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def sent(port: int, app: TimedApp, host: str) -> dict[str, float]:
    """Send requests at once and one with a client's own stamp; return path -> instant at which it was sent."""
    at: dict[str, float] = {}
    gate = threading.Barrier(COUNT)

    def one(path: str, together: bool = True, more: str = "") -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
            request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n".encode()
            if together:
                gate.wait(DEADLINE_S)
            at[path] = time.time()
            connection.sendall(request)
            assert connection.makefile("rb").read().startswith(b"HTTP/1.1 200 ")

    with ThreadPoolExecutor(COUNT) as pool:
        list(pool.map(one, [f"/{number}" for number in range(COUNT)]))
    one("/forged", together=False, more=f"X-Request-Start: t={time.time() - OF_PAST:.3f}\r\nX-Queue-Start: t=1\r\n")
    return at


def log_of(path: Path, mark: str, but: str = "no such text") -> Path:
    """Wait for the line of each request; return the log of these alone: lines with the mark, without the other text."""
    end = time.monotonic() + DEADLINE_S
    while True:
        whole = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        lines = [line for line in whole if mark in line and but not in line]
        if len(lines) > COUNT:
            break
        assert time.monotonic() < end, path.read_text()
        time.sleep(0.02)
    log = path.with_name("requests.log")
    log.write_text("".join(lines))
    return log


def check(log: Path, form: str, sent_at: dict[str, float], app: TimedApp) -> pl.DataFrame:
    """Compare the split of a log with what clients and app measured."""
    columns = ("uri", "worker", "start", "request_start", "queueing_delay", "clock_offset", "service_time")
    result = sojourn.split(log, columns=columns)
    assert [facts.format for facts in result.records.formats] == [form]
    assert (result.records.accepted, result.records.rejected) == (len(sent_at), 0)
    assert result.sources == {"stamp": len(sent_at)}
    rows = result.rows.with_columns(component_sum().alias("sum")).collect()
    assert rows.select((pl.col("sum") - pl.col("request_time")).abs().max()).item() < 1e-6
    (clock,) = result.to_dict()["clock"]
    # It is one clock. A proxy's time of the backend begins after its stamp: later, the busier the machine.
    assert clock["lower"] - BUSY_S <= 0 <= clock["upper"] + BUSY_S
    exact = 0
    for row in rows.iter_rows(named=True):
        path, wait = row["uri"], row["queueing_delay"] + row["clock_offset"]
        before, behind = app.started[path]
        assert wait < behind - sent_at[path] + CLOSE_S  # it begins in the proxy, after the client sent it
        if path != "/forged" and abs((row["start"] - row["request_start"]).total_seconds()) * 1e6 < OWN_STAMP:
            exact += 1
            assert before - app.stamped[path] - CLOSE_S < wait < behind - app.stamped[path] + CLOSE_S
    assert exact >= 1  # a busy machine may write lines late
    services = rows["service_time"]
    assert services.min() >= SERVICE_S
    # One after the other: each waits for those before it.
    first, *_, last = sorted(rows.filter(pl.col("uri") != "/forged")["queueing_delay"])
    assert last - first > (COUNT - 2) * SERVICE_S
    assert rows["worker"].n_unique() == 1
    return rows


def headers_sent(app: TimedApp) -> list[dict[str, str]]:
    """The headers that reached the app, in order; without those of health checks."""
    return [each for each, path in zip(app.requests, app.paths, strict=True) if path != "/up"]


def test_caddy(tmp_path: Path, app: TimedApp) -> None:
    caddy, port = program("caddy"), free_port()
    page = replaced(
        blocks_of(PAGE)["Caddyfile"],
        {
            "http://shop.example": f"http://shop.example:{port}",
            "127.0.0.1:8000": f"127.0.0.1:{app.port}",
            "/var/log/caddy": str(tmp_path),
        },
    )
    config = tmp_path / "Caddyfile"
    config.write_text(f"{{\n\tadmin off\n\tpersist_config off\n\tdefault_bind 127.0.0.1\n}}\n{page}")
    command = [caddy, "run", "--config", config, "--adapter", "caddyfile"]
    environment = {**command_environment(), "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    with Process(command, name="caddy", folder=tmp_path, env=environment) as process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        sent_at = sent(port, app, "shop.example")
        log = log_of(tmp_path / "access.log", "handled request")
        answer = fetch(port, "/", {"Host": "shop.example"})
    assert not {"x-queueing-delay", "x-service-time", "x-worker", "x-route"} & set(answer.headers)
    assert all("x-queue-start" not in each for each in headers_sent(app))
    rows = check(log, "caddy", sent_at, app)
    assert set(rows["route"]) == {"/of/{app}"}


def test_traefik(tmp_path: Path, app: TimedApp) -> None:
    traefik, port = program("traefik"), free_port()
    blocks = blocks_of(PAGE)
    changes = {
        "traefik.yml": {
            '":80"': f'"127.0.0.1:{port}"', "/var/log/traefik": str(tmp_path), "/etc/traefik": str(tmp_path),
        },
        "dynamic.yml": {"127.0.0.1:8000": f"127.0.0.1:{app.port}"},
        "plugins-local/src/example.com/stamp/stamp.go": {},
        "plugins-local/src/example.com/stamp/.traefik.yml": {},
    }  # fmt: skip
    for name, values in changes.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(replaced(blocks[name], values))
    command = [traefik, f"--configFile={tmp_path / 'traefik.yml'}"]
    with Process(command, name="traefik", folder=tmp_path, env=command_environment(), cwd=tmp_path) as process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        ready = {"Host": "shop.example"}
        process.wait_until(lambda: fetch(port, "/ready", ready).status == 200, DEADLINE_S, "the router")
        sent_at = sent(port, app, "shop.example")
        log = log_of(tmp_path / "access.json", f'"ServiceURL":"http://127.0.0.1:{app.port}"', "/ready")
    assert all("x-queue-start" not in each for each in headers_sent(app))
    rows = check(log, "traefik-json", sent_at, app)
    assert set(rows["route"]) == {"/of/{app}"}


def test_traefik_without_the_plugin(tmp_path: Path, app: TimedApp) -> None:
    """The wait is what the app's own time leaves of the backend's, and a client's stamp is removed."""
    traefik, port = program("traefik"), free_port()
    static, dynamic = (yaml.safe_load(blocks_of(PAGE)[name]) for name in ("traefik.yml", "dynamic.yml"))
    del static["experimental"], dynamic["http"]["middlewares"]["stamp"]
    static["entryPoints"]["web"] = {"address": f"127.0.0.1:{port}", "http": {"middlewares": ["clean@file"]}}
    static["accessLog"]["filePath"] = str(tmp_path / "access.json")
    static["providers"]["file"]["filename"] = str(tmp_path / "dynamic.yml")
    removed = {"X-Request-Start": "", "X-Queue-Start": ""}
    dynamic["http"]["middlewares"]["clean"] = {"headers": {"customRequestHeaders": removed}}
    (server,) = dynamic["http"]["services"]["shop"]["loadBalancer"]["servers"]
    server["url"] = f"http://127.0.0.1:{app.port}"
    for name, values in (("traefik.yml", static), ("dynamic.yml", dynamic)):
        (tmp_path / name).write_text(yaml.safe_dump(values))
    command = [traefik, f"--configFile={tmp_path / 'traefik.yml'}"]
    with Process(command, name="traefik", folder=tmp_path, env=command_environment(), cwd=tmp_path) as process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        ready = {"Host": "shop.example"}
        process.wait_until(lambda: fetch(port, "/ready", ready).status == 200, DEADLINE_S, "the router")
        sent(port, app, "shop.example")
        log = log_of(tmp_path / "access.json", f'"ServiceURL":"http://127.0.0.1:{app.port}"', "/ready")
    assert app.stamped == {}
    assert all("x-queue-start" not in each for each in app.requests)
    result = sojourn.split(log, columns=("uri", "queueing_delay", "service_time"))
    rows = result.rows.collect()
    first, *_, last = sorted(rows.filter(pl.col("uri") != "/forged")["queueing_delay"])
    assert last - first > (COUNT - 2) * SERVICE_S
    assert result.sources == {"duration": COUNT + 1}


@contextmanager
def kamal_proxy(folder: Path, target: int) -> Iterator[tuple[int, Process]]:
    """The page's deployment before a port; yield the proxy's own."""
    name, (port, tls) = program("kamal-proxy"), free_ports(2)
    environment = {**command_environment(), "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    command = [name, "run", "--http-port", str(port), "--https-port", str(tls)]
    with Process(command, name="kamal-proxy", folder=folder, env=environment) as process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        line = replaced(blocks_of(PAGE)["deploy"], {"127.0.0.1:8000": f"127.0.0.1:{target}"})
        done = subprocess.run(
            ["sh", "-c", line], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        yield port, process


def check_kamal_proxy(folder: Path, app: TimedApp, target: int) -> None:
    with kamal_proxy(folder, target) as (port, _):
        sent_at = sent(port, app, "shop.example")
        log = log_of(folder / "kamal-proxy.out", '"msg":"Request"')
    check_stamps(app)
    rows = check(log, "kamal-proxy", sent_at, app)
    assert set(rows["route"]) == {"/of/{app}"}
    assert set(rows["upstream"]) == {f"127.0.0.1:{target}"}


def check_stamps(app: TimedApp) -> None:
    """Milliseconds, and the client's own stamp where it sent one."""
    *stamps, of_client = (each["x-request-start"] for each in headers_sent(app))
    assert [len(stamp) for stamp in stamps] == [len("t=1767225599877")] * COUNT
    assert float(of_client.removeprefix("t=")) < time.time() - OF_PAST


def test_kamal_proxy(tmp_path: Path, app: TimedApp) -> None:
    check_kamal_proxy(tmp_path, app, app.port)


@contextmanager
def thruster(folder: Path, app: TimedApp) -> Iterator[int]:
    name, port = program("thrust"), free_port()
    environment = {**command_environment(), "HTTP_PORT": str(port), "TARGET_PORT": str(app.port)}
    command = [name, "sleep", "600"]
    with Process(command, name="thrust", folder=folder, env=environment, cwd=folder) as process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        yield port


def test_kamal_proxy_before_thruster(tmp_path: Path, app: TimedApp) -> None:
    program("kamal-proxy")
    with thruster(tmp_path, app) as port:
        check_kamal_proxy(tmp_path, app, port)


def test_thruster(tmp_path: Path, app: TimedApp) -> None:
    with thruster(tmp_path, app) as port:
        sent_at = sent(port, app, "shop.example")
        log = log_of(tmp_path / "thrust.out", '"msg":"Request"')
    check_stamps(app)
    result = sojourn.split(log, columns=("uri", "time"))
    assert [facts.format for facts in result.records.formats] == ["thruster"]
    assert result.sources == {"none": COUNT + 1}
    for row in result.rows.collect().iter_rows(named=True):
        before, _ = app.started[row["uri"]]
        assert row["request_time"] > before + SERVICE_S - app.stamped[row["uri"]] - CLOSE_S or row["uri"] == "/forged"
        assert row["request_time"] < row["time"].replace(tzinfo=UTC).timestamp() - sent_at[row["uri"]] + CLOSE_S
        assert row["queueing_delay"] is None
