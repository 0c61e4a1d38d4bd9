"""One pass over all backends equals one pass per backend."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sojourn.analyses.whatif.balancing import _present
from sojourn.timeline.visits import _all_differ, _each_once, places_of

CODES = st.lists(st.integers(0, 4), max_size=30)


@given(CODES)
def test_places_of_each_code_ascending(codes: list[int]) -> None:
    result = places_of(np.array(codes, np.int32), 6)
    assert [current.tolist() for current in result] == [
        [i for i, code in enumerate(codes) if code == c] for c in range(6)
    ]


def test_no_code_has_no_place() -> None:
    assert places_of(np.array([], np.int32), 0) == []


@pytest.mark.parametrize("seed", range(20))
def test_connections_at_an_arrival_are_those_that_came_less_those_that_left(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, backends = 60, 4
    # Whole numbers: many instants are the same. Some have no end that is known.
    arrival = np.sort(rng.integers(0, 20, count)).astype(float)
    leave = arrival + rng.integers(0, 9, count)
    leave[rng.random(count) < 0.1] = np.nan
    backend = np.append(np.arange(backends), rng.integers(0, backends, count - backends))
    chosen, fewest, most = _present(arrival, backend, leave, np.argsort(leave), backends)
    for i in range(count):
        there = [
            int(np.sum(backend[:i] == code)) - int(np.sum(leave[backend == code] <= arrival[i]))
            for code in range(backends)
        ]
        assert chosen[i] == there[backend[i]]
        assert fewest[i] == min(there)
        assert most[i] == max([0, *there])


def test_a_request_that_is_there_twice_counts_once_and_those_without_an_id_are_left_alone() -> None:
    ended = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [("a", ended, "x"), ("a", ended, "x"), ("a", ended, "y"), ("a", ended + timedelta(seconds=1), "x")]
    none_waiting = [(None, ended, "x"), (None, ended, "x"), ("", ended, "x"), ("", ended, "x")]
    schema = {"request_id": pl.String, "time": pl.Datetime("us", "UTC"), "upstream": pl.String}
    every = pl.DataFrame(rows + none_waiting, schema=schema, orient="row")
    once = _each_once(every)
    twice = len(every) - len(once)
    assert (len(once), twice) == (7, 1)
    each = pl.DataFrame(rows[1:], schema=schema, orient="row")
    assert _all_differ(each)
