"""Goodput: wasted work against the exact simulator's truth, from spans and from the app's own log; retry storms."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
import sojourn
from analysis_support import frame, span, spans
from pool_simulator import PoolSettings, PoolTruth, as_lines, late_log, simulated_pool, span_lines
from sojourn.analyses.goodput.analysis import GoodputResult, goodput
from sojourn.analyses.goodput.retry_storms import Storm
from sojourn.analyses.goodput.section import goodput_section
from sojourn.components.split import checked_split
from sojourn.readers.app_log import APP_LOG_SCHEMA, REASONS, read_app_log
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner
from worker_log import WorkerSystem, of_route, worker_log

COLUMNS = ("request_id", "remote_addr", "method", "uri")
IMPATIENT = PoolSettings(requests=5_000, rate=22, timeout=3.0, patience=(0.3, 0.6), seed=5)
STORM = PoolSettings(requests=1_500, rate=24, timeout=3.0, client_retries=3, backoff=0.1, seed=6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PoolTruth]:
    produced = tmp_path_factory.mktemp("goodput")
    records, truth = simulated_pool(IMPATIENT)
    (produced / "access.jsonl").write_bytes(b"".join(as_lines(records)))
    (produced / "app-spans.jsonl").write_bytes(b"".join(span_lines(truth)))
    (produced / "app.log").write_bytes(b"".join(late_log(truth)))
    return produced, truth


def read(folder: Path, *, with_spans: bool = True, by: str = "route") -> GoodputResult:
    files = [folder / "app-spans.jsonl"] if with_spans else []
    return goodput(sojourn.split(folder / "access.jsonl", spans=files, columns=(*COLUMNS, by)).rows, by=by)


# --- wasted work


def test_wasted_work_by_route_equals_the_simulator(folder: tuple[Path, PoolTruth]) -> None:
    result, truth = read(folder[0]), folder[1]
    wasted = truth.wasted()
    assert result.given_up == sum(r.status in (499, 504) for r in truth.requests) == result.known > 200
    assert {r.status for r in truth.requests} == {200, 499, 504}
    assert result.wasted == pytest.approx(sum(wasted.values()), abs=1e-3)
    for row in result.groups.iter_rows(named=True):
        assert row["wasted"] == pytest.approx(wasted[row["group"]], abs=1e-3)
    assert result.groups.row(0, named=True)["group"] == "/export"
    assert result.worked == pytest.approx(sum(r.free - r.begun for r in truth.requests), abs=0.01)
    after = sum(min(max(r.free - r.end, 0), r.free - r.begun) for r in truth.requests if r.status in (499, 504))
    assert result.after == pytest.approx(after, rel=0.005)


def test_app_log_gives_the_same_as_spans(folder: tuple[Path, PoolTruth]) -> None:
    by_spans = read(folder[0])
    log = read_app_log([folder[0] / "app.log"])
    late, records = log.rows, log.records
    assert (records.read, records.rejected, len(late)) == (5_000, 0, 5_000)
    rows = sojourn.split(folder[0] / "access.jsonl", columns=COLUMNS).rows
    by_log = goodput(rows, app_log=late)
    assert (by_log.known, by_log.unknown) == (by_spans.known, 0)
    assert by_log.wasted == pytest.approx(by_spans.wasted, abs=1e-3)
    assert by_log.after == pytest.approx(by_spans.after, rel=0.005)
    assert by_log.worked == pytest.approx(by_spans.worked, abs=0.01)


def test_without_spans_and_log_wasted_time_is_unknown(
    folder: tuple[Path, PoolTruth], snapshot: SnapshotAssertion
) -> None:
    result = read(folder[0], with_spans=False)
    assert result.unknown == result.given_up
    document = result.to_dict()
    assert (document["wasted_seconds"], document["wasted_share"]) == (None, None)
    assert {row["wasted"] for row in document["by"]["route"]} == {None}
    section = goodput_section(result)
    assert section.sentence == snapshot
    assert {row[4] for row in section.tables[0].rows} == {"–"}


def test_unknown_worker_time_is_a_failure(
    folder: tuple[Path, PoolTruth], tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    lines = (folder[0] / "app.log").read_bytes().splitlines(keepends=True)
    (tmp_path / "app.log").write_bytes(b"".join(lines[::2]))
    late = read_app_log([tmp_path / "app.log"]).rows
    result = goodput(sojourn.split(folder[0] / "access.jsonl", columns=COLUMNS).rows, app_log=late)
    assert 0.3 < result.unknown / result.given_up < 0.7
    assert goodput_section(result).failures == snapshot


def test_windows_add_up_and_duplicates_change_nothing(folder: tuple[Path, PoolTruth], tmp_path: Path) -> None:
    result = read(folder[0])
    assert result.over_time["wasted"].sum() == pytest.approx(result.wasted, abs=1e-6)
    assert result.over_time["worked"].sum() == pytest.approx(result.worked, abs=1e-6)
    rng = random.Random(3)
    lines = (folder[0] / "access.jsonl").read_bytes().splitlines(keepends=True)
    lines += rng.sample(lines, 1_000)
    rng.shuffle(lines)
    (tmp_path / "access.jsonl").write_bytes(b"".join(lines))
    (tmp_path / "app-spans.jsonl").write_bytes((folder[0] / "app-spans.jsonl").read_bytes() * 2)
    again = read(tmp_path).to_dict()
    once = result.to_dict()
    for key in ("requests", "given_up", "known", "unknown", "client_repeats", "storms"):
        assert again[key] == once[key]
    for key in ("wasted_seconds", "worker_seconds", "goodput", "amplification"):
        assert again[key] == pytest.approx(once[key], rel=1e-9)


def test_request_without_connection_held_no_worker() -> None:
    gone = {"status": 504, "header": None, "response": 0.4}
    rows = checked_split(
        frame({**gone, "connect": None, "request_id": "1"}, {**gone, "connect": 0.0, "request_id": "2"})
    ).lazy()
    result = goodput(rows)
    assert (result.given_up, result.not_reached, result.unknown) == (2, 1, 1)


def test_client_that_leaves_a_stream_wastes_the_rest() -> None:
    left = {"status": 499, "request_id": "r", "request_time": 0.5, "header": 0.1, "response": 0.5, "request_start": 0.0,
            "app_queueing_delay": 0.0, "app_service_time": 0.1}  # fmt: skip
    rows = checked_split(frame(left), spans(span("r", 0.0, 2.0))).lazy()
    result = goodput(rows)
    assert result.wasted == pytest.approx(1.5, abs=2e-3)
    assert result.after == pytest.approx(1.5, abs=2e-3)
    assert result.worked == pytest.approx(2.0)


def test_worked_time_contains_bodies_that_hold_workers(tmp_path: Path) -> None:
    routes = (("/page", 0.97), ("/export", 0.03))
    system = WorkerSystem(load=0.35, mean=0.02, routes=routes, body=of_route("/export", 1.0))
    truth = worker_log(tmp_path / "a.jsonl", system)
    result = sojourn.goodput(tmp_path / "a.jsonl")
    held = {route: sum(end - begin for begin, end, what in truth.holds if what[0] == route) for route, _ in routes}
    assert result.worked == pytest.approx(sum(held.values()), rel=0.01)
    by_route = dict(result.groups.select("group", "worked").iter_rows())
    assert by_route == pytest.approx(held, rel=0.01)


def test_worked_time_is_the_service_where_a_thread_sends_the_bodies(tmp_path: Path) -> None:
    routes = (("/page", 0.97), ("/export", 0.03))
    system = WorkerSystem(load=0.7, mean=0.02, routes=routes, body=of_route("/export", 1.0), body_holds=False)
    truth = worker_log(tmp_path / "a.jsonl", system)
    served = sum(end - begin for begin, end, what in truth.holds if what[1] == "service")
    assert sojourn.goodput(tmp_path / "a.jsonl").worked == pytest.approx(served, rel=0.01)


def test_rejects_key_missing_from_the_log(folder: tuple[Path, PoolTruth]) -> None:
    with pytest.raises(sojourn.SojournError, match="no such key"):
        read(folder[0], by="tenent")


def test_without_abandoned_requests(snapshot: SnapshotAssertion) -> None:
    result = goodput(checked_split(frame({}, {})).lazy())
    assert result.given_up == 0
    assert goodput_section(result).sentence == snapshot
    empty = goodput(checked_split(frame()).lazy())
    assert (empty.requests, empty.to_dict()["goodput"]) == (0, 0.0)


# --- retries


def test_counts_client_retries(tmp_path: Path) -> None:
    records, truth = simulated_pool(STORM)
    (tmp_path / "access.jsonl").write_bytes(b"".join(as_lines(records)))
    result = read(tmp_path, with_spans=False)
    again = sum(r.attempt > 0 for r in truth.requests)
    assert again > 500
    assert result.repeats == again
    assert result.amplification == pytest.approx(len(records) / (len(records) - again))
    storm = max(result.storms, key=lambda s: s.requests)
    inside = [r for r in truth.requests if storm.begin.timestamp() <= r.start + 1_767_225_600 < storm.end.timestamp()]
    assert storm.requests == pytest.approx(len(inside), abs=2)
    assert storm.amplification > 1.5
    assert storm.failures > 0.05
    assert storm.repeated == pytest.approx(sum(r.attempt > 0 for r in inside) / len(inside), abs=0.01)
    assert any(table.title.startswith("Retry storms") for table in goodput_section(result).tables)


def test_log_without_failures_has_no_storm(folder: tuple[Path, PoolTruth]) -> None:
    result = read(folder[0])
    assert result.repeats == 0
    assert result.amplification == 1
    assert result.storms == ()


def test_repeat_after_success_or_much_later_is_not_a_retry() -> None:
    same = {"remote_addr": "1", "method": "GET", "uri": "/x", "request_time": 0.1, "header": 0.1, "response": 0.1}
    rows = [
        {**same, "start": 0.0, "status": 504}, {**same, "start": 0.2, "status": 200},  # a retry
        {**same, "start": 0.4, "status": 504}, {**same, "start": 100.0, "status": 200},  # much later
        {**same, "start": 100.2, "remote_addr": "2"},  # another client
    ]  # fmt: skip
    result = goodput(checked_split(frame(*({**row, "request_id": str(i)} for i, row in enumerate(rows)))).lazy())
    assert result.repeats == 1


def test_nginx_retries_are_attempts(snapshot: SnapshotAssertion) -> None:
    rows = checked_split(frame({"attempts": 3, "retries": 0.2}, {"attempts": 1})).lazy()
    result = goodput(rows.drop("remote_addr"))
    assert (result.attempts, result.amplification, result.repeats) == (2.0, None, None)
    assert goodput_section(result).notes == snapshot


# --- the app's log


def test_rejects_invalid_lines_of_the_app_log(tmp_path: Path) -> None:
    good = b'{"request_id":"a","service_time":"0.5","start":1767225600.25,"route":"/x","worker":"7","more":1}\n'
    bad = {
        "empty_line": b"  \n",
        "invalid_json": b"oops\n",
        "not_an_object": b"[1]\n",
        "missing_request_id": b'{"service_time":1}\n',
        "missing_service_time": b'{"request_id":"b"}\n',
        "invalid_service_time": b'{"request_id":"b","service_time":-1}\n',
        "invalid_start": b'{"request_id":"b","service_time":1,"start":"noon"}\n',
    }
    assert set(bad) == set(REASONS) - {"other_format"}
    lines = [
        good,
        *bad.values(),
        b'{"request_id":"c","service_time":2}\n',
        b'{"request_id":"d","service_time":"nan"}\n',
    ]
    (tmp_path / "app.log.gz").write_bytes(gzip.compress(b"".join(lines)))
    log = read_app_log([tmp_path / "app.log.gz"])
    rows, records = log.rows, log.records
    assert dict(rows.schema) == APP_LOG_SCHEMA
    assert rows["request_id"].to_list() == ["a", "c"]
    first = rows.row(0, named=True)
    assert (first["span_seconds"], first["span_route"], first["span_worker"]) == (0.5, "/x", "7")
    assert first["span_start"].timestamp() == 1767225600.25
    assert (first["span_end"] - first["span_start"]).total_seconds() == 0.5
    assert rows.row(1, named=True)["span_start"] is None
    assert records.reasons == {**dict.fromkeys(bad, 1), "invalid_service_time": 2}
    assert records.read == 10


def test_rejects_store_as_app_log() -> None:
    with pytest.raises(sojourn.SojournError, match="app's log"):
        read_app_log(["chdb:///nowhere"])


# --- the command


def test_command(folder: tuple[Path, PoolTruth], snapshot: SnapshotAssertion) -> None:
    from sojourn.cli import app  # noqa: PLC0415

    arguments = ["goodput", str(folder[0] / "access.jsonl"), "--app-log", str(folder[0] / "app.log")]
    done = CliRunner().invoke(app, [*arguments, "--json", "--by", "tenant"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["wasted_seconds"] == pytest.approx(sum(folder[1].wasted().values()), abs=1e-3)
    assert {row["group"] for row in document["by"]["tenant"]} == {"acme", "globex", "initech"}
    assert document["app_log"]["read"] == 5_000
    shown = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})
    assert shown.stdout == snapshot


def test_draws_every_chart_and_reference_documents_every_key(folder: tuple[Path, PoolTruth]) -> None:
    result = read(folder[0])
    for picture in goodput_section(result).pictures:
        assert len(json.dumps(picture.chart().to_dict())) < 300_000
    page = (Path(__file__).parents[4] / "docs/reference/goodput.md").read_text()
    document = result.to_dict()
    for key in {
        *document,
        *document["by"]["route"][0],
        *document["over_time"]["windows"][0],
        *Storm.__dataclass_fields__,
    }:
        assert f"`{key}`" in page, key
