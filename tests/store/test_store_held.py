"""Held workers by the minute: every engine against the schedule of a table, the rows in the store, and their view."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sojourn
from held_support import BEGIN, HALF_TICK, VECTOR, Held, differences, lines, scheduled
from sojourn.analyses.blame.store import Explained, explain_store
from sojourn.analyses.depth.analysis import depth_of
from sojourn.store import load
from sojourn.timeline.held_minutes import held_by_minute
from sojourn.timeline.visits import visits
from store_support import ask, one, record, tell, write_log

START = datetime.fromtimestamp(BEGIN, UTC)
EVERYTHING = {"since": START - timedelta(days=1), "until": START + timedelta(days=1)}
BACKENDS = {backend["upstream"]: backend for backend in VECTOR["backends"]}
EXPORT, SIGNUP, DOUBTFUL = BACKENDS


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("held") / "a.jsonl", *lines())


def of_source(source: Path, minutes: int = VECTOR["minutes"]) -> Held:
    rows = sojourn.split(source, columns=("request_id",)).rows
    table = held_by_minute(rows, visits(rows), START, START + timedelta(minutes=minutes))
    keys = ("minute", "upstream", "phase", "seconds")
    return {(_number(minute), upstream, phase): s for minute, upstream, phase, s in table.select(keys).iter_rows()}


def stored(dsn: str) -> Held:
    table = ask(dsn, "SELECT minute, upstream, phase, seconds FROM held_minute FINAL WHERE seconds != 0")
    return {(_number(minute), upstream, phase): seconds for minute, upstream, phase, seconds in table}


def _number(minute: datetime) -> int:
    return round((minute.replace(tzinfo=UTC) - START).total_seconds() / 60)


def saturation(dsn: str, *columns: str) -> dict[tuple[int, str], tuple[Any, ...]]:
    table = ask(dsn, f"SELECT minute, upstream, {', '.join(columns)} FROM saturation_minute")
    return {(_number(minute), upstream): tuple(values) for minute, upstream, *values in table}


def some(shape: str, seconds: float, count: int = 400, **changes: str) -> list[dict[str, str]]:
    """Answers of one worker, two a second, ``seconds`` of service each; every tenth is of another shape."""
    base = {"queueing_delay": "0.000000", "upstream_addr": "10.0.0.9:80", "upstream_connect_time": "0.000"}
    rows = []
    for number in range(count):
        ended = BEGIN + number / 2 + seconds
        took = f"{seconds:.3f}"
        rows.append(
            record(number) | base | changes | {
                "time": f"{ended:.3f}", "request_start": f"{ended - seconds:.3f}", "service_time": f"{seconds:.6f}",
                **dict.fromkeys(("request_time", "upstream_header_time", "upstream_response_time"), took),
            }
        )  # fmt: skip
    for row in rows[5::10]:
        shapes: dict[str, dict[str, str]] = {
            "no service time": {"queueing_delay": "-", "service_time": "-"},
            "given up": {"status": "504", "queueing_delay": "-", "service_time": "-", "upstream_header_time": "-"},
            "refused": {"status": "502", "queueing_delay": "-", "service_time": "-", "upstream_header_time": "-"},
            "plain": {},
        }
        row.update(shapes[shape])
    return rows


# --- the table of vectors


def test_log_gives_the_seconds_of_the_schedule(log: Path) -> None:
    assert differences(of_source(log), scheduled()) == {}


def test_parquet_gives_the_seconds_of_the_schedule(log: Path, tmp_path: Path) -> None:
    sojourn.split(log, all_columns=True).write_parquet(tmp_path / "a.parquet")
    assert differences(of_source(tmp_path / "a.parquet"), scheduled()) == {}


def test_store_gives_the_seconds_of_the_schedule(store_dsn: str, log: Path) -> None:
    for _ in range(2):  # everything is delivered twice
        load(store_dsn, log)
    done = explain_store(store_dsn)
    assert differences(stored(store_dsn), scheduled()) == {}
    assert done.held == pytest.approx(sum(scheduled().values()), abs=1e-4)
    assert done.at_least == pytest.approx(12.2, abs=1e-4)
    workers = ask(store_dsn, "SELECT DISTINCT upstream, workers FROM held_minute FINAL")
    assert dict(workers) == {name: backend["workers"] for name, backend in BACKENDS.items()}


def test_depth_counts_the_same_seconds(log: Path) -> None:
    rows = depth_of(sojourn.visits(log), width=60.0).over_time.iter_rows(named=True)
    whole = {(_number(row["begin"]), row["upstream"]): row["in_service"] * 60 for row in rows}
    for minute, upstream in ((minute, upstream) for minute in (1, 2) for upstream in BACKENDS):
        seconds = sum(s for (_, name, _), s in scheduled(minute).items() if name == upstream)
        assert whole[minute, upstream] == pytest.approx(seconds, abs=1e-4)


def test_saturation_counts_held_time(store_dsn: str, log: Path) -> None:
    load(store_dsn, log)
    explain_store(store_dsn)
    rows = saturation(store_dsn, "busy", "workers", "utilisation", "busy_is")
    assert len(rows) == 11
    for (minute, upstream), (busy, workers, utilisation, busy_is) in rows.items():
        phases = {phase: s for (number, name, phase), s in scheduled(minute).items() if name == upstream}
        assert workers == BACKENDS[upstream]["workers"]
        assert busy == pytest.approx(sum(phases.values()) / 60, abs=1e-6 + len(phases) * HALF_TICK / 60)
        assert utilisation == pytest.approx(busy / workers)
        assert busy_is == ("held at least" if "at_least" in phases else "held")
    assert rows[1, EXPORT][2] == pytest.approx(0.29)  # 0.1 by services


def test_saturation_without_explain_counts_services_and_says_so(store_dsn: str, log: Path) -> None:
    load(store_dsn, log)
    rows = saturation(store_dsn, "busy", "workers", "utilisation", "busy_is")
    assert {busy_is for *_, busy_is in rows.values()} == {"service only"}
    for (minute, upstream), (busy, workers, utilisation, _) in rows.items():
        assert busy == pytest.approx(BACKENDS[upstream]["service_only"][str(minute)] / 60, abs=1e-6)
        assert utilisation == pytest.approx(busy / workers)


# --- computed again


def test_explaining_again_changes_nothing(store_dsn: str, log: Path) -> None:
    load(store_dsn, log)
    first = explain_store(store_dsn)
    before = stored(store_dsn)
    assert explain_store(store_dsn, **EVERYTHING).held == first.held
    assert stored(store_dsn) == before
    assert one(store_dsn, "SELECT count() FROM held_minute FINAL") == len(scheduled())
    tell(store_dsn, "INSERT INTO explained_minutes SELECT minute, now64(3) + INTERVAL 1 HOUR FROM explained_minutes")
    assert explain_store(store_dsn) == Explained()


def test_line_that_arrives_late_is_counted_in_all_its_minutes(store_dsn: str, tmp_path: Path) -> None:
    """An export of minute 0 ends in minute 1; until its line is there, its worker seems to be free."""
    (late,) = [each for each in lines() if each["route"] == "/export" and each["time"] == f"{BEGIN + 60.45:.3f}"]
    load(store_dsn, write_log(tmp_path / "a.jsonl", *(each for each in lines() if each != late)))
    explain_store(store_dsn)
    missing = {(0, EXPORT, "service"): 0.1, (0, EXPORT, "body"): 1.45, (1, EXPORT, "body"): 0.45}
    assert differences(stored(store_dsn), {k: s - missing.get(k, 0.0) for k, s in scheduled().items()}) == {}
    load(store_dsn, write_log(tmp_path / "b.jsonl", late))
    explain_store(store_dsn)
    assert differences(stored(store_dsn), scheduled()) == {}


def test_row_that_is_no_longer_valid_is_0_s(store_dsn: str, log: Path) -> None:
    load(store_dsn, log)
    tell(
        store_dsn,
        "INSERT INTO held_minute (minute, service, upstream, phase, seconds, workers, version) VALUES "
        f"(toDateTime({BEGIN}, 'UTC'), 'shop', '{EXPORT}', 'at_least', 7, 2, now64(3) - INTERVAL 1 DAY)",
    )
    assert explain_store(store_dsn).gone == 1
    assert (
        one(store_dsn, "SELECT seconds FROM held_minute FINAL WHERE phase = 'at_least' AND upstream LIKE '%1:80'") == 0
    )
    assert saturation(store_dsn, "busy_is")[0, EXPORT] == ("held",)


def test_slices_with_too_few_requests_are_lower_bounds_and_never_wrong(store_dsn: str, log: Path) -> None:
    """A minute at a time: 120 requests do not show whether the bodies of the export hold its worker."""
    load(store_dsn, log)
    assert explain_store(store_dsn, slice_rows=1, since=START, until=START + timedelta(minutes=4)).minutes == 4
    seconds = stored(store_dsn)
    phases = {key: s for key, s in seconds.items() if key[2] != "at_least"}
    assert {upstream for _, upstream, _ in phases} >= {DOUBTFUL}
    assert {key: s for key, s in phases.items() if abs(s - scheduled().get(key, 0.0)) > 0.02} == {}
    for (minute, upstream, phase), least in seconds.items():
        if phase == "at_least":
            whole = sum(s for (number, name, _), s in scheduled(minute).items() if name == upstream)
            assert 0 < least < whole + 0.02
    assert (1, EXPORT, "at_least") in seconds


# --- cut at the minutes


def test_hold_of_several_minutes_is_cut_at_each_of_them(store_dsn: str, log: Path, tmp_path: Path) -> None:
    """A minute in which no request ended has its row, too."""
    long = BEGIN + 600
    row = record(0, upstream_addr=SIGNUP, worker="b9", route="/page") | {
        "time": f"{long + 170:.3f}", "request_start": f"{long + 30:.3f}", "request_time": "140.000",
        "upstream_header_time": "140.000", "upstream_response_time": "140.000", "queueing_delay": "0.000000",
        "service_time": "140.000000",
    }  # fmt: skip
    load(store_dsn, [log, write_log(tmp_path / "b.jsonl", row)])
    explain_store(store_dsn, workers=3)
    seconds = {key: s for key, s in stored(store_dsn).items() if key[0] >= 10}
    parts = {10: 30.0, 11: 60.0, 12: 50.0}
    assert differences(seconds, {(minute, SIGNUP, "service"): s for minute, s in parts.items()}) == {}
    rows = saturation(store_dsn, "throughput", "busy", "workers", "busy_is", "mean_wait", "p99")
    assert rows[11, SIGNUP] == (0.0, pytest.approx(1.0, abs=1e-6), 3, "held", None, None)
    assert rows[12, SIGNUP][0] == pytest.approx(1 / 60)


# --- in doubt


@pytest.mark.parametrize(
    ("shape", "busy_is"),
    [("plain", "held"), ("no service time", "held at least"), ("given up", "held at least"), ("refused", "held")],
)
def test_requests_that_hold_a_worker_for_an_unknown_time_make_a_lower_bound(
    store_dsn: str, tmp_path: Path, shape: str, busy_is: str
) -> None:
    load(store_dsn, write_log(tmp_path / "a.jsonl", *some(shape, 0.4)))
    explain_store(store_dsn)
    rows = saturation(store_dsn, "busy", "busy_is")
    assert rows[1, "10.0.0.9:80"] == (pytest.approx(0.8 if shape == "plain" else 0.72, abs=1e-3), busy_is)


def test_workers_that_serve_several_requests_at_a_time_are_not_held(store_dsn: str, tmp_path: Path) -> None:
    load(store_dsn, write_log(tmp_path / "a.jsonl", *some("plain", 2.0)))
    done = explain_store(store_dsn)
    assert (done.held, stored(store_dsn)) == (0.0, {})
    assert saturation(store_dsn, "busy_is")[1, "10.0.0.9:80"] == ("service only",)


def test_utilisation_of_unnamed_workers_is_unknown(store_dsn: str, tmp_path: Path) -> None:
    load(store_dsn, write_log(tmp_path / "a.jsonl", *some("plain", 0.4, worker="")))
    explain_store(store_dsn)
    rows = saturation(store_dsn, "busy", "workers", "utilisation", "busy_is")
    assert rows[1, "10.0.0.9:80"] == (pytest.approx(0.8, abs=1e-3), 0, None, "held")
    explain_store(store_dsn, workers=2, **EVERYTHING)
    assert saturation(store_dsn, "utilisation")[1, "10.0.0.9:80"] == (pytest.approx(0.4, abs=1e-3),)


def test_stretch_without_a_line_makes_a_lower_bound(store_dsn: str, tmp_path: Path) -> None:
    rows = [each for each in some("plain", 0.1) if not 70 < float(each["time"]) - BEGIN < 110]
    load(store_dsn, write_log(tmp_path / "a.jsonl", *rows))
    explain_store(store_dsn)
    kinds = {minute: busy_is for (minute, _), (busy_is,) in saturation(store_dsn, "busy_is").items()}
    assert kinds == {0: "held", 1: "held at least", 2: "held", 3: "held"}


# --- input that is not as it should be


def test_refused_lines_and_hostile_names_change_no_figure(store_dsn: str, tmp_path: Path) -> None:
    name = "it's \\' a; DROP TABLE held_minute -- ${table}"
    bad: list[Any] = [b"not json\n", b'{"time":"x"}\n', b"\xff\xfe\n"]
    load(store_dsn, write_log(tmp_path / "a.jsonl", *bad, *(each | {"service": name} for each in lines()), *bad))
    explain_store(store_dsn)
    assert differences(stored(store_dsn), scheduled()) == {}
    assert ask(store_dsn, "SELECT DISTINCT service FROM held_minute FINAL") == [(name,)]


def test_store_without_requests_has_no_rows(store_dsn: str) -> None:
    assert explain_store(store_dsn, since=START, until=START + timedelta(hours=1)) == Explained()
    assert saturation(store_dsn, "busy") == {}
