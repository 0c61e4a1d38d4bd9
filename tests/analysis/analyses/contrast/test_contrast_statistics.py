"""The statistics of contrast: without a difference none is ranked, a planted one is first."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import sojourn
from fifo_requests import PLANTED, TENANTS, FifoRequests, fifo_requests
from hypothesis import given, settings
from hypothesis import strategies as st
from sojourn.analyses.contrast.analysis import ContrastResult
from sojourn.analyses.contrast.columns import coded_column, ordered_columns
from sojourn.analyses.contrast.counting import BLOCKS, COUNTS, Arrivals, counts_of, run_length
from sojourn.analyses.contrast.ranking import (
    LEAST_SELECTED,
    effective_blocks,
    estimates_of,
    ranked,
    usual_fluctuation,
    wilson,
)

SEEDS = 20  # of planted differences
FALSE_ALARMS = 0.05  # of all selections, at most
SESSION = 20  # successive requests of one tenant


def selections(requests: FifoRequests) -> list[dict[str, Any]]:
    """Rectangles: slow requests, an interval, slow ones of an interval, those that wait, fast ones."""
    delay = float(np.quantile(requests.begin - requests.start, 0.8))
    return [
        {"above": requests.response_quantile(0.9)},
        {"begin": requests.at(0.3), "end": requests.at(0.5)},
        {"begin": requests.at(0.2), "end": requests.at(0.8), "above": requests.response_quantile(0.7)},
        {"of": "queueing_delay", "above": delay},
        {"begin": requests.at(0.5), "below": requests.response_quantile(0.5)},
    ]


def false_alarms(seeds: range) -> tuple[int, int]:
    """Number of selections with a difference, and with a culprit, of logs in which no column depends on the times."""
    differences = culprits = 0
    for seed in seeds:
        requests = fifo_requests(seed, count=2_500, load=0.85, factor=1.0, session=SESSION if seed % 2 else 1)
        result = sojourn.contrast(requests.rows, column="tenant", **selections(requests)[seed // 2 % 5])
        assert result.ranking.values > 8
        differences += not result.differences.is_empty()
        culprits += not result.culprits.is_empty()
    return differences, culprits


def most_by_chance(selections_tried: int) -> float:
    """False alarms of so many selections that three standard errors of ``FALSE_ALARMS`` allow."""
    expected = FALSE_ALARMS * selections_tried
    return float(expected + 3 * (expected * (1 - FALSE_ALARMS)) ** 0.5)


def test_null_data_ranks_nothing() -> None:
    differences, culprits = false_alarms(range(20))
    assert max(differences, culprits) <= 1


@pytest.mark.thorough
def test_false_alarms_are_as_rare_as_promised() -> None:
    differences, culprits = false_alarms(range(1_000, 1_200))
    assert max(differences, culprits) <= most_by_chance(200)


def request_counts(rows: pl.DataFrame, chosen: np.ndarray, columns: list[str]) -> tuple[pl.DataFrame, dict[str, int]]:
    """Count some requests of a frame and the rest."""
    order, coded = ordered_columns(rows, columns)
    return counts_of(coded, Arrivals.of(chosen[order]))


def windows_of_null_counts(seed: int, session: int, at_once: int) -> pl.DataFrame:
    """Rank a tenth of 3,000 requests whose values come in sessions, ``at_once`` of which are interleaved."""
    random = np.random.default_rng(seed)
    count, shares = 3_000, [0.4, 0.25, 0.15, 0.1, 0.05, 0.05]
    place = random.integers(0, at_once, count)
    values = np.empty(count, np.int64)
    for number in range(at_once):
        members = np.flatnonzero(place == number)
        drawn = random.choice(len(shares), -(-len(members) // session), p=shares)
        values[members] = np.repeat(drawn, session)[: len(members)]
    rows = pl.DataFrame({"start": pl.Series(range(count)).cast(pl.Datetime("us", "UTC")), "tenant": values.astype(str)})
    first = int(random.integers(0, count * 8 // 10))
    chosen = (np.arange(count) >= first) & (np.arange(count) < first + count // 10)
    return ranked(request_counts(rows, chosen, ["tenant"])[0]).rows


@pytest.mark.parametrize(("session", "at_once"), [(1, 1), (20, 1), (20, 5), (50, 2)])
def test_sessions_in_an_interval_are_no_difference(session: int, at_once: int) -> None:
    tries = 120
    alarms = sum(not windows_of_null_counts(seed, session, at_once).is_empty() for seed in range(tries))
    assert alarms <= most_by_chance(tries)


# --- planted


def first_of(rows: pl.DataFrame) -> tuple[str, str | None] | None:
    return None if rows.is_empty() else (rows["column"][0], rows["value"][0])


def victims_of_planted_tenant(seed: int) -> ContrastResult:
    """Slow requests of the other tenants, in half of the time."""
    requests = fifo_requests(seed, count=5_000)
    return sojourn.contrast(
        requests.rows, column="tenant", begin=requests.at(0.3), end=requests.at(0.8),
        above=requests.response_quantile(0.8), select={"tenant": list(TENANTS)},
    )  # fmt: skip


def test_planted_tenant_is_the_first_culprit_of_others_waits() -> None:
    results = [victims_of_planted_tenant(seed) for seed in range(SEEDS)]
    firsts = [first_of(result.culprits) for result in results]
    assert firsts.count(("tenant", PLANTED)) >= 0.9 * SEEDS
    assert set(firsts) <= {("tenant", PLANTED), None}
    assert all("tenant" not in result.differences["column"].to_list() for result in results)
    assert sum(not result.differences.is_empty() for result in results) <= 2
    planted = [result.culprits.row(0, named=True) for result in results if not result.culprits.is_empty()]
    assert all(row["share"] > 5 * row["of_requests"] for row in planted)


def test_planted_tenant_is_the_first_difference_of_its_slow_services() -> None:
    firsts = []
    for seed in range(SEEDS):
        requests = fifo_requests(seed)
        result = sojourn.contrast(requests.rows, column="tenant", of="service_time", above=0.25)
        firsts.append(first_of(result.differences))
    assert firsts == [("tenant", PLANTED)] * SEEDS


@pytest.fixture(scope="module")
def plain() -> FifoRequests:
    """A log without a difference."""
    return fifo_requests(3, factor=1.0)


@pytest.mark.parametrize(("column", "value"), [("route", "/export"), ("host", "c.example"), ("method", "PUT")])
def test_planted_value_is_first_and_has_the_right_direction(plain: FifoRequests, column: str, value: str) -> None:
    """Half of the slow requests get a value that one in twenty others has."""
    random = np.random.default_rng(1)
    slow = (plain.end - plain.start) >= plain.response_quantile(0.9)
    planted = np.where(slow, random.random(len(slow)) < 0.5, random.random(len(slow)) < 0.05)
    rows = plain.rows.with_columns(
        pl.when(pl.Series(planted)).then(pl.lit(value)).otherwise(pl.col(column)).alias(column)
    )
    result = sojourn.contrast(rows, above=plain.response_quantile(0.9))
    row = result.differences.row(0, named=True)
    assert (row["column"], row["value"]) == (column, value)
    assert row["selected"] == pytest.approx(planted[slow].mean())
    assert row["rest"] == pytest.approx(planted[~slow].mean())
    assert row["low"] < row["difference"] == pytest.approx(row["selected"] - row["rest"])
    assert row["difference"] < row["high"]
    assert row["lift"] == pytest.approx(row["selected"] / row["rest"])
    assert row["requests"] == planted[slow].sum()
    # The other values of the column are less frequent among the selected ones: they are not ranked.
    assert result.differences["column"].to_list() == [column]
    fast = sojourn.contrast(rows, below=plain.response_quantile(0.9))
    assert (column, value) not in fast.differences.select("column", "value").rows()


def test_planted_range_of_sizes_is_first(plain: FifoRequests) -> None:
    slow = pl.Series((plain.end - plain.start) >= plain.response_quantile(0.9))
    rows = plain.rows.with_columns(
        bytes_sent=pl.when(slow).then(pl.col("bytes_sent") + 1_000_000).otherwise("bytes_sent")
    )
    row = sojourn.contrast(rows, above=plain.response_quantile(0.9)).differences.row(0, named=True)
    assert (row["column"], row["selected"]) == ("bytes_sent", 1.0)
    assert row["value"].endswith("or more")
    assert 0 < row["rest"] < 0.1


# --- counts


def test_shares_are_those_of_independent_counts(plain: FifoRequests) -> None:
    above = plain.response_quantile(0.9)
    chosen = plain.rows["request_time"].to_numpy() >= above
    columns = ["route", "host", "method", "tenant", "worker"]
    counts, runs = request_counts(plain.rows, chosen, columns)
    assert counts.schema == COUNTS
    assert runs == {}
    sums = counts.group_by("column", "value").agg(pl.col("selected", "rest", "requests").sum())
    for column in columns:
        expected = plain.rows.group_by(pl.col(column).alias("value")).agg(
            (pl.col("request_time") >= above).sum().alias("selected"),
            (pl.col("request_time") < above).sum().alias("rest"),
        )
        both = sums.filter(column=column).join(expected, on="value", suffix="_expected")
        assert len(both) == len(expected)
        assert both["selected"].to_list() == both["selected_expected"].to_list() == both["requests"].to_list()
        assert both["rest"].to_list() == both["rest_expected"].to_list()
    # Each block has the same part of both sides together, and every request is in one.
    blocks = counts.filter(column="route").group_by("block").agg(pl.col("selected", "rest").sum())
    assert len(blocks) == BLOCKS
    mass = blocks["selected"] / chosen.sum() + blocks["rest"] / (~chosen).sum()
    assert mass.max() < 2.5 / BLOCKS  # type: ignore[operator]


@pytest.mark.parametrize("session", [5, 20, 60])
def test_blocks_are_as_long_as_the_runs_of_a_column(session: int) -> None:
    random = np.random.default_rng(session)
    codes = np.repeat(random.integers(0, 5, 6_000 // session), session)
    assert session / 2 <= run_length(codes) <= 2 * session
    assert run_length(random.permutation(codes)) == 1
    arrivals = Arrivals(np.ones(len(codes)), np.ones(len(codes)))
    assert len(codes) / arrivals.blocks_for(arrivals.runs(codes)) >= run_length(codes)
    part = Arrivals(np.where(np.arange(len(codes)) < 12 * session, 1.0, 0.0), np.ones(len(codes)))
    blocks = part.blocks(part.blocks_for(part.runs(codes)))[part.chosen]
    assert 12 * session / len(np.unique(blocks)) >= run_length(codes[: 12 * session])


def test_column_whose_runs_are_too_long_is_named_and_not_ranked() -> None:
    random = np.random.default_rng(0)
    rows = pl.DataFrame(
        {
            "start": pl.Series(range(3_000)).cast(pl.Datetime("us", "UTC")),
            "tenant": np.repeat(random.choice(["a", "b", "c", "d"], 150), 20),
            "host": random.choice(["a", "b", "c"], 3_000),
        }
    )
    chosen = np.isin(np.arange(3_000), np.arange(500, 600))
    counts, runs = request_counts(rows, chosen, ["tenant", "host"])
    ranking = ranked(counts)
    assert ranking.rows.is_empty()
    assert {*runs, *ranking.few} == {"tenant"}
    assert ranking.columns == ("host",)
    assert ranking.values == 3


# --- formulas


def long_counts(selected: np.ndarray, rest: np.ndarray) -> pl.DataFrame:
    """Counts of one column from values × blocks."""
    cells = [
        ("c", f"v{value}", block, float(selected[value, block]), float(rest[value, block]),
         int(selected[value, block]), float(selected[value, block]))
        for value in range(len(selected)) for block in range(selected.shape[1])
    ]  # fmt: skip
    return pl.DataFrame(cells, schema=COUNTS, orient="row")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_error_is_that_of_the_jackknife_that_deletes_blocks(seed: int) -> None:
    """Without runs across blocks: the delete-one jackknife of the difference, computed for each block."""
    random = np.random.default_rng(seed)
    selected = random.poisson(6, (3, 40)) + 1
    rest = random.poisson(30, (3, 40)) + 1

    def difference(blocks: np.ndarray) -> np.ndarray:
        one, other = selected[:, blocks].sum(axis=1), rest[:, blocks].sum(axis=1)
        return one / one.sum() - other / other.sum()

    estimates = estimates_of(long_counts(selected, rest))
    every = np.arange(40)
    assert estimates.selected - estimates.rest == pytest.approx(difference(every))
    deleted = np.array([difference(every[every != block]) for block in every]) - difference(every)
    across = 2 * (deleted[1:] * deleted[:-1]).sum(axis=0)
    variance = 39 / 40 * ((deleted**2).sum(axis=0) + np.maximum(across, 0))
    assert estimates.error == pytest.approx(np.sqrt(variance))
    assert estimates.freedom <= 39


def test_equal_blocks_count_fully_and_one_large_block_counts_as_one() -> None:
    assert effective_blocks(np.full(30, 7.0)) == pytest.approx(30)
    assert effective_blocks(np.array([1_000.0, 1.0, 1.0])) < 1.01


def test_wilsons_limits_contain_the_share_and_close_with_size() -> None:
    shares = np.array([0.0, 0.3, 1.0])
    low, high = wilson(shares, 50.0, 1.96)
    assert (low <= shares).all()
    assert (shares <= high).all()
    assert low[0] == 0
    assert high[2] == 1
    # Wilson (1927) for 15 of 50, widened by 1/100.
    assert (low[1], high[1]) == pytest.approx((0.191 - 0.01, 0.4375 + 0.01), abs=0.001)
    closer = wilson(shares, 5_000.0, 1.96)
    assert (closer[1] - closer[0] < high - low).all()


def test_usual_fluctuation_is_that_of_most_stretches() -> None:
    """One incident in the rest does not change it; shares that change all the time do, as their standard deviation."""
    rest = np.tile(np.array([[50.0], [50.0]]), (1, 32))
    rest[:, 0] = (100.0, 0.0)
    assert usual_fluctuation(rest, 200.0)[0] == pytest.approx([0, 0])
    shares = np.random.default_rng(0).normal(0.5, 0.1, 16)
    varying = np.repeat(np.array([shares, 1 - shares]) * 100, 2, axis=1)
    deviation, stretches = usual_fluctuation(varying, 200.0)
    assert deviation == pytest.approx([0.1, 0.1], rel=0.5)
    assert stretches == 16
    # A longer selection averages over several stretches.
    assert usual_fluctuation(varying, 1_600.0)[0][0] < deviation[0]
    assert usual_fluctuation(rest[:, :3], 200.0)[1] == 0


def test_value_with_too_few_selected_requests_is_not_ranked() -> None:
    selected, rest = np.zeros((2, 40), np.int64), np.full((2, 40), 50)
    selected[0] = 5
    rest[1] = 0
    selected[1, : LEAST_SELECTED - 1] = 1
    assert "v1" not in ranked(long_counts(selected, rest)).rows["value"].to_list()


def test_rare_values_are_one_and_empty_texts_are_no_value() -> None:
    rows = pl.DataFrame({"tenant": ["a"] * 6 + ["b"] * 4 + ["c"] * 2 + [""] * 3 + [None] * 2})
    coded = coded_column(rows, "tenant")
    assert set(coded.names) == {"a", "(other)", None}
    assert [coded.names[code] for code in coded.codes] == ["a"] * 6 + ["(other)"] * 6 + [None] * 5


def test_numbers_become_ranges_of_about_equal_size() -> None:
    rows = pl.DataFrame({"bytes_sent": [*range(800), None, None]})
    coded = coded_column(rows, "bytes_sent")
    assert np.bincount(coded.codes).tolist() == [100] * 8 + [2]
    assert coded.names[0] == "99 or less"
    assert coded.names[1] == "100 to 199"
    assert coded.names[7:] == ("700 or more", None)
    few = coded_column(pl.DataFrame({"attempts": [1] * 10 + [2] * 10}), "attempts")
    assert set(few.names) == {"1", "2"}


def test_nothing_to_compare_is_an_empty_table() -> None:
    counts, runs = counts_of({}, Arrivals(np.ones(10), np.ones(10)))
    assert counts.is_empty()
    assert counts.schema == COUNTS
    assert runs == {}
    ranking = ranked(counts)
    assert ranking.rows.is_empty()
    assert ranking.values == 0
