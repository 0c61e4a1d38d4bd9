"""Compare: a change is attributed to its component and route; without a change, none is reported."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import sojourn
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_simulator import EPOCH, PoolSettings, Route, Surge, as_lines, simulated_pool
from sojourn import SojournError, SplitResult
from sojourn.analyses.compare.analysis import Comparison, compare
from sojourn.analyses.compare.charts import changes, composition
from sojourn.analyses.compare.section import compare_section
from sojourn.analyses.split.run import split_requests
from sojourn.cli import app
from sojourn.model.components import COMPONENTS
from sojourn.present.terminal import show
from sojourn.sources.requests import read
from sojourn.timeline.time_blocks import BLOCK, WINDOWS, blocks, quantiles_of, resampled_windows, tail_means
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

ROUTES = {"/cart": Route(0.6, 0.02), "/search": Route(0.4, 0.04, "constant")}
USUAL = PoolSettings(requests=8_000, rate=60.0, routes=ROUTES, backends=2, workers=2)
SLOWER = dataclasses.replace(USUAL, routes={**ROUTES, "/search": Route(0.4, 0.09, "constant")}, rate=30.0)
SUMS = 1e-9  # s


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[PoolSettings], Path]:
    folder = tmp_path_factory.mktemp("compare")
    produced: dict[PoolSettings, Path] = {}

    def log(pool: PoolSettings) -> Path:
        key = repr(pool)
        if key not in produced:
            produced[key] = folder / f"{len(produced)}.jsonl"  # type: ignore[index]
            produced[key].write_bytes(b"".join(as_lines(simulated_pool(pool)[0])))  # type: ignore[index]
        return produced[key]  # type: ignore[index]

    return log


@pytest.fixture(scope="module")
def sides(logs: Callable[[PoolSettings], Path]) -> Callable[[PoolSettings], SplitResult]:
    produced: dict[str, SplitResult] = {}

    def side(pool: PoolSettings) -> SplitResult:
        if repr(pool) not in produced:
            produced[repr(pool)] = sojourn.split(logs(pool), columns=("request_id", "tenant"))
        return produced[repr(pool)]

    return side


def assert_sums(comparison: Comparison) -> None:
    """Components sum to the whole, groups sum to the change of the mean."""
    mean = comparison.figures["mean"].change
    assert math.fsum(c.change for c in comparison.components.values()) == pytest.approx(mean, abs=SUMS)
    assert math.fsum(c.change for c in comparison.tail.values()) == pytest.approx(comparison.tail_mean.change, abs=SUMS)
    assert math.fsum(group.contribution for group in comparison.groups) == pytest.approx(mean, abs=SUMS)


Sides = Callable[[PoolSettings], SplitResult]


def test_slower_code_on_one_route_is_service_time_on_that_route(sides: Sides, snapshot: SnapshotAssertion) -> None:
    """Half busy: the 50 ms show as they are, with hardly a queue."""
    before = dataclasses.replace(SLOWER, routes=ROUTES)
    result = compare(sides(before), sides(SLOWER))
    assert_sums(result)
    assert result.cause == "service"
    service = result.components["service_time"]
    assert service.change == pytest.approx(0.4 * 0.05, rel=0.1)
    assert service.low < 0.4 * 0.05 < service.high  # type: ignore[operator]
    assert result.figures["mean"].certain
    search, cart = sorted(result.groups, key=lambda group: group.name != "/search")
    assert search.within["service_time"] == pytest.approx(0.4 * 0.05, rel=0.05)
    assert abs(cart.within["service_time"]) < 0.001
    assert result.groups[0].name == "/search"
    assert search.low > 0
    assert result.sentence == snapshot


def test_fewer_workers_are_queueing(sides: Sides, snapshot: SnapshotAssertion) -> None:
    busy = dataclasses.replace(USUAL, rate=125.0)
    result = compare(sides(dataclasses.replace(busy, workers=3)), sides(busy))
    assert_sums(result)
    assert (result.cause, result.tail_cause) == ("queueing", "queueing")
    p99 = result.figures["p99"]
    assert p99.certain
    assert p99.change > 0
    assert p99.low < p99.change < p99.high  # type: ignore[operator]
    queueing = result.tail["queue"].change + result.tail["connect"].change
    assert queueing / result.tail_mean.change > 0.9
    assert abs(result.components["service_time"].change) < 0.001
    assert not result.components["service_time"].certain
    assert result.sentence == snapshot


def test_change_of_the_mix(sides: Sides) -> None:
    light = dataclasses.replace(USUAL, rate=10.0, requests=8_000)
    more = dataclasses.replace(light, routes={"/cart": Route(0.2, 0.02), "/search": Route(0.8, 0.04, "constant")})
    result = compare(sides(light), sides(more))
    assert_sums(result)
    mix = math.fsum(group.mix for group in result.groups)
    assert mix == pytest.approx(0.4 * 0.02, rel=0.15)
    assert abs(result.figures["mean"].change - mix) < 0.2 * mix


def test_new_route_changes_the_mix(sides: Sides) -> None:
    light = dataclasses.replace(USUAL, rate=8.0, requests=8_000)
    routes = {"/cart": Route(0.6, 0.02), "/search": Route(0.3, 0.04, "constant"), "/new": Route(0.1, 0.2, "constant")}
    result = compare(sides(light), sides(dataclasses.replace(light, routes=routes)))
    assert_sums(result)
    new = result.groups[0]
    assert (new.name, new.requests[0], new.mean[0]) == ("/new", 0, None)
    assert math.fsum(new.within.values()) == 0
    assert new.mix == pytest.approx(0.1 * (0.2 - 0.03), rel=0.2)


def test_same_side_twice_is_no_change(sides: Sides, snapshot: SnapshotAssertion) -> None:
    side = sides(USUAL)
    result = compare(side, side)
    assert_sums(result)
    everything = [*result.figures.values(), *result.components.values(), *result.tail.values(), result.tail_mean]
    for change in everything:
        assert change.change == 0
        assert change.low <= 0 <= change.high  # type: ignore[operator]
    assert result.cause is None
    assert result.sentence == snapshot


@pytest.mark.thorough
def test_false_positive_rate_is_that_of_the_interval(sides: Sides) -> None:
    """Pairs of one system under other draws, with queues: a 95 % interval hardly ever leaves 0 out."""
    light = dataclasses.replace(USUAL, requests=3_000)
    drawn = [sides(dataclasses.replace(light, seed=seed)) for seed in range(16)]
    called = {"mean": 0, "p50": 0, "p99": 0}
    for one, other in zip(drawn[::2], drawn[1::2], strict=True):
        result = compare(one, other)
        for name in called:
            called[name] += result.figures[name].certain
    assert max(called.values()) <= 2


def test_before_and_after_an_instant(logs: Callable[[PoolSettings], Path], snapshot: SnapshotAssertion) -> None:
    surge = dataclasses.replace(USUAL, rate=40.0, surges=(Surge(150.0, 1e9, 2.2),))
    middle = f"{EPOCH + 150:.0f}"
    arguments = ["compare", str(logs(surge)), "--at", middle]
    printed = CliRunner(env={"COLUMNS": "80"}).invoke(app, arguments)
    assert printed.exit_code == 0, printed.output
    assert printed.stdout == snapshot
    assert max(map(len, printed.stdout.splitlines())) <= 80
    document = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert document["verdict"]["cause"] == "queueing"
    assert document["a"]["name"] == "before 2026-01-01T00:02:30Z"
    assert document["a"]["requests"] + document["b"]["requests"] == surge.requests
    total = sum(row["change"] for row in document["components"])
    assert total == pytest.approx(document["response_time"]["mean"]["change"], abs=1e-6)


def test_two_logs_by_custom_key(logs: Callable[[PoolSettings], Path]) -> None:
    busy = dataclasses.replace(USUAL, rate=90.0)
    arguments = [
        "compare",
        str(logs(dataclasses.replace(busy, workers=3))),
        str(logs(busy)),
        "--by",
        "tenant",
        "--json",
    ]
    document = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert {row["tenant"] for row in document["by"]["tenant"]} == {"acme", "globex", "initech"}


def test_combines_all_but_the_largest_groups(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["sojourn.analyses.compare.analysis"], "GROUPS", 2)  # its name is a function's, too
    result = compare(sides(USUAL), sides(SLOWER), by="tenant")
    assert_sums(result)
    assert (len(result.groups), result.groups_total) == (3, 3)
    assert {group.name for group in result.groups} == {"acme", "globex", "(other)"}


def test_failures_of_a_side_come_first(logs: Callable[[PoolSettings], Path]) -> None:
    grows = dataclasses.replace(USUAL, requests=2_000, rate=170.0)
    printed = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["compare", str(logs(USUAL)), str(logs(grows))])
    assert printed.exit_code == 0, printed.output
    assert printed.stdout.startswith("AUDIT")
    assert printed.stdout.index("not stationary") < printed.stdout.index("p99 rose by")


@pytest.mark.parametrize(
    "arguments",
    [[], ["x"], ["x", "y", "z"], ["x", "y", "--at", "10m"], ["-", "--at", "10m"], ["x", "y", "--by", "a b"]],
)
def test_rejects_wrong_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["compare", *arguments]).exit_code == 2


def test_names_the_empty_side(logs: Callable[[PoolSettings], Path]) -> None:
    result = CliRunner().invoke(app, ["compare", str(logs(USUAL)), "--at", f"{EPOCH - 100:.0f}"])
    assert isinstance(result.exception, SojournError)
    assert str(result.exception).startswith("before 2025-12-31T23:58:20Z: no request is left")


# --- the bootstrap


def test_resamples_are_blocks_and_windows_are_equally_likely() -> None:
    weights = resampled_windows(0, 4000)
    assert weights.shape == (4000, WINDOWS)
    assert (weights.sum(axis=1) == WINDOWS).all()
    assert weights.mean(axis=0).min() > 0.9
    assert weights.mean(axis=0).max() < 1.1
    neighbours = float(((weights - 1) * (weights[:, [*range(1, WINDOWS), 0]] - 1)).mean())
    assert neighbours == pytest.approx(1 - 1 / BLOCK - BLOCK / WINDOWS, abs=0.02)


def test_windows_and_bins_sum_to_the_rows(sides: Sides) -> None:
    side = sides(USUAL)
    result = blocks(side.rows, "route", ["/cart"])
    assert result.groups == ("(other)", "/cart")
    once = resampled_windows(0, 1) * 0 + 1
    assert result.requests.sum() == side.requests
    for name in COMPONENTS:
        assert result.sums[name].sum() / side.requests == pytest.approx(side.means[name], abs=1e-9)
        assert result.group_sums[name].sum() / side.requests == pytest.approx(side.means[name], abs=1e-9)
    exact = [side.response_time[name] for name in ("p50", "p90", "p99", "p999")]
    assert quantiles_of(result, once, (0.5, 0.9, 0.99, 0.999))[0].tolist() == pytest.approx(exact, rel=0.02, abs=0.0011)
    tail = side.tail["p99"]["components"]
    for name, value in tail_means(result, once, 0.99).items():
        assert value[0] == pytest.approx(tail[name], rel=0.05, abs=0.002)  # type: ignore[index]


def test_single_group(tmp_path: Path) -> None:
    """Every request took as long: one bin, and no change."""
    log = tmp_path / "a.jsonl"
    record = {"request_time": "0.100", "status": "200", "request_start": "-", "uri": "/"}
    log.write_bytes(b"".join(json.dumps({**record, "time": f"{EPOCH + i:.1f}"}).encode() + b"\n" for i in range(5)))
    result = compare(sojourn.split(log), sojourn.split(log))
    p99 = result.figures["p99"]
    assert p99.a == p99.b == pytest.approx(0.1)
    assert (p99.change, p99.low, p99.high, p99.certain) == (0.0, 0.0, 0.0, False)


SMALL, _ = simulated_pool(dataclasses.replace(USUAL, requests=400))


@settings(deadline=None, max_examples=3)
@given(st.randoms(use_true_random=False))
def test_duplicate_and_unordered_lines_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, shuffled: random.Random
) -> None:
    folder = tmp_path_factory.mktemp("shuffled")
    lines = as_lines(SMALL)
    (folder / "a.jsonl").write_bytes(b"".join(lines))
    lines += lines[:60]
    shuffled.shuffle(lines)
    (folder / "b.jsonl").write_bytes(b"".join(lines))
    other = sojourn.split(folder / "a.jsonl")
    one, again = (compare(sojourn.split(folder / name), other).to_dict() for name in ("a.jsonl", "b.jsonl"))
    for part in ("response_time", "by"):
        assert json.dumps(_rounded(one[part])) == json.dumps(_rounded(again[part]))


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return round(value, 7) + 0.0 if isinstance(value, float) else value


# --- section and charts


def test_section_escapes_names_and_draws_charts(sides: Sides, capsys: pytest.CaptureFixture[str]) -> None:
    result = compare(sides(USUAL), sides(SLOWER), names=("old", "\x1b[31mnew"))
    show(compare_section(result))
    printed = capsys.readouterr().out
    assert "\x1b[31mnew" not in printed
    assert "slowest 1 %" in printed
    for chart in (composition(result), changes(result)):
        assert 1 < max(len(values) for values in chart.to_dict()["datasets"].values()) < 50
    assert json.dumps(result.to_dict())


def test_rejects_side_without_requests(sides: Sides, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    empty = split_requests(read([tmp_path / "a.jsonl"]))
    assert isinstance(empty.rows, pl.LazyFrame)
    with pytest.raises(SojournError, match="B: no requests"):
        compare(sides(USUAL), empty)
