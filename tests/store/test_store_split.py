"""The split of a store is the split of the log it was loaded from."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
import sojourn
from sojourn.analyses.split import charts as plots
from sojourn.analyses.split import charts_curves
from sojourn.model.frame import COLUMNS, Selection
from sojourn.report.html import report_page
from sojourn.sources.frame_measures import FrameMeasures
from sojourn.sources.store_measures import StoreMeasures
from sojourn.store import connect, load
from split_support import (
    BAD_LINES,
    BASE,
    EPOCH,
    Settings,
    as_lines,
    assert_same_split,
    differences,
    export,
    line,
    simulated_log,
)
from worker_log import WorkerSystem, worker_log

HOSTILE = "a'b\\'--; DROP TABLE requests; {x:String} %(y)s %s \x00\x1b[31m ` \" \u202e é 😀"


@pytest.fixture(scope="module")
def loaded(make_store: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A simulated log with retries, skewed clocks, several services and bad lines, and a store that holds it."""
    records, _ = simulated_log(Settings(requests=4000))
    rng = random.Random(3)
    for record in records:
        record["service"] = rng.choice(["shop", "shop", "export"])
        record["status"] = rng.choice(["200", "200", "404"])
        if rng.random() < 0.1:
            record["worker"] = ""
    lines = as_lines(records)
    for raw, _ in BAD_LINES:
        lines.insert(rng.randrange(len(lines)), raw)
    lines.append(line(time=f"{BASE + 60}.000", request_time="55.000", status="101"))
    log = tmp_path_factory.mktemp("loaded") / "access.jsonl"
    log.write_bytes(b"".join(lines))
    dsn = make_store()
    load(dsn, log)
    return log, dsn


def test_the_whole_log(loaded: tuple[Path, str]) -> None:
    assert assert_same_split(*loaded) == 4001


ORDINARY_SELECTIONS = (
    {"where": {"status": 404.0, "service": "shop"}},
    {"where": {"upstream": "10.0.0.2:8080"}, "since": EPOCH + 10},
)
MORE_SELECTIONS = (
    {"since": EPOCH + 20, "until": EPOCH + 60.5},
    {"where": {"upstream_status": "504, 200"}},
    {"since": EPOCH + 100},
    {"until": datetime.fromtimestamp(EPOCH + 50.25, UTC)},
    {"where": {"service": "export"}},
    {"where": {"attempts": 2.0}},
    {"where": {"request_time": 0.1}},
    {"where": {"app_garbled": False}},
    {"where": {"route": "/orders/:id"}},
)


@pytest.mark.parametrize(
    "selection",
    [*ORDINARY_SELECTIONS, *(pytest.param(each, marks=pytest.mark.thorough) for each in MORE_SELECTIONS)],
    ids=str,
)
def test_selections(loaded: tuple[Path, str], selection: dict[str, object]) -> None:
    assert assert_same_split(*loaded, records=False, **selection) > 0


def test_the_window_holds_its_beginning_and_not_its_end(store_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        b"".join(line(time=f"{BASE + i}.500", request_time="0.500", request_id=str(i)) for i in range(10))
    )
    load(store_dsn, tmp_path / "a.jsonl")
    window = {"since": BASE + 2, "until": BASE + 5}
    assert assert_same_split(tmp_path / "a.jsonl", store_dsn, records=False, **window) == 3


@pytest.mark.parametrize(
    "selection",
    [
        {"where": {"uri": HOSTILE, "upstream_addr": HOSTILE}},
        *(
            pytest.param(each, marks=pytest.mark.thorough)
            for each in (
                {"since": EPOCH + 10_000_000},
                {"until": EPOCH - 10},
                {"where": {"service": "none"}},
                {"where": {"service": ""}},
                {"where": {"worker": HOSTILE}},
            )
        ),
    ],
    ids=str,
)
def test_selections_without_requests(loaded: tuple[Path, str], selection: dict[str, object]) -> None:
    assert assert_same_split(*loaded, records=False, **selection) == 0


def test_only_an_upgraded_connection(loaded: tuple[Path, str]) -> None:
    assert sojourn.split(loaded[1], where={"status": 101}).audit.upgraded == 1
    assert_same_split(*loaded, records=False, where={"status": 101})


def test_a_hostile_value_is_a_value(store_dsn: str, tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(line(service=HOSTILE, route=HOSTILE, worker=HOSTILE, uri=HOSTILE) + line(service="other"))
    load(store_dsn, log)
    columns = ("service", "route", "worker", "uri")
    assert sojourn.split(store_dsn, where=dict.fromkeys(columns, HOSTILE)).requests == 1
    for column in columns:
        assert StoreMeasures(store_dsn, Selection(where={column: HOSTILE})).overall()["requests"] == 1
    assert_same_split(log, store_dsn)
    with connect(store_dsn) as store:
        assert store.client.query("SELECT count() FROM requests").first_row == (2,)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"colour": "red"}, "no column 'colour'"),
        ({"service) OR (1": "x"}, "no column"),
        ({"status": "many"}, "'many' is not a value of this column"),
        ({"service": "\udcff"}, "not valid UTF-8"),
    ],
)
def test_unsupported_conditions_give_an_error(loaded: tuple[Path, str], where: dict[str, object], words: str) -> None:
    with pytest.raises(sojourn.SojournError, match=words):
        sojourn.split(loaded[1], where=where)


def test_loaded_twice_changes_nothing(store_dsn: str, tmp_path: Path) -> None:
    records, _ = simulated_log(Settings(requests=300))
    log, reported = tmp_path / "a.jsonl", tmp_path / "s.jsonl"
    log.write_bytes(b"".join(as_lines(records)) + b"bad\n")
    reported.write_bytes(b"".join(export(r["request_id"], 5.0, 0.5) for r in records[:20]))
    with connect(store_dsn) as store:
        try:
            for _ in range(2):
                load(store_dsn, log, spans=[reported])
                store.client.command("SYSTEM STOP MERGES requests")
            assert_same_split(log, store_dsn, spans=reported)
            assert store.client.query("SELECT count() FROM requests").first_row == (600,)
        finally:
            store.client.command("SYSTEM START MERGES requests")


def given_up(number: int, **fields: str) -> bytes:
    """A request nginx waited 60 s for, in vain."""
    return line(
        time=f"{BASE + 60 + number}.000", request_time="60.000", status="504", request_start=f"{BASE + number}.000",
        upstream_addr="a:80", upstream_status="504", upstream_connect_time="0.000", upstream_header_time="-",
        upstream_response_time="60.000", **fields,
    )  # fmt: skip


@pytest.fixture
def with_spans(store_dsn: str, tmp_path: Path) -> tuple[Path, Path, str]:
    """Abandoned requests with spans by id, by parent, of two attempts, of no request; and some that were answered."""
    log, reported = tmp_path / "access.jsonl", tmp_path / "spans.jsonl"
    records, _ = simulated_log(Settings(requests=400, skews=(0.2, -0.1)))
    log.write_bytes(
        b"".join(as_lines(records))
        + given_up(1, request_id="began in time")
        + given_up(2, request_id="began too late")
        + given_up(3, request_id="tried twice", uri="/x")
        + given_up(4, request_id="stock", trace_id="t" * 32, span_id="p" * 16)
        + given_up(5, request_id="other trace", trace_id="u" * 32, span_id="p" * 16)
        + given_up(6, request_id="untold")
        + given_up(7)
    )
    reported.write_bytes(
        export("began in time", 41.0, 45.0, service_time=44.0, route="/slow/{id}")
        + export("began too late", 80.0, 8.0, worker="7")
        + export("tried twice", 13.0, 1.0, route="/first")
        + export("tried twice", 33.0, 50.0, route="/second")
        + export(None, 34.0, 31.0, trace="t" * 32, parent="p" * 16)
        + export("no-request", 1.0, 1.0)
        + b"".join(export(r["request_id"], float(r["time"]) - BASE - 0.3, 0.25, service_time=0.2) for r in records[:50])
    )
    load(store_dsn, log, spans=[reported])
    return log, reported, store_dsn


def test_spans_tell_what_became_of_requests_given_up_on(with_spans: tuple[Path, Path, str]) -> None:
    log, reported, dsn = with_spans
    result = sojourn.split(dsn)
    assert result.sources["span"] == 4
    assert result.wasted == pytest.approx(45 + 8 + 50 + 31)
    assert {"/slow/{id}", "/second"} <= {row["route"] for row in result.by["route"]}
    assert_same_split(log, dsn, spans=reported)
    assert_same_split(log, dsn, spans=reported, records=False, where={"status": 504})
    assert_same_split(log, dsn, spans=reported, records=False, since=BASE + 1.5, until=BASE + 4.5)


def test_a_store_beside_a_file_and_beside_span_files(with_spans: tuple[Path, Path, str], tmp_path: Path) -> None:
    log, reported, dsn = with_spans
    more = tmp_path / "more.jsonl"
    more.write_bytes(given_up(8, request_id="late news") + line())
    late = tmp_path / "late.jsonl"
    late.write_bytes(export("late news", 50.0, 30.0))
    wanted = sojourn.split([log, more], spans=[reported, late]).to_dict()
    result = sojourn.split([dsn, more], spans=[late]).to_dict()
    assert list(differences(wanted, result)) == []
    assert sojourn.split([dsn, more, dsn]).requests == wanted["requests"]
    untold = sojourn.split(dsn, spans=[late]).to_dict()
    assert list(differences(sojourn.split(log, spans=[reported]).to_dict(), untold)) == []
    with pytest.raises(sojourn.SojournError, match="--spans takes files"):
        sojourn.split(log, spans=[dsn])


def test_an_empty_store(store_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    assert_same_split(tmp_path / "a.jsonl", store_dsn)
    report_page(sojourn.split(store_dsn)).write(tmp_path / "r.html")
    assert "nothing to judge" in (tmp_path / "r.html").read_text()


def test_only_bad_lines(store_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"bad\n\n{}\n")
    load(store_dsn, tmp_path / "a.jsonl")
    assert_same_split(tmp_path / "a.jsonl", store_dsn)
    report_page(sojourn.split(store_dsn)).write(tmp_path / "r.html")
    assert "byte 4" in (tmp_path / "r.html").read_text()


def test_one_request(store_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(line())
    load(store_dsn, tmp_path / "a.jsonl")
    assert_same_split(tmp_path / "a.jsonl", store_dsn)


def test_charts_are_the_same(loaded: tuple[Path, str]) -> None:
    log, dsn = loaded
    wanted, result = sojourn.split(log).served, sojourn.split(dsn).measures
    tables = (
        plots.distribution_table,
        lambda rows: plots.split_by_table(rows, "upstream"),
        lambda rows: plots.split_by_table(rows, "worker"),
        lambda rows: plots.split_by_table(rows, "status"),
        lambda rows: charts_curves.ccdf_table(rows, "request_time", "x"),
        lambda rows: charts_curves.ccdf_table(rows, "queueing_delay", "x"),
        plots.over_time_table,
    )
    for table in tables:
        one, other = table(wanted), table(result)
        assert one.columns == other.columns
        assert len(one) > 2
        assert list(differences(one.to_dicts(), other.to_dicts())) == []


def test_the_windows_of_the_trend_are_the_same(loaded: tuple[Path, str]) -> None:
    frame, store = FrameMeasures(sojourn.split(loaded[0]).rows), StoreMeasures(loaded[1], Selection())
    begin = datetime.fromtimestamp(EPOCH - 1, UTC)
    one, other = (measures.windows(begin, begin + timedelta(seconds=200), 20) for measures in (frame, store))
    assert one["arrivals"].sum() > 2000
    assert one.columns == other.columns
    assert list(differences(one.to_dicts(), other.to_dicts())) == []


def test_truncated_quantiles_are_reported_and_close(loaded: tuple[Path, str]) -> None:
    exact = StoreMeasures(loaded[1], Selection())
    cut = StoreMeasures(loaded[1], Selection(), exact_rows=4000)
    assert exact.notes == []
    assert "fourth digit" in cut.notes[0]
    for column, figures in exact.figures().items():
        for name, value in figures.items():
            result = cut.figures()[column][name]
            if value is None or name in ("mean", "max"):
                assert result == value
            else:  # the next order statistic below instead of between two, and four digits of it
                assert result == pytest.approx(value, rel=0.02, abs=1e-3), (column, name)
    slow = cut.means(cut.figures()["request_time"]["p99"])[0]
    assert 40 <= slow <= 60
    assert len(cut.exceeding("request_time", 100)[0]) == len(exact.exceeding("request_time", 100)[0])


@pytest.mark.parametrize(
    "times",
    [
        ["0.100001", "60.007", "60.007", "0.000"],
        pytest.param(["0.1", "1.234", "12.345", "123.456", "99999.999", "0.000001"], marks=pytest.mark.thorough),
    ],
    ids=["some", "more"],
)
def test_a_quantile_that_is_cut_is_never_above_the_value_it_stands_for(
    store_dsn: str, tmp_path: Path, times: list[str]
) -> None:
    """A timeout is one value for many requests: the tail must hold them all."""
    rows = (line(time=f"{BASE + i}.000", request_time=time, request_id=str(i)) for i, time in enumerate(times))
    (tmp_path / "a.jsonl").write_bytes(b"".join(rows))
    load(store_dsn, tmp_path / "a.jsonl")
    for text in dict.fromkeys(times):
        measures = StoreMeasures(store_dsn, Selection(where={"request_time": float(text)}), exact_rows=0)
        figure = measures.figures()["request_time"]["p99"]
        assert figure is not None
        assert float(text) * 0.999 <= figure <= float(text)
        assert measures.means(figure)[0] == measures.overall()["requests"]


def test_rows_are_fetched_when_they_are_used(with_spans: tuple[Path, Path, str], tmp_path: Path) -> None:
    log, reported, dsn = with_spans
    result = sojourn.split(dsn, where={"status": 504})
    result.write_parquet(tmp_path / "r.parquet")
    outcome = pl.read_parquet(tmp_path / "r.parquet")
    wanted = sojourn.split(log, spans=[reported], where={"status": 504}, all_columns=True).rows.collect()
    assert len(outcome) == 7
    assert set(outcome.columns) == set(wanted.columns) >= set(COLUMNS)
    order = ["start", "request_id"]
    one, other = (table.sort(order).select(wanted.columns).to_dicts() for table in (outcome, wanted))
    assert list(differences(one, other)) == []
    assert sojourn.split(tmp_path / "r.parquet").requests == 7


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ("chdb:///nowhere/at/all", "sojourn store init"),
        ("clickhouse://127.0.0.1:9/x", "cannot be reached"),
        ("clickhouse://user:secret@127.0.0.1:9/x", "cannot be reached"),
        ("postgres://host/x", "neither a file nor a store"),
    ],
)
def test_a_store_that_is_not_there(dsn: str, words: str) -> None:
    with pytest.raises(sojourn.SojournError, match=words) as caught:
        sojourn.split(dsn)
    assert "secret" not in str(caught.value)


def test_way_in_doubt_is_the_same(store_dsn: str, tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    worker_log(log, WorkerSystem(requests=2_500, load=0.93, workers=6, way=0.04))
    load(store_dsn, log)
    file, store = (sojourn.split(source) for source in (log, store_dsn))
    assert file.evidence.way_in_doubt > 0.03
    assert store.evidence.way_in_doubt == pytest.approx(file.evidence.way_in_doubt)
    assert store.verdict == file.verdict


@pytest.mark.parametrize("way", [pytest.param(0.0002, marks=pytest.mark.thorough), 0.03])
def test_what_tells_the_causes_of_a_phase_apart_is_the_same(store_dsn: str, tmp_path: Path, way: float) -> None:
    log = tmp_path / "a.jsonl"
    worker_log(log, WorkerSystem(requests=1_500, load=0.1, way=way))
    records = [json.loads(line) for line in log.read_text().splitlines()]
    for number, record in enumerate(records):
        record["bytes_sent"] = record["request_length"] = str(8_100 + number % 200)
        record["upstream_cache_status"] = ("", "MISS", "BYPASS", "EXPIRED")[number % 4]
        record["limit_req_status"] = ("", "PASSED", "DELAYED")[number % 3]
        if number % 7 == 0:  # a wait for a cache, or for something else that lasts as long
            late = 0.5 * (number % 3 + 1) + 0.004 * (number % 5)
            record["request_time"] = f"{float(record['request_time']) + late:.3f}"
        if number % 11 == 0:  # an answer of the cache
            record.update(dict.fromkeys((key for key in record if key.startswith("upstream_")), ""))
            record["upstream_cache_status"] = "HIT"
            record["request_time"] = f"{0.5 * (number % 4) + 0.003 * (number % 9):.3f}"
        if number % 5 == 0:  # an internal redirect after 40 ms, or an attempt that failed after as long
            record["upstream_addr"] = f"10.0.0.9:80 : {record['upstream_addr']}"
            record["upstream_status"] = "200 : 200" if number % 10 else "502 : 200"
            for name, first in (("connect", "0.000"), ("header", "0.040"), ("response", "0.040")):
                record[f"upstream_{name}_time"] = f"{first} : {record[f'upstream_{name}_time']}"
            record["request_time"] = f"{float(record['request_time']) + 0.04:.3f}"
            record["queueing_delay"] = f"{float(record['queueing_delay']) + 0.04:.6f}"
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    load(store_dsn, log)
    file, store = (sojourn.split(source) for source in (log, store_dsn))
    assert (store.evidence.way > 0) == (way > 0.01)
    assert 0 < store.evidence.redirects < store.means["retries"]
    for name in ("redirects", "way"):
        # Requests that arrive within one millisecond have no order.
        assert getattr(store.evidence, name) == pytest.approx(getattr(file.evidence, name), rel=1e-3), name
    for name in ("large", "locked", "limited"):
        assert getattr(store.evidence, name) == pytest.approx(getattr(file.evidence, name)), name
        assert getattr(store.evidence, name)["before"] > 0
    assert store.verdict == file.verdict
