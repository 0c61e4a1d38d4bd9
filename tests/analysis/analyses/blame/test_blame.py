"""Blame against the exact simulator, against a count per second, and its conservation laws."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sojourn
from analysis_support import frame
from built_visits import built_visits, drawn_visits
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_simulator import SHOP, PoolSettings, PoolTruth, Route, Surge, as_lines, simulated_pool, span_lines
from sojourn.analyses.blame.analysis import BlameResult, blame_of
from sojourn.analyses.blame.by_minute import blame_by_minute
from sojourn.analyses.blame.chain import chain_of
from sojourn.analyses.blame.charts import matrix_cells, over_time_parts
from sojourn.analyses.blame.run import blame
from sojourn.analyses.blame.section import blame_section
from sojourn.components.split import checked_split
from sojourn.timeline.charge import accounts
from sojourn.timeline.classes import OTHER, having
from sojourn.timeline.services import services_of
from sojourn.timeline.visits import Visits, visits
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner


def written(folder: Path, settings: PoolSettings) -> tuple[Path, Path, PoolTruth]:
    records, truth = simulated_pool(settings)
    log, spans = folder / "access.jsonl", folder / "app-spans.jsonl"
    log.write_bytes(b"".join(as_lines(records)))
    spans.write_bytes(b"".join(span_lines(truth)))
    return log, spans, truth


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PoolTruth, BlameResult]:
    """Three routes, /export 5 % of requests, 2 × 2 workers, round robin."""
    log, _, truth = written(tmp_path_factory.mktemp("pool"), PoolSettings())
    return log, truth, blame(sojourn.split(log, columns=("request_id", "uri", "tenant")).rows)


# --- against the truth


def test_figures_are_within_two_percent_of_the_simulator(pool: tuple[Path, PoolTruth, BlameResult]) -> None:
    _, truth, result = pool
    assert result.waited == pytest.approx(truth.waited, rel=0.02)
    assert result.imbalance == pytest.approx(truth.imbalance, rel=0.02)
    assert result.blamed == pytest.approx(truth.blamed, rel=0.02)
    assert truth.imbalance > 0.2 * truth.waited  # round robin: there is something to find
    cells = {(row["victim"], row["culprit"]): row["seconds"] for row in result.matrix.iter_rows(named=True)}
    assert set(cells) == set(truth.matrix)
    for cell, seconds in truth.matrix.items():
        assert cells[cell] == pytest.approx(seconds, rel=0.02, abs=0.001 * truth.blamed), cell


def test_largest_culprit_is_first(pool: tuple[Path, PoolTruth, BlameResult], snapshot: SnapshotAssertion) -> None:
    _, truth, result = pool
    first = result.culprits.row(0, named=True)
    assert first["culprit"] == "/export"
    assert first["share"] > 0.5
    assert first["requests"] / result.requests == pytest.approx(0.05, abs=0.01)
    caused = Counter()
    for number, seconds in truth.caused.items():
        caused[truth.requests[number].route] += seconds
    for row in result.culprits.iter_rows(named=True):
        assert row["seconds"] == pytest.approx(caused[row["culprit"]], rel=0.02)
    assert blame_section(result).sentence == snapshot


def test_accounts_sum_to_the_measured_wait(pool: tuple[Path, PoolTruth, BlameResult]) -> None:
    log, _, result = pool
    assert result.blamed + result.imbalance + result.dispatch == pytest.approx(result.waited, abs=1e-6)
    assert result.matrix["seconds"].sum() == pytest.approx(result.blamed, abs=1e-6)
    assert result.culprits["seconds"].sum() == pytest.approx(result.blamed, abs=1e-6)
    assert result.over_time["seconds"].sum() == pytest.approx(result.waited, abs=1e-6)
    assert result.chain.classes.select(pl.col("filled", "held").sum()).row(0) == pytest.approx(
        (result.chain.to_dict()["filled"], result.blamed - result.chain.to_dict()["filled"] - result.chain.usual),
        abs=1e-6,
    )
    every = visits(sojourn.split(log, columns=("request_id",)).rows)
    charged = accounts(every, services_of(every))
    assert np.abs(charged.dispatch + charged.imbalance + charged.blamed - every.wait).max() < 1e-9


def test_costliest_requests_equal_the_simulator(pool: tuple[Path, PoolTruth, BlameResult]) -> None:
    _, truth, result = pool
    ranked = sorted(truth.caused, key=lambda number: -truth.caused[number])
    assert result.costliest[0]["request_id"] == truth.requests[ranked[0]].request_id
    assert result.costliest[0]["uri"] == truth.requests[ranked[0]].uri
    assert {row["request_id"] for row in result.costliest} <= {truth.requests[n].request_id for n in ranked[:15]}


def test_number_of_workers_is_derived_from_the_log(pool: tuple[Path, PoolTruth, BlameResult]) -> None:
    assert [(row["workers"], row["names"], row["source"]) for row in pool[2].workers] == [(2, 2, "worker values")] * 2
    assert len({row["pool"] for row in pool[2].workers}) == 1


def test_work_after_timeouts_is_blamed_with_spans(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    setting = PoolSettings(requests=6_000, rate=24, timeout=3.0, seed=3)
    log, spans, truth = written(tmp_path, setting)
    assert sum(r.status == 504 for r in truth.requests) > 100
    result = blame(sojourn.split(log, spans=[spans], columns=("request_id",)).rows)
    assert result.waited == pytest.approx(truth.waited, rel=0.02)
    assert result.imbalance == pytest.approx(truth.imbalance, rel=0.02)
    for row in result.matrix.iter_rows(named=True):
        seconds = truth.matrix[row["victim"], row["culprit"]]
        assert row["seconds"] == pytest.approx(seconds, rel=0.02, abs=0.001 * truth.blamed)
    without = blame(sojourn.split(log, columns=("request_id",)).rows)
    assert without.left_out["no_wait"] == sum(r.status == 504 for r in truth.requests)
    assert blame_section(without).failures == snapshot


@pytest.mark.parametrize(
    "setting",
    [
        PoolSettings(
            requests=5_000, rate=46, backends=3, discipline="lifo", balancer="least_conn", skews=(0.2, 0, -0.4)
        ),
        PoolSettings(requests=5_000, rate=14, streams={"/export": 1.5, "/search": 0.05}),
        PoolSettings(requests=5_000, rate=9, backends=1, workers=1, routes={**SHOP, "/export": Route(0.05, 0.9)}),
    ],
    ids=["three backends, last come first served", "streams", "one worker"],
)
def test_other_pools(setting: PoolSettings, tmp_path: Path) -> None:
    log, spans, truth = written(tmp_path, setting)
    result = blame(sojourn.split(log, spans=[spans], columns=("request_id",)).rows)
    assert result.waited == pytest.approx(truth.waited, rel=0.02)
    assert result.imbalance == pytest.approx(truth.imbalance, rel=0.02, abs=0.001 * truth.waited)
    for row in result.matrix.iter_rows(named=True):
        seconds = truth.matrix[row["victim"], row["culprit"]]
        assert row["seconds"] == pytest.approx(seconds, rel=0.02, abs=0.001 * truth.blamed)


def test_conditions_select_victims_and_not_culprits(pool: tuple[Path, PoolTruth, BlameResult]) -> None:
    log, truth, whole = pool
    document = json.loads(run(str(log), "--json", "--where", "route=/search", "--where", "tenant=acme"))
    waits = [r.wait_end - r.stamp for r in truth.requests if (r.route, r.tenant) == ("/search", "acme")]
    assert (document["visits"], document["present"]) == (len(waits), 20_000)
    assert document["waited"] == pytest.approx(sum(waits), rel=0.02)
    assert document["blamed"] + document["imbalance"] + document["dispatch"] == pytest.approx(
        document["waited"], abs=1e-6
    )
    assert [row["victim"] for row in document["victims"]] == ["/search"]
    assert {row["culprit"] for row in document["culprits"]} == set(SHOP)
    assert sum(row["seconds"] for row in document["culprits"]) == pytest.approx(document["blamed"], abs=1e-6)
    searches = blame(sojourn.split(log, columns=("request_id",)).rows, where={"route": "/search"})
    row = whole.victims.filter(victim="/search").row(0, named=True)
    assert searches.imbalance == pytest.approx(row["imbalance"], abs=1e-6)
    of_searches = whole.matrix.filter(victim="/search").sort("culprit")["seconds"].to_list()
    assert searches.matrix.sort("culprit")["seconds"].to_list() == pytest.approx(of_searches, abs=1e-6)
    chain = searches.chain.to_dict()
    assert chain["filled"] + chain["held"] + chain["usual"] == pytest.approx(searches.blamed, abs=1e-6)
    with pytest.raises(sojourn.SojournError, match="route = /nowhere"):
        blame(sojourn.split(log, columns=("request_id",)).rows, where={"route": "/nowhere"})


def test_rejects_key_missing_from_the_log(pool: tuple[Path, PoolTruth, BlameResult]) -> None:
    with pytest.raises(sojourn.SojournError, match="no such key"):
        blame(sojourn.split(pool[0], columns=("request_id", "tenent")).rows, by="tenent")


def test_groups_by_custom_key_and_culprits_by_another_column(pool: tuple[Path, PoolTruth, BlameResult]) -> None:
    log, truth, by_route = pool
    result = blame(sojourn.split(log, columns=("request_id", "tenant")).rows, by="tenant", culprit="upstream")
    assert set(result.victims["victim"]) == {"acme", "globex", "initech"}
    assert set(result.culprits["culprit"]) == set(truth.skews)
    assert result.blamed == pytest.approx(by_route.blamed, abs=1e-6)
    waits = Counter()
    for request in truth.requests:
        waits[request.tenant] += request.wait_end - request.stamp
    for row in result.victims.iter_rows(named=True):
        assert row["waited"] == pytest.approx(waits[row["victim"]], rel=0.02)


def test_shuffled_and_duplicated_lines_change_nothing(tmp_path: Path) -> None:
    log, _, _ = written(tmp_path, PoolSettings(requests=1_500))
    lines = log.read_bytes().splitlines(keepends=True)
    rng = random.Random(5)
    lines += rng.sample(lines, 400)
    rng.shuffle(lines)
    other = tmp_path / "other.jsonl"
    other.write_bytes(b"".join(lines))
    once, twice = (blame(sojourn.split(path, columns=("request_id",)).rows).to_dict() for path in (log, other))
    assert json.loads(json.dumps(once), parse_float=lambda text: round(float(text), 6)) == json.loads(
        json.dumps(twice), parse_float=lambda text: round(float(text), 6)
    )


# --- laws


def counted(visits: Visits) -> tuple[list[tuple[float, float, float]], Counter]:
    """Accounts and matrix of visits at whole seconds, second by second."""
    routes = visits.frame["route"].to_list()
    parts = [[0.0, 0.0, 0.0] for _ in range(len(visits))]
    cells: Counter = Counter()
    known = ~np.isnan(visits.busy_end)
    for second in range(-2, 45):
        held = [
            [
                i
                for i in np.flatnonzero(known & (visits.backend == b))
                if visits.busy_start[i] <= second < visits.busy_end[i]
            ]
            for b in range(len(visits.backends))
        ]
        free = [len(held[b]) < visits.workers.count[b] for b in range(len(visits.backends))]
        for i in range(len(visits)):
            b = visits.backend[i]
            if not visits.arrival[i] <= second < visits.wait_end[i]:
                continue
            if free[b]:
                parts[i][0] += 1
            elif any(free[other] for other in range(len(free)) if visits.pool[other] == visits.pool[b]):
                parts[i][1] += 1
            else:
                parts[i][2] += 1
                for j in held[b]:
                    cells[routes[i], routes[j]] += 1 / len(held[b])
    for i in np.flatnonzero(visits.wait < 0):
        parts[i][0] += visits.wait[i]
    return [tuple(part) for part in parts], cells


@settings(max_examples=150, deadline=None)
@given(drawn_visits())
def test_sweep_equals_count_per_second(drawn: Visits) -> None:
    parts, cells = counted(drawn)
    charged = accounts(drawn, services_of(drawn))
    for i, part in enumerate(parts):
        assert (charged.dispatch[i], charged.imbalance[i], charged.blamed[i]) == pytest.approx(part, abs=1e-9)
    result = blame_of(drawn)
    matrix = {(row["victim"], row["culprit"]): row["seconds"] for row in result.matrix.iter_rows(named=True)}
    assert matrix == pytest.approx(dict(cells), abs=1e-9)
    assert result.blamed + result.imbalance + result.dispatch == pytest.approx(result.waited, abs=1e-9)
    assert charged.caused.sum() == pytest.approx(result.blamed, abs=1e-9)
    assert result.negative == int((drawn.wait < 0).sum())
    json.dumps(result.to_dict())
    assert blame_section(result).sentence


@settings(max_examples=60, deadline=None)
@given(drawn_visits(), st.sampled_from([1.0, 7.0, 60.0]))
def test_blame_by_minute_sums_to_the_same_seconds(drawn: Visits, width: float) -> None:
    table = blame_by_minute(drawn, seconds=width)
    whole = blame_of(drawn)
    sums = dict(table.group_by("account").agg(pl.col("seconds").sum()).iter_rows())
    for account in ("blamed", "imbalance", "dispatch"):
        assert sums.get(account, 0.0) == pytest.approx(getattr(whole, account), abs=1e-9)
    culprits = dict(table.filter(account="blamed").group_by("culprit").agg(pl.col("seconds").sum()).iter_rows())
    expected = {row["culprit"]: row["seconds"] for row in whole.culprits.iter_rows(named=True) if row["seconds"] > 1e-9}
    assert culprits == pytest.approx(expected, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.001, 5), min_size=1, max_size=30))
def test_empty_system_has_no_blame(services: list[float]) -> None:
    clock, rows = 0.0, []
    for service in services:
        rows.append((0, clock, clock + 0.0005, clock + 0.0005, clock + service, "/a"))
        clock += service + 0.01
    result = blame_of(built_visits(*rows, workers=(1, 1)))
    assert (result.blamed, result.imbalance) == (0.0, 0.0)
    assert result.dispatch == pytest.approx(0.0005 * len(services), abs=1e-9)
    assert result.culprits["seconds"].sum() == 0


def test_matrix_computed_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    _, truth = simulated_pool(PoolSettings(requests=600))
    rows = [(r.backend, r.stamp, r.begun, r.begun, r.free, r.route) for r in truth.requests]
    visits = built_visits(*rows, workers=(2, 2))
    whole, by_minute = blame_of(visits), blame_by_minute(visits, seconds=2.0)
    monkeypatch.setattr("sojourn.timeline.charge.CELLS", 30)
    pieces = blame_of(visits)
    assert pieces.matrix["seconds"].to_list() == pytest.approx(whole.matrix["seconds"].to_list(), abs=1e-9)
    assert pieces.over_time["seconds"].to_list() == pytest.approx(whole.over_time["seconds"].to_list(), abs=1e-9)
    again = blame_by_minute(visits, seconds=2.0)
    assert again.drop("seconds").equals(by_minute.drop("seconds"))
    assert again["seconds"].to_list() == pytest.approx(by_minute["seconds"].to_list(), abs=1e-9)


def test_precision_of_a_day_of_queueing() -> None:
    # One worker, 1 s each, arrivals a little faster: the wait grows to hours.
    count = 90_000
    rows = [(0, i * 0.96, float(i), float(i), i + 1.0, "/a" if i % 3 else "/b") for i in range(count)]
    result = blame_of(built_visits(*rows))
    assert result.blamed + result.imbalance + result.dispatch == pytest.approx(result.waited, abs=1e-6)
    assert result.matrix["seconds"].sum() == pytest.approx(result.waited, rel=1e-12)


def test_combines_many_classes_with_exact_totals() -> None:
    rows = [(0, float(i), 2.0 * i, 2.0 * i, 2.0 * i + 2, f"/{i % 70}") for i in range(700)]
    result = blame_of(built_visits(*rows))
    assert result.matrix["victim"].n_unique() == result.matrix["culprit"].n_unique() == 51
    assert OTHER in result.matrix["culprit"]
    assert len(result.culprits) == len(result.victims) == 70
    assert result.culprits["seconds"].sum() == pytest.approx(result.blamed, abs=1e-6)
    assert result.matrix["seconds"].sum() == pytest.approx(result.blamed, abs=1e-6)


# --- unknown service time


def test_requests_without_service_time_are_unknown_culprits(snapshot: SnapshotAssertion) -> None:
    without = {"request_start": 0.0, "app_queueing_delay": 0.0, "header": 0.4, "route": "/mute", "request_id": "1"}
    waiting = {
        "start": 0.1, "request_start": 0.1, "app_queueing_delay": 0.3, "app_service_time": 0.1, "header": 0.4,
        "request_id": "2",
    }  # fmt: skip
    rows = checked_split(frame({**without, "worker": None}, {**waiting, "worker": None})).lazy()
    result = blame(rows, workers=1)
    assert result.waited == pytest.approx(0.3, abs=2e-3)
    assert result.unknown == pytest.approx(0.3, abs=2e-3)
    assert result.culprits.row(0, named=True)["culprit"] is None
    assert result.matrix.row(0, named=True)["culprit"] is None
    assert result.silent == 1
    section = blame_section(result)
    assert section.failures == snapshot
    assert section.tables[1].rows[0][0] == "–"


def test_no_requests(snapshot: SnapshotAssertion) -> None:
    result = blame_of(built_visits())
    assert (result.waited, result.requests, result.window) == (0.0, 0, None)
    assert result.to_dict()["matrix"] == []
    assert blame_section(result).sentence == snapshot
    assert blame_by_minute(built_visits()).is_empty()


def test_rejects_column_that_was_not_read() -> None:
    with pytest.raises(sojourn.SojournError, match="tenant"):
        blame(checked_split(frame({})).lazy().drop("host"), by="tenant")


# --- the chain


def queue_of(rows: list[tuple[float, float, str]]) -> Visits:
    """One worker, first come, first served, of (arrival, service, route)."""
    free, produced = 0.0, []
    for arrival, service, route in sorted(rows):
        begun = max(arrival, free)
        free = begun + service
        produced.append((0, arrival, begun, begun, free, route))
    return built_visits(*produced)


def chain_by_class(visits: Visits) -> dict[str, dict[str, float]]:
    return {row["culprit"]: row for row in blame_of(visits).chain.classes.iter_rows(named=True)}


def test_burst_of_arrivals_filled_the_queue() -> None:
    steady = [(float(i), 0.5, "/a") for i in range(100)]
    result = chain_by_class(queue_of([*steady, *((50.0 + i * 0.01, 0.5, "/b") for i in range(20))]))
    assert max(result, key=lambda name: result[name]["filled"]) == "/b"
    assert result["/b"]["filled"] > 10 * result["/b"]["held"]


def test_long_service_held_the_worker() -> None:
    steady = [(float(i), 10.0 if i == 50 else 0.5, "/a") for i in range(200)]
    result = chain_by_class(queue_of(steady))
    assert result["/a"]["held"] > 5 * result["/a"]["filled"]


def test_costliest_period_has_its_culprit(tmp_path: Path) -> None:
    setting = PoolSettings(requests=3_000, rate=16, surges=(Surge(60, 75, 4, "/export"),), seed=2)
    log, _, _ = written(tmp_path, setting)
    chain = blame(sojourn.split(log, columns=("request_id",)).rows).chain
    worst = chain.periods[0]
    assert worst.culprit == "/export"
    assert worst.peak > 10
    assert worst.burst > 1
    assert 55 < (worst.begin.minute * 60 + worst.begin.second) < 80
    assert [p.blamed for p in chain.periods] == sorted((p.blamed for p in chain.periods), reverse=True)
    assert chain.classes.row(0, named=True)["culprit"] == "/export"


@settings(max_examples=60, deadline=None)
@given(drawn_visits())
def test_chain_divides_the_blamed_seconds(drawn: Visits) -> None:
    services = services_of(drawn)
    blamed = accounts(drawn, services).blamed
    routes = drawn.frame["route"].unique().sort().to_list()
    codes = np.array([routes.index(route) for route in drawn.frame["route"]], np.int64)
    chain = chain_of(drawn, services, blamed, codes, routes)
    document = chain.to_dict()
    assert document["filled"] + document["held"] + document["usual"] == pytest.approx(blamed.sum(), abs=1e-9)


# --- the command


def run(*arguments: str) -> str:
    from sojourn.cli import app  # noqa: PLC0415

    done = CliRunner().invoke(app, ["blame", *arguments], env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_command_prints_json(pool: tuple[Path, PoolTruth, BlameResult]) -> None:
    log, truth, _ = pool
    document = json.loads(run(str(log), "--json"))
    assert set(document) >= {"waited", "blamed", "imbalance", "dispatch", "matrix", "culprits", "workers", "chain"}
    assert set(document["matrix"][0]) >= {"victim", "culprit", "seconds", "share"}
    assert set(document["culprits"][0]) >= {"culprit", "seconds", "share"}
    assert document["culprits"][0]["culprit"] == "/export"
    assert document["waited"] == pytest.approx(truth.waited, rel=0.02)
    assert sum(row["share"] for row in document["culprits"]) == pytest.approx(1, abs=1e-6)


def test_command_takes_workers_and_culprit_column(pool: tuple[Path, PoolTruth, BlameResult]) -> None:
    document = json.loads(run(str(pool[0]), "--json", "--workers", "3", "--by", "tenant", "--culprit", "route"))
    assert {row["source"] for row in document["workers"]} == {"told"}
    assert document["blamed"] == 0  # three workers each would never all have been busy: the log says two were
    assert "acme" in {row["victim"] for row in document["victims"]}


def test_escapes_hostile_names(tmp_path: Path) -> None:
    records, _ = simulated_pool(PoolSettings(requests=300, rate=40))
    for record in records:
        record["route"] = "\x1b[31m<script>" if record["route"] == "/export" else record["route"]
    (tmp_path / "log").write_bytes(b"".join(as_lines(records)))
    shown = run(str(tmp_path / "log"))
    assert "\x1b[31m" not in shown
    assert "\\x1b[31m<script>" in shown


def test_draws_every_chart(pool: tuple[Path, PoolTruth, BlameResult]) -> None:
    pictures = blame_section(pool[2]).pictures
    assert [picture.key for picture in pictures] == ["blame-matrix", "blame-flow", "blame-over-time"]
    for picture in pictures:
        assert len(json.dumps(picture.chart().to_dict())) < 300_000
    cells = matrix_cells(pool[2])
    assert cells["seconds"].sum() == pytest.approx(pool[2].blamed, rel=1e-6)
    parts = over_time_parts(pool[2])
    assert parts["seconds"].sum() == pytest.approx(pool[2].waited, rel=1e-6)
    # Every part in every window: areas are stacked.
    assert len(parts) == parts["begin"].n_unique() * parts["part"].n_unique()


def test_reference_documents_every_key(pool: tuple[Path, PoolTruth, BlameResult]) -> None:
    page = (Path(__file__).parents[4] / "docs/reference/blame.md").read_text()
    reported = pool[2].to_dict()
    nested = [
        reported["matrix"][0],
        reported["culprits"][0],
        reported["victims"][0],
        reported["workers"][0],
        reported["requests"][0],
    ]
    nested += [
        reported["chain"],
        reported["chain"]["periods"][0],
        reported["over_time"]["windows"][0],
        reported["negative"],
    ]
    for key in {*reported, *(key for row in nested for key in row), *reported["left_out"]}:
        assert f"`{key}`" in page, key


def test_conditions_on_victims() -> None:
    rows = pl.DataFrame(
        {"status": [200, 504, None], "request_time": [0.05, 0.0500001, 0.06], "tenant": ["a", "b", None]}
    )
    assert having(rows, {}).tolist() == [True, True, True]
    assert having(rows, {"status": 504.0}).tolist() == [False, True, False]
    assert having(rows, {"request_time": 0.05}).tolist() == [True, True, False]
    assert having(rows, {"tenant": "a", "request_time": 0.05}).tolist() == [True, False, False]
