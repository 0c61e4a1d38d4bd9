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

from dashboards_explained import blame_of, given_up, held_of, spans_of  # noqa: E402
from dashboards_fixtures import fill  # noqa: E402
from dashboards_support import Boards, log_of, records, truth  # noqa: E402


@pytest.fixture(scope="session")
def loaded_records() -> list[dict[str, str]]:
    return records()


@pytest.fixture(scope="session")
def facts(log_path: Path) -> pl.DataFrame:
    """One row per record with its parts."""
    return truth(log_path)


@pytest.fixture(scope="session")
def log_path(tmp_path_factory: pytest.TempPathFactory, loaded_records: list[dict[str, str]]) -> Path:
    path = tmp_path_factory.mktemp("logs") / "access.jsonl"
    path.write_bytes(log_of(loaded_records))
    return path


@pytest.fixture(scope="session")
def spans_path(tmp_path_factory: pytest.TempPathFactory, loaded_records: list[dict[str, str]]) -> Path:
    """Spans of requests that were given up on and worked on all the same."""
    path = tmp_path_factory.mktemp("spans") / "spans.jsonl"
    path.write_bytes(spans_of(given_up(loaded_records)))
    return path


@pytest.fixture(scope="session")
def explained(log_path: Path, spans_path: Path) -> dict[str, pl.DataFrame]:
    """Blame and held workers by the minute of the first run, computed from the files without a store."""
    return {"blame": blame_of(log_path, spans_path), "held": held_of(log_path, spans_path)}


@pytest.fixture(scope="session")
def boards_store(make_lasting_store: Callable[[], str], log_path: Path, spans_path: Path) -> Iterator[Boards]:
    """The records, delivered twice, and what else a pipeline writes: see dashboards_fixtures."""
    from sojourn.analyses.blame.store import explain_store  # noqa: PLC0415
    from sojourn.store import connect, load  # noqa: PLC0415 - the engine takes its time

    dsn = make_lasting_store()
    load(dsn, [str(log_path)])
    load(dsn, [str(log_path)], spans=[str(spans_path)])
    explain_store(dsn)
    with connect(dsn) as store:
        fill(store.client)
        yield Boards(store.client)


@pytest.fixture(scope="session")
def empty_store(make_lasting_store: Callable[[], str]) -> Iterator[Boards]:
    from sojourn.store import connect  # noqa: PLC0415 - the engine takes its time

    with connect(make_lasting_store()) as store:
        yield Boards(store.client)
