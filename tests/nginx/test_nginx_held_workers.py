"""Workers that real servers hold after the headers: what is said of them, and the change made for real."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import sojourn
from nginx_support import LOCATION, app_upstream, get, logged
from sojourn.analyses.blame.section import blame_section
from sojourn.analyses.depth.section import depth_section
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.ports import free_port, wait_for_port
from sojourn_lab.runtime.process import Process

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]

Serve = Callable[..., Nginx]

APP = '''
"""A WSGI app: /page works; /export sends a body slowly; /order works on after its answer."""

import time

from sojourn_middleware import WSGIMiddleware


class Answer(list):
    """An answer whose end takes time."""

    def close(self):
        time.sleep(0.4)


def body():
    yield b"head"
    time.sleep(0.8)
    yield b"tail"


def bare(environ, start_response):
    path = environ["PATH_INFO"]
    time.sleep(0.025)
    length = "8" if path == "/export" else "2"
    start_response("200 OK", [("Content-Length", length)])
    return body() if path == "/export" else Answer([b"ok"]) if path == "/order" else [b"ok"]


application = WSGIMiddleware(bare)
'''
REQUESTS, RATE = 1_000, 28.0


@contextmanager
def running(folder: Path, workers: int, spans: Path) -> Iterator[str]:
    """Run the app in gunicorn's sync workers; yield its address."""
    folder.mkdir()
    (folder / "held_app.py").write_text(APP)
    port = free_port()
    where = ("--chdir", str(folder), "--bind", f"127.0.0.1:{port}", "--no-control-socket", "--workers", str(workers))
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "SOJOURN_"))}
    command = [sys.executable, "-m", "gunicorn", *where, "held_app:application"]
    with Process(command, name="app", folder=folder, env={**clean, "SOJOURN_SPANS": str(spans)}) as process:
        wait_for_port("127.0.0.1", port, 20, process)
        yield f"127.0.0.1:{port}"


def offered(nginx: Nginx, other: str, share: float) -> None:
    """Send Poisson arrivals, the same in each run: pages, and a share of another path."""
    rng, begin, clock = random.Random(7), time.monotonic() + 0.2, 0.0

    def send(at: float, path: str) -> None:
        time.sleep(max(begin + at - time.monotonic(), 0.0))
        get(nginx, path)

    with ThreadPoolExecutor(128) as pool:
        for _ in range(REQUESTS):
            clock += rng.expovariate(RATE)
            pool.submit(send, clock, other if rng.random() < share else "/page")
    logged(nginx, REQUESTS)


@pytest.fixture
def run(serve: Serve, tmp_path: Path) -> Callable[[int, str, float], tuple[Path, Path]]:
    """Return the log and the spans of a run: run(workers, other path, its share)."""

    def measured(workers: int, other: str, share: float) -> tuple[Path, Path]:
        folder = tmp_path / f"app-{workers}"
        spans = tmp_path / f"spans-{workers}.jsonl"
        with running(folder, workers, spans) as address:
            nginx = serve(LOCATION, http=app_upstream(address))
            offered(nginx, other, share)
            return nginx.access_log, spans

    return measured


@pytest.mark.parametrize(("other", "share"), [("/export", 0.045), ("/order", 0.08)])
def test_held_workers_are_not_called_free_and_nothing_is_promised(
    run: Callable[[int, str, float], tuple[Path, Path]], other: str, share: float
) -> None:
    log, _ = run(2, other, share)
    result = sojourn.split(log)
    assert result.verdict.cause == "queueing"
    sentence = blame_section(sojourn.blame(result)).sentence
    assert "not a queue" not in sentence
    assert "the log does not show" in sentence
    assert other in sentence or "bodies" in sentence or "after the answer" in sentence
    assert sojourn.depth(result).overall["lower_bound"]
    assert sojourn.whatif(result, {"workers": "+2"}).variants == []


@pytest.mark.parametrize(
    ("other", "share"), [("/export", 0.045), ("/page", 0.0)], ids=["spans to the release", "plain"]
)
def test_prediction_holds_where_the_release_is_known(
    run: Callable[[int, str, float], tuple[Path, Path]], other: str, share: float
) -> None:
    log, spans = run(2, other, share)
    result = sojourn.split(log, spans=[spans])
    assert sojourn.depth(result).overall["lower_bound"] is False
    assert depth_section(sojourn.depth(result)).failures == ()
    promise = sojourn.whatif(result, {"workers": "+2"})
    assert promise.refused is None
    (predicted,) = promise.variants
    if other == "/export":
        assert sojourn.blame(result).culprits.row(0, named=True)["culprit"] == "/export"
    changed, more = run(4, other, share)
    real = sojourn.split(changed, spans=[more]).response_time
    response = predicted.response_time
    assert response["mean"] == pytest.approx(real["mean"], rel=0.2, abs=0.01)
