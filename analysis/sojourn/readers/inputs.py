"""Open the sources of a command.

Every file is opened before the first byte is read. A log that is renamed meanwhile is neither lost nor counted twice:
the descriptor follows the file, and (device, inode) identifies it.
"""

from __future__ import annotations

import contextlib
import glob
import io
import os
import signal
import stat
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from sojourn.model.dsn import SHAPES, hidden, is_store
from sojourn.model.errors import SojournError
from sojourn.readers.compression import decompressed, skip_byte_order_mark
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.units import Units
from sojourn.readers.tables.beginning import ROWS, Chunks, beginning_of, continued
from sojourn.readers.tables.recognition import table_format
from sojourn.readers.tables.roles import Column

if TYPE_CHECKING:
    from sojourn.readers.formats.wrapping import Wrapping

PARQUET_MAGIC = b"PAR1"
COMPRESSED = (".gz", ".zst")

Source = str | os.PathLike[str]


def listed(sources: Sequence[Source] | Source) -> list[Source]:
    """Return sources as a list, also for a single one.

    Raises:
        SojournError: one is neither a path nor the address of a store.
    """
    if isinstance(sources, str | os.PathLike):
        return [sources]
    if not isinstance(sources, Iterable):
        raise SojournError(f"a source is a path, a glob or a store's address, not {type(sources).__name__}")
    several = list(sources)
    for each in several:
        if not isinstance(each, str | os.PathLike):
            raise SojournError(
                f"a source in a list is a path, a glob or a store's address, not {type(each).__name__}; concatenate "
                "frames into one"
            )
    return several


@dataclass(frozen=True)
class LogFile(os.PathLike[str]):
    """A source whose format, or the units of whose durations, the user states; None: Sojourn's own record."""

    path: str
    form: LineFormat | Units | None

    def __fspath__(self) -> str:
        return self.path


@dataclass(frozen=True)
class TableFile(os.PathLike[str]):
    """A source that is a table; ``columns``: those with a role."""

    path: str
    columns: tuple[Column, ...]

    def __fspath__(self) -> str:
        return self.path


@dataclass
class Begun:
    """The parts of a line that were read.

    Attributes:
        text: their text; None: too long, and refused.
        number: number of the line of the log that holds the last of them.
        position: byte of the log at which that line begins.
    """

    text: str | None
    number: int
    position: int


@dataclass
class LogInput:
    """An opened log.

    Attributes:
        name: the name that the user gave.
        stream: decompressed bytes.
        raw: the compressed file, whose position is the progress; None for standard input.
        size: bytes of the file at opening; None: unknown.
        limit: read this many bytes of the stream and the rest of the line; None: read to the end.
        form: the format of its lines; None: Sojourn's own record.
        recognised: ``form`` is known: it was given, or follows from the first lines.
        wrapping: what is around its lines; None: not known yet.
        begun: lines of which some parts were read: number of the layer around them, stream -> the parts.
        looked_at: the first lines were compared with ``form``.
        units: units of durations that the user states, of a format that is recognised by the lines.
        first_line: number of the first line of the stream.
        start: bytes before it.
        beside_original: a source is the log that this is the compressed copy of: ``a.jsonl.1`` beside ``a.jsonl.1.gz``.
    """

    name: str
    stream: BinaryIO
    raw: BinaryIO | None
    size: int | None
    limit: int | None
    form: LineFormat | None = None
    recognised: bool = False
    wrapping: Wrapping | None = None
    begun: dict[tuple[int, str], Begun] = field(default_factory=dict)
    looked_at: bool = False
    units: Units = field(default_factory=Units)
    first_line: int = 1
    start: int = 0
    beside_original: bool = False

    def use(self, form: LineFormat | Units | None) -> None:
        """Read the lines in the user's format, or in the recognised one with the user's units."""
        if isinstance(form, Units):
            self.units = form
        else:
            self.form, self.recognised = form, True

    def close(self) -> None:
        """Close the stream and its file, except standard input."""
        if self.raw is not None:
            self.stream.close()
            self.raw.close()


@dataclass
class Inputs:
    """All inputs of a command: logs, Parquet files, span files of run folders, and DSNs of stores."""

    logs: list[LogInput]
    parquet: list[Path]
    spans: list[Path]
    stores: list[str]

    @property
    def size(self) -> int | None:
        """Bytes of all logs on disk; None if one of them has no size (standard input), or for a store."""
        if self.stores:
            return None
        sizes = [log.size for log in self.logs]
        return None if any(s is None for s in sizes) else sum(s for s in sizes if s is not None)

    def close(self) -> None:
        """Close every log."""
        for log in self.logs:
            log.close()


@dataclass(frozen=True)
class NamedSources:
    """The sources of a command, by kind. Nothing is opened.

    Attributes:
        every: all of them, in order.
        stores: DSNs, each once.
        files: names of log files, globs, ``-``, Parquet files and folders of runs.
    """

    every: tuple[Source, ...]
    stores: tuple[str, ...]
    files: tuple[str, ...]

    @classmethod
    def of(cls, sources: SourcesLike) -> NamedSources:
        """Return sources by kind.

        Raises:
            SojournError: a source looks like a DSN of an unknown kind.
        """
        if isinstance(sources, NamedSources):
            return sources
        every = tuple(listed(sources))
        stores: dict[str, None] = {}
        files: list[str] = []
        for source in [os.fspath(each) for each in every]:
            if "://" not in source:
                files.append(source)
                continue
            if not is_store(source):
                raise SojournError(f"{hidden(source)}: neither a file nor a store (a store is {SHAPES})")
            stores[source] = None
        return cls(every, tuple(stores), tuple(files))

    @property
    def only_store(self) -> str | None:
        """The DSN, if a single store is the only source."""
        return self.stores[0] if len(self.stores) == 1 and not self.files else None

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders of runs."""
        return tuple(file for file in self.files if os.path.isdir(file))

    @property
    def bring_spans(self) -> bool:
        """Whether spans may come with them: from a store, or from the folder of a run."""
        return bool(self.stores or self.folders)


SourcesLike = NamedSources | Sequence[Source] | Source


def opened_inputs(sources: NamedSources | Sequence[Source]) -> Inputs:
    """Open every source: a log file (plain, gzip, zstd), a glob, ``-``, a Parquet file or a run's folder.

    Stores are not opened here, their DSNs are collected.

    Raises:
        SojournError: a source does not exist, matches nothing, cannot be opened, or has an unsupported kind.
    """
    by_kind = NamedSources.of(sources)
    if not by_kind.every:
        raise SojournError(
            "no source was given: name a log file, a glob, a run's folder, a store or - for standard input"
        )
    inputs = Inputs([], [], [], list(by_kind.stores))
    identities: set[tuple[int, int]] = set()
    forms = {source.path: source.form for source in by_kind.every if isinstance(source, LogFile)}
    tables = {source.path: source.columns for source in by_kind.every if isinstance(source, TableFile)}
    try:
        for source in by_kind.files:
            before = len(inputs.logs)
            for path in _expanded(source, inputs.spans):
                _open_into(inputs, path, identities, tables.get(source))
            for log in inputs.logs[before:] if source in forms else ():
                log.use(forms[source])
    except BaseException:
        inputs.close()
        raise
    names = {log.name for log in inputs.logs}
    for log in inputs.logs:
        base, suffix = os.path.splitext(log.name)
        log.beside_original = suffix in COMPRESSED and base in names
    return inputs


def _expanded(source: str, spans: list[Path]) -> list[str]:
    status = None if source == "-" else status_of(source)
    if status is None:
        return [source] if source == "-" else globbed(source)
    return [str(p) for p in _run_folder(Path(source), spans)] if stat.S_ISDIR(status.st_mode) else [source]


def status_of(path: Source) -> os.stat_result | None:
    """Return the status of a file, behind links; None: it does not exist.

    Raises:
        SojournError: it cannot be looked up: a loop of links, a folder without permission.
    """
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise SojournError(f"{hidden(os.fspath(path))}: {getattr(error, 'strerror', None) or error}") from error


def _is_file(path: Path) -> bool:
    status = status_of(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def globbed(source: str) -> list[str]:
    """Return the files that match a pattern, sorted.

    Raises:
        SojournError: it matches none, or is no pattern.
    """
    if not glob.has_magic(source):
        raise SojournError(f"{hidden(source)}: no such file or folder")
    paths = sorted(path for path in glob.glob(source, recursive=True) if not os.path.isdir(path))
    if not paths:
        raise SojournError(f"{source}: no file matches")
    return paths


def _run_folder(folder: Path, spans: list[Path]) -> list[Path]:
    """Return the log of a run in preference to its Parquet file: figures are computed from the log of nginx."""
    if folder.name.endswith(".partial"):
        raise SojournError(f"{folder}: this run did not finish (the folder's name ends in .partial)")
    paths = [p for p in (folder / "spans.jsonl", folder / "spans.jsonl.gz") if _is_file(p)]
    for name in ("access.jsonl", "access.jsonl.gz", "access.jsonl.zst", "requests.parquet"):
        if _is_file(folder / name):
            spans.extend(paths)
            return [folder / name]
    raise SojournError(f"{folder}: not the folder of a run (it has neither access.jsonl nor requests.parquet)")


def _interruptible() -> None:
    """Let Ctrl-C end a blocking read: with the handler of Polars, the read would be restarted."""
    with contextlib.suppress(ValueError, OSError):
        signal.siginterrupt(signal.SIGINT, True)


def _open_into(inputs: Inputs, path: str, identities: set[tuple[int, int]], columns: tuple[Column, ...] | None) -> None:
    if path == "-":
        if sys.stdin is None:
            raise SojournError("-: standard input is closed")
        _interruptible()
        inputs.logs.append(_log_input("-", open(sys.stdin.fileno(), "rb", closefd=False), None, columns))  # noqa: SIM115
        return
    try:
        raw = open(path, "rb")  # noqa: SIM115 - closed by Inputs.close
        status = os.fstat(raw.fileno())
    except OSError as error:
        raise SojournError(f"{path}: {error.strerror}") from error
    if (status.st_dev, status.st_ino) in identities:
        raw.close()
        return
    identities.add((status.st_dev, status.st_ino))
    if stat.S_ISREG(status.st_mode):
        if raw.peek(4)[:4] == PARQUET_MAGIC:
            if columns is not None:
                inputs.logs.append(_parquet_input(path, raw, status.st_size, columns))
                return
            raw.close()
            inputs.parquet.append(Path(path))
            return
        inputs.logs.append(_log_input(path, raw, status.st_size, columns))
    else:  # a pipe or a device is read sequentially
        _interruptible()
        inputs.logs.append(_log_input(path, raw, None, columns))


def _log_input(
    name: str, raw: io.BufferedReader, size: int | None, columns: tuple[Column, ...] | None = None
) -> LogInput:
    stream = decompressed(raw)
    log = LogInput(name, stream or raw, None if name == "-" else raw, size, None if stream else size)
    try:
        log.start = skip_byte_order_mark(name, log.stream)
        log.limit = None if log.limit is None else max(log.limit - log.start, 0)
        if columns is not None:
            _read_as_table(log, columns)
    except BaseException:
        raw.close()
        raise
    return log


def _read_as_table(log: LogInput, columns: tuple[Column, ...]) -> None:
    """Read the line of names of a log that is a table; its stream begins after that line."""
    beginning = beginning_of(log.name, log.stream)
    log.form, log.recognised, log.looked_at = table_format(log.name, beginning, columns), True, True
    log.first_line, log.start = 2, log.start + len(beginning.header)
    if log.limit is not None:
        log.stream.seek(log.start)
        log.limit = max(log.limit - len(beginning.header), 0)
    else:
        log.stream = cast(BinaryIO, Chunks(continued(beginning.rest, log.stream), log.stream))


def _parquet_input(name: str, raw: io.BufferedReader, size: int, columns: tuple[Column, ...]) -> LogInput:
    from sojourn.readers.tables.parquet_lines import ParquetTable  # noqa: PLC0415 - takes its time to load

    try:
        table = ParquetTable(Path(name))
        form = table_format(name, table.beginning(ROWS), columns, table.units)
    except BaseException:
        raw.close()
        raise
    stream = cast(BinaryIO, Chunks(table.lines(raw, size)))
    return LogInput(name, stream, raw, size, None, form, recognised=True, looked_at=True)
