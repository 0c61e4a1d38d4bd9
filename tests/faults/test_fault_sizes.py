"""Logs of odd sizes: none, one line, one request an hour, nothing that counts; and thirty thousand of each name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# The path comes first.
from commands_run import ended
from sojourn.plots.kinds import KINDS
from watch_support import EPOCH, given_up, record

HOUR = 3_600.0
NO_NUMBER = re.compile(r"(?<![A-Za-z])[-+]?(?:nan|NaN|inf|Infinity)(?: ?%|(?![A-Za-z]))")


def at_once() -> bytes:
    """A request that took less than nginx's clock can tell."""
    none = {"request_time": "0.000", "upstream_header_time": "0.000", "upstream_response_time": "0.000"}
    return record(EPOCH, 0.0003, 0.0002, request_start=f"{EPOCH:.3f}", **none)


def refused(end: float) -> bytes:
    return record(end, request_time="abc")


def upgraded(end: float) -> bytes:
    return record(end, 0.0, 30.0, status="101", upstream_status="101", queueing_delay="", service_time="")


def unproxied(end: float) -> bytes:
    gone = dict.fromkeys(("upstream_addr", "upstream_connect_time", "upstream_header_time"), "-")
    gone |= dict.fromkeys(("request_start", "queueing_delay", "service_time", "worker"), "")
    return record(end, **{**gone, "upstream_response_time": "-"})


def several(produced: Callable[[float], bytes], apart: float = 1.0, count: int = 5) -> bytes:
    return b"".join(produced(EPOCH + apart * k) for k in range(count))


LOGS = {
    "empty": b"",
    "one line": record(EPOCH, 0.2, 0.1),
    "one line at once": at_once(),
    "two at one instant": record(EPOCH, 0.2, 0.1) + record(EPOCH, 0.1, 0.1, worker="2", route="/b"),
    "one an hour": several(lambda end: record(end, 0.2, 0.1), HOUR, 24),
    "refused lines": several(refused),
    "clients gone": several(lambda end: given_up(end, 0.5, "499")),
    "upgraded": several(upgraded),
    "not proxied": several(unproxied),
}
COMMANDS = [
    ["split"], ["split", "--json"], ["blame"], ["depth", "--json"], ["goodput"], ["laws"], ["clock"], ["doctor"],
    ["capacity", "--slo", "p99=0.5"], ["whatif", "--force"], ["compare"], ["watch", "--once"],
]  # fmt: skip


ORDINARY = ("empty", "one line", "clients gone")


def given(log: Path, name: str) -> Iterator[list[str]]:
    """The commands for a log, and some kinds of charts: another part of them for each log."""
    for verb, *options in COMMANDS:
        yield [verb, str(log), *([str(log)] if verb == "compare" else []), *options]
    turn, kinds = [*LOGS].index(name), [*KINDS]
    for kind in kinds[turn :: len(LOGS)][:2]:
        yield ["plot", str(log), kind, "--out", str(log.with_name("o.svg"))]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ORDINARY else pytest.mark.thorough) for name in LOGS]
)
def test_every_command_has_a_word_for_it(name: str, tmp_path: Path) -> None:
    """0 and a result without a number that is none, or 1 and one sentence."""
    log = tmp_path / "access.jsonl"
    log.write_bytes(LOGS[name])
    for command in given(log, name):
        done = ended(*command)
        assert done.code in (0, 1), (command, done)
        assert "fault of sojourn's own" not in done.err, (command, done.err)
        assert not NO_NUMBER.search(done.out), (command, done.out)
        if "--json" in command and not done.code:
            json.loads(done.out, parse_constant=pytest.fail)
        if done.code and command[0] != "doctor":
            assert done.err.startswith("sojourn: "), (command, done)
            assert done.err.count("\n") == 1, (command, done.err)


def test_a_share_of_nothing_is_none(tmp_path: Path, store_dsn: str) -> None:
    """Requests that took no millisecond have no share of queueing, in a log and in a store."""
    log = tmp_path / "access.jsonl"
    log.write_bytes(at_once())
    assert ended("store", "load", store_dsn, str(log)).code == 0
    for source in (str(log), store_dsn):
        (row,) = json.loads(ended("split", source, "--json").out)["by"]["route"]
        assert row["queueing_share"] is None
        assert not NO_NUMBER.search(ended("split", source).out)


MOST = 1_200_000  # KiB
PEAK = """
import re, sys
from pathlib import Path
from sojourn.cli import main
try:
    main()
finally:
    print(re.search("VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1], file=sys.stderr)
"""


@pytest.mark.parametrize("many", [5_000, pytest.param(30_000, marks=pytest.mark.thorough)])
def test_many_of_every_name(tmp_path: Path, many: int) -> None:
    """A different route, service and worker for every request: output and memory are bounded."""
    log = tmp_path / "access.jsonl"
    line = record(EPOCH, 0.008, 0.011, route="/R", worker="W", upstream_addr="10.0.0.1:80").decode()
    head, tail = line.replace('"shop"', '"S"').split(f'"{EPOCH:.3f}"')
    with log.open("w") as file:
        for k in range(many):
            rest = tail.replace("/R", f"/r{k}").replace('"S"', f'"s{k}"').replace('"W"', f'"w{k}"')
            file.write(f'{head}"{EPOCH + k / 1000:.3f}"{rest}')
    done = subprocess.run(
        [sys.executable, "-c", PEAK, "split", str(log), "--json"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stderr.split()[-1]) < MOST
    document = json.loads(done.stdout)
    assert document["requests"] == many
    assert len(done.stdout) < 4_000_000
    assert all(len(rows) <= 1_000 for rows in document["by"].values())
    assert f"{many - 10:,} more" in ended("split", str(log)).out
    once = ended("watch", str(log), "--once")
    assert once.code == 0
    assert len(once.out.splitlines()) < 300  # 200 groups, and no more


MOST_ENTRIES = 1_000  # of one list in the JSON


def test_many_backends_have_bounded_entries_and_whole_sums(tmp_path: Path, store_dsn: str) -> None:
    """Each list of backends has its largest entries and the number of others, in a log as in a store."""
    log, backends, repeated = tmp_path / "access.jsonl", 1_200, 40
    upstreams = [f"10.{k // 250}.0.{k % 250}:80" for k in range(backends)]
    # The last ones have two requests each.
    order = [*upstreams, *upstreams[-repeated:]]
    log.write_bytes(b"".join(record(EPOCH + k / 100, 0.008, 0.011, upstream_addr=name) for k, name in enumerate(order)))
    assert ended("store", "load", store_dsn, str(log)).code == 0
    documents = [json.loads(ended("split", source, "--json").out) for source in (str(log), store_dsn)]
    for document in documents:
        others = {"values": backends - MOST_ENTRIES, "requests": backends - MOST_ENTRIES}
        assert document["others"] == {"upstream": others, "clock": others}
        assert document["requests"] == len(order) == document["audit"]["known"]["answered"]
        for rows in (document["by"]["upstream"], document["clock"]):
            assert len(rows) == MOST_ENTRIES
            assert sum(row["requests"] for row in rows) + others["requests"] == len(order)
            assert {row["upstream"] for row in rows} >= set(upstreams[-repeated:])
        assert len(document["audit"]["utilisation"]) == MOST_ENTRIES
        assert document["audit"]["less_busy_backends"] == backends - MOST_ENTRIES
        assert any("200 others have one offset each" in note for note in document["notes"])
    of_log, of_store = documents
    assert of_log["clock"] == of_store["clock"]
    assert of_log["audit"]["utilisation"] == of_store["audit"]["utilisation"]
    assert f"{backends - 10:,} more" in ended("split", str(log)).out
