"""Open named logs as followers."""

from __future__ import annotations

import glob
import os
import sys
import time
from collections.abc import Sequence

from sojourn.model.dsn import hidden
from sojourn.model.errors import SojournError
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.units import Units
from sojourn.readers.inputs import status_of
from sojourn.sources.live.follow import FileFollower, Follower, StreamFollower, follower_of, reopens
from sojourn.sources.live.recent import MOST, SPAN
from sojourn.sources.live.tail import Tail, from_the_beginning


def opened_followers(
    logs: Sequence[str], *, from_start: bool = False, form: LineFormat | Units | None = None, seconds: float = SPAN
) -> tuple[list[Follower], list[Tail]]:
    """Open logs; a file need not exist yet, and one that is named twice is opened once.

    Args:
        logs: names of files and named pipes, globs, folders of runs, and ``-``.
        from_start: read files from their beginning.
        form: format of all logs; None: each log's own, recognised by its lines.
        seconds: length of the end of each file that is read otherwise, s.

    Returns:
        The followers, and the start positions of the files.

    Raises:
        SojournError: a log cannot be read, or cannot be followed.
    """
    followers: list[Follower] = []
    tails: list[Tail] = []
    opened: set[tuple[int, int]] = set()
    for name in log_names(logs):
        if name == "-":
            if sys.stdin is None:
                raise SojournError("-: standard input is closed")
            followers.append(StreamFollower("-", os.dup(sys.stdin.fileno())))
            continue
        tail = Tail(time.time(), seconds, MOST, form)
        follower = follower_of(name, from_the_beginning if from_start else tail)
        if isinstance(follower, FileFollower):
            identity = follower.open()
            if identity in opened:
                follower.close()
                continue
            opened |= {identity} if identity else set()
            tails.append(tail)
        followers.append(follower)
    return followers, tails


def refuse_endless(logs: Sequence[str]) -> None:
    """Check that logs can be read to their end.

    Raises:
        SojournError: a log does not exist, is a loop of links, or is a named pipe.
    """
    for name in log_names(logs):
        if name == "-":
            continue
        status = status_of(name)
        if status is None:
            raise SojournError(f"{name}: no such file or folder")
        if reopens(name, status.st_mode):
            raise SojournError(f"{name}: a named pipe has no end; leave out --once")


def log_names(logs: Sequence[str]) -> list[str]:
    """Return the names of files that globs and folders of runs stand for, each once.

    Raises:
        SojournError: a glob matches no file, or a name is a store.
    """
    names: list[str] = []
    for log in logs:
        if "://" in log:
            raise SojournError(f"{hidden(log)}: a store is not followed; name the log that it is loaded from")
        if os.path.isdir(log):
            names.append(os.path.join(log, "access.jsonl"))
        elif glob.has_magic(log) and not os.path.exists(log):
            matching = sorted(path for path in glob.glob(log, recursive=True) if not os.path.isdir(path))
            if not matching:
                raise SojournError(f"{log}: no file matches")
            names += matching
        else:
            names.append(log)
    return list(dict.fromkeys(names))
