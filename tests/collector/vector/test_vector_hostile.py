"""A batch with lines that nginx does not write loses nothing: each is a row, a dead letter, or counted by the agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clickhouse_http import StandIn
from collector_support import eventually
from hostile_lines import HOSTILE, LONGEST, TOO_LONG, log_of, sound
from vector_run import Vector, vector_program

pytest.importorskip("chdb")

ARRIVES_S = 90


class Arrived:
    """A hostile log as it is in the store."""

    def __init__(self, store: StandIn, agent: Vector) -> None:
        self.store = store
        self.log = agent.logs / "access.jsonl"
        for log in (self.log, agent.logs / "listen.jsonl"):
            # Complete when Vector opens it: of a line that is still being written Vector reports a later position.
            log.with_suffix(".new").write_bytes(log_of(HOSTILE))
            log.with_suffix(".new").rename(log)
        eventually(lambda: self.count("requests") >= len(GOOD), "the good lines", ARRIVES_S)
        eventually(lambda: len(self.refused()) >= len(BAD), "the refused lines", ARRIVES_S)

    def count(self, table: str) -> int:
        """Rows of a table, each once."""
        return int(self.store.ask(f"SELECT count() AS n FROM {table} FINAL")[0]["n"])

    def refused(self, kind: str = "requests") -> list[tuple[int, str]]:
        """Position and reason of each dead letter."""
        rows = self.store.ask(
            f"SELECT position, reason FROM dead_letters FINAL WHERE kind = '{kind}' ORDER BY position"
        )
        return [(row["position"], row["reason"]) for row in rows]


def positions() -> list[tuple[int, bytes, str]]:
    """Position, line and reason of each line."""
    result, position = [], 0
    for line, reason in HOSTILE:
        result.append((position, line, reason))
        position += len(line)
    return result


GOOD = [line for line, reason in HOSTILE if not reason]
BAD = [(position, reason) for position, _, reason in positions() if reason not in ("", TOO_LONG)]


@pytest.fixture(scope="module")
def arrived(tmp_path_factory: pytest.TempPathFactory, store_in: Callable[[Path], StandIn]) -> Iterator[Arrived]:
    vector_program()
    folder = tmp_path_factory.mktemp("hostile")
    with store_in(folder) as store, Vector(folder / "agent", store.url) as agent:
        yield Arrived(store, agent)


def test_every_good_line_is_a_row(arrived: Arrived) -> None:
    stored = {row["request_id"] for row in arrived.store.ask("SELECT request_id FROM requests FINAL")}
    assert stored == {f"sound-{number}" for number in range(len(GOOD))}
    (row,) = arrived.store.ask("SELECT uri FROM requests WHERE request_id = 'sound-1'")
    assert row["uri"] == "/\ufffd"


def test_every_other_line_is_a_dead_letter_with_its_reason(arrived: Arrived) -> None:
    assert arrived.refused() == BAD
    texts = arrived.store.ask("SELECT raw FROM dead_letters WHERE reason = 'line_too_long' AND kind = 'requests'")
    assert {len(row["raw"]) for row in texts} == {200}


def test_a_line_beyond_the_longest_is_counted(arrived: Arrived) -> None:
    sql = (
        "SELECT max(value) AS n FROM pipeline_metrics"
        " WHERE component = 'access_log' AND metric = 'component_discarded_events_total'"
    )
    eventually(lambda: arrived.store.ask(sql)[0]["n"] == 1, "the agent's counter", ARRIVES_S)


def test_bytes_of_the_line_that_was_not_sent_are_missing_and_no_others(arrived: Arrived) -> None:
    gaps = arrived.store.ask("SELECT bytes FROM line_gaps")
    assert [gap["bytes"] for gap in gaps] == [LONGEST + 2]
    (received,) = arrived.store.ask("SELECT sum(end - begin) AS bytes FROM line_runs FINAL")
    assert received["bytes"] == arrived.log.stat().st_size - (LONGEST + 2)


def test_hostile_samples_hold_nothing_up(arrived: Arrived) -> None:
    log = arrived.log.with_name("listen.jsonl")
    with log.open("ab") as file:
        file.write(b'{"time":1767225600.25,"socket":"last","port":8000,"depth":1,"limit":64}\n')
    eventually(lambda: arrived.count("listen_queue") == 1, "the sample", ARRIVES_S)
    letters = eventually(
        lambda: len(refused := arrived.refused("listen_queue")) >= len(HOSTILE) - 1 and refused,
        "the refused samples",
        ARRIVES_S,
    )
    assert len(letters) == len(HOSTILE) - 1  # one is too long


def test_lines_after_the_hostile_ones_arrive(arrived: Arrived) -> None:
    with arrived.log.open("ab") as file:
        file.write(sound(len(GOOD)))
    eventually(lambda: arrived.count("requests") == len(GOOD) + 1, "one more line", ARRIVES_S)
