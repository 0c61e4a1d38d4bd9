"""The program of every generator: one plan file in, results in the files that the plan names, an exit code."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.load.plan import Plan

P = TypeVar("P")

USAGE, FAILURE = 2, 1


def announce(plan: Plan, since: float) -> None:
    """Write when the measured window begins (unix s) to the file that the plan names, if any."""
    if plan.started is None:
        return
    # Under another name first: a waiting process must not read half a number.
    half = Path(f"{plan.started}.partial")
    half.write_text(repr(since))
    half.rename(plan.started)


def announced(plan: Plan) -> float | None:
    """Return when the measured window begins, unix s; None until the generator has announced it."""
    try:
        return float(Path(plan.started or "").read_text())
    except (OSError, ValueError):
        return None


def exit_code(name: str, kind: type[P], arguments: list[str], run: Callable[[P], None]) -> int:
    """Run a plan of some kind and return the exit code: 0 also for a void run.

    2 for a plan that cannot be used, and 1 where nothing can be sent (`run` raised LabError) or written, both with a
    sentence on stderr that begins with `name`.
    """
    try:
        (path,) = arguments
        plan = msgspec.json.decode(Path(path).read_bytes(), type=kind)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"{name}: needs one plan file: {error}\n")
        return USAGE
    # What the imports left behind need not be walked again by every collection during the run.
    gc.collect()
    gc.freeze()
    try:
        run(plan)
    except LabError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return FAILURE
    except OSError as error:
        sys.stderr.write(f"{name}: {error.filename or 'what it wrote'}: {error.strerror or error}\n")
        return FAILURE
    finally:
        gc.unfreeze()  # where this is not the whole process, others' objects end as they would
    return 0
