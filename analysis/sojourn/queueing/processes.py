"""Arrival and service processes: drawn from a distribution, or read from a file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sojourn.model.arrays import Floats
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable

ARRIVALS = {
    "poisson": ("RATE",),
    "constant": ("RATE",),
    "hyperexponential": ("RATE", "CV2"),
    "trace": ("FILE",),
}
SERVICES = {
    "exponential": ("MEAN",),
    "constant": ("MEAN",),
    "lognormal": ("MEAN", "CV2"),
    "pareto": ("MEAN", "ALPHA"),
    "trace": ("FILE",),
}
_LARGEST_CV2 = 1e9  # beyond it, the rarer of the two exponentials is lost in rounding
_QUOTED_LINES = 3  # bad lines of a file that are quoted


@dataclass(frozen=True)
class Process:
    """A sequence of durations: times between arrivals, or service times.

    Attributes:
        kind: a key of ``ARRIVALS`` or ``SERVICES``.
        mean: s.
        cv2: squared coefficient of variation, variance / mean²; inf for an infinite variance.
        shape: CV2 or ALPHA; 0 for kinds without one.
        trace: s, the values of a file; empty for a distribution.
    """

    kind: str
    mean: float
    cv2: float
    shape: float = 0.0
    trace: tuple[float, ...] | Floats = ()

    @property
    def independent(self) -> bool:
        """Return whether the durations are independent of each other."""
        return self.kind != "trace"

    def drawn(self, count: int, generator: np.random.Generator) -> Floats:
        """Return ``count`` durations (s). A trace keeps its order, and is repeated if it is shorter."""
        if self.kind in {"poisson", "exponential"}:
            return generator.exponential(self.mean, count)
        if self.kind == "constant":
            return np.full(count, self.mean)
        if self.kind == "lognormal":
            variance = math.log1p(self.shape)
            return generator.lognormal(math.log(self.mean) - variance / 2, math.sqrt(variance), count)
        if self.kind == "pareto":
            least = self.mean * (self.shape - 1) / self.shape
            return least * (1 + generator.pareto(self.shape, count))
        if self.kind == "hyperexponential":
            # Two exponentials, each with half of the time: balanced means (Morse 1958; Whitt 1982, eq. 3.7).
            often = (1 + math.sqrt((self.shape - 1) / (self.shape + 1))) / 2
            first = generator.random(count) < often
            return generator.exponential(1.0, count) * np.where(first, 0.5 / often, 0.5 / (1 - often)) * self.mean
        return np.tile(self.trace, -(-count // len(self.trace)))[:count]


def arrival_process(text: str) -> Process:
    """Parse an arrival process.

    Args:
        text: poisson:RATE, constant:RATE, hyperexponential:RATE:CV2 (rates per s), or trace:FILE of instants (s), one
            per line; the first request of a trace arrives at 0.

    Raises:
        ValueError: the text is not one of these.
        SojournError: the file cannot be read, or a line is not an instant.
    """
    kind, values = _parsed(text, ARRIVALS, "arrivals")
    if kind == "trace":
        instants = _read(Path(text.split(":", 1)[1]), "an instant", ascending=True)
        gaps = np.diff(instants, prepend=instants[0])
        mean, cv2 = _moments(gaps[1:]) if len(gaps) > 1 else (math.inf, 0.0)
        return Process(kind, mean, cv2, trace=gaps)
    if kind == "hyperexponential":
        if not 1 <= values[1] <= _LARGEST_CV2:
            raise ValueError(f"arrivals {printable(repr(text))}: give a CV2 from 1 to {_LARGEST_CV2:.0e}")
        return Process(kind, 1 / values[0], values[1], shape=values[1])
    return Process(kind, 1 / values[0], 0.0 if kind == "constant" else 1.0)


def service_process(text: str) -> Process:
    """Parse a service process.

    Args:
        text: exponential:MEAN, constant:MEAN, lognormal:MEAN:CV2, pareto:MEAN:ALPHA (s), or trace:FILE of durations
            (s), one per line.

    Raises:
        ValueError: the text is not one of these.
        SojournError: the file cannot be read, or a line is not a duration.
    """
    kind, values = _parsed(text, SERVICES, "service")
    if kind == "trace":
        services = _read(Path(text.split(":", 1)[1]), "a duration", ascending=False)
        mean, cv2 = _moments(services)
        return Process(kind, mean, cv2, trace=services)
    if kind == "pareto":
        alpha = values[1]
        if alpha <= 1:
            raise ValueError(f"service {printable(repr(text))}: give an ALPHA above 1, or the mean is infinite")
        return Process(kind, values[0], 1 / (alpha * (alpha - 2)) if alpha > 2 else math.inf, shape=alpha)
    if kind == "lognormal":
        return Process(kind, values[0], values[1], shape=values[1])
    return Process(kind, values[0], 0.0 if kind == "constant" else 1.0)


def _parsed(text: str, kinds: dict[str, tuple[str, ...]], name: str) -> tuple[str, list[float]]:
    kind, _, rest = text.partition(":")
    allowed = ", ".join(":".join((kind, *names)) for kind, names in kinds.items())
    if kind not in kinds or not rest:
        raise ValueError(f"{name} {printable(repr(text))} is not one of {allowed}")
    if kind == "trace":
        return kind, []
    try:
        values = [float(part) for part in rest.split(":")]
    except ValueError:
        values = []
    if len(values) != len(kinds[kind]) or not all(0 < value < math.inf for value in values):
        raise ValueError(f"{name} {printable(repr(text))}: give {':'.join((kind, *kinds[kind]))}, numbers above 0")
    return kind, values


def _moments(lengths: Floats) -> tuple[float, float]:
    mean = float(lengths.mean())
    return mean, float(lengths.var()) / mean**2 if mean > 0 else 0.0


def _read(path: Path, what: str, *, ascending: bool) -> Floats:
    """Return the numbers of a file, one per line; empty lines and comments (#) are skipped."""
    numbers: list[float] = []
    bad: list[str] = []
    refused = 0
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for place, line in enumerate(file, 1):
                text = line.strip()
                if not text or text.startswith("#"):
                    continue
                fault = _fault(text, numbers, what, ascending)
                if fault:
                    refused += 1
                    if len(bad) < _QUOTED_LINES:
                        bad.append(f"line {place}: {printable(repr(text), 40)} {fault}")
                else:
                    numbers.append(float(text))
    except OSError as error:
        raise SojournError(f"{path}: {error.strerror}") from error
    if bad:
        more = f"; {refused - len(bad)} more" if refused > len(bad) else ""
        raise SojournError(f"{path}: {'; '.join(bad)}{more}")
    if not numbers:
        raise SojournError(f"{path}: the file contains no number")
    return np.array(numbers)


def _fault(text: str, numbers: list[float], what: str, ascending: bool) -> str:
    try:
        value = float(text)
    except ValueError:
        return f"is not {what} in seconds"
    if not math.isfinite(value) or (value < 0 and not ascending):
        return f"is not {what} in seconds"
    if ascending and numbers and value < numbers[-1]:
        return "is earlier than the preceding instant"
    return ""
