"""The backends for real: gunicorn and unicorn on inherited sockets, and what the app answers."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sojourn_lab.errors import LabError
from sojourn_lab.measure.listen import listen_depths
from sojourn_lab.measure.proc import TICKS, stat_of
from sojourn_lab.runtime import backends
from sojourn_lab.runtime.backends import Backend, started_backend
from sojourn_lab.runtime.process import group_members
from sojourn_lab.runtime.servers import start
from sojourn_lab.runtime.servers.start import whole_seconds
from sojourn_lab.runtime.servers.table import why_server_unavailable
from sojourn_lab.scenario.topology import Server, Topology

pytestmark = pytest.mark.alone


@contextlib.contextmanager
def running(folder: Path, topology: Topology) -> Iterator[Backend]:
    backend = started_backend("backend-1", topology, folder)
    try:
        backend.wait_until_ready()
        yield backend
    finally:
        backend.process.stop()


@pytest.fixture(scope="module", params=["gunicorn", "unicorn"])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    server: Server = request.param
    if (reason := why_server_unavailable(server)) is not None:
        pytest.skip(reason)
    with running(tmp_path_factory.mktemp(server), Topology(server=server, backlog=17)) as started:
        yield started


def answer(backend: Backend, path: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", backend.port, timeout=20.0)
    try:
        sent = {"X-Request-Start": f"t={time.time():.3f}", **{key.replace("_", "-"): headers[key] for key in headers}}
        connection.request("GET", path, headers=sent)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def test_listens_with_the_scenario_s_backlog(backend: Backend) -> None:
    assert listen_depths()[backend.port].limit == 17


def test_sleeps_for_the_time_in_the_path_and_reports_it(backend: Backend) -> None:
    response, body = answer(backend, "/sleep/0.2", X_Request_Start=f"t={time.time():.3f}")
    assert (response.status, body) == (200, b"slept 0.2 s\n")
    assert 0.2 <= float(response.headers["X-Service-Time"]) < 2.0
    assert -0.01 < float(response.headers["X-Queueing-Delay"]) < 2.0
    assert response.headers["X-Route"] == "/sleep/{seconds}"
    assert response.headers["X-Worker"].isdigit()
    assert (response.headers["Connection"] or "").lower() == "close"


def test_one_worker_serves_one_after_the_other(backend: Backend) -> None:
    # One stamp for all: threads of a busy machine do not start at the same instant.
    stamp = f"t={time.time():.3f}"

    def delay(_: int) -> float:
        return float(answer(backend, "/sleep/0.2", X_Request_Start=stamp)[0].headers["X-Queueing-Delay"])

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        delays = sorted(pool.map(delay, range(3)))
    # The stamp has milliseconds; everything else is a lower bound.
    assert delays[1] >= 0.19
    assert delays[2] >= 0.39


def test_the_query_shapes_the_answer(backend: Backend) -> None:
    response, body = answer(backend, "/sleep/0?bytes=100000&status=503")
    assert (response.status, body) == (503, b"x" * 100_000)
    before = time.monotonic()
    response, body = answer(backend, "/sleep/0?bytes=1000&stream=0.3")
    assert body == b"x" * 1000
    assert time.monotonic() - before >= 0.3
    assert float(response.headers["X-Service-Time"]) < 0.3


@pytest.mark.parametrize(
    "path",
    [
        "/sleep/",
        "/sleep/-1",
        "/sleep/nan",
        "/sleep/inf",
        "/sleep/1e9",
        "/sleep/x",
        "/sleep/0?bytes=x",
        "/sleep/0?status=7",
    ],
)
def test_a_bad_number_is_answered_with_400(backend: Backend, path: str) -> None:
    response, body = answer(backend, path)
    assert response.status == 400
    assert b"must be" in body or b"not a valid" in body


def test_the_app_uses_the_processor_for_the_time_in_the_path(tmp_path: Path) -> None:
    with running(tmp_path, Topology()) as backend:
        workers = [pid for pid in group_members(backend.process.pid) if pid != backend.process.pid]

        def used() -> float:
            return sum(stat_of(pid).cpu for pid in workers)

        before = used()
        response, _ = answer(backend, "/sleep/0.3?cpu=1")
        # The kernel counts in ticks.
        assert used() - before >= 0.3 - 2 / TICKS
        assert float(response.headers["X-Service-Time"]) >= 0.3
        before = used()
        answer(backend, "/sleep/0.3")
        assert used() - before < 0.2
        assert answer(backend, "/sleep/0.3?cpu=2")[0].status == 400


def test_threads_that_use_the_processor_share_the_lock_of_the_interpreter(tmp_path: Path) -> None:
    def service(_: int) -> float:
        return float(answer(backend, "/sleep/0.3?cpu=1")[0].headers["X-Service-Time"])

    with running(tmp_path, Topology(threads=3)) as backend, concurrent.futures.ThreadPoolExecutor(3) as pool:
        before = time.monotonic()
        services = list(pool.map(service, range(3)))
        assert time.monotonic() - before >= 0.9
    # They share the lock for a time, even if the threads of a busy machine begin one after the other.
    assert max(services) >= 0.45


def test_requests_wait_for_a_connection_inside_an_app_that_awaits(tmp_path: Path) -> None:
    def service(_: int) -> float:
        return float(answer(backend, "/sleep/0.3")[0].headers["X-Service-Time"])

    topology = Topology(server="uvicorn", connections=2)
    # Three for each connection: the last waits for two, even if the threads of a busy machine begin one by one.
    with running(tmp_path, topology) as backend, concurrent.futures.ThreadPoolExecutor(6) as pool:
        before = time.monotonic()
        services = sorted(pool.map(service, range(6)))
        took = time.monotonic() - before
    assert took >= 0.9
    assert services[0] >= 0.3
    assert services[-1] >= 0.5


def test_another_path_is_404_and_ready_leaves_no_trace(backend: Backend) -> None:
    assert answer(backend, "/")[0].status == 404
    response, body = answer(backend, "/ready")
    assert (response.status, body) == (200, b"ready\n")
    assert response.headers["X-Service-Time"] is None
    if backend.spans is not None:
        assert "/ready" not in backend.spans.read_text()
        assert "/sleep/0.2" in backend.spans.read_text()


def test_the_environment_cannot_change_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--workers 3 --backlog 5")
    monkeypatch.setenv("SOJOURN_SPANS", str(tmp_path / "elsewhere.jsonl"))
    with running(tmp_path, Topology(backlog=17)) as backend:
        assert listen_depths()[backend.port].limit == 17
        assert len(group_members(backend.process.pid)) == 2
        answer(backend, "/sleep/0")
    assert not (tmp_path / "elsewhere.jsonl").exists()


def test_a_server_that_ends_at_once_says_why_and_holds_no_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.py").write_text("raise RuntimeError('no app today')\n")
    monkeypatch.setattr(start, "resource_file", lambda *_: tmp_path)
    backend = started_backend("backend-1", Topology(), tmp_path)
    try:
        with pytest.raises(LabError, match=r"(?s)backend-1 exited with 3 .*no app today"):
            backend.wait_until_ready()
    finally:
        backend.process.stop()
    assert backend.port not in listen_depths()


def test_many_backends_at_once_never_share_a_port(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(backends.listening_socket(4)) for _ in range(200)]
        ports = {listener.getsockname()[1] for listener in listeners}
    assert len(ports) == 200


def test_timeouts_of_app_servers_are_never_shorter_than_configured() -> None:
    assert [whole_seconds(t) for t in (60.0, 0.06, 1.2)] == [60, 1, 2]


def test_a_missing_server_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert why_server_unavailable("unicorn") == "unicorn is not installed"
    with pytest.raises(LabError, match="unicorn is not installed"):
        started_backend("backend-1", Topology(server="unicorn"), tmp_path)
