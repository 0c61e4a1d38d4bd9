"""Which tests run alone; and the embedded store, shared: one folder per process, a database in it for every test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sojourn.store import connect, init

# Of tests/lab these time nothing that a neighbour could disturb.
BESIDE_OTHERS = {
    "archive", "asked", "balancing", "before_after", "compare", "criteria", "dependency", "disciplines", "laws",
    "listen", "pacing", "playbook", "proxy_workers", "replay", "rounds", "run_folder", "scenario", "schedules",
    "verdict",
}  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what has the machine to itself: real servers under load, and containers."""
    for item in items:
        folder, name = item.path.parent.name, item.path.stem.removeprefix("test_lab_")
        if folder == "compose" or (folder == "lab" and name not in BESIDE_OTHERS):
            item.add_marker("alone")


# No test depends on what whoever runs it has made their defaults.
os.environ["SOJOURN_CONFIG"] = ""


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
