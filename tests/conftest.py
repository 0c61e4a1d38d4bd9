"""The embedded store, shared: the engine holds one folder per process, so every test gets a database in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sojourn.store import connect, init


@pytest.fixture(scope="session")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the one embedded engine of this process, kept running until the end."""
    pytest.importorskip("chdb")
    folder = tmp_path_factory.mktemp("store")
    with connect(f"chdb://{folder}", database="default"):
        yield folder


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def make_store(store_folder: Path) -> Iterator[Callable[[], str]]:
    """Makes a new, empty store whenever called; returns its DSN. For fixtures that live longer than a test."""
    made: list[str] = []

    def make() -> str:
        made.append(f"t{next(_numbers)}")
        dsn = f"chdb://{store_folder}?database={made[-1]}"
        init(dsn)
        return dsn

    yield make
    _drop(store_folder, made)


@pytest.fixture
def store_dsn(make_store: Callable[[], str]) -> str:
    """DSN of a new, empty store with the schema applied."""
    return make_store()


def _drop(folder: Path, databases: list[str]) -> None:
    with connect(f"chdb://{folder}", database="default") as store:
        for database in databases:
            store.client.command(f"DROP DATABASE {database} SYNC")
