"""Figures of frames on disk, a column at a time, are those of frames in memory."""

from __future__ import annotations

import gc
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sojourn
from simulator import Settings, as_lines, simulated_log
from sojourn.model.figures import QUANTILES, Summary
from sojourn.model.groups import GROUPS
from sojourn.model.statistics import summaries, summaries_by, summary_exprs, summary_of
from sojourn.readers import spool
from sojourn.sources import out_of_core as large
from sojourn.sources.opening import requests_from


def same(result: object, wanted: object, where: str = "") -> None:
    if isinstance(wanted, dict):
        assert isinstance(result, dict)
        assert list(result) == list(wanted), where
        for key, value in wanted.items():
            same(result[key], value, f"{where}/{key}")
    elif isinstance(wanted, list):
        assert isinstance(result, list)
        assert len(result) == len(wanted), where
        for number, value in enumerate(wanted):
            same(result[number], value, f"{where}/{number}")
    elif isinstance(wanted, float) and isinstance(result, float):
        assert math.isclose(result, wanted, rel_tol=1e-9, abs_tol=1e-12), where
    else:
        assert result == wanted, where


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let logs of more than 600 rows lie on disk; return the folder of the temporary folders."""
    monkeypatch.setattr(spool, "rows_in_memory", lambda _: 600)
    monkeypatch.setattr(spool, "ROWS_PER_FILE", 500)
    monkeypatch.setattr(large, "BATCH", 300)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "access.jsonl"
    lines = as_lines(simulated_log(Settings(requests=2_000))[0])
    path.write_bytes(b"".join([*lines, *lines[:1]]))  # one line was delivered twice
    return path


def without_last(log: Path) -> Path:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
    return log


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("since", [None, 1_700_000_001.0])
def test_a_split_on_disk_is_the_split_in_memory(
    log: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, repeated: bool, since: float | None
) -> None:
    if not repeated:
        without_last(log)
    with monkeypatch.context() as unlimited:
        unlimited.setattr(spool, "rows_in_memory", lambda _: 10_000)
        held = sojourn.split(log, by=GROUPS, since=since)
    assert not list(temporary.iterdir())
    kept = sojourn.split(log, by=GROUPS, since=since)
    files = sorted(file.name for folder in temporary.iterdir() for file in folder.iterdir())
    # What was read is gone, unless all of it is in the split: then what is computed lies beside it.
    read = [] if repeated or since else [f"{number:06}.parquet" for number in range(len(files) - 1)]
    assert files == [*read, "rows.parquet"]
    same(kept.to_dict(), held.to_dict())
    assert kept.rows.collect().equals(held.rows.collect())
    assert kept.requests > 1_000
    del kept
    assert not list(temporary.iterdir())


def test_what_is_read_outlives_its_split_and_its_split_outlives_it(log: Path, temporary: Path) -> None:
    requests = sojourn.read(without_last(log))
    split = requests_from(requests)
    assert len(list(temporary.iterdir())) == 2
    del requests
    gc.collect()
    assert split.rows.select(pl.len()).collect().item() == 2_000
    requests = sojourn.read(log)
    del split
    gc.collect()
    assert requests.rows.select(pl.len()).collect().item() == 2_000


def by_polars(rows: pl.DataFrame) -> Summary:
    return summary_of(rows.select(summary_exprs("x")).row(0, named=True), "x")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 999])
def test_figures_of_values_are_polars(count: int) -> None:
    rng = np.random.default_rng(count)
    rows = pl.DataFrame({"x": rng.exponential(size=count)}, schema={"x": pl.Float64})
    some = pl.Series(rng.random(count) < 0.8, dtype=pl.Boolean)
    first = pl.Series(np.arange(count) < count // 2, dtype=pl.Boolean)
    gaps = [rows.with_columns(x=pl.when(there).then("x")) for there in (some, first)]
    for each in (rows, *gaps, rows.clear()):
        kept = each["x"].to_list()
        same(summaries(each.lazy(), ["x"])["x"], by_polars(each))
        assert each["x"].to_list() == kept


@pytest.mark.parametrize("limit", [3, pytest.param(70_000, marks=pytest.mark.thorough)])
def test_figures_of_groups_are_polars(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "BATCH", 7_000)
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 80_000 if limit > 3 else 5, 100_000)
    rows = pl.DataFrame(
        {
            "name": [None if n == 1 else str(n) for n in drawn],
            "x": rng.normal(size=100_000),
            "counts": rng.random(100_000) < 0.9,
        }
    ).with_columns(x=pl.when(rng.random(100_000) < 0.8).then("x"))
    groups = rows.group_by("name").agg(requests=pl.len()).sort("name", nulls_last=False).head(limit)
    counted = pl.col("counts")
    of_rows = large.Groups.of(rows.lazy(), 100_000, groups, counted)
    (result,) = large.summaries(rows.lazy(), 100_000, {"x": pl.col("x")}, of_rows).values()
    in_memory = summaries_by(rows.filter("counts").lazy(), groups.select("name"), ["x"])["x"]
    assert len(result) == len(groups) == len(in_memory)
    wanted = {name: part for (name,), part in rows.filter("counts").partition_by("name", as_dict=True).items()}
    for name, figures, held in list(zip(groups["name"], result, in_memory, strict=True))[:40]:
        expected = by_polars(wanted.get(name, rows.head(0)))
        same(held, expected)
        same(figures, {name: expected[name] for name in QUANTILES})


@pytest.mark.parametrize(
    "values",
    [
        [], [1.5], [None], [0.0, -0.0, 0.0], [-1.0, -2.0, -1e-300, 1e-300, 3.0], [2.0] * 9, [1e300, -1e300, 0.0, None],
        [1.0, 1.0 + 2**-52, 1.0 + 2**-51],
    ],
)  # fmt: skip
def test_quantiles_on_disk_are_numpys(values: list[float | None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "BATCH", 2)
    rows = pl.DataFrame({"x": values}, schema={"x": pl.Float64}).lazy()
    levels = [0.0, 0.25, 0.5, 0.99, 1.0]
    (result,) = large.quantiles(rows, len(values), {"x": pl.col("x")}, levels)["x"]
    known = np.sort([value for value in values if value is not None])
    with np.errstate(invalid="ignore"):
        assert np.array_equal(
            np.array(result, np.float64),
            np.quantile(known, levels) if len(known) else np.full(len(levels), np.nan),
            equal_nan=True,
        )


@pytest.mark.parametrize("shuffled", [True, False])
def test_quantiles_do_not_depend_on_the_sample(shuffled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tenth row is sampled, and these alone are large: no quantile lies where the sample says."""
    monkeypatch.setattr(large, "SAMPLED", 1_000)
    monkeypatch.setattr(large, "BATCH", 3_000)
    values = np.random.default_rng(1).exponential(size=10_000)
    values[::10] += 0 if shuffled else 1_000
    rows = pl.DataFrame({"x": values}).lazy()
    levels = [0.5, 0.9, 0.99, 0.999]
    (result,) = large.quantiles(rows, len(values), {"x": pl.col("x")}, levels)["x"]
    assert result == pytest.approx(np.quantile(values, levels).tolist(), rel=1e-12)


def test_few_values_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    unique = np.unique
    monkeypatch.setattr(np, "unique", lambda values, **more: (kept.append(len(values)), unique(values, **more))[1])
    values = np.random.default_rng(1).exponential(size=1_000_000)
    rows = pl.DataFrame({"x": values}).lazy()
    (result,) = large.quantiles(rows, len(values), {"x": pl.col("x")}, [0.5, 0.9, 0.99, 0.999])["x"]
    assert result == pytest.approx(np.quantile(values, [0.5, 0.9, 0.99, 0.999]).tolist(), rel=1e-12)
    assert sum(kept) < 0.03 * len(values)
