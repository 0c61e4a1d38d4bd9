"""What-if: predictions from the log match the exact simulator under the same change; impossible changes are refused."""

from __future__ import annotations

import dataclasses
import heapq
import json
import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sojourn
from pool_simulator import PoolSettings, as_lines, simulated_pool, span_lines
from sojourn.analyses.whatif.analysis import whatif
from sojourn.analyses.whatif.closed_loop import closed_loop_of
from sojourn.analyses.whatif.result import WhatIfResult
from sojourn.analyses.whatif.section import whatif_section
from sojourn.analyses.whatif.variants import change_of
from sojourn.analyses.whatif.workload import workload_of
from sojourn.cli import app
from sojourn.model.errors import SojournError
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

AS_IT_WAS = PoolSettings(requests=60_000, seed=3)
SMALL = PoolSettings(requests=4_000, rate=24.0, seed=5)
COLUMNS = ("request_id", "remote_addr", "connection")


def rows_of(folder: Path, settings: PoolSettings, *, spans: bool = False) -> pl.LazyFrame:
    records, truth = simulated_pool(settings)
    log = folder / "access.jsonl"
    log.write_bytes(b"".join(as_lines(records)))
    (folder / "spans.jsonl").write_bytes(b"".join(span_lines(truth)))
    span_files = [folder / "spans.jsonl"] if spans else []
    return sojourn.split(log, spans=span_files, columns=COLUMNS).rows


def responses(settings: PoolSettings) -> tuple[float, float]:
    """Return (mean, p99), s, of the simulated responses."""
    values = np.array(simulated_pool(settings)[1].responses)
    return float(values.mean()), float(np.quantile(values, 0.99))


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> pl.LazyFrame:
    return rows_of(tmp_path_factory.mktemp("pool"), AS_IT_WAS)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> pl.LazyFrame:
    return rows_of(tmp_path_factory.mktemp("small"), SMALL)


@pytest.fixture(scope="module")
def predicted(pool: pl.LazyFrame) -> WhatIfResult:
    return whatif(pool, [{"workers": "+1"}, {"balancer": "least_conn"}, {"discipline": "lifo"}])


def test_replay_of_the_recorded_configuration_matches_the_measurements(predicted: WhatIfResult) -> None:
    assert predicted.refused is None
    assert all(abs(error) < 0.02 for error in predicted.error.values()), predicted.error


def test_predictions_are_graded_by_the_error_of_the_replay(
    pool: pl.LazyFrame, small: pl.LazyFrame, predicted: WhatIfResult, snapshot: SnapshotAssertion
) -> None:
    assert predicted.grade == predicted.to_dict()["grade"] == "exact"
    # Two in a hundred requests are not in the log: their load is missing from the replay.
    in_log = np.random.default_rng(1).random(AS_IT_WAS.requests) >= 0.02
    rows = pool.collect()
    rough = whatif(rows.filter(pl.Series(in_log[: len(rows)])).lazy(), [{"workers": "+1"}])
    assert rough.refused is None
    assert rough.grade == "rough"
    assert rough.largest_error == pytest.approx(max(abs(rough.error[name]) for name in ("mean", "p99")))
    assert 0.03 < rough.largest_error <= 0.15
    refused = whatif(small, [{"workers": "+1"}], workers=1)
    assert refused.grade == "refused"
    assert not refused.has_spans
    assert [whatif_section(each).sentence for each in (rough, refused)] == snapshot


@pytest.mark.parametrize(
    ("settings", "change"),
    [
        ({"workers": "+1"}, {"workers": 3}),
        pytest.param({"balancer": "least_conn"}, {"balancer": "least_conn"}, marks=pytest.mark.thorough),
        pytest.param({"discipline": "lifo"}, {"discipline": "lifo"}, marks=pytest.mark.thorough),
    ],
)
def test_prediction_is_within_5_percent_of_the_simulator(
    predicted: WhatIfResult, settings: dict[str, str], change: Mapping[str, object]
) -> None:
    mean, p99 = responses(dataclasses.replace(AS_IT_WAS, **change))  # type: ignore[arg-type]
    (variant,) = [v for v in predicted.variants if v.settings == settings]
    assert variant.response_time["mean"] == pytest.approx(mean, rel=0.05)
    assert variant.response_time["p99"] == pytest.approx(p99, rel=0.05)


def test_variants_are_sorted_and_intervals_contain_their_figures(predicted: WhatIfResult) -> None:
    order = [variant.response_time["p99"] for variant in predicted.variants]
    assert order == sorted(order)
    for variant in predicted.variants:
        for name in ("mean", "p50", "p99"):
            low, high = variant.interval[name]
            assert low <= variant.response_time[name] * 1.001
            assert high >= variant.response_time[name] * 0.999
            assert low < high


def test_variants_equal_to_the_recorded_configuration_predict_no_change(small: pl.LazyFrame) -> None:
    same = whatif(small, [{"workers": "2"}, {"discipline": "fifo"}, {"load": "1"}, {"balancer": "given"}])
    for variant in same.variants:
        assert set(variant.change.values()) == {0.0}
        assert all(edges == [0.0, 0.0] for edges in variant.change_interval.values())


def test_load_raises_and_shorter_services_lower_the_response_time(small: pl.LazyFrame) -> None:
    result = whatif(small, [{"load": "x1.2"}, {"service:/export": "x0.5"}, {"service": "x0.5"}, {"workers": "x2"}])
    by = {next(iter(variant.settings)): variant for variant in result.variants}
    assert by["load"].rate == pytest.approx(1.2 * result.system["rate"], rel=1e-6)
    assert by["load"].change["mean"] > 0.1
    assert by["service"].change["mean"] < by["service:/export"].change["mean"] < -0.1
    assert by["workers"].utilisation == pytest.approx(result.system["utilisation"] / 2, rel=0.01)


def test_route_in_a_separate_pool_no_longer_delays_other_routes(small: pl.LazyFrame) -> None:
    workload = workload_of(small)
    exports = workload.route == "/export"
    from sojourn.analyses.whatif.replays import replay_workload  # noqa: PLC0415

    separate = replay_workload(workload, change_of({"pool:/export": "2"}))
    together = replay_workload(workload, change_of({}))
    assert separate.workers == together.workers + 2
    assert separate.wait[~exports].mean() < 0.2 * together.wait[~exports].mean()


def test_replay_reproduces_time_outs(tmp_path: Path) -> None:
    settings = PoolSettings(requests=6_000, rate=29.0, timeout=3.0, seed=11)
    rows = rows_of(tmp_path, settings, spans=True)
    truth = simulated_pool(settings)[1]
    late = sum(request.status == 504 for request in truth.requests)
    assert late > 50
    result = whatif(rows, [{"timeout": "none"}, {"workers": "+1"}])
    assert result.system["timeout"] == pytest.approx(3.0, abs=0.01)
    assert result.system["timeouts"] == pytest.approx(late, rel=0.1)
    by = {next(iter(variant.settings)): variant for variant in result.variants}
    assert by["timeout"].timeouts == 0
    assert by["workers"].timeouts < late / 2


def test_unknown_services_are_drawn_with_a_note(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    result = whatif(rows_of(tmp_path, PoolSettings(requests=4_000, rate=29.0, timeout=3.0, seed=11)), [], force=True)
    assert result.imputed > 0
    assert result.notes == snapshot


def test_wrong_number_of_workers_is_refused_with_the_reason(small: pl.LazyFrame, snapshot: SnapshotAssertion) -> None:
    few = whatif(small, workers=1)
    assert few.refused is not None
    assert "10.0.0." in few.refused
    assert few.refused == snapshot(name="too few")
    assert few.variants == []
    many = whatif(small, workers=4)
    assert many.refused is not None
    section = whatif_section(many)
    assert section.failures == ()
    assert section.sentence == snapshot(name="too many")
    forced = whatif(small, [{"workers": "+1"}], workers=4, force=True)
    assert forced.forced
    assert len(forced.variants) == 1
    assert whatif_section(forced).failures


@pytest.fixture(scope="module")
def small_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = tmp_path_factory.mktemp("log") / "access.jsonl"
    log.write_bytes(b"".join(as_lines(simulated_pool(SMALL)[0])))
    return log


def test_command_prints_the_variants_as_json(small_log: Path) -> None:
    options = ["--variant", "workers=+1,balancer=least_conn", "--set", "workers=+1", "--json"]
    result = CliRunner().invoke(app, ["whatif", str(small_log), *options])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    variants = ({"workers": "+1", "balancer": "least_conn"}, {"workers": "+1"})
    assert sorted(v["set"].items() for v in document["variants"]) == sorted(one.items() for one in variants)
    assert {"response_time", "queueing_delay", "goodput", "timeouts"} <= document["variants"][0].keys()
    assert abs(document["error"]["mean"]) < 0.05
    assert {"mean", "p99"} <= document["error"].keys()


def test_command_raises_the_refusal_and_prints_no_variants(small_log: Path) -> None:
    result = CliRunner().invoke(app, ["whatif", str(small_log), "--workers", "4", "--json"])
    assert isinstance(result.exception, SojournError)
    document = json.loads(result.stdout)
    assert document["variants"] == []
    assert document["refused"] in str(result.exception)


@pytest.mark.parametrize("options", [["--set", "worker=3"], ["--set", "workers"], ["--variant", "load=0"],
                                     ["--rank", "best"], ["--workers", "none"],
                                     ["--where", "route=/export"]])  # fmt: skip
def test_command_rejects_invalid_options(small_log: Path, options: list[str]) -> None:
    assert CliRunner().invoke(app, ["whatif", str(small_log), *options]).exit_code == 2


def closed_log(clients: int, workers: int, requests: int, seed: int, between: float = 0.0) -> list[dict[str, str]]:
    """Return the records of clients that send again at once to one backend, with instants to a microsecond.

    A worker takes its next request ``between`` seconds after it answered.
    """
    rng = random.Random(seed)
    free = [0.0] * workers
    ready = [(0.001 * i, f"10.1.0.{i}") for i in range(clients)]
    records = []
    for number in range(requests):
        ready.sort()
        now, client = ready.pop(0)
        free.sort()
        begin = max(now, free[0])
        service = rng.expovariate(1 / 0.05)
        end = begin + service
        free[0] = end + between
        ready.append((end + 0.002, client))
        records.append((end, {
            "time": f"{1_767_225_600 + end:.6f}", "request_id": f"{seed:016x}{number:016x}", "status": "200",
            "uri": "/", "route": "/", "service": "shop", "request_time": f"{end - now:.6f}",
            "request_start": f"{1_767_225_600 + now:.6f}", "upstream_addr": "10.0.0.1:80", "upstream_status": "200",
            "upstream_connect_time": "0.000", "upstream_header_time": f"{end - now:.6f}",
            "upstream_response_time": f"{end - now:.6f}", "queueing_delay": f"{begin - now:.6f}",
            "service_time": f"{service:.6f}", "worker": f"w{number % workers}", "proxy": "edge", "remote_addr": client,
        }))  # fmt: skip
    return [record for _, record in sorted(records, key=lambda pair: pair[0])]


def test_faster_system_receives_more_load_in_a_closed_loop(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    log, more = tmp_path / "two.jsonl", closed_log(12, 3, 4_000, 9)
    log.write_bytes(b"".join(as_lines(closed_log(12, 2, 4_000, 9))))
    rows = sojourn.split(log, columns=COLUMNS).rows
    seconds = float(more[-1]["time"]) - 1_767_225_600
    closed = whatif(rows, [{"workers": "3"}], workers=2, closed_loop=True)
    assert closed.linked is not None
    assert closed.linked > 0.99
    assert closed.variants[0].rate == pytest.approx(len(more) / seconds, rel=0.05)
    unlinked = whatif(rows, [{"workers": "3"}], workers=2, force=True)
    assert unlinked.variants[0].rate < 0.8 * closed.variants[0].rate
    assert unlinked.refused == snapshot(name="refused")
    with pytest.raises(SojournError) as refusal:
        whatif(rows, [{"pool:/": "1"}], workers=2, closed_loop=True)
    assert str(refusal.value) == snapshot(name="refusal")


def test_refusal_suggests_the_closed_loop(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """The time between two requests of a busy worker adds up if arrivals do not wait for answers."""
    log = tmp_path / "full.jsonl"
    log.write_bytes(b"".join(as_lines(closed_log(8, 2, 1_500, 3, between=0.004))))
    rows = sojourn.split(log, columns=COLUMNS).rows
    refused = whatif(rows, workers=2).refused
    assert refused is not None
    assert "--closed-loop" in refused
    assert refused == snapshot
    assert whatif(rows, [{"workers": "3"}], workers=2, closed_loop=True).refused is None


def test_open_arrivals_do_not_suggest_a_closed_loop(small: pl.LazyFrame) -> None:
    assert whatif(small).refused is None


def think_log(clients: int, think: float, requests: int, seed: int) -> list[dict[str, str]]:
    """Return records of clients that think for a random time after each answer, at four workers."""
    rng = random.Random(seed)
    free = [0.0] * 4
    ready = [(rng.expovariate(1 / think), client) for client in range(clients)]
    heapq.heapify(ready)
    records = []
    for number in range(requests):
        now, client = heapq.heappop(ready)
        begin = max(now, heapq.heappop(free))
        service = rng.expovariate(1 / 0.05)
        heapq.heappush(free, begin + service)
        heapq.heappush(ready, (begin + service + rng.expovariate(1 / think), client))
        took = f"{begin + service - now:.6f}"
        records.append((begin + service, {
            "time": f"{1_767_225_600 + begin + service:.6f}", "request_id": f"{number:032x}", "status": "200",
            "uri": "/", "route": "/", "service": "shop", "request_time": took,
            "request_start": f"{1_767_225_600 + now:.6f}", "upstream_addr": "10.0.0.1:80", "upstream_status": "200",
            "upstream_connect_time": "0.000", "upstream_header_time": took, "upstream_response_time": took,
            "queueing_delay": f"{begin - now:.6f}", "service_time": f"{service:.6f}", "proxy": "edge",
            "remote_addr": f"10.1.{client // 250}.{client % 250}",
        }))  # fmt: skip
    return [record for _, record in sorted(records, key=lambda pair: pair[0])]


@pytest.mark.parametrize(
    ("clients", "think", "follows"),
    [(24, 0.25, True), (40, 0.5, True), (700, 10.0, False)],
    ids=["short", "longer", "people who read a page"],
)
def test_clients_that_think_are_a_closed_loop_where_it_matters(
    tmp_path: Path, clients: int, think: float, follows: bool
) -> None:
    for seed in (1, 2):
        log = tmp_path / f"{seed}.jsonl"
        log.write_bytes(b"".join(as_lines(think_log(clients, think, 6_000, seed))))
        refused = whatif(sojourn.split(log, columns=COLUMNS).rows, [{"workers": "+1"}], workers=4).refused
        assert (refused is not None and "--closed-loop" in refused) == follows, refused


def test_requests_arrive_after_the_answer_they_follow(small: pl.LazyFrame) -> None:
    workload = workload_of(small)
    loop = closed_loop_of(workload)
    follows = np.flatnonzero(loop.previous >= 0)
    assert len(np.unique(loop.previous[follows])) == len(follows)
    assert (loop.previous[follows] < follows).all()
    assert (loop.think[follows] >= 0).all()


def test_result_ignores_row_order_and_duplicates(small: pl.LazyFrame) -> None:
    table = small.collect()
    doubled = pl.concat([table, table.sample(fraction=0.3, seed=1)]).sample(fraction=1.0, shuffle=True, seed=2)
    variants = [{"workers": "+1"}, {"balancer": "two_choices"}, {"discipline": "sjf"}]
    assert whatif(doubled.lazy(), variants).to_dict() == whatif(small, variants).to_dict()


def test_common_changes_are_the_default(small: pl.LazyFrame) -> None:
    settings = [variant.settings for variant in whatif(small).variants]
    for usual in ({"workers": "+1"}, {"balancer": "least_conn"}, {"discipline": "sjf"}, {"service:/export": "x0.5"}):
        assert usual in settings


def refusal_of(function: Callable[[], object]) -> str:
    with pytest.raises(SojournError) as refusal:
        function()
    return str(refusal.value)


def test_rejects_invalid_changes(snapshot: SnapshotAssertion) -> None:
    invalid = (
        {"worker": "3"}, {"workers": "many"}, {"workers": "1.5"}, {"discipline": "fair"}, {"balancer": "random"},
        {"timeout": "0"}, {"load": "x0"}, {"load": "nan"}, {"pool:/a": "0"}, {"retries": "-1"}, {"capacity": "1.5"},
        {"backoff": "-1"},
    )  # fmt: skip
    assert [(settings, refusal_of(lambda s=settings: change_of(s))) for settings in invalid] == snapshot


def test_refuses_changes_that_do_not_fit_the_log(small: pl.LazyFrame, snapshot: SnapshotAssertion) -> None:
    unfit = (
        {"workers": "-2"}, {"backends": "-2"}, {"service:/nowhere": "x2"}, {"discipline": "deadline"},
        {"backends": "+1", "balancer": "given"},
    )  # fmt: skip
    assert [(settings, refusal_of(lambda s=settings: whatif(small, [s]))) for settings in unfit] == snapshot


def test_amounts_are_absolute_or_relative() -> None:
    amounts: list[tuple[str, Callable[[float], float]]] = [
        ("3", lambda _: 3), ("+1", lambda n: n + 1), ("-1", lambda n: n - 1), ("x1.5", lambda n: 1.5 * n),
    ]  # fmt: skip
    for text, expected in amounts:
        amount = change_of({"workers": text}).workers
        assert amount is not None
        assert amount.of(4) == expected(4)
    assert math.isinf(change_of({"timeout": "none"}).timeout or 0)
