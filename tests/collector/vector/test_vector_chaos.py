"""The store away, the agent killed, the log rotated: nothing is missing, and what arrives twice changes no figure."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sojourn
from clickhouse_http import StandIn
from collector_support import eventually
from sojourn.store import connect, init, refresh_rollups
from vector_run import ACCOUNT, Vector, vector_program

sys.path.insert(0, str(Path(__file__).parents[2] / "store"))

# The path comes first.
from split_support import BAD_LINES, Settings, as_lines, differences, simulated_log, without_duplicates

pytest.importorskip("chdb")

FOR_EVER = 1e6  # s, until told otherwise
AWAY_S = float(os.environ.get("SOJOURN_CHAOS_SECONDS", "6"))
LINES = 4000
STEPS = 8
ARRIVES_S = 60 + AWAY_S

pytestmark = pytest.mark.timeout(240 + 3 * AWAY_S)


def renamed(log: Path) -> None:
    """As nginx's own way has it: renamed; the proxy goes on writing there until it is told to reopen."""
    log.rename(log.with_name("access.jsonl.1"))


def copied(log: Path) -> None:
    """logrotate's copytruncate. What is written between the two is lost by it, so nothing is."""
    shutil.copyfile(log, log.with_name("access.jsonl-20260101"))
    os.truncate(log, 0)


class Writer:
    """What nginx does: appends to a file it holds open, and opens the name again when told."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.reopen()

    def reopen(self) -> None:
        self._file = self._log.open("ab", buffering=0)

    def write(self, lines: list[bytes]) -> None:
        for line in lines:
            self._file.write(line)


@pytest.mark.parametrize("rotated", [renamed, copied])
def test_nothing_is_missing(tmp_path: Path, rotated: Callable[[Path], None]) -> None:
    vector_program()  # or there is nothing to prepare
    records, truth = simulated_log(Settings(requests=LINES, seed=11))
    good = as_lines(records)
    lines = list(good)
    for number, (raw, _) in enumerate(BAD_LINES):
        lines.insert((number + 1) * LINES // (len(BAD_LINES) + 1), raw)
    step = len(lines) // STEPS + 1
    parts = [lines[at : at + step] for at in range(0, len(lines), step)]

    with StandIn(tmp_path, ACCOUNT) as store:
        init(store.dsn())

        def stored() -> set[str]:
            return {row["request_id"] for row in store.ask("SELECT request_id FROM requests FINAL")}

        def arrived() -> int:
            return int(store.ask("SELECT sum(lines) AS n FROM arrivals WHERE kind = 'requests'")[0]["n"])

        agent = Vector(tmp_path / "agent", store.url)
        log = agent.logs / "access.jsonl"
        nginx = Writer(log)
        nginx.write(parts[0])
        with agent:
            eventually(stored, "the first requests", ARRIVES_S)

            store.control(refuse=FOR_EVER)
            away_since = time.monotonic()
            nginx.write(parts[1])
            eventually(lambda: store.control()["refused"] > 0, "the store to be asked in vain", ARRIVES_S)
            agent.kill()

            nginx.write(parts[2])
            rotated(log)
            nginx.write(parts[3])
            nginx.reopen()
            nginx.write(parts[4])
            refused = store.control()["refused"]
            agent.start()
            eventually(lambda: store.control()["refused"] > refused, "the store to refuse again", ARRIVES_S)
            eventually(lambda: time.monotonic() - away_since > AWAY_S, "the store to have been away", ARRIVES_S)

            store.control(refuse=0, lose=FOR_EVER)
            nginx.write(parts[5])
            eventually(lambda: arrived() > len(stored()), "requests to arrive twice", ARRIVES_S)
            agent.kill()
            nginx.write(parts[6])
            store.control(lose=0)
            agent.start()
            nginx.write(parts[7])

            eventually(lambda: len(stored()) == LINES, "every request", ARRIVES_S)
            bad = "SELECT reason FROM dead_letters FINAL"
            eventually(lambda: len(store.ask(bad)) >= len(BAD_LINES), "every dead letter", ARRIVES_S)
            agent.stop()  # whatever is still to be sent twice has been

        assert stored() == {record["request_id"] for record in records}
        assert arrived() > LINES  # or nothing was put to the test
        (counted,) = store.ask("SELECT count() AS n FROM requests FINAL")
        assert counted["n"] == LINES
        assert sorted(row["reason"] for row in store.ask(bad)) == sorted(reason for _, reason in BAD_LINES)
        balances = store.ask("SELECT argMax(outstanding, hour) AS left FROM reconciliation GROUP BY source")
        assert all(row["left"] <= 0 for row in balances), balances

        with connect(store.dsn()) as opened:
            refresh_rollups(opened)
        (rollup,) = store.ask("SELECT sum(requests) AS n, sum(response_seconds) AS s FROM rollup_minute FINAL")
        assert rollup["n"] == LINES
        assert rollup["s"] == pytest.approx(truth.sums["response"], abs=1e-3 * LINES)

        whole = tmp_path / "whole.jsonl"
        whole.write_bytes(b"".join(good))
        of_the_log = sojourn.split(whole).to_dict()
        of_the_store = sojourn.split(store.dsn()).to_dict()
        del of_the_log["records"], of_the_store["records"]
        assert list(differences(without_duplicates(of_the_log), without_duplicates(of_the_store))) == []
