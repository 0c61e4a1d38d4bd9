"""Charts of a store have the same data as charts of the log that was loaded."""

from __future__ import annotations

import random
from collections.abc import Callable

import polars as pl
import pytest
import sojourn
from sojourn import plots
from sojourn.analyses.split.result import SplitResult
from sojourn.model.frame import Selection
from sojourn.model.measures import Hexagons, LogBins, Measures
from sojourn.present import drawing
from sojourn.sources.store_measures import StoreMeasures
from sojourn.store import load
from split_support import BAD_LINES, BASE, Settings, as_lines, differences, line, simulated_log

BINS = LogBins(0.001, 0.25, 40)
COLUMNS = ("request_time", "queueing_delay", "service_time")


@pytest.fixture(scope="module")
def both(
    make_store: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[SplitResult, SplitResult, str]:
    """The split of a simulated log, that of a store which holds it, and the store's name."""
    records, _ = simulated_log(Settings(requests=2000))
    rng = random.Random(5)
    for record in records:
        record["route"] = rng.choice(["/a", "/a", "/b", "/'; DROP TABLE x", ""])
    lines = as_lines(records)
    lines += [raw for raw, _ in BAD_LINES]
    lines.append(line(time=f"{BASE + 60}.000", request_time="55.000", status="101"))
    log = tmp_path_factory.mktemp("charts") / "access.jsonl"
    log.write_bytes(b"".join(lines))
    dsn = make_store()
    load(dsn, log)
    return sojourn.split(log), sojourn.split(dsn), dsn


def same(one: object, other: object) -> bool:
    return list(differences(one, other)) == []


@pytest.mark.parametrize("column", COLUMNS)
def test_quantiles(both: tuple[SplitResult, SplitResult, str], column: str) -> None:
    levels = [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9997, 1.0]
    wanted, outcome = (result.measures.quantiles(column, levels) for result in both[:2])
    assert max(value or 0 for value in wanted) > 0
    assert same(wanted, outcome)


@pytest.mark.parametrize("column", COLUMNS)
def test_counts_over_time(both: tuple[SplitResult, SplitResult, str], column: str) -> None:
    (width, wanted), (other, outcome) = (result.measures.counts_over_time(column, 30, BINS) for result in both[:2])
    assert width == other
    assert len(wanted) > 30
    assert wanted.columns == outcome.columns
    assert same(wanted.to_dicts(), outcome.to_dicts())


@pytest.mark.parametrize("group", ["route", "upstream", "status"])
def test_bins_by_group(both: tuple[SplitResult, SplitResult, str], group: str) -> None:
    wanted, outcome = (result.measures.bins_by(group, 2, "request_time", BINS) for result in both[:2])
    assert 1 <= wanted["group"].n_unique() <= 2
    assert wanted.schema == outcome.schema
    assert same(wanted.to_dicts(), outcome.to_dicts())


def test_hexagons(both: tuple[SplitResult, SplitResult, str]) -> None:
    lattice = Hexagons(0.001, 0.3, 0.5)
    wanted, outcome = (result.measures.hexagons(lattice) for result in both[:2])
    assert len(wanted) > 20
    assert wanted.schema == outcome.schema
    assert wanted.rows() == outcome.rows()


def test_of_nothing(both: tuple[SplitResult, SplitResult, str]) -> None:
    nothing: Measures = StoreMeasures(both[2], Selection.of(None, None, {"route": "/nowhere"}))
    assert nothing.quantiles("request_time", [0.5]) == [None]
    assert nothing.counts_over_time("request_time", 30, BINS)[1].is_empty()
    assert nothing.bins_by("route", 2, "request_time", BINS).is_empty()
    assert nothing.hexagons(Hexagons(0.001, 0.3, 0.5)).is_empty()


def test_quantiles_that_are_cut_are_near(both: tuple[SplitResult, SplitResult, str]) -> None:
    cut = StoreMeasures(both[2], Selection(), exact_rows=10)
    levels = [0.5, 0.9, 0.99]
    wanted, result = both[0].measures.quantiles("request_time", levels), cut.quantiles("request_time", levels)
    assert result == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize("kind", ["tail", "percentiles", "heatmap", "hexbin", "ridgeline"])
def test_charts_of_the_split_fetch_no_request(
    both: tuple[SplitResult, SplitResult, str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> pl.LazyFrame:
        raise AssertionError("rows were fetched")

    log, store, _ = both
    monkeypatch.setattr(store, "_rows", refused)
    wanted, result = plots.picture(log, kind), plots.picture(store, kind)
    assert result.reading == wanted.reading
    shown = [drawing.tables_of(drawing.specification(picture.chart())) for picture in (wanted, result)]
    # Four digits of each figure are drawn.
    for one, other in zip(*shown, strict=True):
        columns, others = (pl.DataFrame(rows).to_dict(as_series=False) for rows in (one, other))
        assert columns.keys() == others.keys()
        for name, values in columns.items():
            numbers = isinstance(values[0], int | float)
            assert others[name] == (pytest.approx(values, rel=2e-3, abs=1e-6) if numbers else values), name
