"""Spans in the disk buffer of their agent: what a kill loses is shown, and a full disk does not stop the lines."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from clickhouse_http import StandIn
from collector_support import eventually

# The path comes first.
from shipping_run import FOR_EVER
from sojourn.store import connect
from sojourn.store.doctor import examine
from sojourn_lab.runtime.ports import free_port
from spans_run import BATCH, Exporter, stored_numbers
from spans_support import BEGIN, Traffic, pass_time
from split_support import Settings, as_lines, simulated_log
from vector_run import LEAST_BUFFER, OF_SPANS, Vector, vector_program

pytest.importorskip("chdb")

ARRIVES_S = 120
KILLS = 4  # from the second one on Vector skips a record


@pytest.fixture
def store(tmp_path: Path, store_in: Callable[[Path], StandIn]) -> Iterator[StandIn]:
    vector_program()  # or there is nothing to prepare
    with store_in(tmp_path) as store:
        yield store


def until_all_are_through(exporter: Exporter, store: StandIn) -> None:
    """Send more until spans arrive that were sent after all others: the buffer is read in order."""
    last = exporter.accepted[-1]
    eventually(lambda: exporter.export() and max(stored_numbers(store)) > last, "spans sent later", ARRIVES_S)
    last = exporter.accepted[-1]
    # Vector can hold the last event of a buffer until the next one: these are sent again until they arrive.
    eventually(lambda: exporter.repeat() and last in stored_numbers(store), "the last spans", ARRIVES_S)


def kill_while_spans_flow(agent: Vector, exporter: Exporter, store: StandIn, kills: int) -> None:
    """Each time with spans in the buffer that the store has not accepted."""
    for _ in range(kills):
        agent.start()
        with exporter.flowing():
            before = len(stored_numbers(store))
            eventually(lambda before=before: len(stored_numbers(store)) > before + 5 * BATCH, "spans", ARRIVES_S)
            store.control(refuse=FOR_EVER)
            accepted = len(exporter.accepted)
            eventually(lambda accepted=accepted: len(exporter.accepted) > accepted + 20 * BATCH, "more", ARRIVES_S)
            agent.kill()
        store.control(refuse=0)
    agent.start()


@pytest.mark.parametrize(
    "kills", [pytest.param(KILLS, id="four"), pytest.param(10, id="ten", marks=pytest.mark.thorough)]
)
def test_spans_that_a_kill_of_the_agent_loses_are_shown(tmp_path: Path, store: StandIn, kills: int) -> None:
    dsn = store.dsn()
    history = Traffic(dsn, "shop", 600, hours=1)  # an hour in which all is well
    history.requests()
    history.spans()
    agent = Vector(tmp_path / "of-spans", store.url, OF_SPANS)
    exporter = Exporter(agent, BEGIN + timedelta(hours=1))
    try:
        kill_while_spans_flow(agent, exporter, store, kills)
        until_all_are_through(exporter, store)
    finally:
        agent.stop()
    lost = sorted(set(exporter.accepted) - stored_numbers(store))
    assert 0 < len(lost) < len(exporter.accepted) / 2
    print(f"{kills} kills lost {len(lost)} of {len(exporter.accepted)} acknowledged spans")
    with connect(dsn) as opened:
        rows = [[line, "edge", "/access.jsonl"] for line in exporter.lines(exporter.accepted)]
        opened.client.insert("incoming", rows, column_names=["line", "host", "file"])
    pass_time(dsn, 11)
    expected = Counter(int(exporter.end(number)) // 60 * 60 for number in lost)
    rows = store.ask("SELECT toUnixTimestamp(minute) AS at, missing FROM spans_missing WHERE missing > 0 ORDER BY at")
    assert [(int(row["at"]), int(row["missing"])) for row in rows] == sorted(expected.items())
    assert sum(each.missing for each in examine(dsn).missing_spans) == len(lost)
    (row,) = store.ask("SELECT sum(missing) AS lines, sum(missing_spans) AS spans FROM reconciliation")
    assert (int(row["lines"]), int(row["spans"])) == (0, len(lost))


def why_no_disk() -> str:
    """Why no small disk can be mounted here; empty where it can."""
    if shutil.which("unshare") is None:
        return "needs unshare of Linux"
    command = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"no disk can be mounted: {done.stderr.strip()[-100:]}" if done.returncode else ""


@pytest.mark.skipif(why_no_disk() != "", reason=why_no_disk())
def test_a_full_disk_of_spans_does_not_stop_lines_and_their_agent_starts_again(tmp_path: Path, store: StandIn) -> None:
    """The store is away for spans. Their agent ends with exit code 0 again and again, until there is room."""
    nowhere = f"http://127.0.0.1:{free_port()}"
    of_spans = Vector(tmp_path / "of-spans", nowhere, OF_SPANS, disk=LEAST_BUFFER // 1024 + 20_000)
    lines = Vector(tmp_path / "agent", store.url)
    records, _ = simulated_log(Settings(requests=400))
    log = lines.logs / "access.jsonl"
    exporter = Exporter(of_spans, BEGIN, padding=20_000)
    with lines, of_spans:
        log.write_bytes(b"".join(as_lines(records[:200])))
        assert exporter.export()
        ballast = of_spans.disk() / "ballast"
        free = shutil.disk_usage(of_spans.disk()).free - 2_000_000
        with ballast.open("wb") as file:
            for _ in range(free // 1_000_000):
                file.write(bytes(1_000_000))
        eventually(lambda: not exporter.export() and of_spans.exit_codes(), "the agent to end", ARRIVES_S)
        assert of_spans.exit_codes()[0] == 0
        with log.open("ab") as opened:
            opened.write(b"".join(as_lines(records[200:])))
        eventually(
            lambda: int(store.ask("SELECT count() AS n FROM requests FINAL")[0]["n"]) == 400, "all lines", ARRIVES_S
        )
        assert lines.healthy()
        ballast.unlink()
        eventually(exporter.export, "spans to be accepted again", ARRIVES_S)
