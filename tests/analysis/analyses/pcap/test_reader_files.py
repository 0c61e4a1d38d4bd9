"""Files of captures: several, damaged, compressed, cut into stretches; whatever is in them ends in counts."""

from __future__ import annotations

import gzip
import os
import shutil
import struct
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import captures
import pytest
from captures import SECOND, START, Frame, linked, segment, zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_support import V4, V6, all_of, conversation, expected, written
from sojourn import SojournError
from sojourn.readers.capture.batch import Counts
from sojourn.readers.capture.reader import Capture

PACKETS = conversation(V4) + conversation(V6)
FRAMES = captures.frames(PACKETS)
PCAP, PCAPNG = captures.pcap(FRAMES), captures.pcapng(FRAMES)


def refusal(*sources: Path | str) -> str:
    with pytest.raises(SojournError) as raised:
        Capture(sources[0] if len(sources) == 1 else sources)
    assert "\n" not in str(raised.value)
    return str(raised.value)


# --- pcapng ---


def test_sections_of_both_byte_orders_and_their_interfaces(tmp_path: Path) -> None:
    """Every section begins the numbers of its interfaces again; an interface of the same name is the same one."""
    first, second, third = (segment(*V4, sport=n) for n in (1001, 1002, 1003))
    data = (
        captures.section(big=True)
        + captures.interface(name="eth0", big=True)
        + captures.interface(captures.RAW, name="tun0", resolution=9, big=True)
        + captures.block(0x0BAD, b"of another program", big=True)
        + captures.enhanced(Frame(START + 1, bytes(first), interface=1), resolution=9, big=True)
        + captures.section()
        + captures.interface(captures.COOKED_2, name="any")
        + captures.block(4, bytes(8))
        + captures.enhanced(Frame(START + 1000, linked(second, captures.COOKED_2, interface=12)))
        + captures.interface(name="eth0")
        + captures.enhanced(Frame(START + 2000, linked(third), interface=1))
        + captures.enhanced(Frame(START + 3000, linked(third), interface=2))
    )
    rows, counts, capture = all_of(written(tmp_path, data))
    assert [(row[2], row[3] - START, row[4], row[11]) for row in rows] == [
        (1, 1, 1001, 1),
        (2, 1000, 1002, 12),
        (3, 2000, 1003, 0),
    ]
    assert capture.interfaces == ["eth0", "tun0", "any"]
    assert counts == Counts(packets=4, segments=3, undecoded={"interface not described": 1})


def test_packets_without_a_time_are_counted(tmp_path: Path) -> None:
    data = captures.section() + captures.interface() + captures.simple(FRAMES[0]) + captures.enhanced(FRAMES[1])
    rows, counts, _ = all_of(written(tmp_path, data))
    assert counts.undecoded == {"no time (simple packet block)": 1}
    assert [row[2] for row in rows] == [2]


def test_counts_packets_lost_in_capturing(tmp_path: Path) -> None:
    """Statistics are totals of an interface, so the last ones count."""
    assert all_of(written(tmp_path, PCAPNG))[1].dropped is None
    assert all_of(written(tmp_path, PCAPNG + captures.statistics()))[1].dropped is None
    two = captures.section() + captures.interface(name="a") + captures.interface(name="b")
    data = two + captures.statistics(0, dropped=3) + captures.statistics(1, dropped=10, system=1)
    one, other = written(tmp_path, data + captures.statistics(0, dropped=5), "1"), written(tmp_path, data, "2")
    assert all_of(one)[1].dropped == 16
    assert all_of(one, other)[1].dropped == 16 + 14


def test_a_packet_longer_than_its_block(tmp_path: Path) -> None:
    blocks = [bytearray(captures.enhanced(frame)) for frame in FRAMES]
    blocks[3][20:24] = struct.pack("<I", 4096)
    data = captures.section() + captures.interface() + b"".join(map(bytes, blocks))
    rows, counts, _ = all_of(written(tmp_path, data))
    assert counts.undecoded == {"bad length in its block": 1}
    assert len(rows) == len(FRAMES) - 1


# --- damage ---


@pytest.mark.parametrize("data", [PCAP, PCAPNG], ids=["pcap", "pcapng"])
def test_cut_off_at_every_byte(tmp_path: Path, data: bytes) -> None:
    """Whatever is there in full is read, and the rest is said."""
    whole, _, _ = all_of(written(tmp_path, data))
    complete = [len(captures.pcap(FRAMES[:n]) if data is PCAP else captures.pcapng(FRAMES[:n])) for n in range(15)]
    for size in range(24 if data is PCAP else 28, len(data), 13):
        path = written(tmp_path, data[:size])
        rows, counts, _ = all_of(path)
        assert rows == whole[: sum(size >= c for c in complete) - 1 if size >= complete[0] else 0]
        if size in complete:
            assert counts.damaged == {}
        elif size > complete[0]:
            assert list(counts.damaged) == [str(path)]
            assert counts.damaged[str(path)].startswith("ends in the middle of a record (at byte ")


def test_garbage_in_the_middle(tmp_path: Path) -> None:
    begin = len(captures.pcap(FRAMES[:5]))
    path = written(tmp_path, PCAP[:begin] + b"\xff" * 64 + PCAP[begin + 64 :])
    rows, counts, _ = all_of(path)
    assert len(rows) == 5
    assert counts.damaged == {
        str(path): f"a record claims 4,294,967,295 bytes, more than a packet has (at byte {begin:,}); not read further"
    }
    begin = len(captures.pcapng(FRAMES[:5]))
    path = written(tmp_path, PCAPNG[:begin] + b"\xff" * 64 + PCAPNG[begin + 64 :])
    rows, counts, _ = all_of(path)
    assert len(rows) == 5
    assert counts.damaged == {
        str(path): f"a block has an impossible length of 4,294,967,295 bytes (at byte {begin:,}); not read further"
    }


def test_blocks_whose_lengths_differ(tmp_path: Path) -> None:
    begin = len(captures.pcapng(FRAMES[:5]))
    data = bytearray(PCAPNG)
    data[begin - 4] ^= 1
    path = written(tmp_path, bytes(data))
    rows, counts, _ = all_of(path)
    assert len(rows) == 4
    assert "the two lengths of a block differ" in counts.damaged[str(path)]


def test_a_section_of_another_version_or_order(tmp_path: Path) -> None:
    for at, value, word in ((12, b"\x09\x00", "version 9 of pcapng"), (8, b"abcd", "no valid byte order")):
        bad = bytearray(captures.section())
        bad[at : at + len(value)] = value
        path = written(tmp_path, PCAPNG + bytes(bad))
        rows, counts, _ = all_of(path)
        assert len(rows) == len(FRAMES)
        assert word in counts.damaged[str(path)]


def test_headers_that_lie(tmp_path: Path) -> None:
    def changed(packet, at: int, value: int) -> Frame:
        data = bytearray(linked(packet))
        data[at] = value
        return Frame(START, bytes(data))

    four, six = segment(*V4, payload=b"x" * 10), segment(*V6, payload=b"x" * 10)
    content = [
        changed(four, 14, 0x55), changed(four, 14, 0x44), changed(four, 16, 0x44), changed(four, 17, 19),
        changed(four, 14 + 20 + 12, 0x40), changed(four, 14 + 20 + 12, 0xF0), changed(four, 17, 30),
        changed(six, 14, 0x50), changed(six, 19, 255),
        Frame(START, linked(four)).cut(10), Frame(START, linked(four)).cut(33), Frame(START, linked(four)).cut(53),
        Frame(START, linked(six)).cut(20), Frame(START, linked(four)).cut(54), Frame(START, b"", 60),
    ]  # fmt: skip
    rows, counts, _ = all_of(written(tmp_path, captures.pcap(content)))
    assert counts.undecoded == {
        "bad ip version": 2, "bad ip header length": 1, "bad ip length": 3, "bad tcp header length": 3,
        "link header cut": 2, "ip header cut": 2, "tcp header cut": 1,
    }  # fmt: skip
    assert [(row[2], row[-3], row[-2]) for row in rows] == [(14, 10, 0)]
    assert counts.cut == 2


def test_options_of_tcp_that_were_not_kept(tmp_path: Path) -> None:
    packet = segment(flags="S", options=[("MSS", 1460), ("Timestamp", (1, 2))], payload=b"abc")
    rows, counts, _ = all_of(written(tmp_path, captures.pcap([Frame(START, linked(packet)).cut(60)])))
    assert [(row[8], row[-3], row[-2]) for row in rows] == [(2, 3, 0)]
    assert counts.cut == 1


def test_link_types_that_are_not_known(tmp_path: Path) -> None:
    path = written(tmp_path, captures.pcap(FRAMES, link_type=105))
    assert all_of(path)[1] == Counts(packets=14, undecoded={"link type 105": 14})


def test_rejects_files_that_are_not_captures(tmp_path: Path) -> None:
    log = written(tmp_path, b'{"time": "1"}\n', "access.jsonl")
    assert refusal(log) == f"{log}: neither pcap nor pcapng (it begins with the bytes 7b 22 74 69 6d 65 22 3a)"
    zipped = written(tmp_path, gzip.compress(b"text"), "a.pcap.gz")
    assert "neither pcap nor pcapng (it begins with the bytes 74 65 78 74)" in refusal(zipped)
    assert "cannot be read further" in refusal(written(tmp_path, b"\x1f\x8bnonsense", "b.gz"))
    empty = written(tmp_path, b"", "empty.pcap")
    assert refusal(empty) == f"{empty}: empty"
    assert "no such file" in refusal(tmp_path / "none.pcap")
    assert "no file matches" in refusal(tmp_path / "*.pcapng")
    assert "no capture was given" in refusal()
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    assert "no capture in it" in refusal(nothing)
    written(nothing, b"{}", "access.jsonl")
    assert "no capture in it" in refusal(nothing)
    good = written(tmp_path, PCAP)
    assert "neither pcap nor pcapng" in refusal(good, log)


def test_a_header_and_no_packets(tmp_path: Path) -> None:
    for data in (captures.pcap([]), captures.pcapng([]), captures.section()):
        assert all_of(written(tmp_path, data))[1] == Counts()


# --- files ---


@pytest.mark.parametrize("packed", [gzip.compress, zstandard], ids=["gzip", "zstd"])
@pytest.mark.parametrize("data", [PCAP, PCAPNG], ids=["pcap", "pcapng"])
def test_compressed_captures(tmp_path: Path, packed, data: bytes) -> None:
    whole, _, _ = all_of(written(tmp_path, data))
    # Members and frames in a row are one file; a name says nothing.
    path = written(tmp_path, packed(data[:100]) + packed(data[100:]), "capture.txt")
    assert all_of(path)[0] == whole == expected(PACKETS)
    many = captures.pcap(FRAMES * 2000)
    squeezed = packed(many)
    path = written(tmp_path, squeezed[: len(squeezed) // 2])
    rows, counts, _ = all_of(path)
    assert 0 < len(rows) < len(FRAMES) * 2000
    assert "cannot be read further" in counts.damaged[str(path)]


def test_files_are_read_in_the_order_of_their_first_packets(tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    ring.mkdir()
    items = [captures.pcap(captures.frames([segment(sport=1000 + i)])) for i in range(3)]
    for i, data in enumerate(items):
        body = bytearray(data)
        body[24:28] = struct.pack("<I", START // SECOND + i)
        written(ring, bytes(body), f"x.pcap{(i + 2) % 3}")
    written(ring, b"", "x.pcap3")
    written(ring, b"{}", "notes.txt")
    rows, counts, capture = all_of(ring)
    assert [row[4] for row in rows] == [1000, 1001, 1002]
    assert [row[2] for row in rows] == [1, 2, 3]
    assert [Path(name).name for name in capture.names] == ["x.pcap2", "x.pcap0", "x.pcap1"]
    assert counts.damaged == {str(ring / "x.pcap3"): "empty"}
    # The same file under two names is read once; a glob names the same files.
    os.link(ring / "x.pcap0", ring / "again")
    assert len(all_of(ring, ring / "x.pcap1", str(ring / "x.pcap[0-2]"))[0]) == 3


def test_a_runs_folder(tmp_path: Path) -> None:
    written(tmp_path, PCAP, "capture.pcap")
    written(tmp_path, captures.pcap(FRAMES[:3]), "capture-2.pcap")
    written(tmp_path, PCAPNG, "other.pcapng")
    written(tmp_path, b"{}\n", "access.jsonl")
    _, _, capture = all_of(tmp_path)
    assert sorted(capture.names) == [str(tmp_path / "capture-2.pcap"), str(tmp_path / "capture.pcap")]


@pytest.mark.parametrize(
    ("data", "count"),
    [(PCAP, 14), (gzip.compress(PCAPNG), 14), (captures.pcap(FRAMES * 500), 7000)],
    ids=["pcap", "pcapng.gz", "long"],
)
def test_standard_input(monkeypatch: pytest.MonkeyPatch, data: bytes, count: int) -> None:
    """A pipe cannot be opened twice: what a first look took from it is still read."""
    end, begin = os.pipe()

    def write() -> None:
        with open(begin, "wb") as pipe:
            pipe.write(data)

    writer = threading.Thread(target=write)
    writer.start()
    with open(end, "rb") as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        rows, counts, capture = all_of("-", batch_bytes=30_000)
    writer.join()
    assert (len(rows), counts.packets, counts.damaged, capture.names) == (count, count, {}, ("-",))


@pytest.mark.parametrize(
    "data", [PCAP, PCAPNG, captures.pcap(FRAMES, modified=True)], ids=["pcap", "pcapng", "modified"]
)
def test_the_size_of_a_batch_changes_nothing(tmp_path: Path, data: bytes) -> None:
    path = written(tmp_path, data)
    whole, counts, _ = all_of(path)
    for size in (1, 100, 1000, len(data)):
        assert all_of(path, batch_bytes=size)[:2] == (whole, counts)
    cut = written(tmp_path, data[:-3], "cut")
    assert all_of(cut, batch_bytes=5)[:2] == all_of(cut)[:2]


def test_memory_is_bounded_by_the_batch(tmp_path: Path) -> None:
    path = tmp_path / "long.pcap"
    many = captures.pcap(captures.frames(PACKETS, step=0))[24:] * 1000
    with path.open("wb") as file:
        file.write(PCAP[:24])
        for _ in range(24):
            file.write(many)
    assert path.stat().st_size > 50_000_000
    tracemalloc.start()
    try:
        with Capture([path]) as capture:
            assert sum(len(batch) for batch in capture) == len(PACKETS) * 24_000
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_many_addresses(tmp_path: Path) -> None:
    """Each address has one place, in whichever batch it comes again."""

    def four(i: int) -> str:
        return f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}"

    template = bytearray(linked(segment(four(0))))
    content = []
    for i in [*range(3000), *range(3000)]:
        template[26:30] = bytes([10, i >> 16, i >> 8 & 255, i & 255])
        content.append(Frame(START, bytes(template)))
    content += captures.frames([segment(*V6), segment("2001:db8::a00:0", "::ffff:10.0.0.1")])
    rows, _, capture = all_of(written(tmp_path, captures.pcap(content)), batch_bytes=10_000)
    assert [row[0] for row in rows[:6000]] == [four(i % 3000) for i in range(6000)]
    assert [row[:2] for row in rows[6000:]] == [V6, ("2001:db8::a00:0", "::ffff:10.0.0.1")]
    assert len(capture.addresses) == len(set(capture.addresses)) == 3000 + 4


def test_a_capture_is_read_once(tmp_path: Path) -> None:
    with Capture([written(tmp_path, PCAP)]) as capture:
        list(capture)
        with pytest.raises(RuntimeError, match="once"):
            list(capture)


# --- against others ---


TSHARK_FIELDS = (
    "ip.src", "ipv6.src", "ip.dst", "ipv6.dst", "frame.number", "frame.time_epoch", "tcp.srcport", "tcp.dstport",
    "tcp.seq_raw", "tcp.ack_raw", "tcp.flags", "tcp.window_size_value", "tcp.len",
)  # fmt: skip


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_reads_the_same(tmp_path: Path) -> None:
    """One file with every link layer and address family, VLAN tags and a snap length."""
    links = [
        1,
        captures.NULL,
        captures.LOOP,
        captures.RAW,
        captures.COOKED,
        captures.COOKED_2,
    ]
    data = captures.section() + b"".join(captures.interface(link, resolution=9) for link in links)
    time = START
    for number, link in enumerate(links):
        for packet in PACKETS:
            time += 1_000_001
            tags = [(0x8100, 3)] if link == 1 else []
            frame = Frame(time, linked(packet, link, tags=tags), interface=number).cut(90 if len(packet) % 2 else 200)
            data += captures.enhanced(frame, resolution=9)
    path = written(tmp_path, data)
    fields = [word for field in TSHARK_FIELDS for word in ("-e", field)]
    done = subprocess.run(
        ["tshark", "-n", "-r", path, "-o", "tcp.desegment_tcp_streams:false", "-T", "fields", "-Y", "tcp", *fields],
        capture_output=True, check=True, timeout=60, text=True,
    )  # fmt: skip
    theirs = []
    for line in done.stdout.splitlines():
        a, a6, b, b6, number, when, *rest = line.split("\t")
        second, fraction = when.split(".")
        theirs.append((a or a6, b or b6, int(number), int(second) * SECOND + int(fraction), *(int(x, 0) for x in rest)))
    rows, counts, _ = all_of(path)
    assert [(*row[:10], row[-3]) for row in rows] == theirs
    assert counts == Counts(packets=len(theirs), segments=len(theirs), cut=sum(row[-3] != row[-2] for row in rows))


@given(st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_whatever_is_changed_in_a_capture(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Bytes changed, cut out and put in anywhere: counts that add up, or one sentence."""
    content = bytearray(data.draw(st.sampled_from([PCAP, PCAPNG, MIXED])))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content)))
        gone = data.draw(st.sampled_from([0, 1, 1, 1, 2, 4, 100]))
        content[at : at + gone] = data.draw(st.binary(max_size=4) | st.just(b"\xff" * gone) | st.just(bytes(gone)))
    path = written(tmp_path_factory.getbasetemp(), bytes(content), "fuzz")
    size = data.draw(st.sampled_from([50, 1 << 20]))
    try:
        result = all_of(path, batch_bytes=size)
    except SojournError as error:
        refused = str(error)
    else:
        refused = ""
        assert result[:2] == all_of(path)[:2]
    assert not refused or str(path) in refused
    assert "\n" not in refused


def _mixed() -> bytes:
    links = [1, 0, 108, 101, 113, 276]
    data = captures.section() + b"".join(captures.interface(link, name=f"i{link}") for link in links)
    for number, link in enumerate(links):
        data += b"".join(captures.enhanced(Frame(START, linked(p, link), interface=number)) for p in PACKETS[::4])
    return data + captures.statistics(dropped=1)


MIXED = _mixed()
