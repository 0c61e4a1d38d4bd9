"""What holds a worker, for real: bodies, work after the answer, processes with own queues, limits, and restarts."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from lab_support import eventually
from sojourn_lab.errors import LabError
from sojourn_lab.runtime import limit
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import group_members
from sojourn_lab.runtime.runtime import ProcessRuntime
from sojourn_lab.runtime.servers.table import why_server_unavailable
from sojourn_lab.scenario.topology import STREAMING, Server, Topology

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=str(Nginx.why_unavailable())),
]


@contextlib.contextmanager
def running(folder: Path, server: Server = "gunicorn", **settings: Any) -> Iterator[ProcessRuntime]:
    if (reason := why_server_unavailable(server)) is not None:
        pytest.skip(reason)
    (folder / "logs").mkdir()
    topology = Topology(server=server, backends=1, worker_log=True, **settings)
    with ProcessRuntime(topology, folder, folder / "logs", Interrupts()) as runtime:
        yield runtime
    for backend in runtime.backends:
        assert not [pid for process in backend.processes for pid in group_members(process.pid)]


def answered(runtime: ProcessRuntime, path: str) -> bytes:
    with urlopen(runtime.url + path, timeout=20.0) as answer:
        return bytes(answer.read())


def lines_of(runtime: ProcessRuntime, kind: str, count: int) -> list[dict[str, Any]]:
    """Return the lines of the workers' log that have this key, when there are so many."""
    path = runtime.access_log.with_name("workers.jsonl")

    def lines() -> list[dict[str, Any]]:
        text = path.read_text() if path.exists() else ""
        # The last line may be in the middle of being written.
        every = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        return [line for line in every if kind in line]

    eventually(lambda: len(lines()) >= count, 60.0, f"{count} lines with {kind}")
    return lines()


@pytest.mark.parametrize("server", [*STREAMING, "node"])
def test_an_app_says_when_it_held_its_worker(tmp_path: Path, server: Server) -> None:
    with running(tmp_path, server) as runtime:
        before = time.time()
        answered(runtime, "/sleep/0.05?route=/page")
        (line,) = lines_of(runtime, "released", 1)
        assert line["route"] == "/page"
        assert line["worker"].partition(".")[0].isdigit()
        assert before < line["begin"] <= line["headers"] - 0.045
        assert line["headers"] <= line["answered"] <= line["released"] < time.time()
        eventually(lambda: runtime.access_log.read_bytes().count(b"\n") == 1, 60.0, "the row of the request")
        row = json.loads(runtime.access_log.read_text())
        assert (row["request_id"], row["route"]) == (line["id"], "/page")


@pytest.mark.parametrize("server", STREAMING)
def test_a_body_and_work_after_the_answer_hold_the_worker(tmp_path: Path, server: Server) -> None:
    with running(tmp_path, server) as runtime:
        begin = time.monotonic()
        assert len(answered(runtime, "/sleep/0.01?bytes=4096&stream=0.3&after=0.4")) == 4096
        assert 0.29 < time.monotonic() - begin < 0.65, "the answer ends before the work after it"
        (line,) = lines_of(runtime, "released", 1)
        assert line["answered"] - line["headers"] == pytest.approx(0.3, abs=0.1)
        assert line["released"] - line["answered"] == pytest.approx(0.4, abs=0.1)
        eventually(lambda: runtime.access_log.read_bytes().count(b"\n") == 1, 60.0, "the row of the request")
        row = json.loads(runtime.access_log.read_text())
        assert float(row["service_time"]) < 0.2, "the service ends with the headers"


def test_masters_have_queues_of_their_own(tmp_path: Path) -> None:
    with running(tmp_path, masters=3) as runtime:
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            list(pool.map(lambda _: answered(runtime, "/sleep/0.05"), range(60)))
        served = lines_of(runtime, "released", 60)
        assert {len({line[key] for line in served}) for key in ("master", "worker")} == {3}
        eventually(lambda: runtime.access_log.read_bytes().count(b"\n") == 60, 60.0, "the rows of the requests")
        assert len({row["upstream_addr"] for row in map(json.loads, runtime.access_log.open())}) == 1


def test_a_worker_is_replaced_after_its_requests(tmp_path: Path) -> None:
    with running(tmp_path, max_requests=5, loading=0.3) as runtime:
        for _ in range(12):
            answered(runtime, "/sleep/0.01")
        served = lines_of(runtime, "released", 12)
        first = served[0]["worker"]
        ended = next(line["ended"] for line in lines_of(runtime, "ended", 1) if line["worker"] == first)
        loaded = [line["loaded"] for line in lines_of(runtime, "loaded", 2)]
        assert sum(line["worker"] == first for line in served) <= 5
        assert any(instant > ended + 0.3 for instant in loaded), "the next one has to load the app"


def test_a_limit_holds_requests_back_and_says_for_how_long(tmp_path: Path) -> None:
    if shutil.which("haproxy") is None:
        pytest.skip("haproxy is not installed: apt install haproxy")
    with running(tmp_path, workers=3, limit=1) as runtime:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda _: answered(runtime, "/sleep/0.2"), range(3)))
        log = tmp_path / "logs" / "backend-1-limit.out"
        eventually(lambda: log.read_bytes().count(b"\n") == 3, 60.0, "three lines of HAProxy")
        queued = sorted(json.loads(line)["queued"] for line in log.read_text().splitlines())
        assert queued[0] < 100 < queued[1] < 300 < queued[2]
        assert {json.loads(line)["id"] for line in log.read_text().splitlines()} == {
            line["id"] for line in lines_of(runtime, "released", 3)
        }


def test_a_missing_haproxy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit.shutil, "which", lambda _: None)
    with pytest.raises(LabError, match="haproxy is not installed: apt install haproxy"), running(tmp_path, limit=3):
        pass
