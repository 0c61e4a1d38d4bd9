"""The stamp in the log of a proxy that writes the request's header: its own, of a proxy in front, or the client's."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sojourn
import yaml
from sojourn.doctor.doctor import diagnose
from sojourn.readers.formats.fields import MACROS

STAMPS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "request_start.json").read_text("utf-8")
)["cases"]
BEGAN = datetime(2026, 1, 31, 12, 0, 0, 123_456, UTC)
WAIT, SERVICE, REST = 0.25, 0.1, 0.012
OWN = (BEGAN - timedelta(microseconds=456)).timestamp()  # of a proxy that counts in milliseconds
TICK = 0.0005  # half of it: a stamp that was cut to milliseconds is that much too early on average


def line(path: str, began: datetime, parts: tuple[float, float, float], stamp: str, delay: str) -> str:
    """A request of kamal-proxy's log that waited, was served and sent, as these parts say (s)."""
    took = sum(parts)
    return json.dumps(
        {
            "time": (began + timedelta(seconds=took)).strftime("%Y-%m-%dT%H:%M:%S.%f789Z"),
            "msg": "Request", "path": path, "status": 200, "target": "10.0.0.2:3000",
            "duration": round(took * 1e9) + 789, "method": "GET", "req_content_length": 0,
            "req_x_request_start": stamp, "resp_x_queueing_delay": delay,
            "resp_x_service_time": f"{parts[1]:.6f}", "resp_x_worker": "7", "resp_x_route": "/orders/:id",
        }
    )  # fmt: skip


def read(folder: Path, stamp: str, delay: float | None) -> dict[str, Any]:
    """The row of a request with this stamp, of which the app reported this delay; before it one that did not wait."""
    before = BEGAN - timedelta(seconds=60)
    first = line("/first", before, (0.0, SERVICE, 0.0), f"t={before.timestamp():.6f}".replace(".", ""), "0.000000")
    reported = "" if delay is None else f"{delay:.6f}"
    log = folder / "kamal.log"
    log.write_text("".join(f"{each}\n" for each in (first, line("/a", BEGAN, (WAIT, SERVICE, REST), stamp, reported))))
    columns = ("uri", "queue", "queue_source", "service_time", "network", "upload", "route", "worker")
    result = sojourn.split(log, columns=columns)
    assert (result.records.accepted, result.records.rejected) == (2, 0)
    (row,) = (each for each in result.rows.collect().to_dicts() if each["uri"] == "/a")
    return row


@pytest.mark.parametrize(
    ("stamp", "delay", "tick"),
    [
        (f"t={OWN * 1e3:.0f}", BEGAN.timestamp() + WAIT - OWN, TICK),
        (f"t={OWN:.3f}", BEGAN.timestamp() + WAIT - OWN, TICK),
        (f"t={(BEGAN.timestamp() - 600) * 1e6:.0f}", WAIT + 600, 0),
        (f"t={BEGAN.timestamp() - 600:.3f}", BEGAN.timestamp() + WAIT - round(BEGAN.timestamp() - 600, 3), 0),
        (f"t={(BEGAN.timestamp() + 5) * 1e3:.0f}", BEGAN.timestamp() + WAIT - round(BEGAN.timestamp() + 5, 3), 0),
    ],
    ids=["own", "own, in seconds", "of a proxy in front", "in front, in seconds", "of a clock that is ahead"],
)
def test_the_wait_begins_in_this_proxy(tmp_path: Path, stamp: str, delay: float, tick: float) -> None:
    row = read(tmp_path, stamp, delay)
    assert row["queue_source"] == "stamp"
    own = BEGAN.timestamp() - OWN if tick else 0.0
    assert row["queue"] == pytest.approx(WAIT + own - tick, abs=2e-6)
    assert row["upload"] == pytest.approx(-own, abs=2e-6)
    assert row["service_time"] == pytest.approx(SERVICE, abs=2e-6)
    assert row["network"] == pytest.approx(REST + tick - own, abs=4e-6)
    assert (row["route"], row["worker"]) == ("/orders/:id", "7")


@pytest.mark.parametrize("stamp", ["t=1", "now", "t=1767225599.877,t=1767225599.900", ""])
def test_a_stamp_that_the_app_refused_is_none(tmp_path: Path, stamp: str) -> None:
    """The wait is what the service leaves of the whole request."""
    row = read(tmp_path, stamp, None)
    assert row["queue_source"] == "duration"
    assert row["queue"] == pytest.approx(WAIT + REST, abs=2e-6)


def test_the_doctor_asks_for_what_is_missing_and_no_more(tmp_path: Path) -> None:
    log = tmp_path / "kamal.log"
    whole = line("/a", BEGAN, (WAIT, SERVICE, REST), "t=1769860800123", "0.250456")
    log.write_text(f"{whole}\n" * 3)
    assert [each.code for each in diagnose([str(log)]).findings if each.code == "log-format"] == []
    bare = {key: value for key, value in json.loads(whole).items() if not key.startswith(("req_x", "resp_x"))}
    log.write_text(f"{json.dumps(bare)}\n" * 3)
    (finding,) = (each for each in diagnose([str(log)]).findings if each.code == "log-format")
    assert finding.into == "proxy in Kamal's config/deploy.yml"
    added = yaml.safe_load(finding.fix)
    assert added["logging"]["request_headers"] == ["X-Request-Start"]
    assert added["logging"]["response_headers"] == ["X-Queueing-Delay", "X-Service-Time", "X-Worker", "X-Route"]


ALONE = [
    case
    for case in STAMPS
    if [name.lower() for name, _ in case["headers"]] == ["x-request-start"]
    and case.get("reason") not in ("future", "stale")
]


@pytest.mark.parametrize("case", ALONE, ids=lambda case: case["name"])
def test_reads_a_stamp_as_the_middleware_does(case: dict[str, Any]) -> None:
    connection = duckdb.connect()
    for macro in MACROS:
        if " stamp_" in macro:
            connection.execute(macro)
    assert connection.execute("SELECT stamp_us(?)", [case["headers"][0][1]]).fetchall() == [(case.get("start_us"),)]


@pytest.mark.parametrize("unit", [1, 1_000], ids=["seconds", "duration_format ms"])
def test_the_apps_headers_in_caddys_log_are_seconds(tmp_path: Path, unit: int) -> None:
    """Whatever the format that Caddy writes its own durations in."""
    took = WAIT + SERVICE
    times = {"duration": took, "upstream_latency": took, "upstream_duration": took}
    end = (BEGAN + timedelta(seconds=took)).timestamp()
    value = {
        "ts": end, "request": {"method": "GET", "uri": "/a"}, "status": 200, "upstream": "10.0.0.2:8000",
        **{name: round(seconds * unit) if unit > 1 else seconds for name, seconds in times.items()},
        "x_request_start": f"t={OWN * 1e3:.0f}", "x_queueing_delay": f"{BEGAN.timestamp() + WAIT - OWN:.6f}",
        "x_service_time": f"{SERVICE:.6f}", "x_worker": "7", "x_route": "/orders/:id",
    }  # fmt: skip
    log = tmp_path / "caddy.log"
    log.write_text(f"{json.dumps(value)}\n" * 3)
    result = sojourn.split(log, columns=("queue", "queue_source", "service_time", "clock_offset", "header"))
    assert [facts.format for facts in result.records.formats] == ["caddy"]
    row = result.rows.collect().to_dicts()[0]
    assert row["queue_source"] == "stamp"
    assert (row["request_time"], row["header"]) == (pytest.approx(took), pytest.approx(took))
    assert row["service_time"] == pytest.approx(SERVICE)
    own = BEGAN.timestamp() - OWN
    assert row["queue"] + row["clock_offset"] == pytest.approx(WAIT + own - TICK, abs=2e-6)
