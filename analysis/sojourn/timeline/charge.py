"""Run visits through the sweep: all, or selected ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.timeline.visits import Visits

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

CELLS = 4_000_000  # cells of the matrices in memory: 64 MB with the compensation of rounding


class Services(NamedTuple):
    """When each request held a worker (s; NaN: unknown), and whether its service time is known."""

    begin: Floats
    end: Floats
    known: Bools


class Accounts(NamedTuple):
    """Seconds per request; the first three sum to its wait."""

    dispatch: Floats
    imbalance: Floats
    blamed: Floats
    caused: Floats


def services_of(visits: Visits) -> Services:
    """Return when each visit held a worker.

    A request without a service time held a worker at least until its answer began: from the end of its wait to
    ``header``, if that column was read.
    """
    begin, end = visits.busy_start.copy(), visits.busy_end.copy()
    known = ~np.isnan(end)
    if "header" in visits.rows.columns:
        answered = visits.arrival + visits.rows["header"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        guessed = ~known & (answered > visits.wait_end)
        begin[guessed], end[guessed] = visits.wait_end[guessed], answered[guessed]
    return Services(begin, end, known)


def accounts(visits: Visits, services: Services, victims: Bools | None = None) -> Accounts:
    """Charge the wait of every request to dispatch, imbalance, or the requests in service.

    Args:
        visits: the visits.
        services: when each of them held a worker.
        victims: the requests whose waits count; None: all. The other waits are 0.
    """
    nothing = np.zeros(len(visits), np.int64)
    window = nothing if victims is None else np.where(victims, 0, -1)
    dispatch, imbalance, blamed, caused, _ = _swept(visits, services, nothing, nothing, window, (1, 1, 1))
    return Accounts(dispatch, imbalance, blamed, caused)


def matrices(
    visits: Visits, services: Services, victim: Ints, culprit: Ints, window: Ints, shape: tuple[int, int, int]
) -> Iterator[tuple[int, Floats]]:
    """Yield the blamed seconds, windows × victims × culprits, some windows at a time.

    Args:
        visits: the visits.
        services: when each of them held a worker.
        victim: class of each request as a victim.
        culprit: class of each request as a culprit.
        window: the window that the wait of each request counts in; -1: none.
        shape: number of windows, victims and culprits.

    Yields:
        The first window, and the matrices from it on.
    """
    windows, victims, culprits = shape
    if not victims or not culprits:
        return
    at_once = max(CELLS // (victims * culprits), 1)
    for first in range(0, windows, at_once):
        count = min(at_once, windows - first)
        slot = np.where((window >= first) & (window < first + count), window - first, -1)
        charged = slot >= 0
        if not charged.any():
            continue
        # Requests in service while one of them waited count as well.
        begin, end = visits.arrival[charged].min(), visits.wait_end[charged].max()
        matter = charged | ((services.end > begin) & (services.begin < end))
        yield first, _swept(visits, services, victim, culprit, slot, (count, victims, culprits), matter)[-1]


def _swept(
    visits: Visits, services: Services, victim: Ints, culprit: Ints, window: Ints, shape: tuple[int, int, int],
    matter: Bools | None = None,
) -> tuple[Floats, Floats, Floats, Floats, Floats]:  # fmt: skip
    from sojourn.timeline.sweep import accounts_of  # noqa: PLC0415 - numba takes its time to load

    kept = slice(None) if matter is None else matter
    charged = window[kept] >= 0
    return accounts_of(
        visits.arrival[kept],
        np.where(charged, visits.wait_end[kept], np.nan),
        services.begin[kept],
        services.end[kept],
        visits.backend[kept].astype(np.int64),
        workers=visits.workers.count.astype(np.int64),
        pool=visits.pool.astype(np.int64),
        victim=victim[kept],
        culprit=culprit[kept],
        window=window[kept],
        windows=shape[0],
        victims=shape[1],
        culprits=shape[2],
    )
