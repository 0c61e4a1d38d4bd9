"""The Node package: its own tests, run by `node --test`, and real servers with parallel requests."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from collector_support import (
    CASES,
    Answer,
    assert_queued,
    assert_x_request_start_decides,
    fetch,
    fetch_parallel,
    served,
)
from node_support import INSTALLED, ROOT, TESTS, node, why_not_installed

ANSWERS = json.loads((ROOT / "tests" / "vectors" / "answer_headers.json").read_text("utf-8"))["cases"]
METRICS = json.loads((ROOT / "tests" / "vectors" / "prometheus.json").read_text("utf-8"))["cases"]
SERVICE_S = 0.15


@pytest.fixture(scope="module")
def packages() -> str:
    """Why the frameworks are not installed, or an empty string."""
    node()
    return why_not_installed()


@pytest.fixture(scope="module")
def results(packages: str) -> list[dict[str, Any]]:
    """What `node --test` reports, one entry for each test."""
    files = sorted(str(file) for file in TESTS.glob("*.test.js"))
    done = subprocess.run(
        [node(), "--test", f"--test-reporter={TESTS / 'reporter.mjs'}", "--test-reporter-destination=stdout", *files],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "SOJOURN_NODE_PACKAGES": str(INSTALLED)},
    )
    entries = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    assert entries, done.stdout + done.stderr
    assert done.returncode == (0 if all(entry["ok"] for entry in entries) else 1), done.stdout + done.stderr
    return entries


def result_of(results: list[dict[str, Any]], *name: str) -> dict[str, Any]:
    """The only entry with this name and these names of parents."""
    (entry,) = (entry for entry in results if tuple(entry["name"][-len(name) :]) == name)
    return entry


@pytest.mark.parametrize("name", [case["name"] for case in CASES])
def test_reads_stamps_by_the_table(results: list[dict[str, Any]], name: str) -> None:
    entry = result_of(results, "request_start.json", name)
    assert entry["ok"], entry["error"]


@pytest.mark.parametrize("name", [case["name"] for case in ANSWERS])
def test_sends_headers_by_the_table(results: list[dict[str, Any]], name: str) -> None:
    entry = result_of(results, "answer_headers.json", name)
    assert entry["ok"], entry["error"]


@pytest.mark.parametrize("name", [case["name"] for case in METRICS])
def test_exports_metrics_by_the_table(results: list[dict[str, Any]], packages: str, name: str) -> None:
    if packages:
        pytest.skip(packages)
    entry = result_of(results, "prometheus.json", name)
    assert entry["ok"], entry["error"]


def test_every_test_of_the_package_passes(results: list[dict[str, Any]], packages: str) -> None:
    failures = [f"{' > '.join(entry['name'])}: {entry['error']}" for entry in results if not entry["ok"]]
    assert not failures, "\n\n".join(failures)
    assert len(results) > len(CASES) + len(ANSWERS) + 80
    skipped = [" > ".join(entry["name"]) for entry in results if entry["skip"] is not None]
    if skipped:
        pytest.skip(f"{len(skipped)} of {len(results)} tests were skipped ({packages}): {', '.join(skipped)}")


SERVERS = ("http", "express4", "express5", "fastify4", "fastify5", "koa2", "koa3")


@pytest.fixture(params=SERVERS)
def server(request: Any, packages: str, tmp_path: Path) -> Iterator[tuple[str, int]]:
    """The small app of apps.js on each framework: its name and its port."""
    name = request.param
    if packages and name != "http":
        pytest.skip(packages)
    command = [node(), str(TESTS / "apps.js"), name, "{port}"]
    with served(command, tmp_path, {"SOJOURN_NODE_PACKAGES": str(INSTALLED)}) as (port, _):
        yield name, port


def test_a_blocked_event_loop_is_a_queue(server: tuple[str, int]) -> None:
    name, port = server
    fetch(port)
    answers = fetch_parallel(port, "/hold", 3)
    assert_queued(answers, SERVICE_S)
    (worker,) = {answer.headers["x-worker"] for answer in answers}
    assert worker.isdecimal()
    routes = {answer.headers.get("x-route") for answer in answers}
    assert routes == ({None} if name == "http" else {"/hold"})
    assert_x_request_start_decides(port)


def without_date(answer: Answer) -> dict[str, str]:
    measured = ("date", "x-queueing-delay", "x-service-time")
    return {name: value for name, value in answer.headers.items() if name not in measured}


def test_responses_of_a_server(server: tuple[str, int]) -> None:
    name, port = server
    assert fetch(port, "/stream").body == b"one two\n"
    assert fetch(port, "/own").headers["x-route"] == ("/own/{name}" if name == "http" else "/own")
    head = fetch(port, "/own", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.service_time >= 0
    assert fetch(port, "/error").status == 500
    unstamped = fetch(port, headers={"X-Request-Start": "junk"})
    assert "x-queueing-delay" not in unstamped.headers
    assert without_date(unstamped) == without_date(fetch(port))
