"""The exception of this package."""

from __future__ import annotations

from sojourn.errors import SojournError


class CaptureError(SojournError):
    """Packets cannot be recorded, or no longer; its text says why and, where that is known, what would mend it."""
