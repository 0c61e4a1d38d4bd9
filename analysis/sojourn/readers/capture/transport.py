"""TCP headers as columns (RFC 9293, section 3.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.readers.capture.addresses import Addresses
from sojourn.readers.capture.network import IPV4_HEADER, IPV6_HEADER
from sojourn.readers.capture.packets import Packets, Verdicts, gathered
from sojourn.readers.capture.verdicts import BAD_TCP_HEADER, TCP_CUT

_TCP = np.dtype(
    [
        ("source_port", ">u2"), ("target_port", ">u2"), ("seq", ">u4"), ("ack", ">u4"), ("flags", ">u2"),
        ("window", ">u2"), ("checksum", ">u2"), ("urgent", ">u2"),
    ]
)  # fmt: skip

_NAMES = ("source_port", "target_port", "seq", "ack", "flags", "window")

Columns = dict[str, npt.NDArray[Any]]


def segments(packets: Packets, *, ipv6: bool, addresses: Addresses, verdicts: Verdicts) -> Columns:
    """Return the columns of ``Batch`` from the headers of TCP segments, and ``index``: their indices among the records.

    A header with truncated options is accepted: the first 20 bytes have all fields that are used.
    """
    short = verdicts.without(packets, packets.at + _TCP.itemsize > packets.sent, BAD_TCP_HEADER)
    before = len(short)
    whole = verdicts.without(short, short.at + _TCP.itemsize > short.captured, TCP_CUT)
    verdicts.cut += before - len(whole)
    header = whole.headers(_TCP)
    size = (header["flags"] >> 12).astype(np.int64) * 4
    failed = (size < _TCP.itemsize) | (whole.at + size > whole.sent)
    if failed.any():
        header, size = header[~failed], size[~failed]
    good = verdicts.without(whole, failed, BAD_TCP_HEADER)
    payload = good.at + size
    captured = np.minimum(good.captured, good.sent)
    verdicts.cut += int((captured < good.sent).sum())
    columns: Columns = {name: header[name].astype(header[name].dtype.newbyteorder("=")) for name in _NAMES}
    columns["flags"] &= 0x0FFF  # twelve bits; the upper four are the length of the header
    columns |= {
        "index": good.index,
        "length": (good.sent - payload).astype(np.int32),
        "payload": np.minimum(payload, captured),
        "captured": np.maximum(captured - payload, 0).astype(np.int32),
    }
    return columns | _network_columns(good, ipv6=ipv6, addresses=addresses)


def _network_columns(packets: Packets, *, ipv6: bool, addresses: Addresses) -> Columns:
    header = gathered(packets.buffer, packets.network, IPV6_HEADER if ipv6 else IPV4_HEADER)
    if ipv6:
        source, target = (addresses.of_ipv6(header[side].astype(np.uint64)) for side in ("source", "target"))
        return {"source": source, "target": target, "ip_id": np.zeros(len(header), np.uint16)}
    source, target = (addresses.of_ipv4(header[side].astype(np.uint32)) for side in ("source", "target"))
    return {"source": source, "target": target, "ip_id": header["id"].astype(np.uint16)}
