"""The files of nginx's logs on this machine: how long each is, and how much of it the agent has read.

A file is known by the CRC-64 of its first line, as Vector knows it: renaming and copying change nothing, and an inode
that is used again cannot be mistaken for the last one.
"""

from __future__ import annotations

import glob
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from sojourn.host.agent_positions import Positions, checksum_of

LONGEST = 1 << 20
"""Bytes of a first line. What is longer is no line of a log."""
SETTLED = 1200.0
"""Seconds for which a file whose position is not known is sampled after it was written."""
FORGOTTEN = 7200.0
"""Seconds after which a file that is gone, and of which the agent has no position, is no longer looked for."""
OTHERS = ("listen*", "spans*", "log-files*")
"""Names beside the logs that hold no requests: those that the agent's configuration excludes."""
COMPRESSED = (".gz", ".zst", ".xz", ".bz2")

_ROTATED = re.compile(r"[.-][0-9][^/]*\Z")
_ROTATED_JSONL = re.compile(r"(?<=\.jsonl)[.-][0-9][^/]*\Z")
_TIME = re.compile(rb'"time" *: *"?([0-9]{10}(?:\.[0-9]+)?)')


@dataclass(frozen=True)
class LogFile:
    """A file of a log.

    Attributes:
        log: path of the log; the file may be a rotated one.
        path: path of the file.
        id: CRC-64 of its first line, as 16 hexadecimal digits.
        began: time of its first record, unix seconds; None: it has none.
        size: bytes.
        read: bytes of it that the store has acknowledged to the agent; None: not known.
        written: when it was last written, unix seconds.
        by_inode: the agent knows it by its inode, and not by its first line.
    """

    log: str
    path: str
    id: str
    began: float | None
    size: int
    read: int | None
    written: float
    by_inode: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """What it is known by: its log and its first line."""
        return self.log, self.id

    @property
    def unread(self) -> int:
        """Bytes that the agent has not read, or the store not acknowledged; 0 where that is not known."""
        return 0 if self.read is None else max(0, self.size - self.read)


def log_files(logs: Sequence[str], agent: Path | None) -> list[LogFile]:
    """Return the files of logs that have a whole first line: each log, and its rotated files that are not compressed.

    Args:
        logs: paths or globs of the logs, without their rotated files.
        agent: Vector's ``data_dir``; None: its positions are not known.

    Raises:
        SojournError: the agent's positions cannot be read.
    """
    return _log_files(logs, _positions(agent))


def _positions(agent: Path | None) -> Positions | None:
    return None if agent is None else Positions.of(agent)


def _log_files(logs: Sequence[str], positions: Positions | None) -> list[LogFile]:
    files: dict[tuple[str, str], LogFile] = {}
    for log, path in _paths(logs):
        file = _file(log, path, positions)
        # Of a file and its copy, the longer one.
        if file is not None and file.size >= files.get(file.key, file).size:
            files[file.key] = file
    return list(files.values())


def _paths(logs: Sequence[str]) -> Iterator[tuple[str, str]]:
    for pattern in logs:
        names = set(glob.glob(pattern))
        for suffix in (".[0-9]*", "-[0-9]*"):
            names.update(glob.glob(pattern + suffix))
        for name in sorted(names):
            base = Path(name).name
            if not base.endswith(COMPRESSED) and not any(Path(base).match(other) for other in OTHERS):
                yield _log_of(name, is_log=Path(name).match(pattern)), name


def _log_of(name: str, *, is_log: bool) -> str:
    """Return the log of a file, as the store names it (``collector/clickhouse/parts/log_name.sql``)."""
    if name.endswith(".jsonl"):
        return name
    return _ROTATED_JSONL.sub("", name) if ".jsonl" in name or is_log else _ROTATED.sub("", name)


def _file(log: str, path: str, positions: Positions | None) -> LogFile | None:
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as opened:
            state = os.fstat(opened.fileno())
            line = opened.readline(LONGEST) if stat.S_ISREG(state.st_mode) else b""
    except OSError:  # renamed or deleted meanwhile, or a folder
        return None
    if not line.endswith(b"\n"):
        return None
    checksum = checksum_of(line)
    inode = (state.st_dev, state.st_ino)
    read = None if positions is None else positions.at(checksum, inode) or 0
    by_inode = positions is not None and checksum not in positions.by_line and inode in positions.by_inode
    began = _TIME.search(line)
    return LogFile(
        log, path, f"{checksum:016x}", float(began[1]) if began else None, state.st_size, read, state.st_mtime, by_inode
    )


class LogFileSampler:
    """Takes samples of the files of logs, for the table ``log_files`` of a store.

    A sample lists what changed since the last one or is not read to its end; the first one lists every file. What the
    agent has read of a file before there were samples is not judged.

    Args:
        logs, agent: as of ``log_files``.
        after: time of the last sample of an earlier sampler, unix seconds.
    """

    def __init__(self, logs: Sequence[str], agent: Path | None, *, after: float = 0.0) -> None:
        self._logs = logs
        self._agent = agent
        self._ahead = max(time.time(), after) - time.clock_gettime(time.CLOCK_BOOTTIME)
        self._last: dict[tuple[str, str], LogFile] = {}
        self._judged: dict[tuple[str, str], int] = {}
        self._begun = False

    def sample(self) -> dict[str, Any]:
        """Take a sample.

        Returns:
            ``time``, unix s by a clock that is never set back; ``clock``, unix s by the machine's clock; ``files``, a
            list with ``file`` (path of the log), ``id``, ``began`` and ``written`` (unix s), ``size``, ``read`` and
            ``judged`` (bytes), and ``gone`` (it is not on the disk any more, and its position moved).

        Raises:
            SojournError: the agent's positions cannot be read.
        """
        clock = time.time()
        positions = _positions(self._agent)  # before the sizes: nothing is read that is not there
        files = _log_files(self._logs, positions)
        entries = [self._entry(file) for file in files if self._is_due(file, clock)]
        entries += self._moved({file.key for file in files}, positions, clock)
        self._last.update((file.key, file) for file in files)
        self._begun = True
        return {
            "time": round(time.clock_gettime(time.CLOCK_BOOTTIME) + self._ahead, 3),
            "clock": round(clock, 3),
            "files": entries,
        }

    def _is_due(self, file: LogFile, clock: float) -> bool:
        last = self._last.get(file.key)
        changed = last is None or (last.size, last.read) != (file.size, file.read)
        return changed or file.unread > 0 or (file.read is None and clock - file.written < SETTLED)

    def _moved(
        self, present: set[tuple[str, str]], positions: Positions | None, clock: float
    ) -> Iterator[dict[str, Any]]:
        """Yield files that are gone and that the agent still has open: how far it has read now."""
        gone = [file for key, file in self._last.items() if key not in present]
        for file in gone:
            position = None if positions is None else positions.at(int(file.id, 16), None)
            if position is None:
                if clock - file.written > FORGOTTEN:
                    del self._last[file.key]
            elif position != file.read:
                self._last[file.key] = replace(file, read=position)
                yield self._entry(self._last[file.key]) | {"gone": True}

    def _entry(self, file: LogFile) -> dict[str, Any]:
        judged = 0 if self._begun else file.size if file.read is None else file.read
        return {
            "file": file.log,
            "id": file.id,
            "began": file.began,
            "written": round(file.written, 3),
            "size": file.size,
            "read": file.read,
            "judged": self._judged.setdefault(file.key, judged),
            "gone": False,
        }


def last_sample(samples: Path) -> float:
    """Return the time of the last sample in a file of samples, unix seconds; 0: there is none."""
    try:
        with samples.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LONGEST))
            lines = file.read().splitlines()
    except OSError:
        return 0.0
    for line in reversed(lines):
        try:
            return float(msgspec.json.decode(line)["time"])
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):  # torn by a full disk
            continue
    return 0.0


def lines_unread(file: LogFile) -> int:
    """Return how many lines of a file the agent has not read; 0 where that is not known, or the file is gone."""
    if not file.unread:
        return 0
    count = 0
    try:
        with Path(file.path).open("rb") as opened:
            opened.seek(file.size - file.unread)
            while block := opened.read(1 << 20):
                count += block.count(b"\n")
    except OSError:
        return 0
    return count


def alike(files: Sequence[LogFile]) -> list[tuple[LogFile, LogFile]]:
    """Return pairs of files of different logs with the same first line: Vector reads only one of each pair."""
    first: dict[str, LogFile] = {}
    return [
        (first[file.id], file)
        for file in files
        if first.setdefault(file.id, file).log != file.log and not file.by_inode
    ]
