"""Read the run of an experiment, write its page, or print it, and report what fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from sojourn_lab.errors import LabError
from sojourn_lab.results.run_schema import Run, run_in


def run_of(folder: Path, scenario: str) -> Run:
    """Return the run in a folder; LabError if it holds no run of the scenario."""
    if not (folder / "run.json").exists():
        raise LabError(f"{folder} is no folder of a run: it needs run.json")
    run = run_in(folder)
    if run.scenario.name != scenario:
        raise LabError(f"{folder} is a run of {run.scenario.name}: this page needs one of {scenario}")
    return run


def versions_text(versions: Mapping[str, str], programs: Collection[str]) -> str:
    """Return a sentence with the versions of some programs."""
    texts = (f"{name} {version}" for name, version in sorted(versions.items()) if name in programs)
    return f"Versions: {', '.join(texts)}."


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
