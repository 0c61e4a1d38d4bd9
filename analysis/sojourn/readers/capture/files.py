"""Detect capture files by their content, order them, and split them into parts of records."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import numpy as np

from sojourn.model.arrays import Bytes
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted
from sojourn.readers.capture.batch import Counts
from sojourn.readers.capture.content import Content
from sojourn.readers.capture.packets import PADDING
from sojourn.readers.capture.pcap import Pcap, is_pcap
from sojourn.readers.capture.pcapng import PcapNg, is_pcapng
from sojourn.readers.capture.records import LARGEST_BLOCK, RECORDS_AT_ONCE, Format, Records, Walked
from sojourn.readers.capture.verdicts import SEGMENT
from sojourn.readers.inputs import Source, globbed, status_of

_OF_RUN = re.compile(r"capture(-\d+)?\.pcap")
_HEAD_BYTES = 64 << 10
_NOTHING = np.zeros(0, np.uint8)


def capture_files(sources: Sequence[Source] | Source, damaged: dict[str, str]) -> list[CaptureFile]:
    """Return the captures of the sources, without duplicates, in the order of their first packets.

    An empty file among several (a new ring file) is left out and reported in ``damaged``.

    Raises:
        SojournError: a source does not exist, cannot be read, or is not a capture; or all are empty.
    """
    every = [sources] if isinstance(sources, str | os.PathLike) else sources
    files: list[CaptureFile] = []
    empty: list[str] = []
    identities: set[tuple[int, int]] = set()
    try:
        for name, has_to_be in _source_files(every):
            file = CaptureFile(name)
            if file.identity in identities:
                file.close()
                continue
            identities.add(file.identity)
            if file.is_capture:
                files.append(file)
                continue
            file.close()
            if file.is_empty:
                empty.append(name)
            elif has_to_be:
                raise SojournError(f"{name}: {file.what_it_is}")
    except BaseException:
        for file in files:
            file.close()
        raise
    if not files:
        raise SojournError(f"{empty[0]}: empty" if empty else f"{os.fspath(every[0])}: no capture in it")
    damaged.update(dict.fromkeys(empty, "empty"))
    return sorted(files, key=lambda file: (file.first is None, file.first or 0))


def _source_files(sources: Sequence[Source]) -> list[tuple[str, bool]]:
    """Return paths (``-``: standard input), and whether each was named directly and must be a capture.

    A folder with ``capture.pcap``, ``capture-2.pcap`` … (a run) gives these files; any other folder gives all files,
    because ring files can have any name. Other files of a folder are skipped.

    Raises:
        SojournError: a source does not exist, cannot be read or matches nothing, or there are no sources.
    """
    if not sources:
        raise SojournError("no capture was given: name a file, a glob, a folder of ring files, a run's folder or -")
    files: list[tuple[str, bool]] = []
    for source in [os.fspath(s) for s in sources]:
        try:
            files += _expanded(source)
        except OSError as error:
            raise SojournError(f"{source}: {error.strerror or error}") from error
    return files


def _expanded(source: str) -> list[tuple[str, bool]]:
    path = Path(source)
    if source == "-":
        return [("-", True)]
    if path.is_dir():
        files = sorted(str(p) for p in path.iterdir() if p.is_file())
        of_run = [f for f in files if _OF_RUN.match(os.path.basename(f))]
        if not files:
            raise SojournError(f"{source}: no capture in it")
        return [(f, False) for f in of_run or files]
    if status_of(path) is not None:
        return [(source, True)]
    return [(file, True) for file in globbed(source)]


class CaptureFile:
    """An inspected file. It is closed until it is read, if it can be opened again: a ring has many files.

    Attributes:
        name: the name that the user gave, or its path.
        identity: (device, inode) of the file.
        regular: whether it can be closed and opened again.
        is_capture, is_empty: its kind; ``what_it_is`` describes a file that is neither.
        first: unix time of its first packet, ns; None: none near the beginning.
    """

    def __init__(self, name: str) -> None:
        """Inspect the beginning of a file; a SojournError says why it cannot be opened."""
        self.name = name
        self._content: Content | None = Content(name)
        self.identity, self.regular = self._content.identity, self._content.regular
        self._head, walked = _look(self._content)
        self.is_capture = walked is not None
        self.is_empty = not len(self._head) and self._content.damage is None
        self.what_it_is = self._content.damage or _not_a_capture(self._head)
        timed = walked is not None and walked.records.time[walked.records.verdict == SEGMENT].tolist()
        self.first: int | None = timed[0] if timed else None
        if self.regular:
            self.close()
            self._head = _NOTHING

    def close(self) -> None:
        """Close the file if it is open."""
        if self._content is not None:
            self._content.close()
            self._content = None

    def records(self, batch_bytes: int, interfaces: dict[str, int], counts: Counts) -> Iterator[tuple[Bytes, Records]]:
        """Yield parts of the file and their records.

        ``interfaces`` gets the names of the file's interfaces, ``counts`` the losses and the damage.
        """
        try:
            content = self._content = self._content or Content(self.name)
        except SojournError as error:
            counts.damaged[self.name] = f"cannot be opened again ({error})"
            return
        reader: Format | None = None
        rest, origin, size = self._head, 0, batch_bytes
        self._head = _NOTHING
        while True:
            # More than a batch of standard input may have been inspected.
            buffer, read = _filled(rest, max(size - len(rest) if reader is None else size, 0), content)
            if reader is None:
                reader = format_of(buffer[: len(buffer) - PADDING], interfaces)
                if reader is None:
                    counts.damaged[self.name] = _not_a_capture(buffer)
                    break
            elif not read:
                break
            walked = yield from _walks(reader, buffer)
            origin += walked.position
            if walked.damage is not None:
                counts.damaged[self.name] = f"{walked.damage} (at byte {origin:,}); not read further"
                break
            rest = buffer[walked.position : len(buffer) - PADDING].copy()
            size = max(batch_bytes, walked.needed - len(rest))
        if self.name not in counts.damaged and content.damage is not None:
            counts.damaged[self.name] = f"{content.damage} (after {counted(origin + len(rest), 'byte')})"
        elif self.name not in counts.damaged and len(rest):
            counts.damaged[self.name] = f"ends in the middle of a record (at byte {origin:,})"
        if reader is not None and reader.dropped is not None:
            counts.dropped = (counts.dropped or 0) + reader.dropped
        self.close()


def format_of(head: Bytes, interfaces: dict[str, int]) -> Format | None:
    """Return the reader for a file that begins with these bytes; None: unknown format."""
    begin = head[:12].tobytes()
    if is_pcap(begin):
        return Pcap()
    return PcapNg(interfaces) if is_pcapng(begin) else None


def _look(content: Content) -> tuple[Bytes, Walked | None]:
    """Return the beginning of a capture up to its first packet, and the records in it; None: not a capture."""
    size = _HEAD_BYTES
    head, _ = _filled(_NOTHING, size, content)
    while True:
        reader = format_of(head[: len(head) - PADDING], {})
        walked = reader.walked(head, 0, len(head) - PADDING, 1) if reader is not None else None
        more = walked is not None and not len(walked.records.at) and walked.damage is None and size <= LARGEST_BLOCK
        if not more or len(head) - PADDING < size:
            return head[: len(head) - PADDING], walked
        head, _ = _filled(head[: len(head) - PADDING], 15 * size, content)
        size *= 16


def _filled(rest: Bytes, size: int, content: Content) -> tuple[Bytes, int]:
    """Return ``rest``, up to ``size`` more bytes and the padding, and the number of bytes read."""
    buffer = np.empty(len(rest) + size + PADDING, np.uint8)
    buffer[: len(rest)] = rest
    read = content.fill(memoryview(buffer.data)[len(rest) : len(rest) + size])
    buffer = buffer[: len(rest) + read + PADDING]
    buffer[len(rest) + read :] = 0
    return buffer, read


def _walks(reader: Format, buffer: Bytes) -> Generator[tuple[Bytes, Records], None, Walked]:
    position, end = 0, len(buffer) - PADDING
    while True:
        walked = reader.walked(buffer, position, end, RECORDS_AT_ONCE)
        if len(walked.records.at):
            yield buffer, walked.records
        if not walked.full:
            return walked
        position = walked.position


def _not_a_capture(head: Bytes) -> str:
    begin = head[:8].tobytes().hex(" ")
    return f"neither pcap nor pcapng (it begins with the bytes {begin})" if begin else "empty"
