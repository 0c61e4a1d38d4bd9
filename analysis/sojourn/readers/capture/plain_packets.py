"""The usual packets in one pass: TCP over IPv4, directly behind a link header, without anything unusual.

The layers decode the same packets to the same columns, an order of magnitude slower; they decode all others. A packet
is usual if no layer would reject it, count it as another kind, or find a tag, a fragment or a tunnel.
"""

from __future__ import annotations

import numpy as np

from sojourn.model.arrays import Bools, Bytes
from sojourn.model.compilation import compiled, compiled_part
from sojourn.readers.capture.addresses import Addresses
from sojourn.readers.capture.records import Records
from sojourn.readers.capture.transport import Columns

_COLUMNS = {
    "index": np.int64, "source": np.uint32, "target": np.uint32, "source_port": np.uint16, "target_port": np.uint16,
    "seq": np.uint32, "ack": np.uint32, "flags": np.uint16, "window": np.uint16, "ip_id": np.uint16,
    "length": np.int32, "payload": np.int64, "captured": np.int32,
}  # fmt: skip


def plain_segments(buffer: Bytes, records: Records, addresses: Addresses) -> tuple[Columns, Bools, int]:
    """Return the columns of the usual segments, the mask of the other records, and how many segments were cut.

    Columns are those of ``Batch``, and ``index``, the index among the records. A Linux cooked header (version 2) sets
    the interface of its record.
    """
    count = len(records.at)
    columns: Columns = {name: np.empty(count, kind) for name, kind in _COLUMNS.items()}
    others = np.ones(count, np.bool_)
    decoded, cut = _decoded(
        buffer, records.at, records.captured, records.sent, records.link_type, records.verdict, records.interface,
        others, *columns.values(),
    )  # fmt: skip
    columns = {name: values[:decoded] for name, values in columns.items()}
    for side in ("source", "target"):
        columns[side] = addresses.of_ipv4(columns[side])
    return columns, others, cut


@compiled_part
def _short(buffer, at):  # type: ignore[no-untyped-def]
    """Return two bytes of the buffer as a number in network order."""
    return (np.int64(buffer[at]) << 8) | np.int64(buffer[at + 1])


@compiled_part
def _word(buffer, at):  # type: ignore[no-untyped-def]
    """Return four bytes of the buffer as a number in network order."""
    return (_short(buffer, at) << 16) | _short(buffer, at + 2)


@compiled_part
def _network_header(buffer, at, end, link_type):  # type: ignore[no-untyped-def]
    """Return where the IPv4 header begins behind a link header; -1: another layer, or not complete."""
    if link_type == 1:  # Ethernet
        return at + 14 if at + 14 <= end and _short(buffer, at + 12) == 0x0800 else -1
    if link_type == 113:  # Linux cooked; netlink is not a network packet
        return at + 16 if at + 16 <= end and _short(buffer, at + 14) == 0x0800 and _short(buffer, at + 2) != 824 else -1
    if link_type == 276:  # the same, version 2
        return at + 20 if at + 20 <= end and _short(buffer, at) == 0x0800 and _short(buffer, at + 8) != 824 else -1
    return at if link_type in (101, 228) else -1  # raw IP


@compiled
def _decoded(  # type: ignore[no-untyped-def]
    buffer, at, captured, sent, link_type, verdict, interface, others,
    index, source, target, source_port, target_port, seq, ack, flags, window, ip_id, length, payload, payload_captured,
):  # fmt: skip
    """Fill in the columns; return the number of segments and how many of them were captured in part."""
    count = cut = 0
    for i in range(len(at)):
        if verdict[i] != 0:
            continue
        end = at[i] + captured[i]
        network = _network_header(buffer, at[i], end, link_type[i])
        if network < 0 or network + 20 > end or buffer[network] >> 4 != 4 or buffer[network + 9] != 6:
            continue
        transport = network + (np.int64(buffer[network]) & 0x0F) * 4
        datagram = network + _short(buffer, network + 2)
        # Fragments; a length of 0 is that of segmentation offload.
        if transport < network + 20 or datagram > at[i] + sent[i] or _short(buffer, network + 6) & 0x3FFF:
            continue
        if transport + 20 > min(datagram, end):
            continue
        begin = transport + (np.int64(buffer[transport + 12]) >> 4) * 4
        if begin < transport + 20 or begin > datagram:
            continue
        others[i] = False
        last = min(end, datagram)
        cut += last < datagram
        if link_type[i] == 276:
            interface[i] = _word(buffer, at[i] + 4) & 0x7FFFFFFF
        index[count] = i
        source[count], target[count] = _word(buffer, network + 12), _word(buffer, network + 16)
        source_port[count], target_port[count] = _short(buffer, transport), _short(buffer, transport + 2)
        seq[count], ack[count] = _word(buffer, transport + 4), _word(buffer, transport + 8)
        flags[count] = _short(buffer, transport + 12) & 0x0FFF  # twelve bits; the upper four are the header's length
        window[count], ip_id[count] = _short(buffer, transport + 14), _short(buffer, network + 4)
        length[count] = datagram - begin
        payload[count] = min(begin, last)
        payload_captured[count] = max(last - begin, 0)
        count += 1
    return count, cut
