"""One init at a time on a server: an embedded engine behind ClickHouse's HTTP interface."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from clickhouse_http import StandIn
from sojourn.model.errors import SojournError
from sojourn.store import connect, init, lock
from sojourn.store.schema import schema_files

pytest.importorskip("chdb")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with StandIn(tmp_path_factory.mktemp("stand-in")) as started:
        yield started


@pytest.fixture(scope="module")
def initialised(server: StandIn) -> str:
    """DSN of a database with the schema; each test leaves it without a lock."""
    dsn = server.dsn("waiting")
    assert init(dsn)
    return dsn


def names(dsn: str) -> set[str]:
    with connect(dsn) as store:
        result = store.client.query("SELECT name FROM system.tables WHERE database = currentDatabase()")
    return {name for (name,) in result.result_rows}


def test_of_two_at_once_one_does_it_all_and_the_other_nothing(server: StandIn) -> None:
    command = [sys.executable, "-m", "sojourn", "store", "init", server.dsn("both")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ends = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    results = sorted(out.split(": ")[1] for out, _ in ends)
    assert results == [f"applied {len(schema_files())} files of the schema\n", "up to date\n"]
    assert lock.LOCK not in names(server.dsn("both"))


def test_a_lock_of_another_is_waited_for(initialised: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dsn = initialised
    with connect(dsn) as store:
        store.client.command(f"CREATE TABLE {lock.LOCK} (held UInt8) ENGINE = Null COMMENT 'another'")
    waits = threading.Semaphore(0)
    monkeypatch.setattr(lock.time, "sleep", lambda _: waits.release())
    done: list[list[str]] = []
    other = threading.Thread(target=lambda: done.append(init(dsn)))
    other.start()
    for _ in range(3):
        assert waits.acquire(timeout=60)
    assert not done
    with connect(dsn) as store:
        store.client.command(f"DROP TABLE {lock.LOCK} SYNC")
    other.join(60)
    assert done == [[]]
    assert lock.LOCK not in names(dsn)


def test_a_lock_whose_init_was_killed_is_removed(initialised: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dsn = initialised
    with connect(dsn) as store:
        store.client.command(f"CREATE TABLE {lock.LOCK} (held UInt8) ENGINE = Null COMMENT 'killed'")
    monkeypatch.setattr(lock, "STALE", -1)
    assert init(dsn) == []
    assert lock.LOCK not in names(dsn)


def test_an_init_that_waits_too_long_names_the_holder_of_the_lock(
    initialised: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = initialised
    create = f"CREATE TABLE {lock.LOCK} (held UInt8) ENGINE = Null COMMENT 'build-7 4711 abc 12'"
    monkeypatch.setattr(lock, "WAIT", 0)
    monkeypatch.setattr(lock, "PAUSE", 0)
    with connect(dsn) as store:
        store.client.command(create)
        with (
            pytest.raises(SojournError, match=r"process 4711 on build-7.*DROP TABLE schema_lock"),
            lock.locked(store, None),
        ):
            pytest.fail("two inits at once")
        store.client.command(f"DROP TABLE {lock.LOCK} SYNC")


def test_a_sign_of_life_makes_a_lock_younger(initialised: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dsn = initialised
    monkeypatch.setattr(lock, "SIGN", -1)
    of_lock = f"SELECT comment FROM system.tables WHERE name = '{lock.LOCK}' AND database = currentDatabase()"
    with connect(dsn) as store, lock.locked(store, None) as alive:
        ((before,),) = store.client.query(of_lock).result_rows
        alive()
        ((after,),) = store.client.query(of_lock).result_rows
    assert after.startswith(before)
    assert after != before


def test_the_embedded_engine_needs_no_lock(store_dsn: str) -> None:
    with connect(store_dsn) as store, lock.locked(store, None) as alive:
        alive()
        assert lock.LOCK not in names(store_dsn)
