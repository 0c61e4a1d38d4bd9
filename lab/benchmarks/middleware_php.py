"""The processor time that auto_prepend.php adds to a request of PHP-FPM: two pools, with and without it."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sojourn.host.servers.fastcgi import fastcgi_output, fastcgi_request
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.others import fpm_program

from benchmarks.rows import Measurements, Row, Settings, added_row

CALLS = 5_000
GOAL_US = 30.0
DEADLINE_S = 20.0
APP = "<?php header('X-Child: ' . getmypid()); echo \"ok\\n\";"
HEADERS = {
    "HTTP_HOST": "shop.example",
    "HTTP_X_REQUEST_ID": "4bf92f3577b34da6a3ce929d0e0e4736",
    "HTTP_USER_AGENT": "bench",
}


def php_rows(settings: Settings, measurements: Measurements) -> list[Row]:
    """Return the row of PHP-FPM; none if it is not installed, or without the scheduler's statistics (Linux)."""
    program = fpm_program()
    if program is None or not Path("/proc/self/schedstat").exists():
        measurements.skipped.append("PHP-FPM: php-fpm is not installed, or /proc/self/schedstat is missing")
        return []
    version = subprocess.run([program, "-v"], capture_output=True, text=True, check=False).stdout.split()
    measurements.versions["php"] = version[1] if len(version) > 1 else ""
    calls = settings.sized(CALLS, 50)
    costs: dict[str, list[float]] = {"bare": [], "ours": []}
    with _pools(program, settings.folder) as pools:
        for name, pool in pools.items():
            settings.progress(f"PHP-FPM, {name}")
            pool.seconds(max(calls // 10, 10))
        for _ in range(settings.repeats):
            for name, pool in pools.items():
                costs[name].append(pool.seconds(calls))
    bare, measured = ([1e6 * seconds for seconds in costs[name]] for name in ("bare", "ours"))
    alone = statistics.median(bare)
    note = f"processor time of the child, with PHP's opcache; a script of one line alone takes {alone:.0f} µs"
    return [added_row("PHP-FPM, the headers", bare, measured, goal=GOAL_US, note=note)]


class _Pool:
    """One child of PHP-FPM and a connection that is kept."""

    def __init__(self, address: Path, script: Path) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(DEADLINE_S)
        self._connection.connect(str(address))
        self._input = self._connection.makefile("rb")
        self._script = script
        head = self._request().decode("latin-1").partition("\r\n\r\n")[0]
        pairs = dict(line.split(": ", 1) for line in head.split("\r\n"))
        self._usage = Path("/proc", pairs["X-Child"], "schedstat")
        self.headers = set(pairs)

    def seconds(self, calls: int) -> float:
        """Return the processor time of a request, s, over `calls` requests."""
        begin = self._processor_ns()
        for _ in range(calls):
            self._request()
        return (self._processor_ns() - begin) / calls / 1e9

    def close(self) -> None:
        """Close the connection."""
        self._input.close()
        self._connection.close()

    def _processor_ns(self) -> int:
        return int(self._usage.read_text().split()[0])

    def _request(self) -> bytes:
        """Send one request and return the response, headers included."""
        values = {
            "REQUEST_METHOD": "GET",
            "SCRIPT_FILENAME": str(self._script),
            "REQUEST_URI": "/items/12345",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "HTTP_X_REQUEST_START": f"t={time.time():.3f}",
            **HEADERS,
        }
        self._connection.sendall(fastcgi_request(values, keep=True))
        return fastcgi_output(self._input)


@contextmanager
def _pools(program: str, folder: Path) -> Iterator[dict[str, _Pool]]:
    """One PHP-FPM with a pool for each case; the ini of the system, for its opcache."""
    script = folder / "app.php"
    script.write_text(APP)
    prepended = resource_file("middleware", "php", "auto_prepend.php")
    user = "user = root\n" if os.geteuid() == 0 else ""
    text = f"[global]\nerror_log = {folder}/fpm.log\n"
    addresses = {name: folder / f"{name}.sock" for name in ("bare", "ours")}
    for name, address in addresses.items():
        text += f"[{name}]\n{user}listen = {address}\npm = static\npm.max_children = 1\n"
    (folder / "fpm.conf").write_text(f'{text}php_admin_value[auto_prepend_file] = "{prepended}"\n')
    command = [program, "--nodaemonize", "--allow-to-run-as-root", "--fpm-config", str(folder / "fpm.conf")]
    with Process(command, name="php-fpm", folder=folder) as process:
        process.wait_until(lambda: all(map(Path.exists, addresses.values())), DEADLINE_S, "PHP-FPM to listen")
        pools = {name: _Pool(address, script) for name, address in addresses.items()}
        try:
            if "X-Service-Time" in pools["bare"].headers or "X-Service-Time" not in pools["ours"].headers:
                raise SystemExit("bench: the two pools of PHP-FPM do not differ in auto_prepend.php")
            yield pools
        finally:
            for pool in pools.values():
                pool.close()
