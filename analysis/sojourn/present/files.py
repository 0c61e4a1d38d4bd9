"""Write files completely or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sojourn.model.errors import SojournError, reason_of


@contextmanager
def written_whole(path: str | os.PathLike[str], *errors: type[Exception]) -> Iterator[Path]:
    """Yield a partial file that replaces ``path`` if the block succeeds and is removed otherwise.

    Its name is unique (``F.1f2e3d4c.partial``): of two writers of ``F``, the last to end wins, with a whole file. A
    link remains a link, and its target is replaced; a pipe or a device is written at the end of the block.

    Raises:
        SojournError: ``path`` cannot be written; also for any of ``errors`` that the block raises.
    """
    target = Path(path)
    if target.is_dir():
        raise SojournError(f"{target}: cannot be written (it is a directory)")
    # A device cannot be replaced: /dev/null would become a file.
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
        raise  # the reader closed the pipe
    except caught as error:
        raise SojournError(f"{target}: cannot be written ({reason_of(error, folder)})") from error
    finally:
        with suppress(OSError):
            partial.unlink()  # does not exist after success


def _in_its_place(partial: Path, target: Path) -> None:
    if target.exists():
        shutil.copymode(target, partial)  # the owner sets the mode
    with partial.open("rb") as written:
        os.fsync(written.fileno())  # a network file system may fail only now
    partial.replace(target)


def _copied(partial: Path, target: Path) -> None:
    with partial.open("rb") as written, target.open("wb") as out:
        shutil.copyfileobj(written, out)
