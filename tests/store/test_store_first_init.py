"""Writers while a store is created: a line that the store acknowledges is stored."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from clickhouse_http import StandIn
from sojourn.store import connect, init
from store_support import record

pytest.importorskip("chdb")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with StandIn(tmp_path_factory.mktemp("first")) as started:
        yield started


class Writer:
    """Inserts a line at a time until it is stopped, and counts those that are acknowledged by status 200."""

    def __init__(self, server: StandIn, database: str) -> None:
        self._server, self._database = server, database
        self.acknowledged = self.refused = 0
        self._stop, self._acknowledged = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            query = "INSERT%20INTO%20incoming%20%28line%29%20FORMAT%20LineAsString"
            status, _, _ = self._server.request(
                "POST", f"/?database={self._database}&query={query}", json.dumps(record(number)).encode() + b"\n"
            )
            if status == 200:
                self.acknowledged += 1
                self._acknowledged.set()
            else:
                self.refused += 1

    def acknowledges(self, timeout: float) -> bool:
        """Wait for the next line that is acknowledged."""
        self._acknowledged.clear()
        return self._acknowledged.wait(timeout)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)


def test_each_acknowledged_line_of_a_first_init_is_stored(server: StandIn) -> None:
    dsn = server.dsn("first")
    with Writer(server, "first") as writer:
        assert init(dsn)
        assert writer.acknowledges(timeout=60)
    with connect(dsn) as store:
        ((stored,),) = store.client.query("SELECT count() FROM requests FINAL").result_rows
    assert writer.refused > 0
    assert stored == writer.acknowledged
