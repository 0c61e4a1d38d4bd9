"""What tshark reads of a capture, and where what is read here differs from it.

tshark decodes single packets: no reassembly of fragments or of messages, so that a head is reported in
the packet it begins in. TCP inside of ICMP errors and of anything else that is not read here (``LAYERS``) is
left out on its side, as it is counted under ``other`` on ours.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import polars as pl
from sojourn.analyses.pcap.tracker import track
from sojourn.readers.capture.batch import SYN, Batch, Counts
from sojourn.readers.capture.reader import Capture

FIELDS = (
    "frame.number", "frame.time_epoch", "frame.protocols", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "tcp.srcport",
    "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw", "tcp.flags", "tcp.window_size_value", "tcp.len", "tcp.stream",
    "tcp.analysis.retransmission", "tcp.analysis.fast_retransmission", "tcp.analysis.spurious_retransmission",
    "tcp.analysis.zero_window", "http.request.method", "http.response.code", "tcp.hdr_len", "frame.encap_type",
)  # fmt: skip
OPTIONS = (
    "ip.defragment:FALSE", "ipv6.defragment:FALSE", "tcp.desegment_tcp_streams:FALSE", "http.desegment_headers:FALSE",
    "http.desegment_body:FALSE", "tcp.relative_sequence_numbers:FALSE", "tcp.try_heuristic_first:FALSE",
)  # fmt: skip
# Link layers, VLAN tags, IP and IPv6 with its extension headers, tunnels, and TCP.
LAYERS = {
    "eth", "ethertype", "sll", "null", "loop", "raw", "vlan", "ieee8021ad", "ip", "ipv6", "ah", "gre", "erspan", "udp",
    "vxlan", "geneve", "gtp", "pppoes", "ppp", "mpls", "pwethcw", "pwethheuristic", "etherip",
}  # fmt: skip


def tshark_rows(path: Path) -> tuple[int, list[dict[str, str]]] | str:
    """Number of packets and the fields of TCP segments; or the sentence with which tshark refuses the file."""
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=|"]
    command += [part for field in FIELDS for part in ("-e", field)]
    command += [part for option in OPTIONS for part in ("-o", option)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    rows = [dict(zip(FIELDS, line.split("\t"), strict=False)) for line in done.stdout.decode("latin-1").splitlines()]
    if done.returncode and not rows:
        return done.stderr.decode("latin-1").strip().splitlines()[-1]
    packets = [row for row in rows if row.get("frame.encap_type")]  # a block of pcapng with something else has none
    for number, row in enumerate(packets, 1):
        row["frame.number"] = str(number)
    return len(packets), [row for row in packets if row.get("tcp.srcport")]


def plain(row: dict[str, str]) -> bool:
    """TCP in IP, inside of tunnels or not, with a header that tshark could read."""
    needed = [row[name] for name in ("tcp.srcport", "tcp.seq_raw", "tcp.hdr_len", "tcp.flags", "tcp.window_size_value")]
    whole = all(value and "|" not in value for value in (*needed, row["tcp.len"]))
    return whole and readable(row)


def readable(row: dict[str, str]) -> bool:
    """Whether every layer up to TCP is one that is read here."""
    layers, tcp, _ = f"{row['frame.protocols']}:".partition(":tcp:")
    return bool(tcp) and all(layer in LAYERS or layer.startswith(("ipv6.", "gtp.")) for layer in layers.split(":"))


def segment_of(row: dict[str, str]) -> tuple[object, ...]:
    """What is compared of a segment: number, time (ns), ends, seq, ack, flags, window, payload."""
    whole, _, fraction = row["frame.time_epoch"].partition(".")
    # A record may hold more microseconds than a second has: tshark prints them as they are.
    time = int(whole) * 10**9 + int(fraction.ljust(9, "0")) * (-1 if whole.startswith("-") else 1)
    number = [int(row[name] or 0) for name in ("tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw")]
    source, target = (_address(row, end) for end in ("src", "dst"))
    rest = int(row["tcp.flags"], 16), int(row["tcp.window_size_value"]), int(row["tcp.len"])
    return (int(row["frame.number"]), time, source, target, *number, *rest)


def _address(row: dict[str, str], end: str) -> str:
    """In one spelling: of the header around TCP, the last of several.

    Without a tunnel the first of several is the header's: the others are those of a source route or a routing header.
    """
    layers = row["frame.protocols"].partition(":tcp")[0].split(":")
    headers = [layer for layer in layers if layer in ("ip", "ipv6")]
    texts = row[f"{headers[-1] if headers else 'ip'}.{end}"] or row[f"ip.{end}"] or row[f"ipv6.{end}"]
    return str(ip_address(texts.split("|")[-1 if len(headers) > 1 else 0]))


def our_segments(batch: Batch, addresses: list[str]) -> list[tuple[object, ...]]:
    """The same of what is read here."""
    columns = (
        batch.number, batch.time, batch.source, batch.target, batch.source_port, batch.target_port, batch.seq,
        batch.ack, batch.flags, batch.window, batch.length,
    )  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    spelt = [str(ip_address(address)) for address in addresses]
    return [(row[0], row[1], spelt[row[2]], spelt[row[3]], *row[4:]) for row in rows]


class SojournReads:
    """What is read here of a capture, all of it."""

    def __init__(self, path: Path, *, tracking: bool = True) -> None:
        self.batches: list[Batch] = []
        self.segments: list[tuple[object, ...]] = []
        with Capture([path]) as capture:
            for batch in capture:
                self.batches.append(batch)
                self.segments += our_segments(batch, capture.addresses)
            self.addresses = list(capture.addresses)
            self.counts: Counts = capture.counts
        if tracking:
            self.tracked = track(self.batches, self.addresses)


def segment_differences(own: SojournReads, rows: list[dict[str, str]]) -> list[str]:
    """Segments that only one side has, or that differ in a field."""
    theirs = {int(row["frame.number"]): segment_of(row) for row in rows if plain(row)}
    # Its header or its length is more than tshark could make sense of: nothing to compare with.
    partly = {int(row["frame.number"]) for row in rows if readable(row) and not plain(row)}
    mine = {int(str(segment[0])): segment for segment in own.segments}
    return [
        f"packet {number}: here {mine.get(number)}, tshark {theirs.get(number)}"
        for number in sorted(theirs.keys() | mine.keys() - partly)
        if mine.get(number) != theirs.get(number)
    ]


def connection_differences(own: SojournReads, rows: list[dict[str, str]]) -> list[str]:
    """Connections (streams) whose first packet, SYN, SYN-ACK, retransmissions or zero windows differ."""
    return [
        f"{name} {key}: here {current}, tshark {there}"
        for name, mine, theirs in _connection_figures(own, rows)
        for key, current, there in (
            (key, mine.get(key), theirs.get(key)) for key in sorted(mine.keys() | theirs.keys(), key=str)
        )
        if current != there
    ]


def _connection_figures(
    own: SojournReads, rows: list[dict[str, str]]
) -> list[tuple[str, dict[int, object], dict[int, object]]]:
    streams: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        if plain(row):
            streams.setdefault(row["tcp.stream"], []).append(row)
    theirs: dict[int, dict[str, object]] = {}
    for packets in streams.values():
        syn = [p for p in packets if int(p["tcp.flags"], 16) & 0x12 == SYN]
        syn_ack = [p for p in packets if int(p["tcp.flags"], 16) & 0x12 == 0x12]
        again = [p for p in packets if _sent_again(p)]
        theirs[_ns(packets[0])] = {
            "packets": len(packets),
            "syn": _ns(syn[0]) if syn else None,
            "syn_ack": _ns(syn_ack[0]) if syn_ack else None,
            "syn_again": sum(int(p["tcp.flags"], 16) & 0x12 == SYN for p in again),
            "syn_ack_again": sum(int(p["tcp.flags"], 16) & 0x12 == 0x12 for p in again),
            "data_again": sum(not int(p["tcp.flags"], 16) & SYN and int(p["tcp.len"]) > 0 for p in again),
            "zero_windows": sum(bool(p["tcp.analysis.zero_window"]) for p in packets),
        }
    frame = own.tracked.connections.with_columns(pl.col(pl.Datetime).to_physical())
    mine = {
        row["first"]: {
            "packets": row["packets"] + row["copies"],
            "syn": row["syn"],
            "syn_ack": row["syn_ack"],
            "syn_again": row["syn_retransmissions"],
            "syn_ack_again": row["syn_ack_retransmissions"],
            "data_again": row["client_retransmissions"] + row["server_retransmissions"],
            "zero_windows": row["client_zero_windows"] + row["server_zero_windows"],
        }
        for row in frame.iter_rows(named=True)
    }
    names = ("packets", "syn", "syn_ack", "syn_again", "syn_ack_again", "data_again", "zero_windows")
    return [
        (name, {k: v[name] for k, v in mine.items()}, {k: v[name] for k, v in theirs.items()})  # type: ignore[misc]
        for name in names
    ]


def exchange_differences(own: SojournReads, rows: list[dict[str, str]]) -> tuple[int, list[str]]:
    """Requests compared; and those whose times differ, or that one side alone has seen.

    Times of the packets in which requests begin, and in which the heads of answers do, interim answers left out.
    """
    new = [row for row in rows if plain(row) and not _sent_again(row)]
    requested = Counter(_ns(row) for row in new for _ in filter(None, row["http.request.method"].split("|")))
    codes = [(row, code) for row in new for code in filter(None, row["http.response.code"].split("|"))]
    answered = Counter(_ns(row) for row, code in codes if code >= "200" or code == "101")
    frame = own.tracked.exchanges.filter(pl.col("method").is_not_null() | pl.col("status").is_not_null())
    frame = frame.with_columns(pl.col(pl.Datetime).to_physical())
    mine = Counter(frame.filter(pl.col("method").is_not_null())["request_first"].drop_nulls().to_list())
    mine_answered = Counter(frame.filter(pl.col("status").is_not_null())["response_first"].drop_nulls().to_list())
    matches = [
        f"{name} at {time}: here {current[time]}, tshark {there[time]}"
        for name, current, there in (("request", mine, requested), ("answer", mine_answered, answered))
        for time in sorted(current.keys() | there.keys())
        if current[time] != there[time]
    ]
    return requested.total(), matches


def _sent_again(row: dict[str, str]) -> bool:
    return any(row[f"tcp.analysis.{kind}retransmission"] for kind in ("", "fast_", "spurious_"))


def _ns(row: dict[str, str]) -> int:
    time = segment_of(row)[1]
    assert isinstance(time, int)
    return time


def equal_batches(one: list[Batch], other: list[Batch]) -> bool:
    """Whether two readings gave the same segments."""
    names = ("time", "source", "target", "source_port", "target_port", "seq", "ack", "flags", "window", "length")
    return all(
        np.array_equal(
            np.concatenate([getattr(b, name) for b in one]) if one else [],
            np.concatenate([getattr(b, name) for b in other]) if other else [],
        )
        for name in names
    )
