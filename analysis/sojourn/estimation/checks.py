"""Checks of an inferred queue: what holds in a first-come-first-served queue and fails in others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sojourn.model.arrays import Floats, Ints

SIGNIFICANT = 4.0  # standard errors
NOTICEABLE = 0.4  # of the error of the stamps: a smaller effect is none
BLOCKS = 20  # of the test for a drift
MOST_DRIFT = 0.15  # standard deviations
ANY = -math.inf
# Correlation -> the limits within which a first-come-first-served queue keeps it.
LIMITS = {
    "response_below_capacity": (ANY, 0.06),
    "service_against_depth": (-0.08, 0.05),
    "service_after_service": (ANY, 0.03),
    "service_against_gap": (ANY, 0.08),
    "response_against_later_arrivals": (ANY, 0.04),
}
MEANINGS = {
    "unserved": "many requests were given up on, and it is not known when they left the worker",
    "short_services": "service times are too short for the instants of this log",
    "many_workers": "more requests overtake each other than a pool of workers allows",
    "response_below_capacity": "requests that find a free worker take longer the more others there are: workers share "
    "something, or serve several requests at a time",
    "service_against_depth": "the inferred service times depend on the length of the queue",
    "service_after_service": "successive service times resemble each other, as where the order of service is not that "
    "of the arrivals",
    "service_against_gap": "service times grow with the time since the request before: requests that the log does not "
    "show were served in between",
    "response_against_later_arrivals": "requests that arrive later delay those before them: the order of service is "
    "not that of the arrivals",
    "service_after_three": "services three apart resemble each other, as where the order of service is not that of the "
    "arrivals",
    "freed_too_late": "the worker that a request needs is often freed after the request left",
    "never_full": "there were hardly ever more requests than workers, and yet they waited",
    "response_after_response": "successive responses do not resemble each other as in a simulation of the same queue",
    "service_drift": "the service times changed during the log",
    "set_of_workers": "the number of workers, and with it the wait, is too uncertain",
    "contradictions": "requests left earlier than this number of workers allows",
}


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: a key of ``MEANINGS``.
        statistic: a correlation, a share or a ratio.
        failed: it is outside its limits, significantly and by a noticeable time.
    """

    name: str
    statistic: float
    failed: bool

    @property
    def meaning(self) -> str:
        """What a failure says of the system, as a clause."""
        return MEANINGS[self.name]

    @property
    def sentence(self) -> str:
        """The same as a sentence."""
        return f"{self.meaning[0].upper()}{self.meaning[1:]}."

    def to_dict(self) -> dict[str, object]:
        """Return the object of the JSON output."""
        return dict(self.__dict__)


def checks_of(
    arrival: Floats, departure: Floats, service: Floats, depth: Ints, codes: Ints, ceiling: int, error: float
) -> Iterator[Check]:
    """Yield the checks of inferred service times against each other and against the load.

    Args:
        arrival: s, ascending.
        departure: s, of the same requests.
        service: inferred, s.
        depth: requests in the system at each arrival.
        codes: class of each request.
        ceiling: the least number of workers that overtaking requests allow.
        error: of the stamps, s.
    """
    response = departure - arrival
    others = depth.astype(np.float64)

    def check(name: str, correlation: float, times: Floats) -> Check:
        return Check(name, correlation, _fails(correlation, LIMITS[name], times, error))

    free = depth < ceiling
    own = without_class(response, codes)[free]
    yield check("response_below_capacity", rank_correlation(own, others[free]), response[free])
    residual = without_class(service, codes)
    yield check("service_against_depth", rank_correlation(residual, others), service)
    yield check("service_after_service", rank_correlation(residual[:-1], residual[1:]), service)
    waited = np.flatnonzero(departure - service > arrival + error)
    waited = waited[waited > 0]
    gap = arrival[waited] - arrival[waited - 1]
    yield check("service_against_gap", rank_correlation(residual[waited], gap), service[waited])
    width = float(np.median(response))
    later = np.searchsorted(arrival, arrival + width, side="right") - np.searchsorted(arrival, arrival, side="right")
    before = np.arange(len(arrival)) - np.searchsorted(arrival, arrival - width, side="left")
    correlation = partial_rank_correlation(residual, later, (before, others))
    yield check("response_against_later_arrivals", correlation, response)


def drift_check(service: Floats, codes: Ints, error: float) -> Check:
    """Return the check for services that change during the log; arguments as of ``checks_of``."""
    drift = drift_of(without_class(service, codes))
    return Check("service_drift", drift, drift > MOST_DRIFT and drift * float(service.std()) > NOTICEABLE * error)


def rank_correlation(one: Floats, other: Floats) -> float:
    """Return Spearman's rank correlation; 0 where one of them does not vary."""
    return correlation_of(_ranks(one), _ranks(other))


def partial_rank_correlation(one: Floats, other: npt.NDArray[np.generic], controls: Sequence[Floats | Ints]) -> float:
    """Return the rank correlation of two series after that of both with ``controls`` is taken out, linearly."""
    design = np.column_stack([np.ones(len(one)), *map(_ranks, controls)])
    rest = [values - design @ np.linalg.lstsq(design, values, rcond=None)[0] for values in (_ranks(one), _ranks(other))]
    return correlation_of(*rest)


def _ranks(values: npt.NDArray[np.generic]) -> Floats:
    """Return the ranks, that of equal values their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(count) - (count - 1) / 2)[place]
    return ranks


def correlation_of(one: Floats, other: Floats) -> float:
    """Return the correlation of two series; 0 where one of them does not vary."""
    if len(one) < 3 or one.std() == 0 or other.std() == 0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _fails(correlation: float, limits: tuple[float, float], times: Floats, error: float) -> bool:
    """Return whether a correlation lies outside its limits, significantly, and moves times (s) noticeably."""
    outside = not limits[0] <= correlation <= limits[1]
    significant = abs(correlation) * math.sqrt(len(times)) > SIGNIFICANT
    return outside and significant and abs(correlation) * float(times.std()) > NOTICEABLE * error


def without_class(values: Floats, codes: Ints) -> Floats:
    """Return the values less the median of their class."""
    result = values.copy()
    for code in np.unique(codes):
        members = codes == code
        result[members] -= np.median(values[members])
    return result


def drift_of(values: Floats) -> float:
    """Return the standard deviation of block means, less what chance explains, in standard deviations of the values."""
    spread = float(values.std())
    if spread == 0 or len(values) < 4 * BLOCKS:
        return 0.0
    means = np.array([block.mean() for block in np.array_split(values, BLOCKS)])
    by_chance = spread**2 / (len(values) / BLOCKS)
    return math.sqrt(max(float(means.var(ddof=1)) - by_chance, 0.0)) / spread
