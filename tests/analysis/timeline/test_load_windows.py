"""Load windows sum to the log; constant load is not a ramp; closed loops are detected."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from capacity_support import breaks_at, closed_loop, frame, ramp, served_by
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from sojourn import SojournError
from sojourn.analyses.capacity.analysis import capacity
from sojourn.analyses.capacity.knee import Slo
from sojourn.timeline.apparent_loop import loop_of
from sojourn.timeline.load_windows import load_windows

# --- what a load must be like


def test_one_constant_load_needs_a_ramp() -> None:
    rng = np.random.default_rng(2)
    arrivals = np.cumsum(rng.exponential(1 / 50, 60_000))
    rows = frame(arrivals, rng.exponential(0.02, 60_000))
    result = capacity(load_windows(rows), slos=[Slo("p99", 0.5), Slo("p50", 0.0139)])
    assert not result.ramp
    assert any("Ramp the load" in note for note in result.notes)
    assert "ramp" in str(result.usl_reason)
    assert result.knees[0].at_least == pytest.approx(50, rel=0.1)
    assert "ramp is needed" in str(result.knees[1].reason)
    assert (result.knees[1].rate, result.knees[1].at_least, result.knees[1].at_most) == (None, None, None)


@pytest.mark.parametrize("clients", [[1], [8], [1, 4, 8], [30]])
def test_a_closed_loop_measures_saturation_and_it_is_said(clients: list[int]) -> None:
    rows = closed_loop(clients, 2, seconds=600, mean=0.1)
    result = capacity(load_windows(rows), slos=[Slo("p99", 0.5)], target_rate=100.0)
    assert result.loop.closed
    assert result.loop.clients == pytest.approx(np.mean(clients), rel=0.05)
    assert "saturation, not a capacity" in result.failures[0]
    assert result.knees[0].rate is None
    assert result.sizing is not None
    assert result.sizing.instances is None


def test_clients_of_a_closed_loop_that_go_from_one_instance_to_another_are_one() -> None:
    rows = closed_loop([8], 2, seconds=600, mean=0.1)
    number = pl.int_range(pl.len())
    turns = rows.with_columns(upstream=pl.when(number % 2 == 0).then(pl.lit("a:80")).otherwise(pl.lit("b:80")))
    result = capacity(load_windows(turns, by_instance=True), slos=[Slo("p99", 0.5)])
    assert result.loop.closed
    assert result.loop.clients == pytest.approx(8, rel=0.02)
    assert result.knees[0].rate is None
    assert all("closed loop" in row["knees"][0]["reason"] for row in result.by_instance)


def test_stages_of_a_closed_loop_show_the_law() -> None:
    """Two workers and N clients without think time: X = N / S up to 2, and 2 / S beyond."""
    result = capacity(load_windows(closed_loop([1, 2, 4, 8, 16, 32], 2, seconds=600, mean=0.1), width=60))
    assert result.usl is not None
    assert float(result.usl.throughput(np.array([32.0]))[0]) == pytest.approx(20, rel=0.1)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("utilisation", [0.3, 0.9])
@pytest.mark.parametrize("arrivals", ["poisson", "paced", "bursts"])
@pytest.mark.parametrize("services", ["exponential", "constant"])
def test_open_loads_are_open(workers: int, utilisation: float, arrivals: str, services: str) -> None:
    rng = np.random.default_rng(8)
    count, mean = 20_000, 0.1
    gap = mean / workers / utilisation
    gaps = {
        "poisson": rng.exponential(gap, count),
        "paced": np.full(count, gap),
        "bursts": rng.exponential(gap, count) * rng.choice([0.1, 4.6], count, p=[0.8, 0.2]),
    }[arrivals]
    instants = np.cumsum(gaps)
    held = rng.exponential(mean, count) if services == "exponential" else np.full(count, mean)
    assert loop_of(load_windows(frame(instants, served_by(instants, held, workers))).table).closed is False


# --- the windows


def test_windows_hold_what_they_should() -> None:
    """Begins, ends, and who is in the system, by hand."""
    starts, responses = np.array([0.0, 0.5, 1.0, 1.9, 2.5, 3.0]), np.array([0.25, 1.0, 0.5, 1.6, 0.25, 0.1])
    rows = frame(starts, responses, status=[200, 200, 503, 499, 200, 200])
    result = load_windows(rows, width=1.0)
    table = result.table
    assert result.requests == 6
    assert table["arrivals"].to_list() == [2, 2, 1]
    assert table["rate"].to_list() == [2.0, 2.0, 1.0]
    assert table["throughput"].to_list() == [1.0, 2.0, 1.0]
    assert table["concurrency"].to_list() == pytest.approx([0.25 + 0.5, 0.5 + 0.5 + 0.1, 1.0 + 0.25])
    assert table["errors"].to_list() == [0.0, 1.0, 0.0]
    assert table["mean"].to_list() == pytest.approx([0.625, 1.05, 0.25])


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.floats(0, 30), st.floats(0.001, 20)), min_size=2, max_size=60),
    st.sampled_from([0.5, 1.0, 3.0]),
    st.randoms(use_true_random=False),
)
def test_concurrency_is_the_time_in_the_window(pairs: list[tuple[float, float]], width: float, random: object) -> None:
    starts, responses = (np.round(np.array(column), 3) for column in zip(*pairs, strict=True))
    responses = np.maximum(responses, 0.001)
    if starts.max() - starts.min() < width:
        return
    result = load_windows(frame(starts, responses), width=width)
    for row in result.table.iter_rows(named=True):
        begin = starts.min() + row["window"] * width
        inside = np.minimum(starts + responses, begin + width) - np.maximum(starts, begin)
        assert row["concurrency"] == pytest.approx(np.maximum(inside, 0).sum() / width, abs=1e-6)
    order = list(range(len(starts)))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert_frame_equal(load_windows(frame(starts[order], responses[order]), width=width).table, result.table)


def test_windows_by_instance() -> None:
    starts, responses = ramp()
    second = np.arange(len(starts)) % 3 == 0
    rows = frame(starts, responses, upstream=np.where(second, "b:80", "a:80"))
    whole, each = load_windows(rows, width=60), load_windows(rows, width=60, by_instance=True)
    assert whole.upstreams == 2
    assert each.table["arrivals"].sum() == whole.table["arrivals"].sum()
    assert each.table["concurrency"].sum() == pytest.approx(whole.table["concurrency"].sum())
    result = capacity(each, slos=[Slo("p99", 0.1)], target_rate=1000.0)
    assert [row["instance"] for row in result.by_instance] == ["a:80", "b:80"]
    knees = [row["knees"][0]["rate"] for row in result.by_instance]
    assert knees == pytest.approx([breaks_at(0.99, 0.1) * 2 / 3, breaks_at(0.99, 0.1) / 3], rel=0.06)
    assert "upstream addresses are counted as one system" in " ".join(capacity(whole).notes)


def test_too_short_for_one_window() -> None:
    with pytest.raises(SojournError, match="less than one window"):
        load_windows(frame(np.array([0.0, 0.1]), np.array([0.1, 0.1])))
    with pytest.raises(SojournError, match="no request"):
        load_windows(frame(np.array([0.0]), np.array([0.1]), status=101))
