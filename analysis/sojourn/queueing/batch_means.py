"""Confidence interval of the mean of a correlated series, by batch means.

The waits of a queue are correlated: a long wait follows a long wait. The means of long batches are almost independent,
so their spread estimates that of the overall mean (Conway 1963; Law & Carson 1979).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sojourn.model.arrays import Floats
from sojourn.model.statistics import student_t

BATCHES = 30  # more do not narrow the interval much (Schmeiser 1982)
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean with its confidence interval.

    Attributes:
        mean, half: the interval is mean ± half.
        batches: number of batches.
        correlation: of the means of neighbouring batches. If it is significant, the batches are too short, and the
            interval is too narrow.
    """

    mean: float
    half: float
    batches: int
    correlation: float

    @property
    def doubtful(self) -> bool:
        """Return whether the batches are correlated: correlation above two of its standard errors."""
        return self.correlation > 2 / math.sqrt(self.batches)

    def to_dict(self) -> dict[str, float | int | bool]:
        """Return plain values, as in the JSON."""
        return {
            "mean": self.mean,
            "lower": self.mean - self.half,
            "upper": self.mean + self.half,
            "confidence": CONFIDENCE,
            "batches": self.batches,
            "doubtful": self.doubtful,
        }


def interval(values: Floats) -> Interval | None:
    """Return the mean of a series and its 95 % interval; None if a batch would be shorter than 30 values."""
    size = len(values) // BATCHES
    if size < 30:
        return None
    means = values[len(values) - size * BATCHES :].reshape(BATCHES, size).mean(axis=1)
    spread = means - means.mean()
    whole = float(spread @ spread)
    correlation = float(spread[1:] @ spread[:-1]) / whole if whole > 0 else 0.0
    error = math.sqrt(whole / (BATCHES - 1) / BATCHES)
    half = student_t((1 + CONFIDENCE) / 2, BATCHES - 1) * error
    return Interval(float(values.mean()), half, BATCHES, correlation)
