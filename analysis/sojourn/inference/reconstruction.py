"""Infer the queue of a backend from a log whose instants are whole seconds: by the order and durations of its lines.

A line is written when its request ends, so each departure lies in the second of its line and between those of its
neighbours; durations are known to a millisecond. Departures are sampled under these bounds, for a number of workers
(``sojourn.inference.sampler``). Numbers of workers are compared by their evidence, which thermodynamic integration
gives: the integral of the mean log density over its power, from 0 to 1 (Gelman & Meng 1998, Statistical Science 13;
Friel & Pettitt 2008, Journal of the Royal Statistical Society B 70).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sojourn.inference import sampler
from sojourn.inference.checks import Check, drift_of, rank_correlation, without_class
from sojourn.inference.engine import INFERRED, MOST_SPREAD, MOST_UNSERVED, REFUSED, Inference, refused
from sojourn.inference.kernels import depth_on_arrival, served_in_order
from sojourn.inference.likelihood import BLOCK, RATIO, classes_of
from sojourn.model.formatting import counted

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEAST = 2_000  # requests
LEAST_UNKNOWN = 8_000  # with an unknown number of workers
COARSE, FINE = 4_000, 20_000  # requests of the busiest stretch, for the search
BURN, KEPT = 60, 35  # sweeps
SWEPT = 2_000_000  # lines times sweeps, of a long log
SEARCH_BURN, HEATS, SWEEPS_OF_HEAT, SETTLING = 25, 12, 6, 2
SIZES = np.array([1, 1, 2, 4, 8, 16])
NATS, ERRORS = 6.0, 2.5
MOST_DISORDER = 0.005  # of the lines, in an earlier second than the line before
MOST_LATE = 0.08  # of the requests: the worker that they need is freed after they left
RESIMULATIONS = 12
REASON = (
    "reconstructed from stamps of a second: the mean wait is known to about 1 % of the response time, its p99 to 6 %"
)
ADD = "add $msec to nginx's log_format"


@dataclass
class Lines:
    """Lines of a log in their order, and a state of the sampler. Times are s.

    Attributes:
        second: the second of each line.
        lasted: from the arrival to the departure.
        codes: class of each line, from 0; classes: their number.
        departure, arrival: of the state; departures ascend.
        order: lines by their arrival; rank: place of each line in it.
        bin_of, widths: as in ``sojourn.inference.sampler``.
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
        departure = second + (place + 0.5) / np.repeat(count, count)
        arrival = departure - lasted
        order = np.argsort(arrival, kind="stable").astype(np.int64)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        bin_of, widths = _bins(float(lasted.max(initial=0.0)))
        return cls(second, lasted, codes, classes, departure, arrival, order, rank, bin_of, widths)

    def part(self, begin: int, end: int) -> Lines:
        """Return the lines [begin, end), spread evenly again."""
        return Lines.of(self.second[begin:end], self.lasted[begin:end], self.codes[begin:end], self.classes)

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
    seed: int = 1,
) -> Inference:
    """Infer the start of every service from the order of lines, their seconds and their durations.

    Args:
        second: the second in which each line was written, s, in the order of the lines.
        lasted: from the arrival at the backend to the departure from it, s.
        routes: route of each request, as a number from 0.
        unserved: requests beside these that left without being served.
        workers: number of workers, if it is known.
        seed: of the random numbers.
    """
    count = len(second)
    reason = _obstacle(second, unserved, workers)
    if reason:
        return refused(reason)
    codes, classes = classes_of(np.asarray(routes, np.int64))
    order = np.argsort(second, kind="stable").astype(np.int64)
    lines = Lines.of(np.floor(second[order]), np.asarray(lasted[order], np.float64), codes[order], classes)
    low = high = chosen = workers or 0
    means = []
    if workers is None:
        busiest = _busiest(lines, FINE)
        evidence = _searched(lines, busiest, seed)
        chosen = max(evidence, key=lambda number: float(evidence[number].sum()))
        low, high = _credible(evidence, chosen)
        response = float(busiest.lasted.mean())
        means = [_sampled(busiest.part(0, len(busiest.second)), number, seed, 25, 10) for number in {low, chosen, high}]
    sweeps = max(min(BURN, SWEPT // count), 8)
    mean = _sampled(lines, chosen, seed, sweeps, max(sweeps // 2, 4))
    result = _inference(lines, chosen, order, (low, high))
    result = replace(result, mean_range=(mean, mean))
    spread = (max(means) - min(means)) / response if means else 0.0
    checks = (*_checks(lines, chosen, seed), Check("set_of_workers", spread, spread > MOST_SPREAD))
    failed = [check for check in checks if check.failed]
    if failed:
        because = "; ".join(check.meaning for check in failed)
        text = f"{because[0].upper()}{because[1:]}. {ADD[0].upper()}{ADD[1:]} for a closer look."
        return replace(result, start=np.full(count, np.nan), verdict=REFUSED, reason=text, checks=checks)
    text = f"The responses fit a first-come-first-served queue with {counted(chosen, 'worker')}, {REASON}."
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


def _bins(longest: float) -> tuple[npt.NDArray[np.int32], Floats]:
    """Return the bin of each step (s) of service times, and the widths of the bins (s): geometric."""
    steps = int(longest / sampler.STEP) + sampler.NOISE + 2
    ends = [sampler.NOISE]
    while ends[-1] < steps:
        ends.append(max(round(ends[-1] * RATIO), ends[-1] + 1))
    widths = np.diff([0, *ends]) * sampler.STEP
    return np.searchsorted(ends, np.arange(steps), side="right").astype(np.int32), widths


def _busiest(lines: Lines, count: int) -> Lines:
    """Return the stretch of ``count`` lines with the most requests in the system."""
    if len(lines.second) <= count:
        return lines.part(0, len(lines.second))
    depth = depth_on_arrival(lines.arrival[lines.order], lines.departure)
    total = np.cumsum(depth[lines.rank])
    begin = int(np.argmax(total[count:] - total[:-count])) + 1
    return lines.part(begin, begin + count)


def _sampled(lines: Lines, workers: int, seed: int, burn: int, kept: int) -> float:
    """Sample the lines, and return the mean wait, averaged over the kept sweeps, s; the last state is kept."""
    means = []
    for number in range(burn + kept):
        lines.sweep(workers, lines.fitted(workers), 1.0, seed * 1_000 + number)
        if number >= burn:
            means.append(float((lines.lasted - lines.service(workers)).mean()))
    return float(np.mean(means))


def _searched(lines: Lines, busiest: Lines, seed: int) -> dict[int, Floats]:
    """Return number of workers -> evidence by block (nats), of the numbers around the best one."""
    deepest = int(depth_on_arrival(lines.arrival[lines.order], lines.departure).max()) + 1
    coarse = _busiest(busiest, COARSE)
    powers = [2**power for power in range(max(int(math.log2(deepest)) + 1, 1))]
    first = {number: _evidence(coarse, number, seed).sum() for number in powers}
    best = max(first, key=lambda number: float(first[number]))
    known: dict[int, Floats] = {}
    step = max(best // 4, 1)
    while True:
        for number in (best - step, best, best + step):
            if 1 <= number <= deepest and number not in known:
                known[number] = _evidence(busiest, number, seed)
        better = max(known, key=lambda number: float(known[number].sum()))
        if better == best and step == 1:
            break
        best, step = better, step if better != best else max(step // 2, 1)
    for direction in (-1, 1):
        number = best + direction
        while 1 <= number <= deepest:
            if number not in known:
                known[number] = _evidence(busiest, number, seed)
            if _excluded(known[best] - known[number]):
                break
            number += direction
    return known


def _evidence(lines: Lines, workers: int, seed: int) -> Floats:
    """Return the log evidence of a number of workers by block of lines, nats."""
    state = lines.part(0, len(lines.second))
    for number in range(SEARCH_BURN):
        state.sweep(workers, state.fitted(workers), 1.0, seed * 1_000 + number)
    logs = state.fitted(workers)
    begins = np.arange(0, len(state.second), BLOCK)
    heats = (np.arange(HEATS) / (HEATS - 1)) ** 3
    means = np.zeros((HEATS, len(begins)))
    for place in reversed(range(HEATS)):
        for number in range(SWEEPS_OF_HEAT):
            density = state.sweep(workers, logs, float(heats[place]), seed * 1_000 + 100 * place + number)
            if number >= SETTLING:
                means[place] += np.add.reduceat(density, begins) / (SWEEPS_OF_HEAT - SETTLING)
    return np.asarray(((means[1:] + means[:-1]) / 2 * np.diff(heats)[:, None]).sum(axis=0))


def _excluded(deficit: Floats) -> bool:
    error = float(deficit.std(ddof=1)) * math.sqrt(len(deficit)) if len(deficit) > 1 else math.inf
    return float(deficit.sum()) >= max(NATS, ERRORS * error)


def _credible(evidence: dict[int, Floats], best: int) -> tuple[int, int]:
    kept = [number for number, blocks in evidence.items() if not _excluded(evidence[best] - blocks)]
    return min(kept), max(kept)


def _inference(lines: Lines, workers: int, order: Ints, ends: tuple[int, int]) -> Inference:
    """Return the last state of the sampler as an inference, without a verdict."""
    by_arrival = lines.order
    arrival, departure = lines.arrival[by_arrival], lines.departure[by_arrival]
    start = np.clip(departure - lines.service(workers)[by_arrival], arrival, departure)
    return Inference(
        order[by_arrival], arrival, departure, start, REFUSED, "", workers=workers, lowest=ends[0], highest=ends[1],
        depth=depth_on_arrival(arrival, lines.departure), reconstructed=True,
    )  # fmt: skip


def _checks(lines: Lines, workers: int, seed: int) -> Iterator[Check]:
    """Yield the checks of the last state of the sampler."""
    by_arrival = lines.order
    response, codes = lines.lasted[by_arrival], lines.codes[by_arrival]
    service = lines.service(workers)[by_arrival]
    residual = without_class(service, codes)
    depth = depth_on_arrival(lines.arrival[by_arrival], lines.departure)
    after, third = (rank_correlation(residual[:-lag], residual[lag:]) for lag in (1, 3))
    yield Check("service_after_service", after, failed=not -0.08 <= after <= 0.06)
    yield Check("service_after_three", third, failed=third > 0.05)
    free = depth < workers
    own = rank_correlation(without_class(response, codes)[free], depth[free].astype(np.float64))
    yield Check("response_below_capacity", own, failed=own > 0.08)
    against = rank_correlation(residual, depth.astype(np.float64))
    significance = against * math.sqrt(len(residual))
    failed = (against > 0.08 and significance > 3) or (against < -0.04 and significance < -4)
    yield Check("service_against_depth", against, failed=failed)
    late = float((lines.rank - workers >= np.arange(len(lines.rank))).mean())
    yield Check("freed_too_late", late, failed=late > MOST_LATE)
    drift = drift_of(residual)
    yield Check("service_drift", drift, failed=drift > 0.15)
    wait = float((response - service).mean()) / float(response.mean())
    part = workers / (int(depth.max()) + 1)
    yield Check("never_full", part, failed=part >= 0.6 and wait > 0.02)
    off, spread = _resimulated(lines, service, codes, workers, seed)
    yield Check("response_after_response", off, failed=abs(off) > 0.06 and abs(off) > 4 * spread)


def _resimulated(lines: Lines, service: Floats, codes: Ints, workers: int, seed: int) -> tuple[float, float]:
    """Return by how much successive responses resemble each other more than in simulations, and these' deviation."""
    rng = np.random.default_rng(seed)
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
