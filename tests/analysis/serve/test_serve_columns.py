"""The columns of a page: the requests of the rows, in the order of arrival, in memory and on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sojourn.serve import columns as serve_columns
from sojourn.serve.binning import Area, binned, values_of
from sojourn.serve.columns import BINS, DIMENSIONS, TIMES, bins_of, columns_of, edge_of
from sojourn.serve.session import Session


def _rows(session: Session) -> pl.DataFrame:
    rows = session.requests.rows.filter(pl.col("status") != 101).sort("start", maintain_order=True)
    return rows.with_columns(arrival=pl.col("start").dt.epoch("us")).collect()


def test_columns_are_those_of_the_rows(shop: Session) -> None:
    rows, columns = _rows(shop), shop.columns
    assert columns.arrival.tolist() == rows["arrival"].to_list()
    for name, column in TIMES.items():
        expected = rows[column].cast(pl.Float32).fill_null(float("nan")).to_numpy()
        np.testing.assert_array_equal(getattr(columns, name), expected)
    for name in DIMENSIONS:
        codes = columns.combinations.codes[name][columns.combination]
        assert [columns.combinations.values[name][code] for code in codes] == rows[name].cast(pl.String).to_list()


def test_columns_on_disk_are_those_in_memory(shop: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_columns, "IN_MEMORY", 100)
    monkeypatch.setattr(serve_columns, "BATCH", 700)
    on_disk = columns_of(shop.requests)
    assert isinstance(on_disk.folder, tempfile.TemporaryDirectory)
    folder = Path(on_disk.folder.name)
    for name in ("arrival", *TIMES, "bin", "combination"):
        np.testing.assert_array_equal(getattr(on_disk, name), getattr(shop.columns, name))
    assert folder.is_dir()
    del on_disk
    assert not folder.exists()


def test_bins_hold_the_times_between_their_edges() -> None:
    times = np.geomspace(2e-4, 900, 5_000)
    bins = bins_of(times)
    for time, number in zip(times.tolist(), bins.tolist(), strict=True):
        assert edge_of(number) <= time * (1 + 1e-12)
        assert time < edge_of(number + 1) * (1 + 1e-12)
    assert bins_of(np.array([0.0, -1.0, np.nan, 1e9])).tolist() == [0, 0, 0, BINS - 1]


@pytest.mark.parametrize("seed", range(8))
def test_binned_requests_are_counted_and_summed_as_by_polars(shop: Session, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = _rows(shop), shop.columns
    begin, end = sorted(rng.integers(shop.begin - 10**6, shop.end + 10**6, 2).tolist())
    low, high = sorted(rng.lognormal(-2.5, 1.5, 2).tolist())
    area = Area(begin, end + 2_000, low, high if seed % 2 else np.inf)
    where = {"route": frozenset(("/search", "/export"))} if seed % 3 else {"worker": frozenset((None, "1000"))}
    result = binned(columns, columns.combinations.chosen(where), area, 37)
    expected = rows.filter(
        pl.col("arrival").is_between(area.begin, area.end - 1)
        & pl.col("request_time").cast(pl.Float32).is_between(np.float32(area.low), np.float32(area.high), closed="left")
        & (
            pl.col("route").is_in(["/search", "/export"])
            if seed % 3
            else pl.col("worker").is_null() | (pl.col("worker") == "1000")
        )
    ).with_columns(column=(pl.col("arrival") - area.begin) // result.width)
    assert result.requests == len(expected)
    counts = np.zeros_like(result.counts)
    np.add.at(counts, (expected["column"].to_numpy(), bins_of(expected["request_time"].cast(pl.Float32).to_numpy())), 1)
    np.testing.assert_array_equal(result.counts, counts)
    for place, column in enumerate(TIMES.values()):
        sums = np.bincount(expected["column"], expected[column].fill_null(0.0), len(result.sums))
        np.testing.assert_allclose(result.sums[:, place], sums, rtol=1e-5, atol=1e-9)
    unknown = expected.filter(pl.col("queueing_delay").is_null())
    assert result.unknown.sum() == len(unknown)
    values = values_of(columns, columns.combinations.chosen(where), area)
    assert sorted(values["response"].tolist()) == pytest.approx(sorted(expected["request_time"].to_list()), rel=1e-6)
    by_route = columns.combinations.counts("route", result.by_combination)
    counted = dict(expected.group_by("route").len().iter_rows())
    routes = columns.combinations.values["route"]
    assert by_route.tolist() == [counted.get(route, 0) for route in routes]
