"""How likely the services of a resource are under a law of speed.

A service that begins now ends when its demand is used up: the integral of the speed until then. With demands of a
density f of their route, and admissions that do not foresee them, the likelihood of the recorded ends is

    L(law) = Σ log f(demand) + log speed(number in progress just before the end)

because an end that is later by dt has a demand that is larger by speed · dt. The density is estimated from the demands
under the same law (a kernel estimate of their logarithms; the likelihood is profiled over it), so that nothing is
assumed of the services. Twice the difference of L is compared as that of a likelihood ratio (Wilks 1938).

Speeds differ with the number in progress during the service, not only at its start: that is what makes the estimate
several times as precise as a test of services against the state at their start.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sojourn.model.arrays import Floats, Ints
from sojourn.timeline.contention.shared_parts import SharedParts

FINEST = 0.01  # of the logarithm of a demand, 1 %: the least bandwidth
BINS = 6  # of a bandwidth
NOISE = 0.0005  # s: of the instants of begins and ends, on the clocks of two machines
BANDWIDTH = 0.6  # of Silverman's rule
SHORTEST = 1e-4  # s: shorter services say nothing, their length is that of the steps of a clock
RAREST = 0.02  # of one kernel: density far from all other demands
FEWEST_OF_A_ROUTE = 30


class Likelihood:
    """The likelihood of laws, given services.

    Args:
        parts: the services.
        route: code of the route of each.
        usual: factor by which each is slower for other reasons: its worker, the course of time.
    """

    def __init__(self, parts: SharedParts, route: Ints, usual: Floats) -> None:
        self.parts = parts
        some = np.flatnonzero(parts.lasted >= SHORTEST)
        self._order = some[np.argsort(route[some], kind="stable")]
        self._usual = np.log(usual[self._order])
        ends = np.cumsum(np.bincount(route[self._order])).tolist()
        routes = [slice(first, end) for first, end in pairwise([0, *ends]) if end - first >= FEWEST_OF_A_ROUTE]
        lasted = parts.lasted[self._order]
        self._routes = [(own, NOISE / float(np.median(lasted[own]))) for own in routes]

    def log_of(self, speeds: Floats) -> float:
        """Return the logarithm of the likelihood of speeds (by number in progress), up to a constant."""
        demand = np.log(self.parts.demands(speeds)[self._order])
        total = float(np.log(self.parts.speed_at_end(speeds)[self._order]).sum() - demand.sum())
        demand -= self._usual
        return total + sum(_log_density(demand[own], noise) for own, noise in self._routes)


def _log_density(values: Floats, noise: float) -> float:
    """Return the sum of the logarithms of the density at the values, each estimated from the others.

    ``noise``: least bandwidth; finer differences are those of the clocks.
    """
    n = len(values)
    quarter = n // 4
    low, high = np.partition(values, (quarter, n - 1 - quarter))[[quarter, n - 1 - quarter]]
    deviation = float(values.std())
    width = min(deviation, float(high - low) / 1.34) if high > low else deviation
    bandwidth = max(1.06 * BANDWIDTH * width * n**-0.2, noise, FINEST)
    step, margin = bandwidth / BINS, 4 * bandwidth
    first = float(values.min()) - margin
    bins = int((float(values.max()) + margin - first) / step) + 2
    place = (values - first) / step
    index = place.astype(np.int64)
    part = place - index
    count = np.bincount(index, 1 - part, minlength=bins + 1) + np.bincount(index + 1, part, minlength=bins + 1)
    kernel = np.exp(-0.5 * (np.arange(-4 * BINS, 4 * BINS + 1) / BINS) ** 2)
    kernel /= kernel.sum()
    smooth = np.convolve(count, kernel, "same")
    density = smooth[index] * (1 - part) + smooth[index + 1] * part - kernel.max()
    return float(np.log(np.maximum(density, RAREST * kernel.max()) / ((n - 1) * step)).sum())
