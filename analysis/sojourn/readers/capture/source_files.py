"""The files of the sources of a capture."""

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
    if path.exists():
        return [(source, True)]
    if glob.has_magic(source):
        paths = sorted(p for p in glob.glob(source, recursive=True) if not os.path.isdir(p))
        if not paths:
            raise SojournError(f"{source}: no file matches")
        return [(f, True) for f in paths]
    raise SojournError(f"{source}: no such file or folder")
