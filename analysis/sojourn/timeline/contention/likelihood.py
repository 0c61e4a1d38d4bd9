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

import numpy as np
import numpy.typing as npt

from sojourn.timeline.contention.shared_parts import SharedParts

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FINEST = 0.01  # of the logarithm of a demand, 1 %: the least bandwidth
BINS = 6  # of a bandwidth
NOISE = 0.0005  # s: of the instants of begins and ends, on the clocks of two machines
BANDWIDTH = 0.6  # of Silverman's rule
SHORTEST = 1e-4  # s: shorter services say nothing, their length is that of the steps of a clock
RAREST = 0.02  # of one kernel: density far from all other demands
FEWEST_OF_A_ROUTE = 30


def log_likelihood(parts: SharedParts, speeds: Floats, route: Ints, usual: Floats) -> float:
    """Return the logarithm of the likelihood, up to a constant that does not depend on the law.

    Args:
        parts: the services.
        speeds: by number in progress.
        route: code of the route of each service.
        usual: factor by which the service of each is slower for other reasons: its worker, the course of time.
    """
    some = parts.lasted >= SHORTEST
    demand = np.log(parts.demands(speeds)[some])
    total = float(np.log(parts.speed_at_end(speeds)[some]).sum() - demand.sum())
    demand, route = demand - np.log(usual[some]), route[some]
    for code in range(int(route.max(initial=-1)) + 1):
        own = demand[route == code]
        if len(own) >= FEWEST_OF_A_ROUTE:
            total += _log_density(own, NOISE / float(np.exp(np.median(own))))
    return total


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
