"""A logged stamp that is later than the begin of the upstream request was not sent: it is counted and not used."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from analysis_support import BASE, frame, split_of_log
from sojourn.components.split import split_rows
from sojourn.doctor.doctor import diagnose
from sojourn.doctor.findings import Finding
from sojourn.model.components import COMPONENTS

Change = Callable[[int, dict[str, str]], dict[str, str]]
CONNECT, NETWORK = 0.001, 0.0  # s
QUEUES = [0.001 * (7 * number % 97) for number in range(300)]
SERVICE = 0.300


def record(number: int) -> dict[str, str]:
    """One request of the log: 10 ms of upload, then the queue, the service, and 5 ms to the client."""
    begin = BASE + 0.4 * number + 0.010
    header = CONNECT + QUEUES[number] + SERVICE
    end = begin + header + 0.005
    return {
        "time": f"{end:.3f}", "status": "200", "request_time": f"{end - begin + 0.010:.3f}", "uri": "/",
        "upstream_addr": "10.20.0.5:8000", "upstream_connect_time": f"{CONNECT:.3f}",
        "upstream_header_time": f"{header:.3f}", "upstream_response_time": f"{header:.3f}",
        "request_id": f"{number:032x}", "request_start": f"{begin:.3f}",
        "queueing_delay": f"{CONNECT + QUEUES[number]:.6f}", "service_time": f"{SERVICE:.6f}",
        "worker": str(number % 2), "proxy": "web1", "route": "/buy" if number % 3 else "/look",
    }  # fmt: skip


def content(change: Change = lambda _, row: row) -> bytes:
    rows = (change(number, record(number)) for number in range(len(QUEUES)))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def of_the_end(_: int, row: dict[str, str]) -> dict[str, str]:
    return {**row, "request_start": row["time"]}


def of_the_headers(_: int, row: dict[str, str]) -> dict[str, str]:
    return {**row, "request_start": f"{float(row['request_start']) + float(row['upstream_header_time']):.3f}"}


def without_stamp(_: int, row: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in row.items() if key != "request_start"}


def of_one_route(number: int, row: dict[str, str]) -> dict[str, str]:
    return of_the_end(number, row) if row["route"] == "/look" else row


@pytest.mark.parametrize("change", [of_the_end, of_the_headers])
def test_a_late_stamp_is_split_as_none(tmp_path: Path, change: Change) -> None:
    late, bare = split_of_log(tmp_path, content(change)), split_of_log(tmp_path, content(without_stamp))
    assert late.components == bare.components
    assert late.sources == bare.sources == {"duration": len(QUEUES)}
    assert (late.audit.known.total.late_stamps, bare.audit.known.total.late_stamps) == (300, 0)
    assert late.audit.identity_max_error < 1e-9
    assert late.components["upload"]["max"] == 0
    assert late.components["send"]["mean"] == pytest.approx(0.015)
    assert late.components["queueing_delay"]["mean"] == pytest.approx(CONNECT + sum(QUEUES) / len(QUEUES), abs=1e-6)
    assert late.components["service_time"]["mean"] == pytest.approx(SERVICE)


def test_the_stamp_that_was_sent_is_used(tmp_path: Path) -> None:
    result = split_of_log(tmp_path, content())
    assert result.audit.known.total.late_stamps == 0
    assert result.sources == {"stamp": len(QUEUES)}
    assert result.components["upload"]["mean"] == pytest.approx(0.010)
    assert result.components["send"]["mean"] == pytest.approx(0.005)


def test_notes_and_audit_name_the_stamps_that_are_not_used(tmp_path: Path) -> None:
    result = split_of_log(tmp_path, content(of_the_end))
    notes = [note for note in result.notes if note.startswith("Not used: 300 logged stamps of 300 requests (100 %)")]
    assert len(notes) == 1
    assert not any(note.startswith("Known by durations alone") for note in result.notes)
    assert result.to_dict()["audit"]["known"]["late_stamps"] == 300
    assert not any("logged stamp" in note for note in split_of_log(tmp_path, content()).notes)


def test_the_raw_stamp_remains_in_the_rows(tmp_path: Path) -> None:
    rows = split_of_log(tmp_path, content(of_one_route)).rows.select(
        "time", "request_start", "proxy_start", "late_stamp"
    )
    late = rows.filter(pl.col("late_stamp")).collect()
    assert len(late) == 100
    assert late["request_start"].to_list() == late["time"].to_list()
    assert late["proxy_start"].null_count() == 100


@pytest.mark.parametrize(
    ("late_ms", "late"), [(0, False), (1, False), (2, False), (3, True), (100, True), (-500, False)]
)
def test_two_steps_of_the_clock_are_rounding(late_ms: int, *, late: bool) -> None:
    """The upstream request began 100 ms before the end."""
    rows = frame({"start": 0.0, "request_time": 0.5, "response": 0.1, "request_start": 0.4 + late_ms / 1000})
    assert split_rows(rows).rows.collect()["late_stamp"].to_list() == [late]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"attempts": 0, "response": None, "header": None, "request_start": 0.5}, id="no upstream"),
        pytest.param({"attempts": 2, "retries": 0.2, "response": 0.1, "request_start": 0.1}, id="a retry"),
        pytest.param({"response": None, "header": None, "status": 499, "request_start": 0.4}, id="no response time"),
        pytest.param({"stamp": "inbound", "request_start": 0.45, "proxy_start": 0.05}, id="a clock in front is ahead"),
        pytest.param({"time_step": 1.0, "time": 0.0, "start": 0.0, "request_start": 0.9}, id="time in whole seconds"),
        pytest.param({"request_start": None}, id="no stamp"),
    ],
)
def test_neighbours_are_not_late(row: dict[str, object]) -> None:
    assert split_rows(frame(row)).rows.collect()["late_stamp"].to_list() == [False]


def test_no_stamp_of_nginx_is_late_by_rounding() -> None:
    """$msec, and the two milliseconds between which nginx times a response, are cut down; 20,000 requests."""
    rng = random.Random(11)
    rows = []
    for _ in range(20_000):
        # Milliseconds; the clock of durations has another phase than that of the time of day.
        phase, sent = rng.random(), rng.uniform(0, 1e6)
        begun = sent + rng.choice([0.0, rng.expovariate(2)])
        ended = begun + rng.choice([0.0, rng.expovariate(0.05)])
        logged = ended + rng.choice([0.0, rng.expovariate(2)])
        response = math.floor(ended + phase) - math.floor(begun + phase)
        rows.append(
            {
                "start": 0.0,
                "time": math.floor(logged) / 1000,
                "request_time": math.floor(logged) / 1000,
                "response": response / 1000,
                "header": response / 1000,
                "request_start": math.floor(sent) / 1000,
            }
        )
    assert split_rows(frame(*rows), infer=False).rows.collect()["late_stamp"].sum() == 0


def log_stamp(folder: Path, change: Change) -> Finding | None:
    path = folder / "a.jsonl"
    path.write_bytes(content(change))
    return next((each for each in diagnose(str(path)).findings if each.code == "log-stamp"), None)


def test_the_doctor_of_a_log_whose_stamp_is_the_end(tmp_path: Path) -> None:
    finding = log_stamp(tmp_path, of_the_end)
    assert finding is not None
    assert finding.severity == "error"
    assert "request_start is time" in finding.what
    assert "100 % of the requests to an app (300 of 300)" in finding.what
    assert '"request_start":"$sojourn_sent"' in finding.fix.splitlines()
    diagnosis = diagnose(str(tmp_path / "a.jsonl"))
    assert diagnosis.broken
    assert not any("have a stamp" in sentence for sentence in diagnosis.checked)


def test_the_doctor_of_a_log_whose_stamp_is_later_than_sent(tmp_path: Path) -> None:
    finding = log_stamp(tmp_path, of_the_headers)
    assert finding is not None
    assert finding.severity == "error"
    assert "later than the begin of the upstream request" in finding.what


def test_the_doctor_of_a_log_with_one_such_route(tmp_path: Path) -> None:
    finding = log_stamp(tmp_path, of_one_route)
    assert finding is not None
    assert finding.severity == "warning"
    assert "33 % of the requests to an app (100 of 300)" in finding.what
    assert finding.subject == "/look"


def test_the_doctor_of_a_log_with_the_stamp_that_was_sent(tmp_path: Path) -> None:
    assert log_stamp(tmp_path, lambda _, row: row) is None


def test_requests_shorter_than_the_step_show_nothing(tmp_path: Path) -> None:
    """A stamp of the end lies within the rounding of such a request."""

    def short(_: int, row: dict[str, str]) -> dict[str, str]:
        return {
            **row, "request_start": row["time"], "request_time": "0.001", "upstream_connect_time": "0.000",
            "upstream_header_time": "0.001", "upstream_response_time": "0.001", "queueing_delay": "0.000100",
            "service_time": "0.000800",
        }  # fmt: skip

    assert log_stamp(tmp_path, short) is None


def test_components_of_late_stamps_have_no_negative_part(tmp_path: Path) -> None:
    rows = split_of_log(tmp_path, content(of_the_end)).rows.select(*COMPONENTS).collect()
    assert {name for name in COMPONENTS if (rows[name].min() or 0.0) < -1e-9} == set()  # type: ignore[operator]
