"""Open the named logs for watching."""

from __future__ import annotations

import glob
import os
import sys
import time
from collections.abc import Sequence
from datetime import datetime

from sojourn.model.errors import SojournError
from sojourn.model.verdict import SLO
from sojourn.readers.formats.line_format import LineFormat
from sojourn.watch.follow import FileFollower, Follower, StreamFollower, follower_of, reopens
from sojourn.watch.recent import MOST, SPAN
from sojourn.watch.tail import Tail, from_the_beginning
from sojourn.watch.watcher import Watcher

PAUSE = 0.02  # s between two polls of an idle pipe


def watcher_of(
    logs: Sequence[str], *, from_start: bool = False, slo: float = SLO, form: LineFormat | None = None
) -> Watcher:
    """Return a watcher of these logs; a file need not exist yet.

    Args:
        logs: names of files and named pipes, globs, folders of runs, and ``-``.
        from_start: read files from their beginning, as a replay.
        slo: as for ``sojourn.split``, s.
        form: format of all logs; None: each log's own, recognised by its lines.

    Raises:
        SojournError: a log cannot be read, or cannot be watched.
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
        tail = Tail(time.time(), SPAN, MOST, form)
        follower = follower_of(name, from_the_beginning if from_start else tail)
        if isinstance(follower, FileFollower):
            identity = follower.open()
            if identity in known:
                follower.close()
                continue
            known |= {identity} if identity else set()
            tails.append(tail)
        followers.append(follower)
    return Watcher(followers, tails, replay=from_start, slo=slo, form=form)


def read_once(logs: Sequence[str], wall: datetime, *, slo: float = SLO, form: LineFormat | None = None) -> Watcher:
    """Return a watcher that has read the last ten minutes of these logs once.

    Raises:
        SojournError: a log does not exist, or cannot be read.
    """
    for name in _names(logs):
        if name != "-" and not os.path.exists(name):
            raise SojournError(f"{name}: no such file or folder")
        if name != "-" and reopens(name, os.stat(name).st_mode):
            raise SojournError(f"{name}: a named pipe has no last ten minutes; watch it without --once")
    watcher = watcher_of(logs, slo=slo, form=form)
    watcher.catch_up(wall)
    while watcher.piped:
        if watcher.poll():
            watcher.read(wall)
        else:
            time.sleep(PAUSE)
    return watcher


def _names(logs: Sequence[str]) -> list[str]:
    names: list[str] = []
    for log in logs:
        if "://" in log:
            from sojourn.model.dsn import hidden  # noqa: PLC0415 - it may hold a password

            raise SojournError(f"{hidden(log)}: a store is not watched; watch the log that it is loaded from")
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
