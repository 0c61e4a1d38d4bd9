"""The first scenario end to end, shortened: real nginx, real gunicorn, its own criteria, the law beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars
import pytest
from lab_support import sound_run
from sojourn_lab.runtime.nginx import Nginx

pytestmark = pytest.mark.alone

SCALE = 0.4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The record of one run."""
    if (reason := Nginx.why_unavailable()) is not None:
        pytest.skip(reason)
    return sound_run(tmp_path_factory.mktemp("benchmark"), "benchmark", "--scale", str(SCALE), until_passed=True)


def rows_of(run: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(run["run"]) / name).read_bytes().splitlines()]


def test_every_criterion_written_down_beforehand_passes(run: dict[str, Any]) -> None:
    assert [each for each in run["criteria"] if not each["passed"]] == []
    assert {each["name"].split()[0] for each in run["criteria"]} == {"mean", "the", "Little's", "no"}
    assert run["passed"]
    assert run["faults"] == []


def test_no_request_is_lost_between_the_client_the_log_and_the_app(run: dict[str, Any]) -> None:
    client, access, spans = (rows_of(run, f"{name}.jsonl") for name in ("client", "access", "spans"))
    assert run["rows"] == {"client": len(client), "access": len(access), "spans": len(spans)}
    assert len(client) == len(access) == len(spans) > 200
    ids = {row["request_id"] for row in client}
    assert ids == {row["request_id"] for row in access}
    assert len(ids) == len(client)
    assert {row["case"] for row in client} == {row["service"] for row in access}
    table = polars.read_parquet(Path(run["run"]) / "requests.parquet")
    assert set(table["request_id"]) == ids


def test_only_queueing_grows_with_the_number_of_users(run: dict[str, Any]) -> None:
    means = {
        case["name"]: (
            case["split"]["components"]["service_time"]["mean"],
            case["split"]["components"]["queueing_delay"]["mean"],
        )
        for case in run["cases"]
    }
    for service_ms in (100, 300):
        requested = service_ms / 1000.0 * SCALE
        (_, alone), (_, four), (service, eight) = (means[f"c{users}-s{service_ms}"] for users in (1, 4, 8))
        assert service >= requested
        assert alone < requested / 2.0 < four < 2.0 * requested < eight


def test_the_accept_queues_held_what_waited(run: dict[str, Any]) -> None:
    """Eight users, two workers: six wait, three at each backend.

    A sample may catch a connection in the instant before a free worker accepts it, so the bound is the number of users.
    """
    for case in run["cases"]:
        deepest = {each["socket"]: each["deepest"] for each in case["listen"]}
        assert {"backend-1", "backend-2"} <= set(deepest)
        assert max(deepest.values()) <= case["load"]["concurrency"]
        assert all(each["samples"] > 0 for each in case["listen"])
    busiest = run["cases"][-1]
    assert sum(each["deepest"] for each in busiest["listen"]) >= 5


def test_the_law_is_worked_out_from_the_scaled_service_time_and_the_article_is_scaled_too(
    run: dict[str, Any],
) -> None:
    busiest = run["cases"][-1]
    assert busiest["law"]["response_time"] == pytest.approx(8 * 0.3 * SCALE / 2)
    assert busiest["reference"]["response_time"] == pytest.approx(2.2 * SCALE)
    assert busiest["warmup"] >= 2 * busiest["law"]["response_time"]


def test_the_table_puts_the_law_and_the_article_beside_the_figures_and_says_which_is_off(
    run: dict[str, Any],
) -> None:
    text = subprocess.run(
        [sys.executable, "-m", "sojourn_lab", "show", run["run"]],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
        check=True,
    ).stdout
    header = next(line for line in text.splitlines() if line.startswith("case"))
    assert header.split() == [
        "case",
        "requests",
        "service",
        "queueing",
        "queueing",
        "by",
        "the",
        "law",
        "response",
        "connect",
    ]
    rows = [line.split() for line in text.splitlines() if line.startswith("c8-s300")]
    assert rows[0][4] == "360", "the law's queueing delay, in scaled ms"
    assert next(row for row in rows if row[1:3] == ["queueing", "delay"])[4:] == ["360", "784"], "law and article"
    words = " ".join(text.split())
    assert "The article's response times are about twice what its own set-up allows" in words
    assert "nothing here is tuned" in words


def test_the_report_is_one_page_of_its_own(run: dict[str, Any]) -> None:
    page = (Path(run["run"]) / "report.html").read_text()
    assert ".partial" not in page
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "Queueing delay of two one-process app servers behind nginx" in page
