"""A store with logs whose figures are known, and one that was never used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "dashboards"), str(ROOT / "tests" / "analysis")]

pytest.importorskip("grafana_foundation_sdk", reason="the dashboards' SDK is not installed")

from dashboards_fixtures import fill  # noqa: E402
from dashboards_support import Boards, log_of, records, truth  # noqa: E402


@pytest.fixture(scope="session")
def loaded_records() -> list[dict[str, str]]:
    return records()


@pytest.fixture(scope="session")
def facts(loaded_records: list[dict[str, str]]) -> pl.DataFrame:
    """One row per record, its parts worked out from the text alone."""
    return truth(loaded_records)


@pytest.fixture(scope="session")
def log_path(tmp_path_factory: pytest.TempPathFactory, loaded_records: list[dict[str, str]]) -> Path:
    path = tmp_path_factory.mktemp("logs") / "access.jsonl"
    path.write_bytes(log_of(loaded_records))
    return path


@pytest.fixture(scope="session")
def boards_store(make_store: Callable[[], str], log_path: Path) -> Iterator[Boards]:
    """The records, delivered twice, and what else a pipeline writes: see dashboards_fixtures."""
    from sojourn.store import connect, load  # noqa: PLC0415 - the engine takes its time

    dsn = make_store()
    load(dsn, [str(log_path)])
    load(dsn, [str(log_path)])
    with connect(dsn) as store:
        fill(store.client)
        yield Boards(store.client)


@pytest.fixture(scope="session")
def empty_store(make_store: Callable[[], str]) -> Iterator[Boards]:
    from sojourn.store import connect  # noqa: PLC0415 - the engine takes its time

    with connect(make_store()) as store:
        yield Boards(store.client)
