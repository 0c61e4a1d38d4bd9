"""The middleware under a real uWSGI, which forks in C: by default without Python's hooks for a fork."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from collector_support import (
    APPS,
    assert_queued,
    assert_two_threads_of_two_processes,
    eventually,
    fetch,
    fetch_parallel,
    served,
    workers_of,
)
from sojourn_lab.resources import resource_file
from test_middleware_otlp import Collector

SERVICE_S = 0.15
# A master that has served requests, has threads and holds the locks; and the hooks that uWSGI calls on request.
KINDS = {"forked": (), "lazy": ("--lazy-apps",), "hooks": ("--py-call-osafterfork",)}


def uwsgi(*options: str) -> list[str]:
    """A uWSGI command with a master; skips the test where it is not installed."""
    program = shutil.which("uwsgi") or shutil.which("uwsgi-core")
    if program is None or not any(Path("/usr/lib/uwsgi/plugins").glob("python3*_plugin.so")):
        pytest.skip("uwsgi and its plugin python3 are not installed (packages uwsgi-core, uwsgi-plugin-python3)")
    packages = distribution("opentelemetry-sdk").locate_file("")
    paths = (APPS, resource_file("middleware", "python", "src"), packages)
    listening = [program, "--plugin", "python3", "--http-socket", "127.0.0.1:{port}", "--need-app", "--die-on-term"]
    folders = [option for path in paths for option in ("--pythonpath", str(path))]
    return [*listening, "--master", *folders, *options]


def spans_by_pid(file: Path) -> dict[int, list[str]]:
    """The worker of each span, without those of the master, by the process of its resource.

    The file may end in a part of a line, which is being written.
    """
    spans: dict[int, list[str]] = {}
    text = file.read_text() if file.exists() else ""
    for line in text[: text.rfind("\n") + 1].splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            pid = next(each for each in resource["resource"]["attributes"] if each["key"] == "process.pid")
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    attributes: dict[str, Any] = {each["key"]: each["value"] for each in span["attributes"]}
                    if "http.request.header.x-request-id" not in attributes:
                        worker = attributes["queueing.worker"]["stringValue"]
                        spans.setdefault(int(pid["value"]["intValue"]), []).append(worker)
    return spans


@pytest.mark.parametrize("kind", KINDS)
def test_every_thread_of_every_process_is_a_worker(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "spans.jsonl"
    command = uwsgi("--module", "forked_app", "--processes", "2", "--threads", "2", "--enable-threads", *KINDS[kind])
    with served(command, tmp_path, {"SOJOURN_SPANS": str(file)}) as (port, master):
        answers = assert_two_threads_of_two_processes(port, master.pid)
        eventually(lambda: sum(map(len, spans_by_pid(file).values())) >= len(answers), "a span of every request")
    # Each process has a provider of its own, and not the master's.
    for pid, names in spans_by_pid(file).items():
        assert {name.partition(".")[0] for name in names} == {str(pid)}


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_sent_by_threads_of_each_process(tmp_path: Path, kind: str) -> None:
    collector = Collector()
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    command = uwsgi("--module", "bare_app", "--processes", "2", "--threads", "2", "--enable-threads", *KINDS[kind])
    try:
        with served(command, tmp_path, env) as (port, _):
            workers, _ = workers_of(port, lambda names: len({each.partition(".")[0] for each in names}) == 2)

            def senders() -> set[str]:
                names = [entry for span in collector.spans() for entry in span.attributes]
                return {entry.value.string_value for entry in names if entry.key == "queueing.worker"}

            eventually(lambda: senders() >= workers, "spans of every worker")
    finally:
        collector.close()


@pytest.mark.parametrize("threads", [(), ("--enable-threads",)], ids=["", "enabled"])
def test_process_without_threads_is_the_worker(tmp_path: Path, threads: tuple[str, ...]) -> None:
    command = uwsgi("--module", "bare_app", "--processes", "1", *threads)
    with served(command, tmp_path) as (port, master):
        fetch(port)
        answers = fetch_parallel(port, "/sleep", 4)
        assert_queued(answers, SERVICE_S)
        (worker,) = {answer.headers["x-worker"] for answer in answers}
        assert worker.isdecimal()
        assert int(worker) != master.pid
