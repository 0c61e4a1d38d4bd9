"""Compressed logs, detected by their first bytes; several members or frames in a row are one log."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from typing import BinaryIO, cast

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

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
