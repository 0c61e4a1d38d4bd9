"""The embedded store, shared: one folder per process, a database in it for every test."""

from __future__ import annotations

import fcntl
import gc
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from sojourn.store import connect, init, migrate
from sojourn.store.client import Store
from sojourn.store.schema import checksums

REFRESHED = ("rollup_refresh", "spans_refresh")  # views that the engine computes from time to time

# What the engine wrote about each table and view of a database, by file name.
Definitions = dict[str, bytes]

MEMORY = Path("/dev/shm")
MEMORY_FREE = 4 << 30  # bytes; the stores of one process take some hundred MB

# No test depends on the defaults of the user who runs it.
os.environ["SOJOURN_CONFIG"] = ""

# How fast a busy machine draws examples says nothing about the code. A test that suppresses other checks
# names this one as well.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

# Collecting makes objects that last to the end: to look for garbage among them takes time and frees nothing.
gc.disable()


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over what lasts to the end: ten thousand tests and the modules they import."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_unconfigure() -> None:
    """Let the interpreter free everything at its end; engines report what it does not free."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """The databases of the one embedded engine of this process, which is kept running until the end."""
    pytest.importorskip("chdb")
    with (
        _folder(tmp_path_factory) as folder,
        connect(f"chdb://{folder}", database="default") as store,
    ):
        databases = Databases(folder, store)
        yield databases
        databases.drop_all()


@pytest.fixture(scope="session")
def store_folder(databases: Databases) -> Path:
    """The folder of the embedded engine."""
    return databases.folder


@pytest.fixture(scope="session")
def make_lasting_store(databases: Databases) -> Callable[[], str]:
    """Makes an empty store whenever called; returns its DSN. For fixtures that live as long as the process."""
    return lambda: databases.dsn(databases.take())


@pytest.fixture(scope="module")
def make_store(databases: Databases) -> Iterator[Callable[[], str]]:
    """Makes an empty store whenever called; returns its DSN. It lasts until the end of the file."""
    taken: list[str] = []

    def make() -> str:
        taken.append(databases.take())
        return databases.dsn(taken[-1])

    yield make
    for database in taken:
        databases.give_back(database)


@pytest.fixture
def store_dsn(databases: Databases) -> Iterator[str]:
    """DSN of an empty store with the schema applied."""
    database = databases.take()
    yield databases.dsn(database)
    databases.give_back(database)


class Databases:
    """Databases of an embedded engine; one that is given back is emptied and used again.

    To make a new one takes longer than many a test.

    Args:
        folder: the engine's.
        store: a connection to it.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self._store = store
        self._numbers = itertools.count(1)
        self._free: list[str] = []
        self._files = migrate.schema_files()
        # Of databases with the schema of these files, as it was when they were new.
        self._definitions: dict[str, Definitions] = {}
        self._made: set[str] = set()

    def dsn(self, database: str) -> str:
        """Return the DSN of a database."""
        return f"chdb://{self.folder}?database={database}"

    def take(self) -> str:
        """Return an empty database with the schema that ``init`` makes, which a test may have changed."""
        current = migrate.schema_files() == self._files
        if current and self._free:
            database = self._free.pop()
            for view in REFRESHED:
                self._store.client.command(f"SYSTEM START VIEW {database}.{view}")
            return database
        database = f"t{next(self._numbers)}"
        self._made.add(database)
        init(self.dsn(database))
        if current:
            self._definitions[database] = self._defined(database)
        return database

    def give_back(self, database: str) -> None:
        """Empty a database, to be taken again; drop it if its schema has changed."""
        definitions = self._definitions.get(database)
        if definitions is None or self._defined(database) != definitions or not self._is_current(database):
            self._drop(database)
            return
        # A refresh that has begun would write what it read before; and one of a free database would read in vain.
        for view in REFRESHED:
            self._store.client.command(f"SYSTEM STOP VIEW {database}.{view}")
            self._store.client.command(f"SYSTEM WAIT VIEW {database}.{view}")
        tables = self._store.client.query(
            "SELECT name FROM system.tables WHERE database = {database:String} AND engine LIKE '%MergeTree' AND "
            "total_rows > 0 AND name != 'schema_state'",
            parameters={"database": database},
        ).result_rows
        for (name,) in tables:
            self._store.client.command(f"TRUNCATE TABLE {database}.`{name}` SYNC")
        self._free.append(database)

    def drop_all(self) -> None:
        """Drop every database: each refreshes its rollups for as long as it is there."""
        for database in list(self._made):
            self._drop(database)

    def _drop(self, database: str) -> None:
        self._store.client.command(f"DROP DATABASE IF EXISTS {database} SYNC")
        self._definitions.pop(database, None)
        self._made.discard(database)

    def _defined(self, database: str) -> Definitions:
        folders = self._store.client.query(
            "SELECT metadata_path FROM system.databases WHERE name = {database:String}",
            parameters={"database": database},
        ).result_rows
        files = (file for (folder,) in folders for file in (self.folder / folder).glob("*.sql"))
        return {file.name: file.read_bytes() for file in files}

    def _is_current(self, database: str) -> bool:
        applied = self._store.client.query(f"SELECT name, toString(checksum) FROM {database}.schema_state FINAL")
        return dict(applied.result_rows) == checksums()


@contextmanager
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new folder for an engine: in memory where there is room, since it writes thousands of small files."""
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < MEMORY_FREE:
        yield tmp_path_factory.mktemp("store")
        return
    _remove_left_over()
    folder = Path(tempfile.mkdtemp(prefix="sojourn-begun-", dir=MEMORY))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = folder.rename(folder.with_name(folder.name.replace("begun", "tests")))
        try:
            (folder / "store").mkdir()
            yield folder / "store"
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_left_over() -> None:
    """Remove folders of processes that were killed: nothing locks them."""
    for lock in MEMORY.glob("sojourn-tests-*/lock"):
        try:
            with lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # in use, of another user, or removed in this moment
            continue
