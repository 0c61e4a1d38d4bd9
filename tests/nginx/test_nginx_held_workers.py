"""What holds the workers of real servers, or keeps requests from them: what is said, and the change made for real."""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
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
"""A WSGI app: /page works; /export sends a body slowly; /order works on after its answer; it may take time to load."""

import os
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


time.sleep(float(os.environ.get("LOAD_S", "0")))


def bare(environ, start_response):
    path = environ["PATH_INFO"]
    time.sleep(float(os.environ.get("PAGE_S", "0.025")))
    length = "8" if path == "/export" else "2"
    start_response("200 OK", [("Content-Length", length)])
    return body() if path == "/export" else Answer([b"ok"]) if path == "/order" else [b"ok"]


application = WSGIMiddleware(bare)
'''
REQUESTS = 1_000
HAPROXY = """
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout queue 60s
frontend entry
    bind 127.0.0.1:{port}
    default_backend app
backend app
    server app {address} maxconn {limit}
"""


@dataclass(frozen=True)
class Setting:
    """A server and its load.

    Attributes:
        workers: of each gunicorn. masters: that listen on one port (SO_REUSEPORT).
        options: of gunicorn.
        limit: requests that HAProxy lets pass at a time; None: nginx calls gunicorn.
        rate: arrivals/s; other, share: path beside /page, and its share of the requests.
        page, load: s of a page, and of the loading of the app.
    """

    workers: int = 2
    masters: int = 1
    options: Sequence[str] = ()
    limit: int | None = None
    rate: float = 28.0
    other: str = "/page"
    share: float = 0.0
    page: float = 0.025
    load: float = 0.0


@contextmanager
def running(folder: Path, setting: Setting, spans: Path) -> Iterator[str]:
    """Run the app in gunicorn's sync workers, and HAProxy in front of them if there is a limit; yield the address."""
    folder.mkdir()
    (folder / "held_app.py").write_text(APP)
    port = free_port()
    where = ("--chdir", str(folder), "--bind", f"127.0.0.1:{port}", "--no-control-socket")
    size = ("--workers", str(setting.workers), *(("--reuse-port",) if setting.masters > 1 else ()))
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "SOJOURN_"))}
    clean |= {"SOJOURN_SPANS": str(spans), "PAGE_S": str(setting.page), "LOAD_S": str(setting.load)}
    command = [sys.executable, "-m", "gunicorn", *where, *size, *setting.options, "held_app:application"]
    with ExitStack() as stack:
        for number in range(setting.masters):
            process = stack.enter_context(Process(command, name=f"app-{number}", folder=folder, env=clean))
            wait_for_port("127.0.0.1", port, 20, process)
            logged_boot(process)
        address = f"127.0.0.1:{port}"
        until_ready(address, setting.workers * setting.masters)
        if setting.limit is not None:
            entry = free_port()
            configuration = folder / "haproxy.cfg"
            configuration.write_text(HAPROXY.format(port=entry, address=address, limit=setting.limit))
            proxy = stack.enter_context(
                Process(["haproxy", "-db", "-f", str(configuration)], name="haproxy", folder=folder)
            )
            wait_for_port("127.0.0.1", entry, 20, proxy)
            address = f"127.0.0.1:{entry}"
        yield address


def logged_boot(process: Process) -> None:
    """Wait until gunicorn says that a worker boots: a port that listens may be that of another master."""
    deadline = time.monotonic() + 20
    while "Booting worker" not in process.err_path.read_text():
        assert time.monotonic() < deadline, process.err_path.read_text()
        time.sleep(0.05)


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


def offered(nginx: Nginx, setting: Setting) -> None:
    """Send Poisson arrivals, the same in each run: pages, and a share of another path."""
    rng, begin, clock = random.Random(7), time.monotonic() + 0.2, 0.0

    def send(at: float, path: str) -> None:
        time.sleep(max(begin + at - time.monotonic(), 0.0))
        get(nginx, path)

    with ThreadPoolExecutor(128) as pool:
        for _ in range(REQUESTS):
            clock += rng.expovariate(setting.rate)
            pool.submit(send, clock, setting.other if rng.random() < setting.share else "/page")
    logged(nginx, REQUESTS)


@pytest.fixture
def run(serve: Serve, tmp_path: Path) -> Callable[[Setting], tuple[Path, Path]]:
    """Return the log and the spans of a run."""
    runs = itertools.count()

    def measured(setting: Setting) -> tuple[Path, Path]:
        number = next(runs)
        folder = tmp_path / f"app-{number}"
        spans = tmp_path / f"spans-{number}.jsonl"
        with running(folder, setting, spans) as address:
            nginx = serve(LOCATION, http=app_upstream(address))
            offered(nginx, setting)
            return nginx.access_log, spans

    return measured


Run = Callable[[Setting], tuple[Path, Path]]

STREAMING = Setting(other="/export", share=0.045)
AFTER = Setting(other="/order", share=0.08)
BOUND = Setting(workers=1, masters=4, page=0.06, rate=42.0)
RESTARTS = Setting(workers=3, page=0.06, rate=32.0, load=1.0, options=("--max-requests", "60"))
LIMITED = Setting(workers=6, limit=3, page=0.06, rate=40.0)


@pytest.mark.parametrize(("setting", "phase"), [(STREAMING, "body"), (AFTER, "after")], ids=["streaming", "after"])
def test_route_and_phase_are_named_and_more_workers_predicted(run: Run, setting: Setting, phase: str) -> None:
    log, spans = run(setting)
    result = sojourn.split(log)
    assert result.verdict.cause == "queueing"
    blame = sojourn.blame(result)
    assert blame.looked_free < 0.05 * blame.waited
    top = blame.phases.row(0, named=True)
    assert (top["culprit"], top["phase"]) == (setting.other, phase)
    # The app's spans show the release of the workers: the truth.
    known = sojourn.blame(log, spans=[spans]).phases.row(0, named=True)
    assert top["share"] == pytest.approx(known["share"], abs=0.02)
    assert sojourn.depth(result).overall["lower_bound"] is False
    changed, _ = run(replace(setting, workers=4))
    _is_predicted(log, {"workers": "+2"}, changed)


@pytest.mark.parametrize(
    ("setting", "account", "change", "changed"),
    [
        (BOUND, "bound", {"processes": "one_queue"}, replace(BOUND, workers=4, masters=1)),
        (RESTARTS, "absent", {"absent": "none"}, replace(RESTARTS, options=())),
        (LIMITED, "limit", {"limit": "+1"}, replace(LIMITED, limit=4)),
    ],
    ids=["bound", "restarts", "limit"],
)
def test_what_keeps_requests_from_workers_has_an_account_and_is_replayed(
    run: Run, setting: Setting, account: str, change: dict[str, str], changed: Setting
) -> None:
    log, _ = run(setting)
    blame = sojourn.blame(log)
    assert blame.looked_free < 0.1 * blame.waited
    assert blame.accounts[account] > 0.2 * blame.waited
    assert blame.blamed + sum(blame.accounts.values()) == pytest.approx(blame.waited, abs=1e-6)
    _is_predicted(log, change, run(changed)[0])


def _is_predicted(log: Path, change: dict[str, str], changed: Path) -> None:
    result = sojourn.whatif(log, change)
    assert result.refused is None
    predicted, real = result.variants[0].response_time, sojourn.split(changed).response_time
    assert predicted["mean"] == pytest.approx(real["mean"], rel=0.1, abs=0.01)
    assert predicted["p99"] == pytest.approx(real["p99"], rel=0.15, abs=0.03)


@pytest.mark.parametrize("setting", [STREAMING, Setting()], ids=["spans to the release", "plain"])
def test_prediction_holds_where_the_release_is_known(run: Run, setting: Setting) -> None:
    log, spans = run(setting)
    result = sojourn.split(log, spans=[spans])
    assert sojourn.depth(result).overall["lower_bound"] is False
    assert depth_section(sojourn.depth(result)).failures == ()
    promise = sojourn.whatif(result, {"workers": "+2"})
    assert promise.refused is None
    (predicted,) = promise.variants
    if setting.share:
        assert sojourn.blame(result).culprits.row(0, named=True)["culprit"] == setting.other
    changed, more = run(replace(setting, workers=4))
    real = sojourn.split(changed, spans=[more]).response_time
    assert predicted.response_time["mean"] == pytest.approx(real["mean"], rel=0.2, abs=0.01)
