"""nginx in front of a static upstream, under a load that keeps its one worker busy."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sojourn_lab.errors import LabError
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.nginx import build_text, js_module_line, nginx_program
from sojourn_lab.runtime.ports import free_ports, wait_for_port
from sojourn_lab.runtime.process import Process

HOST = "127.0.0.1"
PATH = "/items/12345?color=red"
BUFFERED = "buffer=64k flush=1s"
HANDLER_DEADLINE_S = 10.0
_TEMP_FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


@dataclass(frozen=True)
class Setup:
    """The settings in which the compared proxies differ.

    Attributes:
        http: its text at http level.
        location: its text in the location.
        log: the format of its log.
        buffer: how the log is buffered.
        trusted: the text of trusted.conf.
    """

    http: str = ""
    location: str = ""
    log: str = "combined"
    buffer: str = BUFFERED
    trusted: str = ""


@dataclass(frozen=True)
class Proxy:
    """A running proxy: its URL, the process id of its worker, its log."""

    url: str
    worker: int
    log: Path


@dataclass(frozen=True)
class Load:
    """The load that the clients achieved and its cost in the proxy's worker.

    Attributes:
        rate: answers a second.
        cpu: seconds of the worker a request.
        busy: part of the time the worker worked.
        latency: seconds, by mean, p50, p99.
    """

    rate: float
    cpu: float
    busy: float
    latency: dict[str, float] = field(default_factory=dict)


def why_not() -> str | None:
    """Return what these measurements lack on this machine; None if they can run."""
    program = nginx_program()
    if program is None or js_module_line(build_text(program)) is None:
        return "nginx with its njs module is not installed"
    return None if shutil.which("wrk") else "wrk is not installed"


def _core(number: int) -> int:
    """Return the core of the proxy's worker (0) or of all other processes (1)."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[min(number, len(cores) - 1)]


def _config(folder: Path, http: str, server: str, processes: str) -> str:
    program = nginx_program()
    module = js_module_line(build_text(program)) if program else ""
    user = "user root;" if os.geteuid() == 0 else ""
    temp = " ".join(f'{name}_temp_path "{folder}/{name}";' for name in _TEMP_FOLDERS)
    return f"""\
{module or ""}
{user}
daemon off; {processes}
pid "{folder}/nginx.pid"; error_log "{folder}/error.log" warn;
events {{ use epoll; worker_connections 4096; }}
http {{
    server_tokens off; keepalive_requests 100000000; access_log off;
    {temp}
{http}
    server {{
{server}
    }}
}}
"""


def _worker_on(core: int) -> str:
    return f"worker_processes 1; worker_cpu_affinity {1 << core:b};"


def upstream_config(folder: Path, port: int) -> str:
    """Return the configuration of the static upstream, and create its folder."""
    folder.mkdir(parents=True)
    answer = f'listen {HOST}:{port}; location / {{ return 200 "ok\\n"; }}'
    return _config(folder, "", answer, _worker_on(_core(1)))


def proxy_config(folder: Path, setup: Setup, port: int, upstream: int, *, one_process: bool = False) -> str:
    """Return the configuration of a proxy in a new folder with the include files; `one_process`: without a master."""
    shutil.copytree(resource_file("nginx"), folder / "sojourn", ignore=shutil.ignore_patterns("*.md"))
    if setup.trusted:
        (folder / "sojourn" / "trusted.conf").write_text(setup.trusted)
    http = f"{setup.http}\nupstream app {{ server {HOST}:{upstream}; keepalive 64; keepalive_requests 100000000; }}"
    server = (
        f'listen {HOST}:{port}; access_log "{folder / "access.log"}" {setup.log} {setup.buffer};'
        ' location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection "";'
        f" proxy_set_header Host $host; {setup.location} }}"
    )
    return _config(folder, http, server, "master_process off;" if one_process else _worker_on(_core(0)))


def started(
    folder: Path,
    text: str,
    port: int,
    stack: contextlib.ExitStack,
    before: tuple[str, ...] = (),
    deadline_s: float = 15.0,
) -> Process:
    """Start nginx and wait until it accepts connections.

    Args:
        folder: for its configuration and logs.
        text: its configuration.
        port: where it listens.
        stack: ends it.
        before: a command that runs nginx, with its arguments.
        deadline_s: how long the start may take (s).

    Raises:
        LabError: it does not accept connections.
    """
    (folder / "nginx.conf").write_text(text)
    program = nginx_program()
    command = [*before, str(program), "-p", f"{folder}/", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]
    process = stack.enter_context(Process(command, name="nginx", folder=folder))
    wait_for_port(HOST, port, deadline_s, process)
    return process


def _worker(process: Process) -> int:
    """Return the process id of the one worker of an nginx."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    process.wait_until(lambda: bool(children.read_text().split()), 15, "a worker")
    return int(children.read_text().split()[0])


@contextlib.contextmanager
def proxies(folder: Path, setups: dict[str, Setup]) -> Iterator[dict[str, Proxy]]:
    """Start all proxies in front of one upstream; idle ones cost nothing. SystemExit if one does not start."""
    ports = free_ports(len(setups) + 1)
    with contextlib.ExitStack() as stack:
        try:
            upstream = folder / "upstream"
            started(upstream, upstream_config(upstream, ports[0]), ports[0], stack)
            running = {}
            for number, (name, setup) in enumerate(setups.items(), start=1):
                place = folder / f"proxy{number}"
                process = started(place, proxy_config(place, setup, ports[number], ports[0]), ports[number], stack)
                running[name] = Proxy(f"http://{HOST}:{ports[number]}", _worker(process), place / "access.log")
        except LabError as error:
            raise SystemExit(f"bench: {error}") from None
        yield running


def _wait_for_handler(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Wait until a program handles a signal, which would end it before."""
    status, deadline = Path(f"/proc/{process.pid}/status"), time.monotonic() + HANDLER_DEADLINE_S
    while process.poll() is None and time.monotonic() < deadline:
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE)
        if caught is not None and int(caught[1], 16) >> (number - 1) & 1:
            return
        time.sleep(0.005)
    raise SystemExit(f"bench: {process.args!r} does not handle {number.name}")


def offered(proxy: Proxy, seconds: float, connections: int = 32, think: float = 0.0) -> Load:
    """Run wrk for ``seconds`` and return the load that it achieved.

    Args:
        proxy: the target.
        seconds: duration.
        connections: number of clients.
        think: mean pause of a client between two requests (s, exponential).

    Raises:
        SystemExit: a response was not 200, or there was none.
    """
    script = proxy.log.with_name("think.lua")
    script.write_text(
        f"function delay() return math.floor(-{1000 * think:g} * math.log(1 - math.random()) + 0.5) end\n"
    )
    command = ["taskset", "-c", str(_core(1))] if shutil.which("taskset") else []
    command += ["wrk", "-t1", f"-c{connections}", "-d3600s", "--latency", *(["-s", str(script)] if think else [])]
    before = _cpu_seconds(proxy.worker)
    process = subprocess.Popen([*command, proxy.url + PATH], stdout=subprocess.PIPE, text=True)
    try:
        _wait_for_handler(process, signal.SIGINT)
        time.sleep(seconds)
        # On SIGINT wrk prints its results.
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    os.truncate(proxy.log, 0)
    counted = re.search(r"(\d+) requests in ([\d.]+)(us|ms|s|m)", output)
    if counted is None or int(counted[1]) == 0 or "Non-2xx" in output:
        raise SystemExit(f"bench: wrk failed: {output.strip() or 'no output'}")
    count, passed = int(counted[1]), float(counted[2]) * _UNITS[counted[3]]
    spent = _cpu_seconds(proxy.worker) - before
    return Load(count / passed, spent / count, spent / passed, _latencies(output))


def _latencies(output: str) -> dict[str, float]:
    latencies = {}
    patterns = {"mean": r"Latency +([\d.]+)(us|ms|s|m)", "p50": r"50% +([\d.]+)(\w+)", "p99": r"99% +([\d.]+)(\w+)"}
    for name, pattern in patterns.items():
        if match := re.search(pattern, output):
            latencies[name] = float(match[1]) * _UNITS[match[2]]
    return latencies


def _cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process (s), from schedstat (ns) if there is one, else from its ticks."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def median_load(loads: list[Load], what: str) -> float:
    """Return the median of `rate`, `cpu` or `busy`."""
    return statistics.median(getattr(load, what) for load in loads)
