"""What an agent may read: files inside the folders of the command line, and its stores."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

from sojourn.model.dsn import Dsn, parse
from sojourn.model.errors import ArgumentError, SojournError
from sojourn.model.formatting import printable
from sojourn.readers.inputs import status_of

_Entry = TypeVar("_Entry")
MOST_FILES = 10_000  # files of a glob or a folder: each is checked


class Places:
    """The folders and stores that tools read.

    Attributes:
        folders: absolute paths, as on the command line.
        stores: DSN without its password -> DSN.
    """

    def __init__(self, folders: Sequence[str], stores: Sequence[str] = ()) -> None:
        """Check the folders and the DSNs.

        Raises:
            SojournError: a folder is none, a DSN is invalid, or there is neither.
        """
        for folder in folders:
            if not os.path.isdir(folder):
                raise SojournError(f"{printable(folder, 300)}: not a folder; name folders with logs")
        self.folders = tuple(dict.fromkeys(os.path.abspath(folder) for folder in folders))
        self.stores = {str(parse(store)): store for store in stores}
        if not self.folders and not self.stores:
            raise SojournError("no place to read: name folders with logs, or stores with --store")
        self._roots = tuple(dict.fromkeys((*self.folders, *map(os.path.realpath, self.folders))))

    def source(self, text: str) -> str:
        """Return a source as the command line takes it: the DSN of a store, or as ``file``.

        Raises:
            ArgumentError: it is outside of the folders, or a store that was not named at the start.
            SojournError: the system cannot look it up.
        """
        if "://" not in text:
            return self.file(text)
        for name, store in self.stores.items():
            if text in {name, store}:
                return store
        names = ", ".join(self.stores) or "none"
        raise ArgumentError(f"not a store of this server; its stores: {names}")

    def file(self, text: str) -> str:
        """Return the absolute path of a file, a glob or a folder inside the folders.

        A relative path is looked up in each folder. What does not exist is left to the command, which says so.

        Raises:
            ArgumentError: it is outside of the folders, or leads out of them by a link; or it is a device or a pipe.
            SojournError: the system cannot look it up.
        """
        if not text or text[0] in "-@":
            raise ArgumentError(f"{printable(text, 300)!r}: not the name of a file in the folders of this server")
        paths = [os.path.normpath(os.path.join(folder, text)) for folder in self.folders]
        path = next((path for path in paths if self._inside(path) and os.path.lexists(path)), "")
        path = path or next(filter(self._inside, paths), "")
        if not path:  # whether a path outside exists is not looked up
            raise self._outside(text)
        for match in _matches(path):
            self._check(match, text)
        return path

    def _check(self, path: str, text: str) -> None:
        """Raise ArgumentError if a path, or an entry of a folder, is outside, or is neither file nor folder."""
        if not self._inside(os.path.realpath(path)):
            raise self._outside(text)
        status = status_of(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            with os.scandir(path) as entries:
                links = [entry.path for entry in _at_most(entries, text) if entry.is_symlink()]
            if not all(self._inside(os.path.realpath(link)) for link in links):
                raise self._outside(text)
        elif status is not None and not stat.S_ISREG(status.st_mode):
            raise ArgumentError(f"{printable(text, 300)}: not a file (a device, a pipe or a socket)")

    def _inside(self, path: str) -> bool:
        return any(path == root or path.startswith(f"{root.rstrip('/')}/") for root in self._roots)

    def _outside(self, text: str) -> ArgumentError:
        folders = ", ".join(printable(folder, 300) for folder in self.folders) or "none"
        return ArgumentError(
            f"{printable(text, 300)}: outside of the folders of this server ({folders}); the tool sources lists files"
        )

    def without_passwords(self, text: str) -> str:
        """Return text without the passwords of the stores."""
        for store in self.stores.values():
            dsn: Dsn = parse(store)
            text = dsn.without_password(text.replace(store, str(dsn)))
        return text


def _matches(path: str) -> Iterator[str]:
    """Yield a path if it exists, and the files that it matches as a pattern."""
    yield path
    if glob.has_magic(path):
        yield from _at_most(glob.iglob(path, recursive=True), path)


def _at_most(entries: Iterator[_Entry], text: str) -> Iterator[_Entry]:
    """Yield entries; raise ArgumentError where there are more than are checked."""
    yield from islice(entries, MOST_FILES)
    if next(entries, None) is not None:
        raise ArgumentError(f"{printable(text, 300)}: more than {MOST_FILES:,} files; name fewer")
