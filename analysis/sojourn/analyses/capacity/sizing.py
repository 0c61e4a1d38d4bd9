"""Number of instances for a rate."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction

from sojourn.model.errors import SojournError

AS_GIVEN = "as given"
INSTANCES = ("system", "upstream")  # of which a rate is measured


def instances_needed(target_rate: float, per_instance: float, headroom: float = 0.0) -> int:
    """Return ceil(target_rate (1 + headroom) / per_instance), exact in decimal digits.

    Args:
        target_rate: the rate to serve, requests/s.
        per_instance: the rate of one instance, requests/s.
        headroom: additional capacity, as a share of the target.

    Raises:
        SojournError: a rate is not above 0, or the headroom is below 0.
    """
    values = {"the target rate": target_rate, "the rate of an instance": per_instance}
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise SojournError(f"{name} must be above 0 requests/s, not {value:g}")
    if not 0 <= headroom < math.inf:
        raise SojournError(f"the headroom must be 0 or more (0.3 is 30 %), not {headroom:g}")
    # In binary floats, 900 · 1.1 / 990 is slightly above 1 and would need two instances.
    target, one, more = (Fraction(repr(float(value))) for value in (target_rate, per_instance, headroom))
    return math.ceil(target * (1 + more) / one)


@dataclass(frozen=True)
class Sizing:
    """Instances for a target rate.

    Attributes:
        target_rate: the rate to serve, requests/s.
        headroom: additional capacity, as a share of the target.
        per_instance: the rate of one instance, requests/s; None: unknown.
        source: the origin of that rate, as text.
        instances: number of instances; None: unknown.
        bound: ``exactly``, or ``at most`` if ``per_instance`` is a lower bound.
        low, high: instances at the ends of the interval of the rate; None: open.
        reason: the reason for an unknown number.
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
        """Return plain values for JSON."""
        return asdict(self)


def sized(target_rate: float, headroom: float, per_instance: float) -> Sizing:
    """Return the instances for a rate, from the rate that one instance sustains.

    Raises:
        SojournError: as ``instances_needed``.
    """
    count = instances_needed(target_rate, per_instance, headroom)
    return Sizing(target_rate, headroom, per_instance, AS_GIVEN, count)
