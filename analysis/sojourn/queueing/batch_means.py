"""How sure a mean is that was taken over neighbours who are alike.

The waits of a queue are correlated: whoever comes after a long wait waits long. The means of long batches hardly are,
so their spread tells that of the whole mean (Conway 1963; Law & Carson 1979).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BATCHES = 30  # more make none the surer (Schmeiser 1982)
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean with its confidence interval.

    Attributes:
        mean, half: the interval is mean ± half.
        batches: how many it was taken from.
        correlation: of the means of neighbouring batches. Where there is any, the batches are too short, and the
            interval too narrow.
    """

    mean: float
    half: float
    batches: int
    correlation: float

    @property
    def doubtful(self) -> bool:
        """Whether the batches are alike by more than chance: correlation above two of its standard errors."""
        return self.correlation > 2 / math.sqrt(self.batches)

    def to_dict(self) -> dict[str, float | int | bool]:
        """Plain values."""
        return {
            "mean": self.mean,
            "lower": self.mean - self.half,
            "upper": self.mean + self.half,
            "confidence": CONFIDENCE,
            "batches": self.batches,
            "doubtful": self.doubtful,
        }


def interval(values: npt.NDArray[np.float64]) -> Interval | None:
    """The mean of a series and its 95 % interval; None where a batch would be shorter than 30 values."""
    from scipy.special import stdtrit  # noqa: PLC0415 - takes its time to load

    size = len(values) // BATCHES
    if size < 30:
        return None
    means = values[len(values) - size * BATCHES :].reshape(BATCHES, size).mean(axis=1)
    spread = means - means.mean()
    whole = float(spread @ spread)
    correlation = float(spread[1:] @ spread[:-1]) / whole if whole > 0 else 0.0
    error = math.sqrt(whole / (BATCHES - 1) / BATCHES)
    half = float(stdtrit(BATCHES - 1, (1 + CONFIDENCE) / 2)) * error
    return Interval(float(values.mean()), half, BATCHES, correlation)
