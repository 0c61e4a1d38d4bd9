"""Estimate the law of speed of a resource: of each family the most likely law, and the laws that are plausible."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sojourn.queueing.speed_laws import NOTHING_SHARED, SpeedLaw
from sojourn.timeline.contention.likelihood import Likelihood

CORES, LOCK, PART, COHERENCE, NONE = "cores", "lock", "part", "coherence", "none"
FAMILIES = (NONE, CORES, LOCK, PART, COHERENCE)  # the simplest first
SIMPLER = 2.0  # of logarithms of likelihoods: a simpler family within it of the likeliest one is preferred
PLAUSIBLE = 3.0  # laws within it of the likeliest one are plausible
PLAUSIBLE_BEYOND = 10.0  # the same for what was never observed, as more cores: the order of the parts is not known
CLOCKS = 0.01  # error of a capacity that comes from those of the clocks
PRECISION, FINE, COARSE = 0.005, 0.02, 0.05  # of a parameter
NEARLY, BESIDE = (0.6, 0.75, 0.9, 1.0, 1.1), (0.9, 1.0, 1.1)  # times the capacity of a similar share
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LEAST_SHARE, LARGEST_SHARE, SHARE_PRECISION, LEAST_CAPACITY = 0.03, 0.99, 0.03, 1.0
CONTENTION, COHERENCES = (0.0, 0.03, 0.1, 0.2, 0.4, 0.8), (0.0, 0.003, 0.01, 0.03, 0.1)
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class FittedLaw:
    """A law with the logarithm of its likelihood."""

    family: str
    law: SpeedLaw
    likelihood: float


@dataclass(frozen=True)
class Estimate:
    """The laws of a resource.

    Attributes:
        best: the likeliest law of the simplest family that is likely enough.
        likely: the laws within ``PLAUSIBLE_BEYOND`` of it.
        unshared: logarithm of the likelihood if nothing is shared.
        low, high: interval of the capacity, of the laws of its family.
        most: services in progress at a time, at most.
    """

    best: FittedLaw
    likely: tuple[FittedLaw, ...] = field(repr=False)
    unshared: float
    low: float
    high: float
    most: int

    @property
    def gain(self) -> float:
        """Difference of the logarithms of the likelihoods: of the best law, and of services that share nothing."""
        return self.best.likelihood - self.unshared

    def plausible(self, margin: float = PLAUSIBLE) -> tuple[FittedLaw, ...]:
        """Return the best law and those within a margin of it that differ most: in speeds, and in what they share."""
        laws = [each for each in self.likely if each.likelihood >= self.best.likelihood - margin]
        curves = {each.law: np.log(each.law.speeds(self.most + 2)) for each in laws}
        middle, best = max((1 + self.most) // 2, 1), self.best.law
        measures: tuple[Callable[[FittedLaw], float], ...] = (
            lambda each: float(curves[each.law][self.most]),
            lambda each: float(curves[each.law][-1] - curves[each.law][self.most]),
            lambda each: float(curves[each.law][middle] - curves[each.law][self.most]),
            lambda each: each.law.share if math.isfinite(each.law.capacity) else best.share,
        )
        chosen = [self.best]
        for measure in measures:
            ordered = sorted(laws, key=measure)
            chosen += [each for each in (ordered[0], ordered[-1]) if each not in chosen]
        return tuple(chosen)


def coarse_gain(likelihood: Likelihood) -> float:
    """Return the gain of the likeliest of a few laws; it costs a fraction of ``quick_gain``."""
    most = likelihood.parts.most

    def of(law: SpeedLaw) -> float:
        return likelihood.log_of(law.speeds(most))

    few = [SpeedLaw(1.0, max(most * part, LEAST_CAPACITY)) for part in (0.4, 0.6, 0.75, 0.87)]
    few += [SpeedLaw(share, LEAST_CAPACITY) for share in (0.06, 0.15, 0.35)]
    return max(map(of, few)) - of(NOTHING_SHARED)


def quick_gain(likelihood: Likelihood) -> float:
    """Return the gain of the likeliest law with one parameter, cores or a lock."""
    laws = _Laws(likelihood)
    unshared = laws.fitted(NONE, NOTHING_SHARED).likelihood
    laws.climb_one(COARSE)
    return max(each.likelihood for each in laws.all) - unshared


def estimated(likelihood: Likelihood) -> Estimate:
    """Estimate the law of services."""
    laws, parts = _Laws(likelihood), likelihood.parts
    most = float(parts.most)
    unshared = laws.fitted(NONE, NOTHING_SHARED).likelihood
    laws.climb_one(PRECISION)
    laws.climb_ridge(_grid(most))
    for coherence in COHERENCES:
        laws.climb(COHERENCE, lambda a, b=coherence: SpeedLaw(contention=a, coherence=b), CONTENTION, FINE)  # type: ignore[misc]
    best = laws.best
    laws.widen(best, most)
    likely = tuple(each for each in laws.all if each.likelihood >= best.likelihood - PLAUSIBLE_BEYOND)
    of_family = [
        each.law.capacity
        for each in likely
        if each.family == best.family and each.likelihood >= best.likelihood - PLAUSIBLE
    ]
    low, high = min(of_family) * (1 - CLOCKS), max(of_family) * (1 + CLOCKS)
    return Estimate(best, likely, unshared, max(low, LEAST_CAPACITY), high, parts.most)


def estimated_on(likelihood: Likelihood, cores: int) -> Estimate:
    """Estimate which share of the services computes, on a number of cores that is known.

    Where no more services than cores were in progress, all shares are as likely.
    """
    laws, capacity = _Laws(likelihood), float(cores)

    def at(share: float) -> FittedLaw:
        return laws.fitted(PART if share else NONE, SpeedLaw(round(share, 4), capacity) if share else NOTHING_SHARED)

    likeliest = laws.climb(PART, lambda share: SpeedLaw(share, capacity), [LEAST_SHARE, *SHARES, 1.0])
    best = max((at(0.0), likeliest), key=lambda each: each.likelihood + SIMPLER * (each.family == NONE))
    share = 0.0 if best.family == NONE else best.law.share
    for end in (0.0, 1.0):
        if at(end).likelihood < best.likelihood - PLAUSIBLE:
            laws.find_edge(at, share, end, best, SHARE_PRECISION)
    likely = tuple(each for each in laws.all if each.likelihood >= best.likelihood - PLAUSIBLE_BEYOND)
    return Estimate(best, likely, at(0.0).likelihood, capacity, capacity, likelihood.parts.most)


class _Laws:
    """Laws with their likelihoods."""

    def __init__(self, likelihood: Likelihood) -> None:
        self._likelihood = likelihood
        self._fitted: dict[SpeedLaw, FittedLaw] = {}

    @property
    def all(self) -> list[FittedLaw]:
        """All laws whose likelihood was computed."""
        return list(self._fitted.values())

    @property
    def best(self) -> FittedLaw:
        """The likeliest law of the simplest family that is within ``SIMPLER`` of the likeliest of all."""
        enough = max(each.likelihood for each in self.all) - SIMPLER
        likely = [each for each in self.all if each.likelihood >= enough]
        family = min((each.family for each in likely), key=FAMILIES.index)
        return max((each for each in likely if each.family == family), key=lambda each: each.likelihood)

    def fitted(self, family: str, law: SpeedLaw) -> FittedLaw:
        """Return a law with its likelihood."""
        if law not in self._fitted:
            value = self._likelihood.log_of(law.speeds(self._likelihood.parts.most))
            self._fitted[law] = FittedLaw(family, law, value)
        return self._fitted[law]

    def climb(
        self, family: str, law: Callable[[float], SpeedLaw], values: Sequence[float], precision: float = PRECISION
    ) -> FittedLaw:
        """Search for the likeliest value of one parameter: on a grid, then by golden sections beside its best."""

        def at(value: float) -> float:
            return self.fitted(family, law(round(value, 4))).likelihood

        likelihoods = [at(value) for value in values]
        place = int(np.argmax(likelihoods))
        low, high = values[max(place - 1, 0)], values[min(place + 1, len(values) - 1)]
        while high - low > precision * max(high, 0.2):
            left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
            if at(left) >= at(right):
                high = right
            else:
                low = left
        tried = [*values, low, high]
        return max((self.fitted(family, law(round(value, 4))) for value in tried), key=lambda each: each.likelihood)

    def climb_one(self, precision: float) -> None:
        """Search for the likeliest laws with one parameter."""
        capacities = _grid(float(self._likelihood.parts.most))
        self.climb(CORES, lambda c: SpeedLaw(1.0, c), capacities, precision)
        self.climb(LOCK, lambda p: SpeedLaw(p, LEAST_CAPACITY), [LEAST_SHARE, *SHARES, 1.0], precision)

    def climb_ridge(self, capacities: Sequence[float]) -> None:
        """Search for the likeliest capacity of each share, and for the likeliest share: many of them are similar."""

        def profile(share: float, values: Sequence[float], precision: float = COARSE) -> FittedLaw:
            return self.climb(PART, lambda c: SpeedLaw(share, c), values, precision)

        last = self.climb(PART, lambda c: SpeedLaw(SHARES[-1], c), capacities, COARSE)
        ridge = [last]
        for share in reversed(SHARES[:-1]):
            # The smaller the share, the smaller the capacity that slows services as much.
            last = profile(share, _near(last.law.capacity, NEARLY))
            ridge.append(last)
        best = max(ridge, key=lambda each: each.likelihood)
        low = max(best.law.share - SHARES[0], LEAST_SHARE)
        high = min(best.law.share + SHARES[0], LARGEST_SHARE)
        while high - low > SHARE_PRECISION:
            left, right = round(high - GOLDEN * (high - low), 3), round(low + GOLDEN * (high - low), 3)
            near = _near(best.law.capacity, BESIDE)
            two = profile(left, near, FINE), profile(right, near, FINE)
            best = max((best, *two), key=lambda each: each.likelihood)
            if two[0].likelihood >= two[1].likelihood:
                high = right
            else:
                low = left

    def widen(self, best: FittedLaw, most: float) -> None:
        """Search for the ends of the interval of the capacity of a law, to both sides."""
        law = best.law
        if not math.isfinite(law.capacity):
            return

        def at(capacity: float) -> FittedLaw:
            return self.fitted(best.family, replace(law, capacity=capacity))

        for end in (LEAST_CAPACITY, most):
            self.find_edge(at, law.capacity, end, best, PRECISION * law.capacity)

    def find_edge(
        self, at: Callable[[float], FittedLaw], inside: float, outside: float, best: FittedLaw, precision: float
    ) -> None:
        """Search between two values of a parameter for the last one with a law that is plausible beside the best."""
        while abs(outside - inside) > precision:
            middle = round((inside + outside) / 2, 4)
            if at(middle).likelihood >= best.likelihood - PLAUSIBLE:
                inside = middle
            else:
                outside = middle


def _near(capacity: float, factors: Sequence[float]) -> list[float]:
    """Return capacities around one, in order, none below the least."""
    return sorted({max(round(capacity * factor, 4), LEAST_CAPACITY) for factor in factors})


def _grid(most: float) -> list[float]:
    """Return capacities from 1 to ``most``: steps of a quarter at first, then of a tenth."""
    values = [LEAST_CAPACITY]
    while values[-1] < most:
        values.append(min(values[-1] + max(0.25, 0.1 * values[-1]), most))
    return values
