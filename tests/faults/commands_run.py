"""A command of sojourn, run in this process: its exit code and what it wrote."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import NamedTuple

from sojourn.cli import main


class Ended(NamedTuple):
    """How it ended."""

    code: int
    out: str
    err: str


def ended(*arguments: str) -> Ended:
    """Run ``sojourn ARGUMENTS``, which reads no configuration."""
    out, err = io.StringIO(), io.StringIO()
    before, code = sys.argv, 0
    sys.argv = ["sojourn", "--no-config", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = before
    return Ended(code, out.getvalue(), err.getvalue())
