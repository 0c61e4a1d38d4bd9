"""curl as the page on shippers runs it: every kind of line, twice, compressed, and to a store that is away."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("chdb")

from clickhouse_http import StandIn
from shippers_support import LOG, Store, lines_of_log, run_commands, started
from sojourn_lab.runtime.ports import free_port
from split_support import BAD_LINES

GOOD = 60
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, store_in: Callable[[Path], StandIn]) -> Iterator[Store]:
    with started(tmp_path_factory.mktemp("shippers"), store_in) as store:
        yield store


@pytest.fixture
def store(running: Store) -> Store:
    running.empty()
    return running


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log with bad lines, CRLF, and no newline at the end."""
    path = tmp_path_factory.mktemp("log") / "sojourn.jsonl"
    path.write_bytes(b"".join(lines_of_log(GOOD)))
    path.with_suffix(".jsonl.1.gz").write_bytes(gzip.compress(path.read_bytes()))
    return path


def words(log: Path, name: str) -> dict[str, object]:
    """Return the log in the place of the page's."""
    if name in ("stream", "gzip"):
        return {f"{LOG}.1.gz": log.with_suffix(".jsonl.1.gz")}
    return {LOG: log}


@pytest.mark.parametrize("name", ["curl", "stream", "gzip", "source"])
def test_every_line_is_a_row_or_a_dead_letter_and_twice_is_once(name: str, store: Store, log: Path) -> None:
    for _ in range(2):
        done = store.run(name, words(log, name))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert store.counts() == (GOOD, len(BAD_LINES))
    assert GOOD + len(BAD_LINES) == len(log.read_bytes().splitlines())
    reasons = store.http.ask("SELECT reason, count() AS n FROM dead_letters FINAL GROUP BY reason")
    wanted = [reason for _, reason in BAD_LINES]
    assert {row["reason"]: row["n"] for row in reasons} == {reason: wanted.count(reason) for reason in wanted}
    # Each delivery counts, and nothing is known about missing lines.
    assert store.http.ask("SELECT sum(lines) AS n FROM lines_received")[0]["n"] == 2 * (GOOD + len(BAD_LINES))
    assert store.count("line_runs") == 0


def test_host_and_file_are_the_source(store: Store, log: Path) -> None:
    assert store.run("source", words(log, "source")).returncode == 0
    sources = store.http.ask("SELECT DISTINCT source FROM dead_letters")
    assert sources == [{"source": f"edge1:{log}"}] == store.http.ask("SELECT DISTINCT source FROM requests")


def test_dead_letters_of_two_sources_are_two_rows(store: Store, log: Path) -> None:
    for name in ("curl", "source"):
        assert store.run(name, words(log, name)).returncode == 0
    assert store.counts() == (GOOD, 2 * len(BAD_LINES))


def test_equal_bad_lines_without_a_position_are_one_row(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "sojourn.jsonl"
    path.write_bytes(b"not a record\n" * 3)
    assert store.run("curl", words(path, "curl")).returncode == 0
    assert store.counts() == (0, 1)


@pytest.mark.parametrize("name", ["curl", "stream", "gzip", "source"])
def test_failed_command_is_repeated_without_loss(name: str, store: Store, log: Path) -> None:
    for mood, message in (("refuse", "TOO_MANY_SIMULTANEOUS_QUERIES"), ("deny", "AUTHENTICATION_FAILED")):
        store.http.control(**{mood: 60})
        done = store.run(name, words(log, name))
        store.http.control(**{mood: 0})
        assert done.returncode == 22
        assert message in done.stdout
        assert "returned error: " in done.stderr
    assert store.counts() == (0, 0)
    store.http.control(lose=60)  # stored, but the answer is an error
    done = store.run(name, words(log, name))
    store.http.control(lose=0)
    assert done.returncode == 22
    assert store.run(name, words(log, name)).returncode == 0
    assert store.counts() == (GOOD, len(BAD_LINES))


@pytest.mark.parametrize("name", ["curl", "stream", "gzip", "source"])
def test_closed_port_fails_the_command(name: str, store: Store, log: Path) -> None:
    block = store.block(name, words(log, name))
    away = block.replace(store.http.url, f"http://127.0.0.1:{free_port()}")
    assert away != block
    assert run_commands(away).returncode == 7


def test_small_batches_are_stored_before_the_answer(store: Store, tmp_path: Path) -> None:
    for number, line in enumerate(lines_of_log(5)):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(line)
    settings = "async_insert=1&wait_for_async_insert=1"
    for path in tmp_path.glob("*.jsonl"):
        block = store.block("curl", words(path, "curl")).replace("&query=", f"&{settings}&query=")
        assert settings in block
        assert run_commands(block).returncode == 0
    assert store.counts() == (5, len(BAD_LINES))


def test_spans(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    requests = gzip.decompress((EXAMPLES / "six-requests-spans.jsonl.gz").read_bytes())
    ids = set(re.findall(rb'"spanId":"([0-9a-f]+)"', requests))
    path.write_bytes(requests + b"not a span\n")
    for _ in range(2):
        assert store.run("spans", {"/var/log/sojourn/spans.jsonl": path}).returncode == 0
        assert store.count("spans") == len(ids)
        assert store.http.ask("SELECT kind, reason, raw FROM dead_letters FINAL") == [
            {"kind": "spans", "reason": "not_an_export", "raw": "not a span"}
        ]
