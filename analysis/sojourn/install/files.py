"""The files of a configuration: write them at once, keep a backup, put them back."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from sojourn.install.rotation import rule_path
from sojourn.model.errors import SojournError

MANIFEST = "installed.json"
"""In the folder of the include files: which of them were installed."""


@dataclass
class Writing:
    """Contents of files before and after a change; None for a file that does not exist.

    Attributes:
        before, after: real path -> content.
    """

    before: dict[str, bytes | None] = field(default_factory=dict)
    after: dict[str, bytes | None] = field(default_factory=dict)

    def set(self, path: str | Path, content: bytes | None) -> None:
        """Set the content of a file after the change; a link is followed."""
        real = os.path.realpath(path)
        if real not in self.before:
            self.before[real] = _content(real)
        self.after[real] = content

    @property
    def changed(self) -> list[str]:
        """The real paths of the files whose content changes, in order."""
        return sorted(path for path in self.after if self.after[path] != self.before[path])

    @property
    def texts(self) -> dict[str, str]:
        """Real path -> text after the change, of the files that exist then; bytes that are not UTF-8 as surrogates."""
        return {
            path: content.decode("utf-8", "surrogateescape")
            for path, content in self.after.items()
            if content is not None
        }

    def diff(self, leave_out: Iterable[str] = ()) -> str:
        """Return the change as a unified diff, without some files."""
        omitted = set(leave_out)
        return "".join(self._diff_of(path) for path in self.changed if path not in omitted)

    def _diff_of(self, path: str) -> str:
        old, new = self.before[path], self.after[path]
        lines = difflib.unified_diff(
            _lines(old), _lines(new), path if old is not None else os.devnull, path if new is not None else os.devnull
        )
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def backup(self, folder: Path) -> Path:
        """Copy the files as they are before the change into a new folder, and return it.

        Raises:
            SojournError: a file cannot be written; nothing was changed.
        """
        name = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ-")
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            place = Path(tempfile.mkdtemp(prefix=name, dir=folder))
            for path in self.changed:
                if self.before[path] is not None:
                    target = Path(f"{place}{path}")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(path, target)
        except OSError as error:
            raise SojournError(
                f"{folder}: the backup cannot be written ({error.strerror}); nothing was changed"
            ) from None
        return place

    def write(self) -> None:
        """Write the files.

        Raises:
            SojournError: one cannot be written; those before it are as before.
        """
        self._write(self.after, self.before)

    def undo(self) -> None:
        """Put the files back.

        Raises:
            SojournError: one cannot be written.
        """
        self._write(self.before, self.after)

    def _write(self, contents: Mapping[str, bytes | None], otherwise: Mapping[str, bytes | None]) -> None:
        done: list[str] = []
        for path in self.changed:
            try:
                _replace(path, contents[path])
            except OSError as error:
                for earlier in done:
                    _replace(earlier, otherwise[earlier])
                raise SojournError(f"{path}: cannot be written ({error.strerror})") from None
            done.append(path)


def _content(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SojournError(f"{path}: cannot be read ({error.strerror})") from None


def _lines(content: bytes | None) -> list[str]:
    text = (content or b"").decode("utf-8", "replace")
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _replace(path: str, content: bytes | None) -> None:
    """Write a file at once, so that no reader sees a part; None removes it, with its folder if that is empty then."""
    folder = os.path.dirname(path)
    if content is None:
        with suppress(FileNotFoundError):
            os.unlink(path)
        with suppress(OSError):  # not empty
            os.rmdir(folder)
        return
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".sojourn-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        if os.path.exists(path):
            shutil.copystat(path, temporary)
            os.utime(temporary)
            status = os.stat(path)
            os.chown(temporary, status.st_uid, status.st_gid)
        else:
            os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def backup_folder() -> Path:
    """Return the folder of backups: /var/backups/sojourn for root, the user's state folder for others."""
    if os.geteuid() == 0:
        return Path("/var/backups/sojourn")
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state, "sojourn", "backups")


def manifest_of(files: Mapping[str, bytes]) -> bytes:
    """Return the content of the manifest for installed files, by name."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    return (json.dumps({"files": hashes}, indent=2) + "\n").encode()


def installed_files(folder: str) -> dict[str, bool]:
    """Return the name of each file that the manifest of a folder lists -> whether it is unchanged since.

    The rule that rotates the log has its path as a name.
    """
    try:
        manifest = json.loads(Path(folder, MANIFEST).read_bytes())
        files = dict(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    contents = {name: _content(os.path.join(folder, name)) for name in files}
    return {
        name: content is not None and hashlib.sha256(content).hexdigest() == files[name]
        for name, content in contents.items()
        if os.path.basename(name) == name or name == rule_path()
    }
