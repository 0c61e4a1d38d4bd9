"""The universal scalability law: throughput against concurrency, with contention and coherency.

    X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))

Gunther 1993 (super-serial model) and 2007, "Guerrilla Capacity Planning", eq. 4.31. lambda: throughput of one; sigma:
the share that is serial; kappa: what keeping each other informed costs a pair. The peak is at
N* = sqrt((1 - sigma) / kappa); beyond it more load gives less throughput.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sojourn.model.arrays import Floats

RESAMPLES = 500
LEVEL = 0.95
LEAST_WINDOWS = 6
PARAMETERS = ("throughput_of_one", "sigma", "kappa")
STEPS = 200  # of one fit, at most
NOTHING = 1e-3  # of the denominator at the highest concurrency: a coefficient that adds less is not significant


@dataclass(frozen=True)
class Usl:
    """A fit. Intervals are (low, high) at ``LEVEL``, percentiles of a bootstrap over windows (Efron 1979).

    Attributes:
        throughput_of_one: lambda, requests/s.
        sigma, kappa: contention and coherency, dimensionless.
        r_squared: share of the variance of throughput that the curve explains.
        intervals: parameter -> (low, high).
        least, most: range of the observed concurrency.
        windows: number of windows fitted.
    """

    throughput_of_one: float
    sigma: float
    kappa: float
    r_squared: float
    intervals: dict[str, tuple[float, float]]
    least: float
    most: float
    windows: int

    def throughput(self, concurrency: Floats) -> Floats:
        """Return the throughput (requests/s) at a mean number in system."""
        return usl_throughput(concurrency, self.throughput_of_one, self.sigma, self.kappa)

    @property
    def peak(self) -> tuple[float, float] | None:
        """(concurrency, requests/s) of the highest throughput; None if not reached or unknown."""
        return None if self.peak_reason else (self._top, float(self.throughput(np.array([self._top]))[0]))

    @property
    def peak_reason(self) -> str | None:
        """The reason for an unknown peak; None if it is known."""
        if "kappa" in self.unidentified:
            return "kappa is not significant: no peak was observed"
        if self._top > self.most:
            return f"the curve would peak at a concurrency of {self._top:.3g}, beyond the observed {self.most:.3g}"
        return None

    @property
    def unidentified(self) -> tuple[str, ...]:
        """Coefficients that are not significant: their interval includes 0, or they add nothing as observed."""
        reach = {"sigma": max(self.most - 1, 1e-9), "kappa": max(self.most * (self.most - 1), 1e-9)}
        return tuple(name for name, pairs in reach.items() if self.intervals[name][0] * pairs < NOTHING)

    @property
    def _top(self) -> float:
        return math.sqrt((1 - self.sigma) / self.kappa) if self.kappa > 0 else math.inf

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as in the JSON."""
        peak = self.peak
        return {
            **{
                name: {
                    "value": getattr(self, name),
                    "low": self.intervals[name][0],
                    "high": self.intervals[name][1],
                    "identified": name not in self.unidentified,
                }
                for name in PARAMETERS
            },
            "r_squared": self.r_squared,
            "peak": {"concurrency": peak[0], "throughput": peak[1]} if peak else None,
            "peak_reason": self.peak_reason,
            "concurrency": {"least": self.least, "most": self.most},
            "windows": self.windows,
            "bootstrap": {"resamples": RESAMPLES, "level": LEVEL},
        }


def usl_throughput(concurrency: Floats, throughput_of_one: float, sigma: float, kappa: float) -> Floats:
    """Return the law itself, requests/s."""
    others = concurrency - 1
    return throughput_of_one * concurrency / (1 + sigma * others + kappa * concurrency * others)


def fit_usl(concurrency: Floats, throughput: Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> Usl:
    """Fit throughput by least squares, with lambda > 0, 0 <= sigma <= 1, kappa >= 0, and intervals by bootstrap.

    Per window, ``LEAST_WINDOWS`` at least: the mean number in system, above 0, and the throughput, requests/s.
    """
    fitted = _fit(concurrency, throughput, np.ones(len(concurrency)), _beginning(concurrency, throughput))
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(len(concurrency), np.full(len(concurrency), 1 / len(concurrency)), size=resamples)
    again = []
    for count in counts:
        some = count > 0
        again.append(_fit(concurrency[some], throughput[some], count[some].astype(float), fitted))
    low, high = np.quantile(np.array(again), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    missed = throughput - usl_throughput(concurrency, *fitted)
    spread = throughput - throughput.mean()
    one, sigma, kappa = (float(value) for value in fitted)
    return Usl(
        throughput_of_one=one,
        sigma=sigma,
        kappa=kappa,
        r_squared=1 - float(missed @ missed) / max(float(spread @ spread), 1e-300),
        intervals={name: (float(low[i]), float(high[i])) for i, name in enumerate(PARAMETERS)},
        least=float(concurrency.min()),
        most=float(concurrency.max()),
        windows=len(concurrency),
    )


def _beginning(concurrency: Floats, throughput: Floats) -> Floats:
    """Return a start: N / X is linear in 1/lambda, sigma/lambda and kappa/lambda (Gunther 2007, section 5.2)."""
    others = concurrency - 1
    terms = np.column_stack([np.ones_like(concurrency), others, concurrency * others])
    weights = np.sqrt(throughput / concurrency)
    coefficients = nonnegative_solution(terms * weights[:, None], concurrency / throughput * weights)
    one = 1 / coefficients[0] if coefficients[0] > 0 else float((throughput / concurrency).max())
    return np.array([one, min(coefficients[1] * one, 0.99), coefficients[2] * one])


def nonnegative_solution(terms: Floats, values: Floats) -> Floats:
    """Return the coefficients, 0 or more, with the least squares of ``terms @ coefficients - values``.

    The solution without bounds of those that are above 0 is the one with them (Lawson & Hanson 1974, ch. 23), and of
    the few terms here every subset is tried.
    """
    count = terms.shape[1]
    best, least = np.zeros(count), float(values @ values)
    for subset in itertools.chain.from_iterable(itertools.combinations(range(count), k + 1) for k in range(count)):
        chosen = list(subset)
        solution = np.zeros(count)
        solution[chosen] = np.linalg.lstsq(terms[:, chosen], values, rcond=None)[0]
        missed = terms @ solution - values
        if solution.min() >= 0 and float(missed @ missed) < least:
            best, least = solution, float(missed @ missed)
    return best


def _fit(concurrency: Floats, throughput: Floats, weights: Floats, beginning: Floats) -> Floats:
    others = concurrency - 1
    pairs = concurrency * others
    root = np.sqrt(weights)
    # Each parameter in the size at which it matters.
    scale = np.array([beginning[0], 1.0, 1 / max(float(np.abs(pairs).max()), 1e-9)])

    def residuals(scaled: Floats) -> tuple[Floats, Floats]:
        """Return the residuals, and their derivatives: one column per parameter."""
        # Below 1 in system a large kappa would make the denominator negative, where the law says nothing.
        below = np.maximum(1 + scaled[1] * scale[1] * others + scaled[2] * scale[2] * pairs, 1e-6)
        per_one = root * concurrency / below
        slope = -per_one * scaled[0] * scale[0] / below
        derivatives = np.column_stack([per_one * scale[0], slope * others * scale[1], slope * pairs * scale[2]])
        return per_one * scaled[0] * scale[0] - root * throughput, derivatives

    low, high = np.array([1e-9, 0, 0]), np.array([np.inf, 1, np.inf])
    return least_squares(residuals, np.clip(beginning / scale, low, high), low, high) * scale


def least_squares(
    residuals: Callable[[Floats], tuple[Floats, Floats]], start: Floats, low: Floats, high: Floats
) -> Floats:
    """Return the parameters with the least sum of squares inside bounds, by damped steps (Levenberg 1944).

    A parameter at a bound that the gradient pushes against keeps its value in that step (Bertsekas 1982).
    ``residuals``: parameters -> residuals, and their derivatives with one column per parameter.
    """
    place = start
    missed, derivatives = residuals(place)
    squares, damping = float(missed @ missed), 1e-3
    for _ in range(STEPS):
        gradient, curvature = derivatives.T @ missed, derivatives.T @ derivatives
        free = ~(((place <= low) & (gradient > 0)) | ((place >= high) & (gradient < 0)))
        diagonal = np.maximum(np.diagonal(curvature), 1e-300)
        if not free.any() or (gradient[free] ** 2 <= 1e-24 * diagonal[free] * squares).all():
            break
        damped = (curvature + damping * np.diag(diagonal))[np.ix_(free, free)]
        nearby = place.copy()
        nearby[free] -= np.linalg.solve(damped, gradient[free])
        nearby = np.clip(nearby, low, high)
        missed_there, derivatives_there = residuals(nearby)
        squares_there = float(missed_there @ missed_there)
        if squares_there < squares:
            place, missed, derivatives = nearby, missed_there, derivatives_there
            done = squares - squares_there <= 1e-14 * squares
            squares, damping = squares_there, max(damping / 10, 1e-12)
            if done:
                break
        elif damping > 1e12:
            break
        else:
            damping *= 10
    return place
