"""Captures that others made, read as tshark reads them: packets, segments field by field, connections, exchanges.

By default those among the tests of gopacket, which ``lab/setup.sh test`` fetches (the files of the pcapng test suite in
both byte orders, a few sessions); any folder of captures, however large, by SOJOURN_CAPTURES=FOLDER.
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sojourn.model.errors import SojournError
from tshark_reads import (
    SojournReads,
    connection_differences,
    equal_batches,
    exchange_differences,
    segment_differences,
    tshark_rows,
)

ROOT = Path(__file__).parents[4]
FOLDER = Path(os.environ.get("SOJOURN_CAPTURES", ROOT / ".tools/captures"))
CAPTURES = sorted(path for path in FOLDER.rglob("*") if path.suffix in {".pcap", ".pcapng", ".cap", ".trace"})
PAIRS = [(path, path.parents[1] / "be" / path.name) for path in CAPTURES if path.parent.name == "le"]

pytestmark = [
    pytest.mark.skipif(not CAPTURES, reason=f"no captures of others in {FOLDER} (lab/setup.sh test fetches them)"),
    pytest.mark.skipif(not shutil.which("tshark"), reason="no tshark"),
]

Theirs = dict[Path, tuple[int, list[dict[str, str]]] | str]


@pytest.fixture(scope="module")
def theirs() -> Theirs:
    """What tshark reads of each; a file in both byte orders is read once by it."""
    twice = {other for _, other in PAIRS}
    chosen = [path for path in CAPTURES if path not in twice]
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(chosen, pool.map(tshark_rows, chosen), strict=True))


@pytest.fixture(scope="module")
def reads(theirs: Theirs) -> dict[Path, SojournReads | SojournError]:
    return {path: _reads_of(path) for path in theirs}


def _reads_of(path: Path) -> SojournReads | SojournError:
    try:
        return SojournReads(path)
    except SojournError as error:
        return error


def test_every_capture_is_read_or_refused_in_a_sentence(
    reads: dict[Path, SojournReads | SojournError], theirs: Theirs
) -> None:
    for path, result in reads.items():
        if isinstance(result, SojournError):
            assert isinstance(theirs[path], str), f"{path}: refused here ({result}), and tshark reads it"
            continue
        counts = result.counts
        assert counts.packets == counts.segments + sum(counts.other.values()) + sum(counts.undecoded.values()), path
        if not isinstance(theirs[path], str) and not counts.damaged:
            assert counts.packets == theirs[path][0], path


def test_segments_agree_field_by_field(reads: dict[Path, SojournReads | SojournError], theirs: Theirs) -> None:
    compared = _differences(reads, theirs, segment_differences)
    assert compared == {}
    assert sum(len(result.segments) for result in reads.values() if isinstance(result, SojournReads)) > 20


def test_connections_agree(reads: dict[Path, SojournReads | SojournError], theirs: Theirs) -> None:
    assert _differences(reads, theirs, connection_differences) == {}


def test_requests_and_answers_agree(reads: dict[Path, SojournReads | SojournError], theirs: Theirs) -> None:
    assert _differences(reads, theirs, lambda mine, rows: exchange_differences(mine, rows)[1]) == {}


@pytest.mark.skipif(not PAIRS, reason="no captures in both byte orders")
def test_both_byte_orders_say_the_same() -> None:
    for one, other in PAIRS:
        little, big = _reads_of(one), _reads_of(other)
        if isinstance(little, SojournError) or isinstance(big, SojournError):
            assert type(little) is type(big), one
            continue
        assert equal_batches(little.batches, big.batches), one
        assert list(little.counts.damaged.values()) == list(big.counts.damaged.values()), one
        assert replace(little.counts, damaged={}) == replace(big.counts, damaged={}), one


def _differences(own, theirs, compare):  # type: ignore[no-untyped-def]
    values = {}
    for path, mine in own.items():
        if isinstance(mine, SojournReads) and not isinstance(theirs[path], str):
            differences = compare(mine, theirs[path][1])
            if differences:
                values[str(path)] = differences[:5]
    return values
