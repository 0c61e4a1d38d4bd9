"""Samples of listen queues (``listen.jsonl`` of a run) as rows of the table ``listen_queue``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from sojourn.readers.blocks import Reject
from sojourn.readers.inputs import LogInput
from sojourn.readers.lines import blocks_of_lines

LISTEN_SCHEMA = pa.schema([
    ("time", pa.timestamp("us", "UTC")), ("machine", pa.string()), ("socket", pa.string()), ("port", pa.uint16()),
    ("depth", pa.uint32()), ("backlog", pa.uint32()),
])  # fmt: skip


class _Sample(msgspec.Struct):
    time: float
    socket: str
    port: int
    depth: int
    limit: int
    machine: str = ""


def listen_rows(logs: Sequence[LogInput]) -> Iterator[tuple[str, list[dict[str, Any]], list[Reject]]]:
    """Yield (source, rows, refused lines), a block at a time; the only reason is ``invalid_sample``."""
    decoder = msgspec.json.Decoder(_Sample, strict=False)
    for log in logs:
        for block in blocks_of_lines(log):
            rows, rejects = [], []
            for number, line in zip(block.numbers.to_pylist(), block.lines.to_pylist(), strict=True):
                try:
                    rows.append(_row(decoder.decode(line)))
                except (msgspec.MsgspecError, ValueError):
                    rejects.append(Reject(number, block.position(number), "invalid_sample", line.rstrip("\r\n")))
            rejects += [Reject(n, block.position(n), reason, raw) for n, reason, raw in block.refused]
            yield log.name, rows, rejects


def _row(sample: _Sample) -> dict[str, Any]:
    time = round(sample.time * 1e6)
    if not 0 < time < 1 << 62 or not 0 <= sample.port < 1 << 16:
        raise ValueError("out of range")
    if not (0 <= sample.depth < 1 << 32 and 0 <= sample.limit < 1 << 32):
        raise ValueError("out of range")
    return {
        "time": time, "machine": sample.machine, "socket": sample.socket, "port": sample.port, "depth": sample.depth,
        "backlog": sample.limit,
    }  # fmt: skip
