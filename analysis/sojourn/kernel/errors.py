"""The kernel does not tell."""

from __future__ import annotations

from sojourn.errors import SojournError


class KernelUnavailableError(SojournError):
    """Something cannot be asked of this kernel: not Linux, no such file, or it is not allowed here. Says why."""
