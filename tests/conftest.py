"""The embedded store, shared: one folder per process, a database in it for every test."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sojourn.store import connect, init
from sojourn.store.client import Store

Schema = tuple[tuple[str, str], ...]

# No test depends on the defaults of the user who runs it.
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
def make_lasting_store(store_folder: Path) -> Iterator[Callable[[], str]]:
    """Makes a new, empty store whenever called; returns its DSN. For fixtures that live as long as the process."""
    yield from _makes_stores(store_folder)


@pytest.fixture(scope="module")
def make_store(store_folder: Path) -> Iterator[Callable[[], str]]:
    """Makes a new, empty store whenever called; returns its DSN. It is dropped at the end of the file."""
    yield from _makes_stores(store_folder)


@pytest.fixture
def store_dsn(store_folder: Path, emptied_stores: tuple[Schema, list[str]]) -> Iterator[str]:
    """DSN of an empty store with the schema applied."""
    schema, databases = emptied_stores
    database = databases.pop() if databases else _new_database(store_folder)
    yield _dsn(store_folder, database)
    if _emptied(store_folder, database, schema):
        databases.append(database)
    else:
        _drop(store_folder, [database])


@pytest.fixture(scope="session")
def emptied_stores(store_folder: Path) -> Iterator[tuple[Schema, list[str]]]:
    """The schema of a new store, and databases that are as new: to make one takes longer than many a test."""
    databases = [_new_database(store_folder)]
    with connect(f"chdb://{store_folder}", database="default") as store:
        schema = _schema(store, databases[0])
    yield schema, databases
    _drop(store_folder, databases)


def _makes_stores(folder: Path) -> Iterator[Callable[[], str]]:
    databases: list[str] = []

    def make() -> str:
        databases.append(_new_database(folder))
        return _dsn(folder, databases[-1])

    yield make
    _drop(folder, databases)


def _dsn(folder: Path, database: str) -> str:
    return f"chdb://{folder}?database={database}"


def _new_database(folder: Path) -> str:
    database = f"t{next(_numbers)}"
    init(_dsn(folder, database))
    return database


def _schema(store: Store, database: str) -> Schema:
    """Name and definition of each table and view, without the name of the database; and the migrations applied."""
    rows = store.client.query(
        "SELECT name, replaceAll(create_table_query, {database:String}, 'd') FROM system.tables "
        "WHERE database = {database:String} ORDER BY name",
        parameters={"database": database},
    ).result_rows
    schema = [(str(name), re.sub(r"UUID '[^']*'", "", str(definition))) for name, definition in rows]
    if "schema_migrations" in dict(schema):
        applied = store.client.query(f"SELECT name, checksum FROM {database}.schema_migrations FINAL ORDER BY name")
        schema += [(str(name), str(checksum)) for name, checksum in applied.result_rows]
    return tuple(schema)


def _emptied(folder: Path, database: str, schema: Schema) -> bool:
    """Remove all rows of a store; whether its schema is still the given one."""
    with connect(f"chdb://{folder}", database="default") as store:
        if _schema(store, database) != schema:
            return False
        # A refresh that has begun would write what it read before.
        store.client.command(f"SYSTEM STOP VIEW {database}.rollup_refresh")
        store.client.command(f"SYSTEM WAIT VIEW {database}.rollup_refresh")
        tables = store.client.query(
            "SELECT name FROM system.tables WHERE database = {database:String} AND engine LIKE '%MergeTree' AND "
            "total_rows > 0 AND name != 'schema_migrations'",
            parameters={"database": database},
        ).result_rows
        for (name,) in tables:
            store.client.command(f"TRUNCATE TABLE {database}.`{name}` SYNC")
        store.client.command(f"SYSTEM START VIEW {database}.rollup_refresh")
        return True


def _drop(folder: Path, databases: list[str]) -> None:
    # Each refreshes its rollups for as long as it is there.
    with connect(f"chdb://{folder}", database="default") as store:
        for database in databases:
            store.client.command(f"DROP DATABASE IF EXISTS {database} SYNC")
