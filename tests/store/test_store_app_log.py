"""The app's own log in a store: work for requests that no client waits for any more."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from sojourn.store import load
from store_support import BASE, ask, one, record, tell, write_log

GONE = {
    "status": "504", "upstream_status": "504", "upstream_header_time": "-", "queueing_delay": "", "service_time": "",
    "worker": "",
}  # fmt: skip
WORK = {"request_id": "r1", "service_time": 1.25, "start": BASE + 2.5, "route": "/export", "worker": "17"}


def line(**changes: object) -> bytes:
    return json.dumps({**WORK, **changes}).encode() + b"\n"


def test_work_for_a_request_that_was_given_up(store_dsn: str, tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.jsonl", record(1, **GONE), record(2))
    app = write_log(tmp_path / "app.jsonl", line(), line(request_id="r2"), b"bad\n")
    for _ in range(2):
        loaded = load(store_dsn, log, app_logs=[app])
    assert (loaded.requests, loaded.app_logs, loaded.dead_letters) == (2, 2, 1)
    assert ask(store_dsn, "SELECT request_id, route, worker, wasted FROM wasted_work") == [
        ("r1", "/export", "17", 1.25)
    ]
    assert one(store_dsn, "SELECT count() FROM spans FINAL") == 2
    assert one(store_dsn, "SELECT dateDiff('us', start, end) FROM spans FINAL LIMIT 1") == 1_250_000


REFUSED = [
    (b"\n", "empty_line"),
    (b"{\n", "invalid_json"),
    (b"[1]\n", "not_an_object"),
    (line(request_id=""), "missing_request_id"),
    (line(service_time=None), "missing_service_time"),
    (line(service_time=-1), "invalid_service_time"),
    (line(service_time="1s"), "invalid_service_time"),
    (line(service_time=1e300), "invalid_service_time"),
    (line(service_time=[1]), "invalid_service_time"),
    (line(start=None), "missing_start"),
    (line(start=5), "invalid_start"),
    (line(start="yesterday"), "invalid_start"),
    (line(start=1e18), "invalid_start"),
]


def test_a_line_that_is_none_is_a_dead_letter(store_dsn: str, tmp_path: Path) -> None:
    """Each with its reason and its place, and none of them stops the sound one at the end."""
    app = write_log(tmp_path / "app.jsonl", *(text for text, _ in REFUSED), line())
    loaded = load(store_dsn, write_log(tmp_path / "a.jsonl", record(1)), app_logs=[app])
    assert (loaded.app_logs, loaded.dead_letters) == (1, len(REFUSED))
    places = itertools.accumulate((len(text) for text, _ in REFUSED), initial=0)
    expected = [("app_log", reason, place) for (_, reason), place in zip(REFUSED, places, strict=False)]
    assert ask(store_dsn, "SELECT kind, reason, position FROM dead_letters FINAL ORDER BY position") == expected


@pytest.mark.parametrize("value", ["1.25", 1.25, "1.250000"])
def test_numbers_may_be_text(store_dsn: str, value: object) -> None:
    text = line(service_time=value).decode().strip().replace("'", "''")
    tell(store_dsn, f"INSERT INTO incoming_app_log (line) VALUES ('{text}')")
    assert one(store_dsn, "SELECT toFloat64(service_time) FROM spans") == 1.25


def test_two_requests_of_one_instant_are_two(store_dsn: str, tmp_path: Path) -> None:
    app = write_log(tmp_path / "app.jsonl", line(), line(request_id="other"))
    load(store_dsn, write_log(tmp_path / "a.jsonl", record(1)), app_logs=[app])
    assert one(store_dsn, "SELECT count() FROM spans FINAL") == 2


def test_on_the_command_line(store_dsn: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sojourn", "store", "load", "--help"], capture_output=True, text=True, check=True
    )
    assert "--app-log" in done.stdout
