"""What the user named, opened to be watched."""

from __future__ import annotations

import glob
import os
import sys
import time
from collections.abc import Sequence
from datetime import datetime

from sojourn.model.errors import SojournError
from sojourn.model.verdict import SLO
from sojourn.watch.follow import FileFollower, Follower, StreamFollower, follower_of, reopens
from sojourn.watch.recent import MOST, SPAN
from sojourn.watch.tail import Tail, from_the_beginning
from sojourn.watch.watcher import Watcher

PAUSE = 0.02  # s between two looks at a pipe that nothing came through


def opened(logs: Sequence[str], *, from_start: bool = False, slo: float = SLO) -> Watcher:
    """Who watches these logs; a file need not be there yet.

    Args:
        logs: names of files and named pipes, globs, folders of runs, and ``-``.
        from_start: read files from their beginning, as a replay.
        slo: as for ``sojourn.split``.

    Raises:
        SojournError: one cannot be read, or cannot be watched.
    """
    followers: list[Follower] = []
    tails: list[Tail] = []
    known: set[tuple[int, int]] = set()
    for name in _names(logs):
        if name == "-":
            if sys.stdin is None:
                raise SojournError("-: standard input is closed")
            followers.append(StreamFollower("-", os.dup(sys.stdin.fileno())))
            continue
        tail = Tail(time.time(), SPAN, MOST)
        follower = follower_of(name, from_the_beginning if from_start else tail)
        if isinstance(follower, FileFollower):
            identity = follower.opened()
            if identity in known:
                follower.close()
                continue
            known |= {identity} if identity else set()
            tails.append(tail)
        followers.append(follower)
    return Watcher(followers, tails, replay=from_start, slo=slo)


def read_once(logs: Sequence[str], wall: datetime, *, slo: float = SLO) -> Watcher:
    """Who has read the last ten minutes of these logs, and reads no more.

    Raises:
        SojournError: one is not there, or cannot be read.
    """
    for name in _names(logs):
        if name != "-" and not os.path.exists(name):
            raise SojournError(f"{name}: no such file or folder")
        if name != "-" and reopens(name, os.stat(name).st_mode):
            raise SojournError(f"{name}: a named pipe has no last ten minutes; watch it without --once")
    watcher = opened(logs, slo=slo)
    watcher.catch_up(wall)
    while watcher.piped:
        if watcher.look():
            watcher.read(wall)
        else:
            time.sleep(PAUSE)
    return watcher


def _names(logs: Sequence[str]) -> list[str]:
    found: list[str] = []
    for log in logs:
        if "://" in log:
            from sojourn.model.dsn import hidden  # noqa: PLC0415 - it may hold a password

            raise SojournError(f"{hidden(log)}: a store is not watched; watch the log that it is loaded from")
        if os.path.isdir(log):
            found.append(os.path.join(log, "access.jsonl"))
        elif glob.has_magic(log) and not os.path.exists(log):
            matching = sorted(path for path in glob.glob(log, recursive=True) if not os.path.isdir(path))
            if not matching:
                raise SojournError(f"{log}: no file matches")
            found += matching
        else:
            found.append(log)
    return list(dict.fromkeys(found))
