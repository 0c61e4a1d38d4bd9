"""The likelihood of a number of workers: do the service times that follow from it have one distribution?

Given the arrivals, the map from service times to departures has the Jacobian 1, so the density of the departures is
that of the inferred service times. Their distribution is not known: it is estimated from themselves, as a histogram
for each class of requests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sojourn.estimation.kernels import log_likelihoods
from sojourn.model.arrays import Floats, Ints

RATIO = 1.06  # of the upper to the lower edge of a bin
CLASSES = 12  # of requests; the rarer routes are one class
LEAST = 200  # requests of a class of its own
BLOCK = 250  # requests of which the likelihoods are summed: the unit of the standard error
NATS = 3.0  # a number of workers whose likelihood is lower by less is not excluded
ERRORS = 3.0  # nor is one that is lower by fewer standard errors
EXCLUDED = -1e9  # nats of a block
MOST_STEPS = 1_000_000


@dataclass(frozen=True)
class Queue:
    """Arrivals and departures of a backend, in the order of the arrivals, and the bins of service times.

    Attributes:
        arrival, departure: s.
        ordered: the departures, ascending.
        codes: class of each request, from 0.
        classes: their number.
        error: of the instants, s.
        bin_of, widths: as in ``sojourn.estimation.kernels.log_likelihoods``.
    """

    arrival: Floats
    departure: Floats
    ordered: Floats
    codes: Ints
    classes: int
    error: float
    bin_of: npt.NDArray[np.int32] = field(repr=False)
    widths: Floats = field(repr=False)

    @classmethod
    def of(cls, arrival: Floats, departure: Floats, routes: Ints, error: float) -> Queue:
        """Build it from arrivals in ascending order; ``routes``: a number from 0 for each request."""
        codes, classes = classes_of(routes)
        steps = int(min(float((departure - arrival).max(initial=0.0)) / error + 3, MOST_STEPS))
        bin_of, widths = bins_of(steps, error, 2)
        return cls(arrival, departure, np.sort(departure), codes, classes, error, bin_of, widths)

    def part(self, begin: int, end: int) -> Queue:
        """Return the requests [begin, end) as a queue of their own: the first of them find free workers."""
        departure = self.departure[begin:end]
        return Queue(
            self.arrival[begin:end], departure, np.sort(departure), self.codes[begin:end], self.classes, self.error,
            self.bin_of, self.widths,
        )  # fmt: skip

    def block_likelihoods(self, workers: int) -> Floats:
        """Return the log likelihood of a number of workers for each block of ``BLOCK`` arrivals, nats."""
        sums, mean = log_likelihoods(
            self.arrival, self.departure, self.ordered, self.codes, self.classes, workers, self.error, self.bin_of,
            self.widths, BLOCK,
        )  # fmt: skip
        # Services shorter than the stamps can show: any number of workers fits.
        return np.full(len(sums), EXCLUDED) if mean < 2 * self.error else np.asarray(sums)


@dataclass(frozen=True)
class Likelihood:
    """Log likelihoods of numbers of workers.

    Attributes:
        workers: the numbers that were tried, ascending.
        blocks: number, block of ``BLOCK`` arrivals -> nats.
    """

    workers: Ints
    blocks: Floats

    @property
    def best(self) -> int:
        """The number of workers with the highest likelihood."""
        return int(self.workers[int(np.argmax(self.blocks.sum(axis=1)))])

    @property
    def possible(self) -> bool:
        """Whether service times are long enough for the stamps, for any number of workers."""
        return bool((self.blocks.sum(axis=1) > EXCLUDED / 2).any())

    def at_least(self, workers: int) -> Likelihood:
        """Return the likelihoods of ``workers`` and more."""
        enough = self.workers >= workers
        return Likelihood(self.workers[enough], self.blocks[enough])

    def in_blocks(self, begin: int, end: int) -> Likelihood:
        """Return the likelihoods of the blocks [begin, end) alone."""
        return Likelihood(self.workers, self.blocks[:, begin:end])

    def credible(self) -> tuple[int, int]:
        """Return the least and the greatest number of workers that is not excluded."""
        total = self.blocks.sum(axis=1)
        difference = self.blocks[int(np.argmax(total))] - self.blocks
        count = self.blocks.shape[1]
        error = difference.std(axis=1, ddof=1) * math.sqrt(count) if count > 1 else np.full(len(total), math.inf)
        deficit = difference.sum(axis=1)
        possible = self.workers[((deficit < NATS) | (deficit < ERRORS * error)) & (total > EXCLUDED / 2)]
        return (int(possible.min()), int(possible.max())) if len(possible) else (self.best, self.best)


def searched(queue: Queue, low: int, high: int) -> Likelihood:
    """Return the likelihoods of numbers from ``low`` to ``high``: of a grid, and of all near the best one."""
    nats: dict[int, Floats] = {}

    def add(numbers: Iterable[int]) -> None:
        for number in numbers:
            if low <= number <= high and number not in nats:
                nats[number] = queue.block_likelihoods(number)

    def result() -> Likelihood:
        numbers = sorted(nats)
        return Likelihood(np.array(numbers), np.array([nats[number] for number in numbers]))

    add(range(low, low + 8))
    add(int(number) for number in np.geomspace(max(low, 1), max(high, low, 1), 12).round())
    before = -1
    while len(nats) > before:
        before = len(nats)
        tried = result()
        at = int(np.argmax(tried.blocks.sum(axis=1)))
        best = int(tried.workers[at])
        left = int(tried.workers[at - 1]) if at else low
        right = int(tried.workers[at + 1]) if at + 1 < len(tried.workers) else high
        add((best - 1, best + 1, (left + best) // 2, (best + right) // 2))
        lowest, highest = result().credible()
        add((lowest - 1, highest + 1))
    return result()


def classes_of(routes: Ints) -> tuple[Ints, int]:
    """Return the class of each request and their number: each frequent route is one, the others together another."""
    counts = np.bincount(routes)
    frequent = [code for code in np.argsort(-counts, kind="stable")[: CLASSES - 1] if counts[code] >= LEAST]
    classes = np.full(len(counts), len(frequent), np.int64)
    classes[frequent] = np.arange(len(frequent))
    return classes[routes], len(frequent) + 1


def bins_of(steps: int, step: float, narrowest: int) -> tuple[npt.NDArray[np.int32], Floats]:
    """Return the bin of each step (s) of service times, and the widths of the bins (s): geometric, from two steps on.

    ``narrowest``: steps of a bin, at least.
    """
    ends = [2]
    while ends[-1] < steps:
        ends.append(max(round(ends[-1] * RATIO), ends[-1] + narrowest))
    return np.searchsorted(ends, np.arange(steps), side="right").astype(np.int32), np.diff([0, *ends]) * step


def busiest(depth: Ints, count: int) -> int:
    """Return the first of the ``count`` successive requests, of more, with the most in the system at their arrivals."""
    total = np.cumsum(depth)
    return int(np.argmax(total[count:] - total[:-count])) + 1
