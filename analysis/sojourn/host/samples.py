"""Samples of the kernel, from files or from memory, as frames.

A line of ``kernel.jsonl`` is a ``Sample``. Other lines are refused and counted by reason, never silently.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import msgspec
import polars as pl

from sojourn.host.sample import COUNTERS, MOST, Listener, Raindrops, Sample, WorkerQueue
from sojourn.host.unix_diag import unix_address
from sojourn.model.dsn import hidden
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted, tally
from sojourn.model.frame import INSTANT, Records
from sojourn.readers.inputs import LogInput, Source, opened_inputs
from sojourn.readers.lines import blocks_of_lines

NAMES = ("kernel.jsonl.1", "kernel.jsonl", "kernel.jsonl.gz", "kernel.jsonl.zst")
"""File names of a recording in a folder; the older part first."""

REASONS = {
    "empty_line": "a line with nothing in it",
    "not_a_sample": "not JSON, or not a sample: time, and a list of sockets",
    "invalid_value": "a time or a number that cannot be",
    "line_too_long": "longer than 16 MiB",
    "incomplete_line": "cut off by damage",
    "damaged_compression": "the compressed file is damaged from here on",
    "cut_while_read": "the file became shorter while it was read",
}
LINE_LIMIT = 16 << 20  # bytes: some 100,000 sockets
LATEST = 4_102_444_800.0  # unix s: 2100
LARGEST = (1 << 63) - 1

SOCKETS: dict[str, pl.DataType] = {
    "time": INSTANT,
    "name": pl.String(),
    "address": pl.String(),
    "port": pl.Int32(),  # null: a Unix socket
    "depth": pl.Int64(),  # connections in the accept queue
    "limit": pl.Int64(),  # the backlog in force; the queue holds one more
    "syn_recv": pl.Int64(),  # handshakes under way; null: unknown
    "asked": pl.Int64(),  # the requested backlog; null: unknown  # codespell:ignore asked
}
COUNTED: dict[str, pl.DataType] = {"time": INSTANT, **dict.fromkeys(COUNTERS, pl.Int64())}
IN_FORCE: dict[str, pl.DataType] = {"time": INSTANT, "name": pl.String(), "value": pl.Int64()}
RAINDROPS: dict[str, pl.DataType] = {
    "time": INSTANT,
    "endpoint": pl.String(),
    "seconds": pl.Float64(),  # how long the answer took; null: there was none
    "calling": pl.Int64(),  # requests in the app
    "writing": pl.Int64(),  # answers being written
    "active": pl.Int64(),  # connections accepted, all listeners
    "queued": pl.Int64(),  # connections waiting, all listeners
    "reason": pl.String(),  # why there was no answer
}
_TYPES: dict[object, pl.DataType] = {
    str: pl.String(), str | None: pl.String(), int | None: pl.Int64(), float | None: pl.Float64(),
}  # fmt: skip
SERVERS: dict[str, pl.DataType] = {
    "time": INSTANT,
    "server": pl.String(),  # its address
    **{each.name: _TYPES[each.type] for each in msgspec.structs.fields(WorkerQueue)},
}
UNAVAILABLE: dict[str, pl.DataType] = {"time": INSTANT, "what": pl.String(), "reason": pl.String()}
_SCHEMAS = {
    "sockets": SOCKETS, "counters": COUNTED, "settings": IN_FORCE, "raindrops": RAINDROPS, "servers": SERVERS,
    "unavailable": UNAVAILABLE,
}  # fmt: skip


@dataclass(frozen=True)
class Samples:
    """Samples of the kernel, in order.

    Attributes:
        sockets, counters, settings, raindrops, servers, unavailable: columns of ``SOCKETS``, ``COUNTED``, ``IN_FORCE``
            (rows with settings: the first sample, and each change), ``RAINDROPS``, ``SERVERS`` and ``UNAVAILABLE``.
            ``servers`` has the answers of raindrops, too, as kind unicorn.
        times: of all samples.
        records: counts of the lines.
        names: of the files.
    """

    sockets: pl.DataFrame
    counters: pl.DataFrame
    settings: pl.DataFrame
    raindrops: pl.DataFrame
    servers: pl.DataFrame
    unavailable: pl.DataFrame
    times: pl.Series
    records: Records = field(default_factory=Records)
    names: tuple[str, ...] = ()


def read_samples(
    sources: Sequence[Source], *, ports: Collection[int] | None = None, unix: Collection[str] | None = None
) -> Samples:
    """Read recordings.

    Args:
        sources: files (plain, gzip, zstd), globs, folders that hold a ``kernel.jsonl``, or ``-``.
        ports: keep the TCP sockets of these; None: none if ``unix`` is given, otherwise all.
        unix: keep the Unix sockets of these paths; None: none if ``ports`` is given, otherwise all.

    Raises:
        SojournError: a file cannot be opened, or no file holds a sample. Invalid lines never raise.
    """
    inputs = opened_inputs([path for source in sources for path in _recordings(source)])
    try:
        if inputs.stores or inputs.parquet:
            other = inputs.stores[0] if inputs.stores else inputs.parquet[0]
            raise SojournError(f"{hidden(str(other))}: a recording of the kernel is a file of JSON lines, kernel.jsonl")
        records = Records()
        files = [list(_samples_of(log, records)) for log in inputs.logs]
    finally:
        inputs.close()
    files = sorted((file for file in files if file), key=lambda file: file[0].time)
    if not files:
        refused = f", all refused ({tally(records.reasons)})" if records.reasons else ""
        raise SojournError(f"no sample of the kernel: {counted(records.read, 'line')} read{refused}")
    names = tuple(log.name for log in inputs.logs)
    return samples_of(
        (sample for file in files for sample in file), ports=ports, unix=unix, records=records, names=names
    )


def samples_of(
    samples: Iterable[Sample],
    *,
    ports: Collection[int] | None = None,
    unix: Collection[str] | None = None,
    records: Records | None = None,
    names: Sequence[str] = (),
) -> Samples:
    """Return samples as frames.

    Args:
        samples: in order of time.
        ports: as of ``read_samples``.
        unix: as of ``read_samples``.
        records: counts of the lines that they were read from.
        names: of the files.
    """
    rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in _SCHEMAS}
    times = []
    selected = None if ports is None and unix is None else {*(ports or ()), *map(unix_address, unix or ())}
    for sample in samples:
        time = datetime.fromtimestamp(sample.time, UTC)
        times.append(time)
        rows["sockets"].extend(
            (time, each.name, each.address, each.port or None, *msgspec.structs.astuple(each)[3:])
            for each in sample.sockets
            if selected is None or (each.port or each.address) in selected
        )
        if sample.counters:
            rows["counters"].append((time, *(sample.counters.get(name) for name in COUNTERS)))
        rows["settings"].extend((time, name, value) for name, value in sample.settings.items())
        rows["raindrops"].extend((time, url, *_answer(answer)) for url, answer in sample.raindrops.items())
        rows["servers"].extend((time, url, *_of_unicorn(answer)) for url, answer in sample.raindrops.items())
        rows["servers"].extend((time, url, *msgspec.structs.astuple(answer)) for url, answer in sample.servers.items())
        rows["unavailable"].extend((time, what, reason) for what, reason in sample.unavailable.items())
    return Samples(
        **{name: pl.DataFrame(rows[name], schema=schema, orient="row") for name, schema in _SCHEMAS.items()},
        times=pl.Series("time", times, INSTANT),
        records=records or Records(read=len(times)),
        names=tuple(names),
    )


def backward_steps(times: pl.Series) -> int:
    """Return how often the clock was set back between samples."""
    return sum(after < before for before, after in pairwise(times))


def _answer(answer: Raindrops | str) -> tuple[object, ...]:
    if isinstance(answer, str):
        return None, None, None, None, None, answer
    active = sum(active for active, _ in answer.listeners.values()) if answer.listeners else None
    queued = sum(queued for _, queued in answer.listeners.values()) if answer.listeners else None
    return answer.seconds, answer.calling, answer.writing, active, queued, None


def _of_unicorn(answer: Raindrops | str) -> tuple[object, ...]:
    seconds, calling, _, _, queued, reason = _answer(answer)
    queue = WorkerQueue("unicorn", seconds=seconds, reason=reason, waiting=queued, busy=calling)  # type: ignore[arg-type]
    return msgspec.structs.astuple(queue)


def _recordings(source: Source) -> list[Source]:
    folder = Path(source)
    if not folder.is_dir():
        return [source]
    files: list[Source] = [folder / name for name in NAMES if (folder / name).is_file()]
    if not files:
        raise SojournError(f"{os.fspath(source)}: no kernel.jsonl in this folder")
    return files


def _samples_of(log: LogInput, records: Records) -> Iterator[Sample]:
    decoder = msgspec.json.Decoder(Sample)
    for block in blocks_of_lines(log, line_limit=LINE_LIMIT):
        records.read += block.count
        for number, reason, raw in block.refused:
            _refuse(records, log.name, number, reason, raw)
        for line, number in zip(block.lines.to_list(), block.numbers.tolist(), strict=True):
            if not line.strip():
                _refuse(records, log.name, number, "empty_line", line)
                continue
            try:
                sample = decoder.decode(line)
            except (msgspec.DecodeError, RecursionError):
                _refuse(records, log.name, number, "not_a_sample", line)
                continue
            if _possible(sample):
                yield sample
            else:
                _refuse(records, log.name, number, "invalid_value", line)


def _refuse(records: Records, source: str, line: int, reason: str, raw: str) -> None:
    records.reasons[reason] = records.reasons.get(reason, 0) + 1
    records.keep({"source": source, "line": line, "reason": reason, "raw": raw.rstrip("\n")})


def _possible(sample: Sample) -> bool:
    numbers = (*sample.counters.values(), *sample.settings.values())
    return (
        0 < sample.time < LATEST
        and all(-LARGEST <= number <= LARGEST for number in numbers)
        and all(_listening(each) for each in sample.sockets)
        and all(isinstance(each, str) or each.is_possible() for each in sample.raindrops.values())
        and all(each.is_possible() for each in sample.servers.values())
    )


def _listening(each: Listener) -> bool:
    connections = (each.depth, each.limit, each.syn_recv or 0, each.backlog_requested or 0)
    return 0 <= each.port < 65_536 and all(0 <= number < MOST for number in connections)
