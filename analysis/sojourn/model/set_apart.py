"""Records that are in no figure because their instants are far from those of all others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sojourn.model.formatting import counted, duration, iso


@dataclass(frozen=True)
class SetApart:
    """Records that were set apart: further from the others than these span.

    Attributes:
        requests: their number.
        first: begin of the earliest.
        last: end of the latest.
        seconds: time that the others span.
    """

    requests: int
    first: datetime
    last: datetime
    seconds: float

    @property
    def sentence(self) -> str:
        """Their number, their instants, and what selects them."""
        at = f"at {iso(self.first)}" if self.requests == 1 else f"from {iso(self.first)} to {iso(self.last)}"
        return (
            f"{counted(self.requests, 'record is', 'records are')} set apart: {at}, further from all others than these "
            f"span ({duration(self.seconds)}). A clock was probably set; --since and --until select that time."
        )

    def to_dict(self) -> dict[str, object]:
        """Return the ``records.set_apart`` object of the JSON output."""
        return {"requests": self.requests, "from": iso(self.first), "to": iso(self.last)}
