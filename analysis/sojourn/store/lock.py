"""One init at a time: a table that exists while the schema of a database changes."""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sojourn.model.errors import SojournError
from sojourn.store.client import Store, plainly, rows
from sojourn.store.schema import substituted

STALE = 300  # s without a sign of life, longer than a statement takes: the init that had the lock was killed
SIGN = 20  # s between two signs of life, at least
PAUSE = 0.2  # s between two attempts
WAIT = 600  # s that an init waits for one that is at work
LOCK = "schema_lock"

_HOLDER = """
    SELECT dateDiff('second', metadata_modification_time, now()), comment
    FROM system.tables WHERE database = currentDatabase() AND name = {name:String}"""


@contextmanager
def locked(store: Store, cluster: str | None) -> Iterator[Callable[[], None]]:
    """Hold the lock of a database; the embedded engine has one process at a time and needs none.

    To create a table is atomic, on a cluster too: its machines run such statements in one order. The block calls the
    function after each step, as a sign of life.

    Raises:
        SojournError: the store failed, or another init has held the lock for ``WAIT`` s.
    """
    if store.embedded:
        yield lambda: None
        return
    owner = f"{re.sub(r'[^A-Za-z0-9.-]', '', socket.gethostname())} {os.getpid()} {secrets.token_hex(4)}"
    create = f"CREATE TABLE {LOCK} ${{on_cluster}} (held UInt8) ENGINE = Null COMMENT '{owner}'"
    drop = substituted(f"DROP TABLE IF EXISTS {LOCK} ${{on_cluster}} SYNC", cluster)
    until = time.monotonic() + WAIT
    while not _created(store, substituted(create, cluster)):
        with plainly(store, "waiting for another init"):
            holders = rows(store, _HOLDER, {"name": LOCK})
            if holders and holders[0][0] > STALE:
                store.client.command(drop)
                continue
        if holders and time.monotonic() > until:
            raise SojournError(f"{store.dsn}: {_held_by(*holders[0])}")
        time.sleep(PAUSE)
    last = time.monotonic()

    def alive() -> None:
        nonlocal last
        if time.monotonic() - last > SIGN:
            last = time.monotonic()
            sign = f"ALTER TABLE {LOCK} ${{on_cluster}} MODIFY COMMENT '{owner} {int(last)}'"
            store.client.command(substituted(sign, cluster))

    try:
        yield alive
    finally:
        with plainly(store, "releasing the lock"):
            store.client.command(drop)


def _held_by(age: int, comment: str) -> str:
    host, process = [*comment.split(), "?", "?"][:2]
    return (
        f"another init changes the schema: process {process} on {host}, with a sign of life {age} s ago. Wait until it "
        f"ends. If there is no such process, run init again after {STALE} s without a sign, or remove its lock: "
        f"DROP TABLE {LOCK}"
    )


def _created(store: Store, statement: str) -> bool:
    try:
        with plainly(store, "locking the schema"):
            store.client.command(statement)
    except SojournError as error:
        if "TABLE_ALREADY_EXISTS" in str(error) or "already exists" in str(error):
            return False
        raise
    return True
