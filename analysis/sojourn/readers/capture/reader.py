"""Captures as batches of TCP segments: every packet counted once, memory bounded by the size of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sojourn.model.arrays import Bytes
from sojourn.model.parallel import prefetched
from sojourn.readers.capture.addresses import Addresses
from sojourn.readers.capture.batch import Batch, Counts
from sojourn.readers.capture.files import CaptureFile, capture_files
from sojourn.readers.capture.link import IPV4, IPV6, network_packets
from sojourn.readers.capture.network import tcp_over_ipv4, tcp_over_ipv6
from sojourn.readers.capture.packets import Packets, Verdicts, joined
from sojourn.readers.capture.plain_packets import plain_segments
from sojourn.readers.capture.records import Records
from sojourn.readers.capture.time_order import TimeOrder
from sojourn.readers.capture.transport import Columns, segments
from sojourn.readers.capture.tunnels import MOST_LAYERS, inside_ip, inside_link
from sojourn.readers.capture.verdicts import SEGMENT, TUNNELS_TOO_MANY, count_into
from sojourn.readers.inputs import Source

BATCH_BYTES = 4 << 20
"""Bytes of a file per batch: small enough for the processor's caches while the layers are decoded."""

_LEAST_BATCH_BYTES = 64  # enough to detect the format of a file


class Capture:
    """The TCP segments of captures (pcap and pcapng; plain, gzip or zstd), in the order of the files' first packets.

    Within a file they are in the order of time. Iterate once, to the end: ``addresses``, ``interfaces`` and ``counts``
    grow meanwhile. SojournError: the packets of a file are further out of order than ``TimeOrder`` can sort.

    Attributes:
        names: names of the files, in the order of reading.
        addresses: addresses, indexed by ``Batch.source`` and ``Batch.target``.
        interfaces: names of the interfaces of pcapng files, indexed by ``Batch.interface`` (unless that is the index of
            a Linux cooked header).
        counts: counts of the packets.
    """

    def __init__(self, sources: Sequence[Source] | Source, *, batch_bytes: int = BATCH_BYTES) -> None:
        """Open captures.

        Args:
            sources: files, globs, folders of ring files, folders of runs, or ``-`` for standard input.
            batch_bytes: bytes of a file per batch.

        Raises:
            SojournError: a source does not exist, cannot be read, is empty, or is not a capture.
        """
        self.counts = Counts()
        self._interfaces: dict[str, int] = {}
        self._addresses = Addresses()
        self._batch_bytes = max(batch_bytes, _LEAST_BATCH_BYTES)
        self._files: list[CaptureFile] = capture_files(sources, self.counts.damaged)
        self._begun = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the files, in the order of reading."""
        return tuple(file.name for file in self._files)

    @property
    def regular(self) -> bool:
        """Whether all are files on a disk: a pipe may have no more bytes for any time."""
        return all(file.regular for file in self._files)

    @property
    def addresses(self) -> list[str]:
        """Addresses, indexed by ``Batch.source`` and ``Batch.target``."""
        return self._addresses.texts

    @property
    def interfaces(self) -> list[str]:
        """Names of interfaces, indexed by ``Batch.interface`` if the capture has names."""
        return list(self._interfaces)

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def __iter__(self) -> Iterator[Batch]:
        if self._begun:
            raise RuntimeError("a capture can be read once only")
        self._begun = True
        batches = self._batches()
        return prefetched(batches) if self.regular else batches

    def _batches(self) -> Iterator[Batch]:
        ended: tuple[str, int] | None = None  # the file before, and the time of its last packet
        for file in self._files:
            ordered = TimeOrder(file.name)
            for buffer, records in file.records(self._batch_bytes, self._interfaces, self.counts):
                batch = self._batch(buffer, records)
                if len(batch):
                    yield from ordered.batches(batch)
            yield from ordered.rest()
            if ended is not None and ordered.earliest is not None and ordered.earliest < ended[1]:
                self.counts.overlapping.append((ended[0], file.name))
            if ordered.latest is not None:
                ended = file.name, ordered.latest

    def _batch(self, buffer: Bytes, records: Records) -> Batch:
        number = self.counts.packets + 1
        verdicts = Verdicts(records.verdict)
        columns = _decoded(buffer, records, verdicts, self._addresses)
        self.counts.cut += verdicts.cut
        count_into(self.counts, verdicts.codes)
        for tunnel, count in verdicts.tunnels.items():
            self.counts.tunnels[tunnel] = self.counts.tunnels.get(tunnel, 0) + count
        index = columns.pop("index")
        return Batch(
            number=index + number,
            time=records.time[index],
            interface=records.interface[index],
            buffer=buffer,
            **columns,
        )


def _decoded(buffer: Bytes, records: Records, verdicts: Verdicts, addresses: Addresses) -> Columns:
    """Return the columns of the TCP segments among the records, in their order."""
    plain, unusual, cut = plain_segments(buffer, records, addresses)
    verdicts.cut += cut
    fine = unusual & (records.verdict == SEGMENT)
    if not fine.any():
        return plain
    nowhere = records.at
    packets = Packets(
        buffer, np.arange(len(records.at)), records.at, records.at + records.captured, records.at + records.sent,
        nowhere, nowhere,
    )  # fmt: skip
    layer = network_packets(packets.where(fine), records.link_type[fine], verdicts, records.interface)
    parts = [plain]
    for _ in range(MOST_LAYERS + 1):
        ipv4, ipv6 = layer.kind == IPV4, layer.kind == IPV6
        inner = []
        if ipv4.any():
            tcp, others = tcp_over_ipv4(layer.where(ipv4), verdicts)
            parts.append(segments(tcp, ipv6=False, addresses=addresses, verdicts=verdicts))
            inner.append(inside_ip(others, verdicts))
        if ipv6.any():
            tcp, others = tcp_over_ipv6(layer.where(ipv6), verdicts)
            parts.append(segments(tcp, ipv6=True, addresses=addresses, verdicts=verdicts))
            inner.append(inside_ip(others, verdicts))
        inner.append(inside_link(layer.where(~(ipv4 | ipv6)), verdicts))
        layer = joined(inner)
        if not len(layer):
            break
    verdicts.without(layer, np.ones(len(layer), np.bool_), TUNNELS_TOO_MANY)
    return _in_order(parts)


def _in_order(parts: list[Columns]) -> Columns:
    columns = parts[0]
    if len(parts) > 1:
        columns = {name: np.concatenate([part[name] for part in parts]) for name in columns}
    index = columns["index"]
    if (index[1:] < index[:-1]).any():
        order = np.argsort(index, kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
    return columns
