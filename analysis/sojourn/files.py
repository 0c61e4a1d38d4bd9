"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sojourn.errors import SojournError


@contextmanager
def written_whole(path: str | os.PathLike[str], *errors: type[Exception]) -> Iterator[Path]:
    """A partial file to write to, which becomes ``path`` when the block has ended well and is removed otherwise.

    Raises:
        SojournError: ``path`` cannot be written; also for any of ``errors`` that the block raises.
    """
    target = Path(path)
    if target.is_dir():
        raise SojournError(f"{target}: cannot be written (it is a directory)")
    partial = target.with_name(target.name + ".partial")
    caught: tuple[type[Exception], ...] = (OSError, *errors)
    try:
        yield partial
        partial.replace(target)
    except caught as error:
        raise SojournError(f"{target}: cannot be written ({str(error).splitlines()[0]})") from error
    finally:
        with suppress(OSError):
            partial.unlink()  # gone already when all went well
