"""Capacity: the knee and the size are recovered where the truth is known, and not made up."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from capacity_support import BASE, FLOAT, breaks_at, closed_loop, frame, ramp, served_by
from hypothesis import given, settings
from hypothesis import strategies as st
from ramp_example import LOG, ramp_log
from sojourn import SojournError
from sojourn.analyses.capacity.analysis import Capacity, capacity
from sojourn.analyses.capacity.charts import POINTS, objective_against_rate, throughput_against_concurrency
from sojourn.analyses.capacity.knee import Slo, knee_of
from sojourn.analyses.capacity.section import capacity_section, sizing_section
from sojourn.analyses.capacity.sizing import Sizing, instances_needed
from sojourn.cli import app
from sojourn.present.terminal import show
from sojourn.timeline.load_windows import load_windows
from typer.testing import CliRunner


def open_ramp(**arguments: object) -> Capacity:
    return capacity(load_windows(frame(*ramp()), width=60), **arguments)  # type: ignore[arg-type]


# --- the size


def test_twenty_four_thousand_of_nine_hundred_with_thirty_per_cent_are_thirty_five() -> None:
    assert instances_needed(24_000, 900, 0.3) == 35


@pytest.mark.parametrize(
    ("target", "one", "headroom", "wanted"), [(900, 900, 0, 1), (900, 990, 0.1, 1), (901, 900, 0, 2), (0.3, 0.1, 0, 3)]
)
def test_a_whole_number_of_instances_is_not_rounded_up(target: float, one: float, headroom: float, wanted: int) -> None:
    assert instances_needed(target, one, headroom) == wanted


@given(st.floats(0.001, 1e9), st.floats(0.001, 1e9), st.floats(0, 10))
def test_the_instances_bear_the_target_and_one_less_would_not(target: float, one: float, headroom: float) -> None:
    count = instances_needed(target, one, headroom)
    wanted = target * (1 + headroom)
    assert count * one >= wanted * (1 - 1e-9)
    assert (count - 1) * one < wanted * (1 + 1e-9)


@pytest.mark.parametrize(
    "wrong", [(0, 1, 0), (1, 0, 0), (1, 1, -0.1), (math.nan, 1, 0), (1, math.inf, 0), (1, 1, math.nan)]
)
def test_rejects_invalid_sizes(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(SojournError, match="must be"):
        instances_needed(*wrong)


# --- the knee


@pytest.mark.parametrize(
    ("slo", "p", "limit"), [("p99=0.1", 0.99, 0.1), ("p50=0.05", 0.5, 0.05), ("p90=0.2", 0.9, 0.2)]
)
def test_knee_of_a_ramp(slo: str, p: float, limit: float) -> None:
    result = open_ramp(slos=[Slo.of(slo)], target_rate=24_000.0, headroom=0.3)
    (knee,) = result.knees
    truth = breaks_at(p, limit)
    assert knee.rate == pytest.approx(truth, rel=0.03)
    assert knee.low is not None
    assert knee.high is not None
    assert knee.low * 0.98 <= truth <= knee.high * 1.02
    assert result.sizing is not None
    assert result.sizing.instances == instances_needed(24_000, knee.rate, 0.3)  # type: ignore[arg-type]
    assert result.sizing.low <= result.sizing.instances <= result.sizing.high  # type: ignore[operator]


def test_the_interval_of_the_knee_holds_the_truth_as_often_as_it_says() -> None:
    held = 0
    for seed in range(20):
        starts, responses = ramp(seed=seed, width=20)
        table = load_windows(frame(starts, responses), width=20).table
        knee = knee_of(table["rate"].to_numpy(), table["p90"].to_numpy(), Slo("p90", 0.06), resamples=200)
        held += knee.low <= breaks_at(0.9, 0.06) <= (knee.high or math.inf)  # type: ignore[operator]
    assert held >= 16


def test_a_queue_that_was_simulated_breaks_where_theory_says() -> None:
    """M/M/1 of 20 requests/s at most; its response time is exponential (Kleinrock 1975, eq. 3.30)."""
    rng = np.random.default_rng(11)
    stages = np.linspace(2, 18, 40)
    rates = np.repeat(stages, (100 * stages).astype(int))
    arrivals = np.cumsum(rng.exponential(1 / rates))
    responses = served_by(arrivals, rng.exponential(0.05, len(arrivals)), 1)
    (knee,) = capacity(load_windows(frame(arrivals, responses)), slos=[Slo("mean", 0.2)]).knees
    assert knee.rate == pytest.approx(20 - 1 / 0.2, rel=0.08)


def test_objective_that_never_broke_gives_a_lower_bound() -> None:
    result = open_ramp(slos=[Slo("p99", 30.0)], target_rate=1000.0)
    (knee,) = result.knees
    assert (knee.rate, knee.at_least) == (None, pytest.approx(95, rel=0.05))
    assert "not observed" in str(knee.reason)
    assert result.sizing is not None
    assert (result.sizing.bound, result.sizing.instances) == ("at most", math.ceil(1000 / knee.at_least))  # type: ignore[operator]
    assert "at least" in capacity_section(result).sentence


def test_objective_always_broken_gives_an_upper_bound() -> None:
    result = open_ramp(slos=[Slo("p99", 0.001)], target_rate=1000.0)
    (knee,) = result.knees
    assert (knee.rate, knee.at_most) == (None, pytest.approx(5, rel=0.3))
    assert result.sizing is not None
    assert result.sizing.instances is None
    assert "broken at every observed load" in str(result.sizing.reason)


def test_the_objective_that_breaks_first_sizes() -> None:
    result = open_ramp(slos=[Slo("p99", 0.5), Slo("p50", 0.015)], target_rate=500.0)
    rates = [knee.rate for knee in result.knees]
    assert result.sizing is not None
    assert result.sizing.per_instance == min(rates)  # type: ignore[type-var]
    assert "p50" in result.sizing.source


def test_size_with_an_open_interval_has_no_ends() -> None:
    sizing = Sizing(100, 0.0, 40, "the system as it was measured, p99 ≤ 0.5 s", instances=3)
    assert "3 instances, of 40" in sizing_section(sizing).sentence


def test_errors_are_an_objective_too() -> None:
    starts, responses = ramp()
    failing = (starts / starts.max() > 2 / 3) & (np.arange(len(starts)) % 4 == 0)
    rows = frame(starts, responses, status=np.where(failing, 503, 200))
    (knee,) = capacity(load_windows(rows, width=60), slos=[Slo.of("errors=0.1")]).knees
    assert knee.rate == pytest.approx(65, rel=0.05)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0.001, 10)), min_size=3, max_size=40), st.floats(0.001, 10))
def test_the_knee_is_a_rate_that_was_seen_or_between(pairs: list[tuple[int, float]], limit: float) -> None:
    rate, figure = (np.array(column, float) for column in zip(*pairs, strict=True))
    knee = knee_of(rate, figure, Slo("p99", limit), resamples=5)
    reported = [value for value in (knee.rate, knee.at_least, knee.at_most) if value is not None]
    assert len(reported) == 1
    assert rate.min() <= reported[0] <= rate.max()
    if figure.max() <= limit:
        assert knee.at_least == rate.max()
    shuffled = knee_of(rate[::-1], figure[::-1], Slo("p99", limit), resamples=5)
    assert shuffled.rate == pytest.approx(knee.rate) if knee.rate is not None else shuffled.rate is None


@pytest.mark.parametrize("text", ["p99", "p99=", "p99=x", "p99=0", "p99=-1", "p98=1", "p99=inf", "errors=1", "=1"])
def test_rejects_invalid_objectives(text: str) -> None:
    with pytest.raises(SojournError, match="is not an objective"):
        Slo.of(text)


# --- for people and programs


def lines(starts: FLOAT, responses: FLOAT) -> bytes:
    return b"".join(
        json.dumps({"time": f"{BASE + s + r:.3f}", "request_time": f"{r:.3f}", "status": "200", "uri": "/"}).encode()
        + b"\n"
        for s, r in zip(np.round(starts, 3), np.maximum(np.round(responses, 3), 0.001), strict=True)
    )


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ramp") / "access.jsonl"
    path.write_bytes(lines(*ramp(width=10)))
    return str(path)


def test_the_command(log: str) -> None:
    arguments = ["capacity", log, "--slo", "p99=0.1", "--target-rate", "24000", "--headroom", "0.3", "--window", "10"]
    printed = CliRunner(env={"COLUMNS": "80"}).invoke(app, arguments)
    assert printed.exit_code == 0, printed.output
    assert "p99 ≤ 0.1 s breaks at 5" in printed.stdout
    assert max(map(len, printed.stdout.splitlines())) <= 80
    document = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    knee = document["knees"][0]
    assert knee["low"] <= breaks_at(0.99, 0.1) <= knee["high"]
    assert knee["rate"] == pytest.approx(breaks_at(0.99, 0.1), rel=0.1)
    assert document["sizing"]["instances"] == instances_needed(24_000, document["sizing"]["per_instance"], 0.3)
    assert len(document["windows"]) == 59
    assert document["windows"][0]["begin"].endswith("Z")


def test_without_a_source() -> None:
    arguments = ["capacity", "--target-rate", "24000", "--per-instance", "900", "--headroom", "0.3"]
    assert "35 instances" in CliRunner().invoke(app, arguments).stdout
    assert json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)["sizing"]["instances"] == 35


@pytest.mark.parametrize(
    "arguments",
    [[], ["--target-rate", "1"], ["--per-instance", "1"], ["x", "--target-rate", "1"], ["x", "--slo", "fast"],
     ["x", "--instance", "pod"], ["x", "--window", "0"], ["x", "--headroom", "-1"], ["x", "--target-rate", "nan"]],
)  # fmt: skip
def test_wrong_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["capacity", *arguments]).exit_code == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: open_ramp(slos=[Slo("p99", 0.1), Slo("errors", 0.01)], target_rate=9.0),
        lambda: capacity(load_windows(closed_loop([4], 2, seconds=300, mean=0.1)), slos=[Slo("p99", 0.5)]),
        lambda: capacity(load_windows(frame(*ramp(windows=900, width=4)), width=4), slos=[Slo("p99", 0.1)]),
    ],
)
def test_section_and_charts(make: Callable[[], Capacity], capsys: pytest.CaptureFixture[str]) -> None:
    result = make()
    section = capacity_section(result)
    show(section)
    assert section.sentence.split()[0] in capsys.readouterr().out
    for chart in (throughput_against_concurrency(result), objective_against_rate(result, result.knees[0])):
        drawn = chart.to_dict()
        sizes = [len(values) for values in drawn["datasets"].values()]
        assert 1 < max(sizes) <= POINTS
    assert json.dumps(result.to_dict())


def test_example_equals_its_generator_and_the_knee_is_exact() -> None:
    """Four workers of 20 requests/s each: throughput cannot pass 80."""
    assert LOG.read_bytes() == ramp_log()
    document = json.loads(CliRunner().invoke(app, ["capacity", str(LOG), "--slo", "p99=0.5", "--json"]).stdout)
    assert document["usl"]["peak"]["throughput"] == pytest.approx(80, rel=0.05)
    assert 65 < document["knees"][0]["rate"] < 80


def test_a_missing_file_is_said_in_words(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["capacity", str(tmp_path / "none.jsonl"), "--slo", "p99=1"])
    assert result.exit_code == 1
    assert isinstance(result.exception, SojournError)


def test_lines_delivered_twice_and_out_of_order_change_nothing(tmp_path: Path) -> None:
    """The split counts a request once; so does every window."""
    once = [
        json.dumps({**json.loads(line), "request_id": f"r{number}"}).encode() + b"\n"
        for number, line in enumerate(lines(*ramp(width=2)).splitlines())
    ]
    (tmp_path / "once.jsonl").write_bytes(b"".join(once))
    (tmp_path / "twice.jsonl").write_bytes(b"".join(once[::-1] + once[::3]))
    one, other = (
        json.loads(CliRunner().invoke(app, ["capacity", str(tmp_path / name), "--slo", "p90=0.1", "--json"]).stdout)
        for name in ("once.jsonl", "twice.jsonl")
    )
    assert one["windows"] == other["windows"]
    assert one["knees"] == other["knees"]
