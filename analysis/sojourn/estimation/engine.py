"""Infer the waits of one backend: number of workers, service times, waits, their uncertainty and a verdict."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sojourn.estimation.checks import Check, checks_of, drift_check
from sojourn.estimation.inferred import INFERRED, LOWER_BOUND, REFUSED, STAMP_ERROR, Inference, Window, without_starts
from sojourn.estimation.kernels import depth_on_arrival, older_inside, service_times
from sojourn.estimation.likelihood import BLOCK, EXCLUDED, Likelihood, Queue, busiest, searched
from sojourn.model.arrays import Floats, Ints
from sojourn.model.formatting import counted

LEAST_REQUESTS = 500
FEW_REQUESTS = 10_000  # the checks are weak below
MOST_UNSERVED = 0.1  # of the requests
MOST_CONTRADICTIONS = 0.01
MOST_WORKERS = 128
CHECKED = 1_000_000  # requests of the busiest stretch
WINDOW = 10  # blocks: the part of a log in which a change of the number of workers is looked for
WITNESSES = 3  # requests that overtake so many others
FREE_ARRIVALS = 500  # at an empty backend
FREE_OF_CLASS = 20
FREE_ERROR = 0.05  # of the mean response time
SHARP = 30  # witnesses one below the ceiling
DEEP = 100  # arrivals deeper than 1.5 times the ceiling
MOST_SPREAD = 0.05  # of the mean response time: a mean wait that is less certain over the set of workers is refused


def infer(
    arrival: Floats,
    departure: Floats,
    routes: Ints,
    *,
    unserved: int = 0,
    error: float = STAMP_ERROR,
    workers: int | None = None,
) -> Inference:
    """Infer the start of every service from arrivals and departures.

    Args:
        arrival: instants at which the proxy turned to the backend, s.
        departure: instants at which the backend had answered, s.
        routes: route of each request, as a number from 0.
        unserved: requests beside these that left without being served (timeouts, clients gone).
        error: of the instants, s.
        workers: number of workers, if it is known.
    """
    order = np.lexsort((departure, arrival))
    a, d = np.ascontiguousarray(arrival[order], np.float64), np.ascontiguousarray(departure[order], np.float64)
    unknown = Inference(order, a, d, np.full(len(a), np.nan), REFUSED, "")
    if len(a) < LEAST_REQUESTS:
        reason = f"{counted(len(a), 'request')} are too few: {LEAST_REQUESTS} are needed."
        return replace(unknown, reason=reason)
    queue = Queue.of(a, d, np.asarray(routes, np.int64)[order], error)
    depth = depth_on_arrival(a, queue.ordered)
    unknown = replace(unknown, depth=depth, excess=_excess(queue, depth))
    inside = older_inside(a, d, queue.ordered, error)
    refusal = _obstacle(unserved / (len(a) + unserved), 0 if workers else _ceiling(inside))
    if refusal is not None:
        return _refused(unknown, refusal)
    if workers is not None:
        return _of_workers(unknown, queue, workers, (workers, workers), inside, fixed=True)
    deepest = max(int(depth.max()) + 1, _ceiling(inside))
    ceilings = [_ceiling(part) for part in _parts(inside, WINDOW * BLOCK)]
    likelihood = searched(queue, min(ceilings), deepest)
    if not likelihood.possible:
        return _refused(unknown, Check("short_services", float((d - a).mean()) / error, failed=True))
    return _with_windows(unknown, queue, likelihood, inside, deepest)


def _obstacle(unserved: float, ceiling: int) -> Check | None:
    """Return the check that forbids an inference; None if there is none."""
    if unserved > MOST_UNSERVED:
        return Check("unserved", unserved, failed=True)
    return Check("many_workers", float(ceiling), failed=True) if ceiling > MOST_WORKERS else None


def _with_windows(unknown: Inference, queue: Queue, likelihood: Likelihood, inside: Ints, deepest: int) -> Inference:
    """Return the inference with one number of workers, or with one for each part of the log."""
    windows = _windows(queue, likelihood, inside)
    if windows:
        return _moved(unknown, queue, windows, inside)
    fitting = likelihood.at_least(_ceiling(inside))
    lowest, highest = fitting.credible()
    result = _of_workers(unknown, queue, fitting.best, (lowest, highest), inside)
    if result.verdict == LOWER_BOUND:
        return result
    return replace(result, highest=None if highest >= deepest else _widened(highest))


def _widened(highest: int) -> int:
    """Return the upper end of a set: of sixteen workers and more, one in sixteen is not noticed."""
    return highest + highest // 16


def _ceiling(inside: Ints) -> int:
    """Return the least number of workers that the overtaking requests allow."""
    return 1 + int(np.partition(inside, -WITNESSES)[-WITNESSES]) if len(inside) >= WITNESSES else 1


def _parts(values: Ints, size: int) -> list[Ints]:
    return [values[begin : begin + size] for begin in range(0, max(len(values) - size // 2, 1), size)]


def _of_workers(
    unknown: Inference, queue: Queue, workers: int, ends: tuple[int, int], inside: Ints, *, fixed: bool = False
) -> Inference:
    """Return the inference with a number of workers, judged."""
    a, d = unknown.arrival, unknown.departure

    def starts(number: int) -> Floats:
        return _starts(a, d, service_times(a, d, queue.ordered, np.full(len(a), number)))

    waits = [starts(number) - a for number in sorted({ends[0], workers, ends[1]})]
    means, tails = [float(wait.mean()) for wait in waits], [float(np.quantile(wait, 0.99)) for wait in waits]
    result = replace(
        unknown, start=starts(workers), workers=workers, lowest=ends[0], highest=ends[1],
        mean_range=(min(means), max(means)), p99_range=(min(tails), max(tails)),
    )  # fmt: skip
    result = _with_contradictions(result, queue.error)
    checks = _checks(result, queue, min(_ceiling(inside), workers))
    spread = (max(means) - min(means)) / float((d - a).mean())
    checks.append(Check("set_of_workers", spread, spread > MOST_SPREAD))
    if fixed:
        share = result.contradictions / len(a)
        checks.append(Check("contradictions", share, share > MOST_CONTRADICTIONS))
    return _judged(replace(result, checks=tuple(checks)), queue, inside, fixed=fixed)


def _checks(result: Inference, queue: Queue, ceiling: int) -> list[Check]:
    """Return the checks: of the busiest stretch of a long log, and the drift over all of it."""
    count = len(result.arrival)
    begin = busiest(result.depth, CHECKED) if count > CHECKED else 0
    part = slice(begin, begin + CHECKED)
    each = -(-count // CHECKED)
    service = result.service
    return [
        *checks_of(
            result.arrival[part], result.departure[part], service[part], result.depth[part], queue.codes[part], ceiling,
            queue.error,
        ),
        drift_check(service[::each], queue.codes[::each], queue.error),
    ]  # fmt: skip


def _starts(arrival: Floats, departure: Floats, service: Floats) -> Floats:
    """Return the begin of each service, never before the arrival by rounding."""
    return np.asarray(np.maximum(departure - service, arrival))


def _judged(result: Inference, queue: Queue, inside: Ints, *, fixed: bool) -> Inference:
    failed = [check for check in result.checks if check.failed]
    number = f"{counted(result.workers, 'worker')}" + (" (as stated)" if fixed else "")
    if not failed:
        reason = f"The responses fit a first-come-first-served queue with {number}."
        if result.wait.mean() < queue.error / 2:
            reason = "Hardly any request waited: no queue was seen, whatever the number of workers is."
        if len(inside) < FEW_REQUESTS:
            reason += f" With fewer than {FEW_REQUESTS:,} requests the checks are weak."
        return replace(result, verdict=INFERRED, reason=reason)
    because = "; ".join(check.meaning for check in failed)
    ceiling = _ceiling(inside)
    sharp = int((inside == ceiling - 1).sum()) >= SHARP and int((inside >= ceiling).sum()) < WITNESSES
    # With nearly constant services few requests overtake others, and the ceiling says nothing.
    sharp = sharp and ceiling > 1 and result.workers <= _widened(ceiling)
    least = result.workers if fixed else ceiling
    if sharp and least >= ceiling and int((result.depth > 1.5 * ceiling).sum()) >= DEEP and not result.windows:
        service = service_times(result.arrival, result.departure, queue.ordered, np.full(len(inside), least))
        start = _starts(result.arrival, result.departure, service)
        bound = replace(
            result, start=start, verdict=LOWER_BOUND, workers=least, lowest=least, highest=least,
            reason=f"At least, with {counted(least, 'worker')}: {because}.",
        )  # fmt: skip
        return _with_contradictions(bound, queue.error)
    return without_starts(result, _sentence(because))


def _with_contradictions(result: Inference, error: float) -> Inference:
    return replace(result, contradictions=int((result.service < -error).sum()))


def _refused(unknown: Inference, check: Check) -> Inference:
    return replace(unknown, verdict=REFUSED, reason=check.sentence, checks=(check,))


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def _windows(queue: Queue, likelihood: Likelihood, inside: Ints) -> list[tuple[int, int]]:
    """Return the parts (first request, end) between which the number of workers changed; empty if it did not."""
    blocks = likelihood.blocks.shape[1]
    edges = list(range(0, blocks - WINDOW // 2, WINDOW)) or [0]
    joined: list[tuple[int, int, int, int]] = []  # begin, end, and the set of numbers that fit all its windows
    for begin, end in zip(edges, [*edges[1:], blocks], strict=True):
        ceiling = _ceiling(inside[begin * BLOCK : end * BLOCK])
        fitting = likelihood.at_least(ceiling).in_blocks(begin, end)
        low, high = fitting.credible() if len(fitting.workers) else (ceiling, ceiling)
        high = _widened(high)
        if joined and low <= joined[-1][3] and high >= joined[-1][2]:
            first, _, lowest, highest = joined[-1]
            joined[-1] = (first, end, max(lowest, low), min(highest, high))
        else:
            joined.append((begin, end, low, high))
    if len(joined) < 2:
        return []
    ceilings = np.array([_ceiling(inside[block * BLOCK : (block + 1) * BLOCK]) for block in range(blocks)])
    changes = sorted({_change(likelihood, ceilings, left, right) for left, right in itertools.pairwise(joined)})
    edges = [*(change * BLOCK for change in changes if 0 < change < blocks), len(queue.arrival)]
    return list(itertools.pairwise([0, *edges]))


def _change(
    likelihood: Likelihood, ceilings: Ints, left: tuple[int, int, int, int], right: tuple[int, int, int, int]
) -> int:
    """Return the block at which the number of workers changed, between two parts: the most likely one.

    A block whose requests overtake more others than a number of workers allows excludes that number.
    """
    rows = [_best_row(likelihood, part) for part in (left, right)]
    before, after = (likelihood.blocks[row] + EXCLUDED * (ceilings > likelihood.workers[row]) for row in rows)
    begin, end = max(left[0] + 1, left[1] - WINDOW), min(right[1] - 1, left[1] + WINDOW)
    gained = np.cumsum(before - after)
    return begin + int(np.argmax(gained[begin - 1 : end]))


def _best_row(likelihood: Likelihood, part: tuple[int, int, int, int]) -> int:
    begin, end, lowest, highest = part
    allowed = (likelihood.workers >= lowest) & (likelihood.workers <= highest)
    total = likelihood.blocks[:, begin:end].sum(axis=1)
    return int(np.argmax(np.where(allowed, total, -np.inf)))


def _moved(unknown: Inference, queue: Queue, parts: Sequence[tuple[int, int]], inside: Ints) -> Inference:
    """Return the inference with a number of workers for each part."""
    a, d = unknown.arrival, unknown.departure
    each = np.ones(len(a), np.int64)
    windows = []
    for begin, end in parts:
        part = queue.part(begin, end)
        ceiling = _ceiling(inside[begin:end])
        likelihood = searched(part, ceiling, max(int(unknown.depth[begin:end].max()) + 1, ceiling))
        low, high = likelihood.credible()
        each[begin:end] = likelihood.best
        windows.append(Window(float(a[begin]), float(a[end - 1]), likelihood.best, low, _widened(high)))
    result = replace(
        unknown, start=_starts(a, d, service_times(a, d, queue.ordered, each)), windows=tuple(windows),
        workers=windows[-1].workers, lowest=min(w.lowest for w in windows),
        highest=max(w.highest or 0 for w in windows),
    )  # fmt: skip
    result = _with_contradictions(result, queue.error)
    lowest = min(w.workers for w in windows)
    checks = tuple(_checks(result, queue, lowest))
    waits = result.wait
    result = replace(
        result, checks=checks, mean_range=(float(waits.mean()),) * 2, p99_range=(float(np.quantile(waits, 0.99)),) * 2
    )
    judged = _judged(result, queue, inside, fixed=True)
    if judged.verdict == INFERRED:
        numbers = ", ".join(str(window.workers) for window in windows)
        judged = replace(
            judged, reason=f"The number of workers changed ({numbers}); each part fits a queue of its own."
        )
    return judged


def _excess(queue: Queue, depth: Ints) -> tuple[float, float] | None:
    """Return the mean response time less that of requests at an empty backend, and its standard error, s."""
    response = queue.departure - queue.arrival
    empty = depth == 0
    if int(empty.sum()) < FREE_ARRIVALS:
        return None
    alone, variance = 0.0, float(response.var()) / len(response)
    for code in range(queue.classes):
        members = queue.codes == code
        share = float(members.mean())
        free = response[members & empty]
        if share and len(free) < FREE_OF_CLASS:
            return None
        if share:
            alone += share * float(free.mean())
            variance += share**2 * float(free.var()) / len(free)
    mean, error = float(response.mean()), math.sqrt(variance)
    return (mean - alone, error) if error < FREE_ERROR * mean else None
