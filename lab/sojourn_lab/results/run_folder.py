"""A run's folder: written under a temporary name and renamed when it is complete."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime
from pathlib import Path

from sojourn_lab.errors import LabError


class RunFolder:
    """A run's folder: `<name>.partial` during the run, `<name>` when it is complete.

    A run claims its name by creating the partial folder: only one mkdir succeeds, so two runs never share a folder. A
    run that fails leaves the partial folder with its logs.
    """

    def __init__(self, final: Path, partial: Path) -> None:
        self.final = final
        self.partial = partial

    @classmethod
    def claimed(cls, folder: Path) -> RunFolder:
        """Claim and return a folder; LabError if it exists or is being written."""
        final = Path(os.path.abspath(folder))
        partial = final.with_name(final.name + ".partial")
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LabError(f"cannot create {final.parent}: {error.strerror}") from None
        if final.exists():
            raise LabError(f"{final} already exists: choose another name; a run does not write into an old folder")
        try:
            partial.mkdir()
        except FileExistsError:
            raise LabError(
                f"{partial} already exists: another run is writing to it, or was stopped and left its logs;"
                " choose another name or remove the folder"
            ) from None
        except OSError as error:
            raise LabError(f"cannot create {partial}: {error.strerror}") from None
        return cls(final, partial)

    @classmethod
    def claimed_by_time(cls, parent: Path, scenario: str, now: datetime | None = None) -> RunFolder:
        """Claim and return `<parent>/<scenario>-<UTC time>`, with -2, -3, … appended if that name exists."""
        stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
        base = parent / f"{scenario}-{stamp}"
        for number in range(1, 1000):
            folder = base if number == 1 else base.with_name(f"{base.name}-{number}")
            if not folder.exists() and not folder.with_name(folder.name + ".partial").exists():
                try:
                    return cls.claimed(folder)
                except LabError:
                    if not parent.is_dir() or not os.access(parent, os.W_OK):
                        raise
        raise LabError(f"{base} and -2 to -999 already exist: remove some, or name a folder with --out")

    def set_aside(self) -> Path:
        """Rename the finished folder to `<name>.void` (with -2, -3, … if that exists) and return the new path.

        The name is then free for the repetition.
        """
        first = self.final.with_name(self.final.name + ".void")
        others = (first.with_name(f"{first.name}-{number}") for number in itertools.count(2))
        return self.final.rename(next(each for each in itertools.chain([first], others) if not each.exists()))

    @property
    def logs(self) -> Path:
        """The folder for the logs of the processes."""
        folder = self.partial / "logs"
        folder.mkdir(exist_ok=True)
        return folder

    def finished(self) -> Path:
        """Give the folder its final name and return it; LabError if that name was created meanwhile."""
        try:
            self.partial.rename(self.final)
        except OSError as error:
            raise LabError(f"cannot rename {self.partial} to {self.final.name}: {error.strerror}") from None
        return self.final


def concatenated(parts: list[Path], whole: Path) -> int:
    """Concatenate files of lines into `whole` and return the number of lines.

    A last line without its newline (its writer was killed) gets one, so that it does not merge with the next.
    """
    lines = 0
    with whole.open("wb") as out:
        for part in parts:
            if not part.exists():
                continue
            with part.open("rb") as source:
                for line in source:
                    out.write(line if line.endswith(b"\n") else line + b"\n")
                    lines += 1
    return lines
