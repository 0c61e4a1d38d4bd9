"""The error of a change whose effect is not known."""

from sojourn.model.errors import SojournError


class WithheldError(SojournError):
    """The log does not say what a change would do: the reason, as a clause."""
