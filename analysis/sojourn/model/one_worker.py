"""How many requests one worker serves at a time, from the intervals during which it was held.

A synchronous worker serves one. An event loop (Node, ASGI) or a process with threads or goroutines serves several: its
busy time may exceed the time that passed, and a free worker is not what a request waits for. Several processes that
answer one worker value look the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Ints
from sojourn.model.formatting import listed, printable

SLACK = 1e-5  # s: instants are known to a microsecond each, and sums of them to a few
TICKS = (1_000_000, 100_000, 10_000, 1_000)  # us: steps in which a clock may count, the coarsest first
LOOKED_AT = 1_000_000  # requests at most
FEW = 1_000  # instants
SHARE = 0.01  # of a backend's requests: fewer that overlap in one worker are exceptions
IN_SENTENCE = 3  # backends named in a sentence


@dataclass(frozen=True)
class Overlap:
    """Requests of one backend that were in service at the same time in one worker.

    Attributes:
        most: in one worker at one instant; 0 where no request names its worker and its time of service.
        share: of the requests, those that began while their worker served another.
    """

    most: int = 0
    share: float = 0.0

    @property
    def concurrent(self) -> bool:
        """Whether a worker of the backend serves several requests at a time."""
        return self.most > 1 and self.share > SHARE


def most_at_once(begin: npt.NDArray[Any], end: npt.NDArray[Any], slack: float = SLACK) -> int:
    """Return the largest number of intervals [begin, end) that hold at one instant; 0 of none.

    Overlaps shorter than ``slack`` (in the unit of the instants) are none.
    """
    return int(most_of_each(begin, end, np.zeros(len(begin), np.int64), 1, slack)[0])


def most_of_each(
    begin: npt.NDArray[Any],
    end: npt.NDArray[Any],
    group: npt.NDArray[np.integer[Any]],
    groups: int,
    slack: float | npt.NDArray[Any] = SLACK,
) -> Ints:
    """Return ``most_at_once`` of each group of intervals.

    Args:
        begin: begin of each interval.
        end: end of each interval, in the same unit.
        group: of each interval, from 0 to ``groups`` - 1.
        groups: their number.
        slack: overlaps shorter than this, of all or of each interval, are none: clocks count in steps.
    """
    most = np.zeros(groups, np.int64)
    if len(begin):
        at, depth = _depths(begin, np.maximum(end - slack, begin), group)
        np.maximum.at(most, at, depth)
    return most


def _depths(begin: npt.NDArray[Any], end: npt.NDArray[Any], worker: npt.NDArray[np.integer[Any]]) -> tuple[Ints, Ints]:
    """Return the worker of each begin, by worker and time, and the intervals of it that hold then, itself included."""
    steps, workers = _steps(begin, end, worker)
    # The steps of a worker sum to 0: the next one begins at 0 again.
    return workers[steps > 0], np.cumsum(steps)[steps > 0]


def _steps(begin: npt.NDArray[Any], end: npt.NDArray[Any], worker: npt.NDArray[np.integer[Any]]) -> tuple[Ints, Ints]:
    """Return 1 for each begin and -1 for each end, by worker and time, and the worker of each.

    At one instant ends come first: a worker that takes its next request at once does not serve two.
    """
    least, base = int(worker.min()), begin.min()
    code = worker.astype(np.int64) - least
    width = int(end.max() - base) + 1
    if np.issubdtype(begin.dtype, np.integer) and (int(code.max()) + 1) * width < np.iinfo(np.int64).max // 2:
        # One number that grows with the worker, the time and the step: it is sorted faster than three.
        numbers = np.concatenate([2 * (code * width + (end - base)), 2 * (code * width + (begin - base)) + 1])
        ordered = pl.Series(numbers).sort().to_numpy()
        return 2 * (ordered & 1) - 1, ordered // (2 * width) + least
    instants, steps = np.concatenate([end, begin]), np.repeat(np.array([-1, 1], np.int64), len(begin))
    workers = np.concatenate([worker, worker]).astype(np.int64)
    order = np.lexsort((steps, instants, workers))
    return steps[order], workers[order]


def overlaps(held: pl.DataFrame) -> dict[str | None, tuple[Overlap, float]]:
    """Return backend -> the overlap in its workers, and the slack (s) of its app's clock.

    ``held``: upstream, worker, begin and end (us, by the app's clock); rows with a null in the last three do not count.
    """
    complete = held.drop_nulls(["worker", "begin", "end"]).head(LOOKED_AT)
    if complete.is_empty():
        return {}
    begin, end = complete["begin"].to_numpy(), complete["end"].to_numpy()
    names, backend = _coded(complete["upstream"])
    workers, worker = _coded(complete["worker"])
    requests = np.bincount(backend, minlength=len(names))
    slack = _steps_of(begin, backend, len(names)) + round(SLACK * 1e6)
    at, depth = _depths(begin, np.maximum(end - slack[backend], begin), backend * len(workers) + worker)
    at //= len(workers)
    most = np.zeros(len(names), np.int64)
    np.maximum.at(most, at, depth)
    several = np.bincount(at[depth > 1], minlength=len(names)) / requests
    return {
        name: (Overlap(*both), slack / 1e6)
        for name, slack, *both in zip(names, slack.tolist(), most.tolist(), several.tolist(), strict=True)
    }


def _coded(texts: pl.Series) -> tuple[list[str | None], Ints]:
    """Return the different values in order, null first, and the position of each row's value in these."""
    numbers = texts.cast(pl.Categorical).to_physical().cast(pl.Int64).fill_null(-1).to_numpy() + 1
    row = np.full(int(numbers.max()) + 1, -1)  # one in which each number stands
    row[numbers] = np.arange(len(numbers))
    present = np.flatnonzero(row >= 0)
    values = texts.gather(row[present])
    order = values.arg_sort().to_numpy()
    position = np.empty(len(row), np.int64)
    position[present[order]] = np.arange(len(order))
    return values.gather(order).to_list(), position[numbers]


def _steps_of(begin: Ints, backend: Ints, backends: int) -> Ints:
    """Return the step (us) in which the clock of each backend counts: the largest of ``TICKS``, or 1."""
    steps = np.ones(backends, np.int64)
    for tick in reversed(TICKS):  # every one is a multiple of those before it
        odd = np.bincount(backend[begin % tick != 0], minlength=backends)
        steps[odd == 0] = tick
        if odd.all():
            break
    return steps


def app_instants() -> tuple[pl.Expr, pl.Expr]:
    """Return ``begin`` and ``end`` (us, app clock) of the time a worker was held, of split rows; null: unknown."""
    start = pl.when(~pl.col("impossible")).then("app_start")
    begin = pl.col("proxy_start").dt.epoch("us") + (start * 1e6).round().cast(pl.Int64)
    lasted = (pl.coalesce("span_seconds", "service_time") * 1e6).round().cast(pl.Int64)
    return begin.alias("begin"), (begin + lasted).alias("end")


def serving_several(backends: Iterable[Mapping[str, Any]]) -> str:
    """Return which backends have workers that serve several requests at a time, for a sentence; "" for none.

    Args:
        backends: rows with upstream and in_one_worker (requests at a time; 1 where each worker serves one).
    """
    several = sorted((row for row in backends if row["in_one_worker"] > 1), key=lambda row: -row["in_one_worker"])
    if not several:
        return ""
    names = [f"{printable(row['upstream'] or '–', 60)} (up to {row['in_one_worker']})" for row in several[:IN_SENTENCE]]
    more = f" and {len(several) - IN_SENTENCE} more" if len(several) > IN_SENTENCE else ""
    return f"workers of {', '.join(names)}{more} serve several requests at a time"


def unnamed(backends: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences on workers whose names are not logged: their number is a lower bound.

    Args:
        backends: rows with source.
    """
    if not any(row["source"] == "most at once" for row in backends):
        return []
    return [
        "No worker names were logged for some backends: their number of workers is taken as the most requests in "
        "service at once, which may be too few. Set it with --workers."
    ]


def joined(backends: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return sentences on addresses that are counted as one backend. ``backends``: rows with upstream and joined."""
    return [
        f"{', '.join(printable(name, 60) for name in row['joined'])} and {printable(row['upstream'], 60)} lead to the "
        "same workers, by their worker values: they are counted as one backend."
        for row in backends
        if row.get("joined")
    ]


def holding(backends: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return sentences on what holds workers beyond the headers, as the next starts of the workers show it.

    ``backends``: rows with held_by_body, held_after and held_before.
    """
    by_body, after, before = (
        sorted({printable(route, 60) for row in backends for route in row.get(key, ())})
        for key in ("held_by_body", "held_after", "held_before")
    )
    sentences = []
    if by_body:
        sentences.append(
            f"The bodies of {listed(by_body)} hold a worker: workers start nothing while they are sent, although free "
            "ones would have."
        )
    if after:
        sentences.append(
            f"Workers are held after the answers to {listed(after)}: they start nothing for some time although "
            "requests wait. Where none waited, that time is estimated. The app's spans (--spans) contain it."
        )
    if before:
        sentences.append(
            f"Workers read the requests of {listed(before)} before the app starts them: their queueing delay contains "
            "that time."
        )
    return sentences


def doubt(backends: Iterable[Mapping[str, Any]], what: str) -> list[str]:
    """Return a sentence that ``what`` is unreliable for such backends; empty without any. ``backends``: as above."""
    several = serving_several(backends)
    if not several:
        return []
    return [
        f"The {several}: {what} assumes one request per worker at a time, and is unreliable there. Queueing delay is "
        "the wait until the event loop or a thread takes the request. Give --workers N, the requests that a backend "
        "serves at once, if that is limited."
    ]
