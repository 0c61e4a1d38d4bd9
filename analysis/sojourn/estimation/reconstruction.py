"""Infer the queue of a backend from a log whose instants are whole seconds: by the order and durations of its lines.

A line is written when its request ends, so each departure lies in the second of its line and between those of its
neighbours; durations are known to a millisecond. Departures are sampled under these bounds, for a number of workers
(``sojourn.estimation.sampler``). Numbers of workers are compared by their evidence, which thermodynamic integration
gives: the integral of the mean log density over its power, from 0 to 1 (Gelman & Meng 1998, Statistical Science 13;
Friel & Pettitt 2008, Journal of the Royal Statistical Society B 70).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sojourn.estimation import sampler
from sojourn.estimation.checks import Check, drift_of, rank_correlation, without_class
from sojourn.estimation.engine import MOST_SPREAD, MOST_UNSERVED
from sojourn.estimation.inferred import INFERRED, REFUSED, Inference, refused, without_starts
from sojourn.estimation.kernels import depth_on_arrival, served_in_order
from sojourn.estimation.likelihood import BLOCK, bins_of, busiest, classes_of
from sojourn.model.arrays import Floats, Ints
from sojourn.model.formatting import counted
from sojourn.model.parallel import in_threads

LEAST = 2_000  # requests
LEAST_UNKNOWN = 8_000  # with an unknown number of workers
COARSE, FINE = 4_000, 15_000  # requests of the busiest stretch, for the search
BURN, AVERAGED = 60, 35  # sweeps
SWEPT = 2_000_000  # lines times sweeps, of a long log
LEAST_SWEEPS = 8
PIECE = 20_000  # lines sampled at a time: what a processor's cache holds
CHECKED = 100_000  # lines of the busiest stretch, for the checks
SEARCH_BURN, HEATS, SWEEPS_OF_HEAT, SETTLING = 25, 12, 6, 2
SIZES = np.array([1, 1, 2, 4, 8, 16])
NATS, ERRORS = 6.0, 2.5
MOST_DISORDER = 0.005  # of the lines, in an earlier second than the line before
MOST_LATE = 0.08  # of the requests: the worker that they need is freed after they left
RESIMULATIONS = 12
SEED = 1  # of the random numbers
REASON = (
    "reconstructed from stamps of a second: the mean wait is known to about 1 % of the response time, its p99 to 6 %; "
    "with $msec in nginx's log_format to a few milliseconds"
)
ADD = "add $msec to nginx's log_format"


@dataclass
class Lines:
    """Lines of a log in their order, and a state of the sampler. Times are s.

    Attributes:
        second: the second of each line.
        lasted: from the arrival to the departure.
        codes: class of each line, from 0.
        classes: number of classes.
        departure, arrival: of the state; departures ascend.
        order: lines by their arrival.
        rank: place of each line in this order.
        bin_of, widths: as in ``sojourn.estimation.sampler``.
    """

    second: Floats
    lasted: Floats
    codes: Ints
    classes: int
    departure: Floats
    arrival: Floats
    order: Ints
    rank: Ints
    bin_of: npt.NDArray[np.int32]
    widths: Floats

    @classmethod
    def of(cls, second: Floats, lasted: Floats, codes: Ints, classes: int) -> Lines:
        """Spread the lines of each second evenly."""
        _, first, count = np.unique(second, return_index=True, return_counts=True)
        place = np.arange(len(second)) - np.repeat(first, count)
        return cls.at(second + (place + 0.5) / np.repeat(count, count), second, lasted, codes, classes)

    @classmethod
    def at(cls, departure: Floats, second: Floats, lasted: Floats, codes: Ints, classes: int) -> Lines:
        """Return the state with these departures."""
        arrival = departure - lasted
        order = np.argsort(arrival, kind="stable").astype(np.int64)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        steps = int(float(lasted.max(initial=0.0)) / sampler.STEP) + sampler.NOISE + 2
        bin_of, widths = bins_of(steps, sampler.STEP, 1)
        return cls(second, lasted, codes, classes, departure, arrival, order, rank, bin_of, widths)

    def part(self, begin: int, end: int) -> Lines:
        """Return the lines [begin, end), spread evenly again."""
        return Lines.of(self.second[begin:end], self.lasted[begin:end], self.codes[begin:end], self.classes)

    def stretch(self, begin: int, end: int) -> Lines:
        """Return the lines [begin, end) in their state."""
        each = slice(begin, end)
        return Lines.at(
            self.departure[each].copy(), self.second[each], self.lasted[each], self.codes[each], self.classes
        )

    def fitted(self, workers: int) -> Floats:
        """Return the log densities of the service times of the state."""
        return np.asarray(
            sampler.fitted(
                self.departure, self.arrival, self.rank, workers, self.codes, self.classes, self.bin_of, self.widths
            )
        )

    def sweep(self, workers: int, logs: Floats, heat: float, seed: int) -> Floats:
        """Sample once over all lines; return the log density of each service time."""
        return np.asarray(
            sampler.sweep(
                self.departure, self.arrival, self.second, self.order, self.rank, workers, self.codes, logs,
                self.bin_of, SIZES, heat, seed,
            )
        )  # fmt: skip

    def service(self, workers: int) -> Floats:
        """Return the service time of each line in the state."""
        return np.asarray(sampler.services_of(self.departure, self.arrival, self.rank, workers))


def reconstruct(
    second: Floats,
    lasted: Floats,
    routes: Ints,
    *,
    unserved: int = 0,
    workers: int | None = None,
) -> Inference:
    """Infer the start of every service from the order of lines, their seconds and their durations.

    Args:
        second: the second in which each line was written, s, in the order of the lines.
        lasted: from the arrival at the backend to the departure from it, s.
        routes: route of each request, as a number from 0.
        unserved: requests beside these that left without being served.
        workers: number of workers, if it is known.
    """
    reason = _obstacle(second, unserved, workers)
    if reason:
        return refused(reason)
    codes, classes = classes_of(np.asarray(routes, np.int64))
    order = np.argsort(second, kind="stable").astype(np.int64)
    lines = Lines.of(np.floor(second[order]), np.asarray(lasted[order], np.float64), codes[order], classes)
    if workers is not None:
        drawn, state = _drawn(lines, workers, order, (workers, workers))
        return _judged(drawn, _checks(state, workers))
    search = _Search(lines)
    chosen = search.climbed()
    stretch = search.busiest.part(0, len(search.busiest.second))
    _sampled(stretch, chosen, BURN, AVERAGED)
    checks = tuple(_checks(stretch, chosen))
    if any(check.failed for check in checks):
        # No number of workers would help: it is refused before the set is searched for.
        spread_evenly = _inference(lines, chosen, order, search.credible())
        return _judged(spread_evenly, checks)
    search.widened()
    low, high = search.credible()
    means = in_threads(lambda number: _sampled(search.fresh(), number, 25, 10), [*{low, chosen, high}])
    spread = (max(means) - min(means)) / float(search.busiest.lasted.mean())
    drawn, state = _drawn(lines, chosen, order, (low, high))
    return _judged(drawn, (*_checks(state, chosen), Check("set_of_workers", spread, spread > MOST_SPREAD)))


def _drawn(lines: Lines, workers: int, order: Ints, ends: tuple[int, int]) -> tuple[Inference, Lines]:
    """Sample all lines; return an inference without a verdict, and the last state of the busiest stretch.

    Its mean wait is averaged over the states. Pieces of a long log are sampled apart, each after a few lines of the
    one before, whose departures its first requests wait for.
    """
    count = len(order)
    sweeps = max(min(BURN, SWEPT // count), LEAST_SWEEPS)
    averaged = max(min(AVERAGED, sweeps // 2), LEAST_SWEEPS // 2)
    before = 4 * workers + 64
    edges = [count * number // max(count // PIECE, 1) for number in range(max(count // PIECE, 1) + 1)]

    def piece(number: int) -> tuple[Floats, float]:
        begin, end = edges[number], edges[number + 1]
        first = max(begin - before, 0)
        part = lines.part(first, end)
        mean = _sampled(part, workers, sweeps, averaged, begin - first, SEED + number)
        return part.departure[begin - first :], mean * (end - begin) / count

    pieces = in_threads(piece, range(len(edges) - 1))
    departure = np.maximum.accumulate(np.concatenate([each for each, _ in pieces]))
    state = Lines.at(departure, lines.second, lines.lasted, lines.codes, lines.classes)
    mean = sum(part for _, part in pieces)
    result = replace(_inference(state, workers, order, ends), mean_range=(mean, mean))
    return result, state if count <= CHECKED else state.stretch(*_busiest_ends(state, CHECKED))


def _judged(result: Inference, checks: Iterable[Check]) -> Inference:
    checks = tuple(checks)
    failed = [check for check in checks if check.failed]
    if failed:
        because = "; ".join(check.meaning for check in failed)
        text = f"{because[0].upper()}{because[1:]}. {ADD[0].upper()}{ADD[1:]} for a closer look."
        return replace(without_starts(result, text), checks=checks)
    text = f"The responses fit a first-come-first-served queue with {counted(result.workers, 'worker')}, {REASON}."
    return replace(result, verdict=INFERRED, reason=text, checks=checks)


def _obstacle(second: Floats, unserved: int, workers: int | None) -> str:
    """Return why these lines allow no reconstruction; empty if they do."""
    count = len(second)
    if unserved > MOST_UNSERVED * (count + unserved):
        return Check("unserved", unserved / (count + unserved), failed=True).sentence
    if count < LEAST:
        return (
            f"{counted(count, 'request')} with instants in whole seconds are too few: {LEAST:,} are needed, or {ADD}."
        )
    if count < LEAST_UNKNOWN and workers is None:
        return (
            f"{counted(count, 'request')} with instants in whole seconds are too few for an unknown number of workers: "
            f"give --workers, or {ADD}."
        )
    if float((np.diff(second) < 0).mean()) > MOST_DISORDER:
        return f"The lines are not in the order in which requests ended (a buffered log, or several logs): {ADD}."
    return ""


def _busiest(lines: Lines, count: int) -> Lines:
    """Return the stretch of ``count`` lines with the most requests in the system, spread evenly."""
    return lines.part(*_busiest_ends(lines, count))


def _busiest_ends(lines: Lines, count: int) -> tuple[int, int]:
    if len(lines.second) <= count:
        return 0, len(lines.second)
    depth = depth_on_arrival(lines.arrival[lines.order], lines.departure)
    begin = busiest(depth[lines.rank], count)
    return begin, begin + count


def _sampled(lines: Lines, workers: int, burn: int, averaged: int, first: int = 0, seed: int = SEED) -> float:
    """Sample the lines, and return the mean wait from line ``first`` on, averaged over the sweeps after ``burn``, s.

    The last state is kept.
    """
    means = []
    for number in range(burn + averaged):
        lines.sweep(workers, lines.fitted(workers), 1.0, seed * 1_000 + number)
        if number >= burn:
            means.append(float((lines.lasted - lines.service(workers))[first:].mean()))
    return float(np.mean(means))


class _Search:
    """The evidence of numbers of workers, by block of lines (nats): of the busiest stretch, and around its best one."""

    def __init__(self, lines: Lines) -> None:
        self.busiest = _busiest(lines, FINE)
        self._most = int(depth_on_arrival(lines.arrival[lines.order], lines.departure).max()) + 1
        self._evidence: dict[int, Floats] = {}

    def fresh(self) -> Lines:
        """Return the busiest stretch, spread evenly."""
        return self.busiest.part(0, len(self.busiest.second))

    @property
    def best(self) -> int:
        """The number with the most evidence."""
        return max(self._evidence, key=lambda number: float(self._evidence[number].sum()))

    def _learn(self, numbers: Iterable[int]) -> None:
        new = sorted(number for number in set(numbers) - self._evidence.keys() if 1 <= number <= self._most)
        evidence = in_threads(lambda number: _evidence(self.busiest, number), new)
        self._evidence.update(zip(new, evidence, strict=True))

    def climbed(self) -> int:
        """Search from the best power of two, known from fewer lines, in steps that become smaller; return the best."""
        coarse = _busiest(self.busiest, COARSE)
        powers = [2**power for power in range(max(int(math.log2(self._most)) + 1, 1))]
        sums = in_threads(lambda number: float(_evidence(coarse, number).sum()), powers)
        best = powers[int(np.argmax(sums))]
        step = max(best // 4, 1)
        while True:
            self._learn((best - step, best, best + step))
            if self.best == best and step == 1:
                return best
            best, step = self.best, step if self.best != best else max(step // 2, 1)

    def widened(self) -> None:
        """Look at numbers on both sides of the best one until they are excluded."""
        for direction in (-1, 1):
            number = self.best + direction
            while 1 <= number <= self._most:
                self._learn([number])
                if _excluded(self._evidence[self.best] - self._evidence[number]):
                    break
                number += direction

    def credible(self) -> tuple[int, int]:
        """Return the smallest and the largest known number that is not excluded."""
        best = self._evidence[self.best]
        credible = [number for number, blocks in self._evidence.items() if not _excluded(best - blocks)]
        return min(credible), max(credible)


def _evidence(lines: Lines, workers: int) -> Floats:
    """Return the log evidence of a number of workers by block of lines, nats."""
    state = lines.part(0, len(lines.second))
    for number in range(SEARCH_BURN):
        state.sweep(workers, state.fitted(workers), 1.0, SEED * 1_000 + number)
    logs = state.fitted(workers)
    begins = np.arange(0, len(state.second), BLOCK)
    heats = (np.arange(HEATS) / (HEATS - 1)) ** 3
    means = np.zeros((HEATS, len(begins)))
    for place in reversed(range(HEATS)):
        for number in range(SWEEPS_OF_HEAT):
            density = state.sweep(workers, logs, float(heats[place]), SEED * 1_000 + 100 * place + number)
            if number >= SETTLING:
                means[place] += np.add.reduceat(density, begins) / (SWEEPS_OF_HEAT - SETTLING)
    return np.asarray(((means[1:] + means[:-1]) / 2 * np.diff(heats)[:, None]).sum(axis=0))


def _excluded(deficit: Floats) -> bool:
    error = float(deficit.std(ddof=1)) * math.sqrt(len(deficit)) if len(deficit) > 1 else math.inf
    return float(deficit.sum()) >= max(NATS, ERRORS * error)


def _inference(lines: Lines, workers: int, order: Ints, ends: tuple[int, int]) -> Inference:
    """Return the last state of the sampler as an inference, without a verdict."""
    by_arrival = lines.order
    arrival, departure = lines.arrival[by_arrival], lines.departure[by_arrival]
    start = np.clip(departure - lines.service(workers)[by_arrival], arrival, departure)
    return Inference(
        order[by_arrival], arrival, departure, start, REFUSED, "", workers=workers, lowest=ends[0], highest=ends[1],
        depth=depth_on_arrival(arrival, lines.departure), reconstructed=True,
    )  # fmt: skip


def _checks(lines: Lines, workers: int) -> Iterator[Check]:
    """Yield the checks of the last state of the sampler."""
    by_arrival = lines.order
    response, codes = lines.lasted[by_arrival], lines.codes[by_arrival]
    service = lines.service(workers)[by_arrival]
    residual = without_class(service, codes)
    depth = depth_on_arrival(lines.arrival[by_arrival], lines.departure)
    after, third = (rank_correlation(residual[:-lag], residual[lag:]) for lag in (1, 3))
    chance = 1.0 / math.sqrt(len(residual))
    yield Check("service_after_service", after, failed=not -0.08 <= after <= max(0.03, 3.5 * chance))
    yield Check("service_after_three", third, failed=third > 0.05)
    free = depth < workers
    own = rank_correlation(without_class(response, codes)[free], depth[free].astype(np.float64))
    yield Check("response_below_capacity", own, failed=own > 0.08)
    against = rank_correlation(residual, depth.astype(np.float64))
    failed = against > max(0.035, 3 * chance) or against < min(-0.04, -4 * chance)
    yield Check("service_against_depth", against, failed=failed)
    late = float((lines.rank - workers >= np.arange(len(lines.rank))).mean())
    yield Check("freed_too_late", late, failed=late > MOST_LATE)
    arrival = lines.arrival[by_arrival]
    waited = np.flatnonzero(depth >= workers)
    waited = waited[waited > 0]
    gap = rank_correlation(residual[waited], arrival[waited] - arrival[waited - 1])
    yield Check("service_against_gap", gap, failed=gap > max(0.06, 3 / math.sqrt(max(len(waited), 1))))
    drift = drift_of(residual)
    yield Check("service_drift", drift, failed=drift > 0.15)
    wait = float((response - service).mean()) / float(response.mean())
    part = workers / (int(depth.max()) + 1)
    yield Check("never_full", part, failed=part >= 0.6 and wait > 0.02)
    off, spread = _resimulated(lines, service, codes, workers)
    # Hidden load and event loops make responses more alike; a wrong order, less, which chance does, too.
    failed = off > max(0.022, 3 * spread) or off < -max(0.06, 4 * spread)
    yield Check("response_after_response", off, failed=failed)


def _resimulated(lines: Lines, service: Floats, codes: Ints, workers: int) -> tuple[float, float]:
    """Return by how much successive responses resemble each other more than in simulations, and these' deviation."""
    rng = np.random.default_rng(SEED)
    arrival = lines.arrival[lines.order]
    response = lines.lasted[lines.order]
    drawn = np.empty_like(service)
    correlations = []
    for _ in range(RESIMULATIONS):
        for code in range(lines.classes):
            members = codes == code
            if members.any():
                drawn[members] = rng.choice(np.maximum(service[members], 0.0), int(members.sum()))
        simulated = served_in_order(arrival, drawn, workers) + drawn - arrival
        correlations.append(rank_correlation(simulated[:-1], simulated[1:]))
    measured = rank_correlation(response[:-1], response[1:])
    return measured - float(np.mean(correlations)), float(np.std(correlations, ddof=1))
