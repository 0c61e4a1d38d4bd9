"""Files that are written whole or not at all."""

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


def _in_its_place(partial: Path, target: Path) -> None:
    if target.exists():
        shutil.copymode(target, partial)  # who may read it is for its owner to say
    with partial.open("rb") as written:
        os.fsync(written.fileno())  # a disk behind a network may refuse only now
    partial.replace(target)


def _copied(partial: Path, target: Path) -> None:
    with partial.open("rb") as written, target.open("wb") as out:
        shutil.copyfileobj(written, out)
