"""Damaged captures end in counts or in one clear sentence: truncated, bits flipped, wrong lengths."""

from __future__ import annotations

import random
import resource
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from damage import LENGTHS, as_pcapng, containers, packets_of, read, small_capture, tracked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sojourn.readers.capture.batch import Counts

KINDS = ("pcap", "pcapng", "pcapng, other order", "pcap.gz", "pcap.zst")
MAY_GROW = 300  # MB: far below what a wrong length would allocate

RECORD_HEADER = 16  # bytes before the packet in a record of pcap; a block of pcapng takes more
OUT_OF_ORDER = "not in the order of time"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def sound(folder: Path) -> dict[str, bytes]:
    return containers(small_capture(folder))


@pytest.fixture(scope="module", autouse=True)
def bounded_memory(sound: dict[str, bytes], folder: Path) -> Iterator[None]:
    """Assert that damage costs little more memory than sound captures."""
    for data in sound.values():
        assert isinstance(tracked(data, folder), Counts)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < MAY_GROW


@pytest.mark.parametrize("kind", KINDS)
def test_every_container_holds_the_same_packets(kind: str, sound: dict[str, bytes], folder: Path) -> None:
    counts = tracked(sound[kind], folder)
    assert isinstance(counts, Counts)
    expected = len(packets_of(sound["pcap"]))
    assert (counts.packets, counts.segments, counts.damaged) == (expected, expected, {})
    assert counts.dropped == (3 if kind.startswith("pcapng") else None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_capture_keeps_what_came_before(kind: str, folder: Path) -> None:
    pcap = small_capture(folder, 1)
    data = containers(pcap)[kind]
    packets = 0
    for length in range(0, len(data), 1 if kind == "pcap" else 7):
        result = read(data[:length], folder)
        assert isinstance(result, Counts) or packets == 0
        if isinstance(result, Counts):
            assert result.packets >= packets
            packets = result.packets
    if kind != "pcap.zst":  # its one block is either whole or lost
        assert packets >= len(packets_of(pcap)) - 2


def test_a_truncated_pcap_keeps_its_whole_records_and_reports_the_damage(sound: dict[str, bytes], folder: Path) -> None:
    data, at = sound["pcap"], 24
    for number, (_, _, packet) in enumerate(packets_of(data)):
        whole = read(data[:at], folder)
        assert isinstance(whole, Counts)
        assert (whole.packets, whole.damaged) == (number, {})
        for extra in (1, 15, 16, 16 + len(packet) - 1):
            cut = read(data[: at + extra], folder)
            assert isinstance(cut, Counts)
            assert number <= cut.packets <= number + 1
            assert len(cut.damaged) == 1
        at += 16 + len(packet)


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bits_end_in_counts_or_a_message(kind: str, sound: dict[str, bytes], folder: Path) -> None:
    rng = random.Random(kind)
    packets = set()
    for turn in range(150):
        data = bytearray(sound[kind])
        for _ in range(rng.choice((1, 1, 2, 8))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        result = (tracked if turn % 10 == 0 else read)(bytes(data), folder)
        packets.add(result.packets if isinstance(result, Counts) else 0)
    if kind.partition(",")[0] in ("pcap", "pcapng"):  # a flipped bit of a payload loses no packet
        assert len(packets_of(sound["pcap"])) in packets


def test_wrong_lengths_of_pcap_records_keep_the_packets_before(sound: dict[str, bytes], folder: Path) -> None:
    data, at = sound["pcap"], 24
    for number, (_, _, packet) in enumerate(packets_of(data)[:12]):
        for field in (8, 12):
            for length in LENGTHS:
                changed = bytearray(data)
                struct.pack_into("<I", changed, at + field, length)
                result = (tracked if number == 3 else read)(bytes(changed), folder)
                assert isinstance(result, Counts)
                assert result.packets >= number
        at += 16 + len(packet)


@pytest.mark.parametrize("order", ["<", ">"])
def test_wrong_lengths_of_pcapng_blocks_keep_the_packets_before(
    order: str, sound: dict[str, bytes], folder: Path
) -> None:
    data = as_pcapng(sound["pcap"], order)
    at, number = 0, -2
    while number < 6:
        (size,) = struct.unpack_from(order + "I", data, at + 4)
        for field in (4, 8, 16, 20, 24, size - 4):
            for length in (*LENGTHS, size - 4, size + 4, size - 1):
                changed = bytearray(data)
                struct.pack_into(order + "I", changed, at + min(field, size - 4), length)
                result = read(bytes(changed), folder)
                assert isinstance(result, Counts) or number < 0 or OUT_OF_ORDER in result
                assert isinstance(result, str) or result.packets >= number
        at, number = at + size, number + 1


@pytest.mark.parametrize(
    ("at", "form"),
    [(0, "B"), (2, ">H"), (6, ">H"), (9, "B"), (32, "B"), (54, "B"), (55, "B")],
    ids=["ip header", "ip length", "ip fragment", "protocol", "tcp header", "option", "option length"],
)
def test_wrong_lengths_in_packet_headers_lose_no_packet(
    at: int, form: str, sound: dict[str, bytes], folder: Path
) -> None:
    data, begin = sound["pcap"], 24
    for _, _, packet in packets_of(data)[:14]:
        for value in (0, 1, 0x0F, 0x40, 0x4F, 0x50, 0xF0, 0xFF, 0x1FFF, 0x2000, 0xFFFF):
            if value > 255 and form == "B":
                continue
            changed = bytearray(data)
            struct.pack_into(form, changed, begin + 16 + 14 + at, value)
            result = (tracked if value == 255 else read)(bytes(changed), folder)
            if isinstance(result, str):  # the packet is so short that the time of the next record was written to
                assert OUT_OF_ORDER in result
                continue
            assert result.packets == len(packets_of(data))
        begin += 16 + len(packet)


EDITS = st.lists(st.tuples(st.integers(0, 2**20), st.binary(min_size=0, max_size=6), st.integers(0, 4)), max_size=4)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(kind=st.sampled_from(KINDS), edits=EDITS, cut=st.one_of(st.none(), st.integers(0, 2**20)))
def test_arbitrary_edits_never_invent_packets(
    kind: str, edits: list[tuple[int, bytes, int]], cut: int | None, sound: dict[str, bytes], folder: Path
) -> None:
    data = bytearray(sound[kind])
    for position, new, removed in edits:
        at = position % len(data) if data else 0
        data[at : at + removed] = new
    if cut is not None:
        del data[cut % (len(data) + 1) :]
    counts = tracked(bytes(data), folder)
    if bytes(data) == sound[kind]:
        assert isinstance(counts, Counts)
        assert (counts.packets, counts.damaged) == (len(packets_of(sound["pcap"])), {})
    elif isinstance(counts, Counts) and kind.partition(",")[0] in ("pcap", "pcapng"):
        assert counts.packets <= len(data) // RECORD_HEADER


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(begin=st.sampled_from([b"", b"\xd4\xc3\xb2\xa1", b"\x0a\x0d\x0d\x0a", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"]),
       rest=st.binary(max_size=200))  # fmt: skip
def test_arbitrary_bytes_are_refused_or_hold_no_more_packets_than_fit(begin: bytes, rest: bytes, folder: Path) -> None:
    counts = tracked(begin + rest, folder)
    assert isinstance(counts, str) or counts.packets <= len(rest) // RECORD_HEADER
    if not begin and not rest:
        assert isinstance(counts, str)


def test_noise_in_the_payload_loses_no_packet(folder: Path) -> None:
    """Replace a third of the bytes of every request and response by noise."""
    rng = random.Random(5)
    data = bytearray(small_capture(folder, 6))
    at = 24
    for _, _, packet in packets_of(bytes(data)):
        for position in range(at + 16 + 66, at + 16 + len(packet)):
            if rng.random() < 0.3:
                data[position] = rng.randrange(256)
        at += 16 + len(packet)
    counts = tracked(bytes(data), folder)
    assert isinstance(counts, Counts)
    assert (counts.packets, counts.undecoded, counts.damaged) == (len(packets_of(bytes(data))), {}, {})


def test_the_command_reports_damage_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.pcap"
    path.write_bytes(b"\x1f\x8b\x08garbled\n\x1b[31m")
    done = subprocess.run(
        [sys.executable, "-m", "sojourn", "pcap", str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("sojourn: ")
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert "fault of sojourn's own" not in done.stderr
