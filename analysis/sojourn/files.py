"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sojourn.errors import SojournError

LEAST_ROOM = 1 << 16
"""Bytes; with fewer a disk is full."""


@contextmanager
def written_whole(path: str | os.PathLike[str], *errors: type[Exception]) -> Iterator[Path]:
    """A partial file to write to, which becomes ``path`` when the block has ended well and is removed otherwise.

    It has a name of its own beside ``path`` (``F.1f2e3d4c.partial``): of two that write ``F`` at once, the last one to
    end has it, whole. A link stays a link, and its file gets a new content; a pipe or a device is written into once
    everything is known.

    Raises:
        SojournError: ``path`` cannot be written; also for any of ``errors`` that the block raises.
    """
    target = Path(path)
    if target.is_dir():
        raise SojournError(f"{target}: cannot be written (it is a directory)")
    # Of a device nothing could take the place: /dev/null would be a file from then on.
    special = target.exists() and not target.is_file()
    folder = Path(tempfile.gettempdir()) if special else Path(os.path.realpath(target)).parent
    partial = folder / f"{target.name[:100]}.{os.urandom(4).hex()}.partial"
    caught: tuple[type[Exception], ...] = (OSError, *errors)
    try:
        yield partial
        if special:
            _copied(partial, target)
        else:
            _in_its_place(partial, Path(os.path.realpath(target)))
    except BrokenPipeError:
        raise  # whoever reads has seen enough
    except caught as error:
        raise SojournError(f"{target}: cannot be written ({reason_of(error, folder)})") from error
    finally:
        with suppress(OSError):
            partial.unlink()  # gone already when all went well


def reason_of(error: Exception, folder: Path | None = None) -> str:
    """Why a file could not be read or written, as the system says it: engines wrap that in words of their own.

    ``folder``: where it was to be written; that its disk is full, not every engine says.
    """
    number = error.errno if isinstance(error, OSError) else None
    wrapped = re.search(r"\(os error (\d+)\)", str(error))
    if wrapped:
        number = int(wrapped[1])
    if number is None and folder is not None:
        with suppress(OSError):
            number = errno.ENOSPC if shutil.disk_usage(folder).free < LEAST_ROOM else None
    return os.strerror(number) if number else str(error).partition("\n")[0] or type(error).__name__


def _in_its_place(partial: Path, target: Path) -> None:
    if target.exists():
        shutil.copymode(target, partial)  # who may read it is for its owner to say
    with partial.open("rb") as written:
        os.fsync(written.fileno())  # a disk behind a network may refuse only now
    partial.replace(target)


def _copied(partial: Path, target: Path) -> None:
    with partial.open("rb") as written, target.open("wb") as out:
        shutil.copyfileobj(written, out)
