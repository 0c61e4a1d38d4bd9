"""Write the page of an experiment, or print it, and report what fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from sojourn_lab.errors import LabError


def write_page(text: str, out: Path | None) -> None:
    """Write the text to a file; None: to standard output."""
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")


def exit_code_of(program: str, action: Callable[[], None]) -> int:
    """Return 0 after the action; 1, with a message by the name of the program, if a run or a file is unusable."""
    try:
        action()
    except LabError as error:
        sys.stderr.write(f"{program}: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"{program}: {error.filename}: {error.strerror or error}\n")
        return 1
    return 0
