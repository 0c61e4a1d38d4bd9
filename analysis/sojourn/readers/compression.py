"""The first bytes of a log: of a compressed one, whose members or frames in a row are one log; a byte order mark."""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import zlib
from typing import BinaryIO, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from sojourn.model.errors import SojournError

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

# Errors of a damaged or truncated stream. OSError includes gzip.BadGzipFile and a failing disk.
DAMAGE = (EOFError, zlib.error, zstd.ZstdError, OSError)


def decompressed(raw: io.BufferedReader) -> BinaryIO | None:
    """Return the bytes inside a compressed stream; None: it is not compressed."""
    magic = raw.peek(4)[:4]
    if magic[:2] == GZIP_MAGIC:
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    return cast(BinaryIO, zstd.ZstdFile(raw)) if magic == ZSTD_MAGIC else None


def skip_byte_order_mark(name: str, stream: BinaryIO) -> int:
    """Skip the byte order mark at the begin of a stream of UTF-8; return its length in bytes.

    Args:
        name: of the log, for the error.
        stream: its decompressed bytes.

    Raises:
        SojournError: the mark is that of UTF-16.
    """
    try:
        mark = cast(io.BufferedReader, stream).peek(4)[:4]
    except DAMAGE:  # the reader reports it
        return 0
    # The first character of a log is one of ASCII: half of it is zero in UTF-16.
    if (mark[:2], mark[3:]) == (codecs.BOM_UTF16_LE, b"\0") or (mark[:2], mark[2:3]) == (codecs.BOM_UTF16_BE, b"\0"):
        raise SojournError(f"{name}: text in UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8")
    return len(stream.read(3)) if mark.startswith(codecs.BOM_UTF8) else 0
