"""Which files the sources of a capture name."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from sojourn.model.errors import SojournError
from sojourn.readers.inputs import Source

_OF_RUN = re.compile(r"capture(-\d+)?\.pcap")


def source_files(sources: Sequence[Source]) -> list[tuple[str, bool]]:
    """Paths (``-``: standard input), and whether each was named itself and so has to be a capture.

    Of a folder that holds ``capture.pcap``, ``capture-2.pcap`` … (a run's), these files; of another, all files: a ring
    may be called anything. What in a folder is no capture is passed over.

    Raises:
        SojournError: a source does not exist, cannot be looked into or matches nothing, or there is none.
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
            raise SojournError(f"{source}: holds no capture")
        return [(f, False) for f in of_run or files]
    if path.exists():
        return [(source, True)]
    if glob.has_magic(source):
        paths = sorted(p for p in glob.glob(source, recursive=True) if not os.path.isdir(p))
        if not paths:
            raise SojournError(f"{source}: no file matches")
        return [(f, True) for f in paths]
    raise SojournError(f"{source}: no such file or folder")
