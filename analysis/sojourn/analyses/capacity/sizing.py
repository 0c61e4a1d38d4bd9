"""How many instances a rate takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sojourn.model.errors import SojournError


def instances_needed(target_rate: float, per_instance: float, headroom: float = 0.0) -> int:
    """ceil(target_rate (1 + headroom) / per_instance), exact in the decimal digits that were given.

    Args:
        target_rate, per_instance: requests/s.
        headroom: share by which more is to be had than the target.

    Raises:
        SojournError: a rate is not above 0, or the headroom is below 0.
    """
    values = {"the target rate": target_rate, "the rate of an instance": per_instance}
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise SojournError(f"{name} must be above 0 requests/s, not {value:g}")
    if not 0 <= headroom < math.inf:
        raise SojournError(f"the headroom must be 0 or more (0.3 is 30 %), not {headroom:g}")
    # In binary, 900 · 1.1 / 990 is a hair above 1, and would take two.
    target, one, more = (Fraction(repr(float(value))) for value in (target_rate, per_instance, headroom))
    return math.ceil(target * (1 + more) / one)


@dataclass(frozen=True)
class Sizing:
    """Instances for a target rate.

    Attributes:
        target_rate, per_instance: requests/s; per_instance is None where no rate could be told.
        headroom: share.
        source: where the rate of an instance comes from, in words.
        instances: None where it cannot be told.
        bound: ``exactly``, or ``at most`` where an instance bears at least its rate.
        low, high: instances at the ends of the rate's interval; None where there is no end.
        reason: why there is no number.
    """

    target_rate: float
    headroom: float
    per_instance: float | None
    source: str
    instances: int | None = None
    bound: str = "exactly"
    low: int | None = None
    high: int | None = None
    reason: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "target_rate": self.target_rate,
            "headroom": self.headroom,
            "per_instance": self.per_instance,
            "source": self.source,
            "instances": self.instances,
            "bound": self.bound,
            "low": self.low,
            "high": self.high,
            "reason": self.reason,
        }


def sized(target_rate: float, headroom: float, per_instance: float, source: str = "as told") -> Sizing:
    """Instances for a rate an instance is known to bear.

    Raises:
        SojournError: as ``instances_needed``.
    """
    count = instances_needed(target_rate, per_instance, headroom)
    return Sizing(target_rate, headroom, per_instance, source, count)
