"""The files that an agent may read, each with its kind, recognised by its first bytes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from heapq import nlargest
from typing import Any

from sojourn.mcp.places import Places
from sojourn.model.errors import ArgumentError, SojournError
from sojourn.model.formatting import iso
from sojourn.nginx.log_format import REFUSED_WITHOUT
from sojourn.readers.capture.pcap import is_pcap
from sojourn.readers.capture.pcapng import is_pcapng
from sojourn.readers.compression import DAMAGE, decompressed
from sojourn.readers.formats.detect import detected_format
from sojourn.readers.formats.json_template import object_in
from sojourn.readers.formats.wrapping import bare_lines
from sojourn.readers.inputs import PARQUET_MAGIC

MOST_ENTRIES = 20_000  # of folders: what is beyond is not looked at
LIMIT = 50
LARGEST_LIMIT = 500
LINES = 200
HEAD = 64 << 10  # bytes, decompressed
SPANS = "spans, OTLP/JSON lines"
KERNEL = "samples of the kernel"
TABLE = "table; its columns need roles"
_OF_SPANS = {"resourceSpans", "resource_spans"}
_OF_SAMPLES = {"time", "sockets"}


def listing(places: Places, under: str | None = None, limit: int = LIMIT) -> dict[str, Any]:
    """Return the files that a server reads, the last written first.

    Args:
        places: folders and stores.
        under: only files in this folder; None: in all.
        limit: number of files.

    Returns:
        folders, stores: those of the server; files: path, bytes, when it was written, kind; files_in_all: their number,
        of at most ``MOST_ENTRIES`` entries of the folders.

    Raises:
        ArgumentError: ``under`` is no folder of the server.
    """
    folders = places.folders if under is None else (places.file(under),)
    if under is not None and not os.path.isdir(folders[0]):
        raise ArgumentError(f"{folders[0]}: not a folder")
    files = {path: status for folder in folders for path, status in _files(folder, places)}
    last = nlargest(limit, files.items(), key=lambda item: (item[1].st_mtime, item[0]))
    return {
        "folders": list(places.folders),
        "stores": list(places.stores),
        "files": [
            {
                "path": path,
                "bytes": status.st_size,
                "written": iso(datetime.fromtimestamp(status.st_mtime, UTC)),
                "kind": kind_of(path),
            }
            for path, status in last
        ],
        "files_in_all": len(files),
    }


def _files(folder: str, places: Places) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the regular files in a folder and below that the places have, with their status."""
    entries = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            entries += 1
            if entries > MOST_ENTRIES:
                return
            try:
                path = places.file(os.path.join(parent, name))
                status = os.stat(path)
            except (SojournError, OSError):  # a link out of the folders, a pipe, or a file that is gone
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, status


def kind_of(path: str) -> str:
    """Return what a file is, by its first bytes: a log and its format, spans, a capture, Parquet, or unknown."""
    try:
        with open(path, "rb") as raw:
            stream = decompressed(raw) or raw
            head = stream.read(HEAD)
    except DAMAGE as error:
        return f"unreadable ({getattr(error, 'strerror', None) or 'damaged'})"
    if not head:
        return "empty"
    if head.startswith(PARQUET_MAGIC):
        return "Parquet"
    if is_pcap(head) or is_pcapng(head):
        return "capture of packets"
    text = _kind_of_lines(bare_lines(head.decode("utf-8", "replace").splitlines()[:LINES]))
    if not text:
        return TABLE if path.removesuffix(".gz").removesuffix(".zst").endswith((".csv", ".tsv")) else "unknown"
    return text


def _kind_of_lines(lines: list[str]) -> str:
    """Return what lines of text are; empty: unknown."""
    keys = {key for line in lines for key in object_in(line) or ()}
    if keys & _OF_SPANS:
        return SPANS
    if keys >= _OF_SAMPLES:
        return KERNEL
    form = detected_format(lines)
    if form is not None:
        return f"log, {form.title}" + (f", which lacks {', '.join(form.lacks)}" if form.lacks else "")
    return "log, Sojourn's record" if keys.issuperset(REFUSED_WITHOUT) else ""
