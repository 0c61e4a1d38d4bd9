"""A run's folder: written under a temporary name and renamed when it is whole."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from sojourn_lab.errors import LabError


class RunFolder:
    """`<name>.partial` while the run goes on, `<name>` once everything is in it.

    Creating the partial folder is the claim: the kernel lets only one run make it, so two
    runs never share a folder. A run that fails leaves the partial folder with its logs.
    """

    def __init__(self, final: Path, partial: Path) -> None:
        self.final = final
        self.partial = partial

    @classmethod
    def claimed(cls, wanted: Path) -> RunFolder:
        """Return a folder that nobody else has; LabError if `wanted` exists or is being written."""
        final = Path(os.path.abspath(wanted))
        partial = final.with_name(final.name + ".partial")
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LabError(f"cannot create {final.parent}: {error.strerror}") from None
        if final.exists():
            raise LabError(f"{final} already exists; a run never writes into an old one")
        try:
            partial.mkdir()
        except FileExistsError:
            raise LabError(
                f"{partial} already exists: a run is writing there, or one was stopped and left its logs;"
                " choose another name or remove it"
            ) from None
        except OSError as error:
            raise LabError(f"cannot create {partial}: {error.strerror}") from None
        return cls(final, partial)

    @classmethod
    def claimed_by_time(cls, parent: Path, scenario: str, now: datetime | None = None) -> RunFolder:
        """Return `<parent>/<scenario>-<UTC time>`, with -2, -3, … where that second is taken."""
        stamp = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
        base = parent / f"{scenario}-{stamp}"
        for number in range(1, 1000):
            wanted = base if number == 1 else base.with_name(f"{base.name}-{number}")
            if not wanted.exists() and not wanted.with_name(wanted.name + ".partial").exists():
                try:
                    return cls.claimed(wanted)
                except LabError:
                    if not wanted.parent.is_dir() or not os.access(wanted.parent, os.W_OK):
                        raise
        raise LabError(f"a thousand runs are called {base}")

    def set_aside(self) -> Path:
        """Rename the finished folder to `<name>.void`, or `-2`, `-3`, … where that is taken, and return the new path.

        Its own name is then free for the repetition.
        """
        aside = wanted = self.final.with_name(self.final.name + ".void")
        number = 1
        while aside.exists():
            number += 1
            aside = wanted.with_name(f"{wanted.name}-{number}")
        return self.final.rename(aside)

    @property
    def logs(self) -> Path:
        """The folder for what the processes say."""
        folder = self.partial / "logs"
        folder.mkdir(exist_ok=True)
        return folder

    def finished(self) -> Path:
        """Give the folder its final name and return it; LabError if somebody took the name meanwhile."""
        try:
            self.partial.rename(self.final)
        except OSError as error:
            raise LabError(f"cannot rename {self.partial} to {self.final.name}: {error.strerror}") from None
        return self.final


def concatenated(parts: list[Path], whole: Path) -> int:
    """Write files of lines one after the other into `whole` and return how many lines that made.

    A last line without its newline (its writer was killed) gets one, so that it spoils no other.
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
