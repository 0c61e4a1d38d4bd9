"""A store that is away, slow, refusing, another version's, or cut off in the middle: one sentence, and nothing lost."""

from __future__ import annotations

import json
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))
sys.path.insert(0, str(Path(__file__).parents[1] / "collector" / "vector"))

# The path comes first.
from clickhouse_http import StandIn
from commands_run import Ended, ended
from sojourn.store import client, connect, senders
from store_away import Cutter, answer_of, saying, served, silent
from watch_support import EPOCH, record

pytest.importorskip("chdb")

PASSWORD = "Tr0ub4dor-3"
LINES = 3_000
CLOSED = "the connection was closed before the answer was whole\n"
# Every command that takes the address of a store, and what it has besides.
COMMANDS: dict[str, list[str]] = {
    "init": ["store", "init", "DSN"],
    "load": ["store", "load", "DSN", "DIR/a.jsonl"],
    "query": ["store", "query", "DSN", "SELECT 1"],
    "explain": ["store", "explain", "DSN"],
    "note": ["store", "capacity", "DSN", "shop", "5"],
    **{verb: [verb, "DSN"] for verb in ("split", "blame", "depth", "laws", "goodput", "clock", "capacity", "whatif")},
    "compare": ["compare", "DSN", "DSN"],
    "report": ["report", "DSN", "--html", "DIR/o.html"],
    "plot": ["plot", "DSN", "ccdf", "--out", "DIR/o.svg"],
    "movie": ["movie", "DSN", "--out", "DIR/o.html"],
}


def refused(address: str, name: str, folder: Path) -> Ended:
    """How a command ends whose store is no good: with one sentence about it, without its password."""
    dsn = f"clickhouse://loader:{PASSWORD}@{address}"
    (folder / "a.jsonl").write_bytes(record(EPOCH))
    done = ended(*(each.replace("DSN", dsn).replace("DIR", str(folder)) for each in COMMANDS[name]))
    assert done.code == 1, done
    assert re.match(r"sojourn: clickhouse://loader(:…)?@", done.err), done
    assert done.err.count("\n") == 1
    assert PASSWORD not in done.out + done.err
    assert not [*folder.glob("o.*")]
    return done


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_that_the_store_is_not_there(name: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert "cannot be reached (Connection refused)" in refused(f"127.0.0.1:{port}/s", name, tmp_path).err


def test_an_unknown_host_name(tmp_path: Path) -> None:
    assert "cannot be reached (its name is not known)" in refused("no.such.host.invalid/s", "load", tmp_path).err


ANSWERS: dict[str, tuple[Callable[[socket.socket], None], str]] = {
    "nothing": (silent, r"cannot be reached \(no answer within 1 s; \?timeout=SECONDS"),
    "no memory": (
        saying(answer_of("500 Internal Server Error", "Code: 241. DB::Exception: Memory limit exceeded.", 241)),
        r"cannot be opened \(Memory limit exceeded\)",
    ),
    "wrong password": (
        saying(answer_of("403 Forbidden", "Code: 516. DB::Exception: (AUTHENTICATION_FAILED)", 516)),
        "user or password was refused",
    ),
    "401 of a gateway": (saying(answer_of("401 Unauthorized", "<html>")), r"cannot be reached \(it answered 401"),
    "a page": (saying(answer_of("200 OK", "<html>hello</html>")), "is no ClickHouse"),
    "no HTTP": (lambda connection: connection.sendall(b"220 mail\r\n"), "is no ClickHouse"),
    "the end": (lambda connection: connection.close(), "the connection was closed"),
}


@pytest.mark.parametrize("which", ANSWERS)
@pytest.mark.parametrize("name", ["load", "split"])
def test_reports_answers_of_other_servers(which: str, name: str, tmp_path: Path) -> None:
    answer, words = ANSWERS[which]
    with served(answer) as port:
        result = refused(f"127.0.0.1:{port}/s?timeout=1", name, tmp_path)
    assert re.search(words, result.err), result.err


def test_how_long_is_waited_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Unless the address says otherwise, the first answer must come in half a minute, a later one in five."""
    assert (client.CONNECT_SECONDS, client.OPEN_SECONDS, client.ANSWER_SECONDS) == (10, 30, 300)
    monkeypatch.setattr(client, "OPEN_SECONDS", 1)
    with served(silent) as port:
        before = time.monotonic()
        assert "no answer within 1 s" in refused(f"127.0.0.1:{port}/s", "query", tmp_path).err
        assert time.monotonic() - before < 15


class Between:
    """A server, a proxy before it, and the address of its store through the proxy."""

    def __init__(self, server: StandIn, cutter: Cutter, port: int) -> None:
        self.server = server
        self.cutter = cutter
        self.dsn = server.dsn().replace(f":{server.port}/", f":{port}/")

    def count(self, of: str) -> int:
        """A number, queried from the server without the proxy."""
        ((value),) = self.server.ask(f"SELECT {of} AS n FROM requests FINAL")
        return int(value["n"])


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Between]:
    with StandIn(tmp_path_factory.mktemp("away"), ("loader", PASSWORD)) as server:
        cutter = Cutter(server.port)
        with served(cutter) as port:
            result = Between(server, cutter, port)
            assert ended("store", "init", result.dsn).code == 0
            yield result


def log_of(folder: Path, name: str, lines: int = LINES) -> Path:
    """Different requests, whose ids begin with a name."""
    log = folder / f"{name}.jsonl"
    log.write_bytes(
        b"".join(
            record(EPOCH + k / 20, (k % 7) / 100, 0.01, request_id=f"{name}{k:026x}", route=f"/r{k * 7919 % 97}")
            for k in range(lines)
        )
    )
    return log


@pytest.mark.parametrize(("name", "after"), [("early", 12_000), ("late", 60_000)])
def test_a_load_that_was_cut_off_is_completed_by_loading_again(
    between: Between, tmp_path: Path, name: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, mine = log_of(tmp_path, name), f"countIf(startsWith(request_id, '{name}'))"
    monkeypatch.setattr(senders.LineSender.__init__, "__defaults__", (None, 300_000))
    before = between.cutter.cuts
    between.cutter.cut(requests=after)
    done = ended("store", "load", between.dsn, str(log))
    assert between.cutter.cuts == before + 1
    assert done.code == 1
    assert done.err.endswith(CLOSED)
    assert between.count(mine) < LINES
    between.cutter.cut()
    assert ended("store", "load", between.dsn, str(log)).code == 0
    assert between.count(mine) == LINES
    rolled = between.server.ask("SELECT sum(requests) AS n FROM rollup_minute FINAL")
    assert int(rolled[0]["n"]) == between.count("count()")


def test_an_answer_that_was_cut_off_is_never_taken_for_whole(between: Between, tmp_path: Path) -> None:
    assert ended("store", "load", between.dsn, str(log_of(tmp_path, "whole"))).code == 0
    out = tmp_path / "rows.parquet"
    for command in (
        ["blame", between.dsn],
        ["split", between.dsn, "--parquet", str(out)],
        ["store", "query", between.dsn, "SELECT * FROM requests", "--csv"],
    ):
        before = between.cutter.cuts
        between.cutter.cut(answered=150_000)
        done = ended(*command)
        assert (between.cutter.cuts, done.code) == (before + 1, 1), done
        assert done.err.endswith(CLOSED)
        assert PASSWORD not in done.err
        assert not out.exists()
    between.cutter.cut(answered=300)  # in the middle of the head of an answer, which HTTP then takes for all of it
    assert ended("split", between.dsn).err.endswith("whole)\n")
    between.cutter.cut()
    assert ended("split", between.dsn).code == 0


def test_a_user_who_may_only_read(between: Between, tmp_path: Path) -> None:
    output = "Code: 497. DB::Exception: loader: Not enough privileges. To do this it needs the grant INSERT."
    between.cutter.denied = answer_of("403 Forbidden", output, 497)
    try:
        done = ended("store", "load", between.dsn, str(log_of(tmp_path, "denied", 10)))
    finally:
        between.cutter.denied = None
    assert done.code == 1
    assert "loading into incoming" in done.err
    assert "loader: Not enough privileges" in done.err
    assert between.count("countIf(startsWith(request_id, 'denied'))") == 0


def test_another_database_and_another_version(store_dsn: str, tmp_path: Path) -> None:
    """Errors name the missing part and the command that creates it; a newer store remains unchanged."""
    log = log_of(tmp_path, "a", 20)
    other = f"{store_dsn}_not_there"
    refused = ended("split", other).err
    assert f"has no database {other.rpartition('=')[2]!r}; create it with `sojourn store init" in refused
    assert ended("store", "load", store_dsn, str(log)).code == 0
    with connect(store_dsn) as store:
        later = [["upgrades/9_9_9", "a" * 64]]
        store.client.insert("schema_state", later, column_names=["name", "checksum"])
    assert "a later version has applied upgrades/9_9_9" in ended("store", "init", store_dsn).err
    assert json.loads(ended("split", store_dsn, "--json").out)["records"]["accepted"] == 20
    with connect(store_dsn) as store:
        store.client.command("DROP TABLE rollup_minute SYNC")
        store.client.command("DELETE FROM schema_state WHERE name IN ('tables/rollup_minute', 'upgrades/9_9_9')")
    done = ended("store", "load", store_dsn, str(log))
    assert done.code == 1
    assert f"not those of this version; `sojourn store init {store_dsn}` brings them up to date" in done.err
    assert "tables/rollup_minute" in ended("store", "init", store_dsn).out
    assert ended("store", "load", store_dsn, str(log)).code == 0


@pytest.fixture(scope="module")
def older(make_store: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store of an earlier version: a column is missing in a table, and its file and another one have another text."""
    dsn = make_store()
    assert ended("store", "load", dsn, str(log_of(tmp_path_factory.mktemp("older"), "o", 40))).code == 0
    with connect(dsn) as store:
        store.client.command("ALTER TABLE requests DROP COLUMN vantage")
        before = [[name, "a" * 64] for name in ("tables/requests", "views/line_gaps")]
        store.client.insert("schema_state", before, column_names=["name", "checksum"])
    return dsn


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"init", "query", "note", "explain"}))
def test_every_command_says_that_a_store_is_of_another_version(older: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(record(EPOCH))
    done = ended(*(each.replace("DSN", older).replace("DIR", str(tmp_path)) for each in COMMANDS[name]))
    assert done.code == 1, done
    assert done.err.count("\n") == 1
    assert f"its tables are not those of this version; `sojourn store init {older}` brings them up to date" in done.err


def test_answers_of_a_store_with_other_views_say_so(store_dsn: str, tmp_path: Path) -> None:
    assert ended("store", "load", store_dsn, str(log_of(tmp_path, "v", 40))).code == 0
    with connect(store_dsn) as store:
        before = [["views/line_gaps", "a" * 64]]
        store.client.insert("schema_state", before, column_names=["name", "checksum"])
    words = rf"as applied on \S+ \(another text: views/line_gaps\)\. `sojourn store init {re.escape(store_dsn)}`"
    done = ended("split", store_dsn, "--json")
    assert done.code == 0
    assert re.search(words, json.loads(done.out)["notes"][0])
    blame = ended("blame", store_dsn)
    assert blame.code == 0
    assert re.search(words, blame.err)
