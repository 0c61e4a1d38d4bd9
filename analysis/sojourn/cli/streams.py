"""Make the standard streams usable, in any state in which the parent process left them."""

from __future__ import annotations

import io
import os
import sys


def made_usable() -> None:
    """Put nothing where a stream was closed, and let none fail for a character it does not have.

    ``sys.stdin`` remains None if it was closed. But its descriptor is used: a socket that got the number 0 would be
    what a program started later reads as its input.
    """
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the end
        elif isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where the terminal's characters are fewer than ours
