"""Spans show until when a body holds a real worker: what is said with them, and the change made for real.

Without spans, and for other causes, see the scenarios of tests/lab/results/test_lab_held.py.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import sojourn
from nginx_support import LOCATION, app_upstream, get, logged
from sojourn.analyses.depth.section import depth_section
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.ports import free_port, wait_for_port
from sojourn_lab.runtime.process import Process

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]

Serve = Callable[..., Nginx]

APP = '''
"""A WSGI app: /page works; /export sends a body slowly."""

import time

from sojourn_middleware import WSGIMiddleware


def body():
    yield b"head"
    time.sleep(0.8)
    yield b"tail"


def bare(environ, start_response):
    path = environ["PATH_INFO"]
    time.sleep(0.025)
    length = "8" if path == "/export" else "2"
    start_response("200 OK", [("Content-Length", length)])
    return body() if path == "/export" else [b"ok"]


application = WSGIMiddleware(bare)
'''
REQUESTS = 1_000
RATE = 28.0  # arrivals/s


@contextmanager
def running(folder: Path, workers: int, spans: Path) -> Iterator[str]:
    """Run the app in gunicorn's sync workers; yield the address."""
    folder.mkdir()
    (folder / "held_app.py").write_text(APP)
    port = free_port()
    where = ("--chdir", str(folder), "--bind", f"127.0.0.1:{port}", "--no-control-socket")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "SOJOURN_"))}
    command = [sys.executable, "-m", "gunicorn", *where, "--workers", str(workers), "held_app:application"]
    with Process(command, name="app", folder=folder, env={**clean, "SOJOURN_SPANS": str(spans)}) as process:
        wait_for_port("127.0.0.1", port, 20, process)
        until_ready(f"127.0.0.1:{port}", workers)
        yield f"127.0.0.1:{port}"


def until_ready(address: str, workers: int) -> None:
    """Wait until all workers answer at once: gunicorn listens before they have loaded the app."""

    def seconds(_: int) -> float:
        begin = time.monotonic()
        with urllib.request.urlopen(f"http://{address}/page", timeout=20) as answer:
            answer.read()
        return time.monotonic() - begin

    deadline = time.monotonic() + 20
    with ThreadPoolExecutor(workers) as pool:
        while max(pool.map(seconds, range(workers))) > 0.5:
            assert time.monotonic() < deadline


def offered(nginx: Nginx, share: float) -> None:
    """Send Poisson arrivals, the same in each run: pages, and a share of exports."""
    rng, begin, clock = random.Random(7), time.monotonic() + 0.2, 0.0

    def send(at: float, path: str) -> None:
        time.sleep(max(begin + at - time.monotonic(), 0.0))
        get(nginx, path)

    with ThreadPoolExecutor(128) as pool:
        for _ in range(REQUESTS):
            clock += rng.expovariate(RATE)
            pool.submit(send, clock, "/export" if rng.random() < share else "/page")
    logged(nginx, REQUESTS)


@pytest.mark.thorough  # two minutes of load, whose delays a busy machine changes
@pytest.mark.parametrize("share", [0.045, 0.0], ids=["streaming", "plain"])
def test_prediction_holds_where_the_release_is_known(serve: Serve, tmp_path: Path, share: float) -> None:
    runs = itertools.count()

    def run(workers: int) -> tuple[Path, Path]:
        number = next(runs)
        spans = tmp_path / f"spans-{number}.jsonl"
        with running(tmp_path / f"app-{number}", workers, spans) as address:
            nginx = serve(LOCATION, http=app_upstream(address))
            offered(nginx, share)
            return nginx.access_log, spans

    log, spans = run(2)
    result = sojourn.split(log, spans=[spans])
    assert sojourn.depth(result).overall["lower_bound"] is False
    assert depth_section(sojourn.depth(result)).failures == ()
    promise = sojourn.whatif(result, {"workers": "+2"})
    assert promise.refused is None
    (predicted,) = promise.variants
    if share:
        top = sojourn.blame(result).phases.row(0, named=True)
        assert (top["culprit"], top["phase"]) == ("/export", "body")
    changed, more = run(4)
    real = sojourn.split(changed, spans=[more]).response_time
    assert predicted.response_time["mean"] == pytest.approx(real["mean"], rel=0.1, abs=0.01)
