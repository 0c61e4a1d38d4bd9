"""Visits through the sweep: all at once, or those that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.timeline.sweep import accounts_of
from sojourn.timeline.visits import Visits

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

CELLS = 4_000_000  # of the matrices held at a time: 64 MB with what rounding lost


class Services(NamedTuple):
    """When each request held a worker (s, NaN: never that is known of), and whether its app said how long."""

    begin: Floats
    end: Floats
    said: Bools


class Accounts(NamedTuple):
    """Seconds per request; the first three sum to its wait."""

    dispatch: Floats
    imbalance: Floats
    blamed: Floats
    caused: Floats


def services_of(found: Visits) -> Services:
    """Services of visits.

    A request whose app did not say how long it worked held a worker at least until its answer began: from the end of
    its wait to ``header``, where that column was read.
    """
    begin, end = found.busy_start.copy(), found.busy_end.copy()
    said = ~np.isnan(end)
    if "header" in found.frame.columns:
        answered = found.arrival + found.frame["header"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        guessed = ~said & (answered > found.wait_end)
        begin[guessed], end[guessed] = found.wait_end[guessed], answered[guessed]
    return Services(begin, end, said)


def accounts(found: Visits, services: Services, victims: Bools | None = None) -> Accounts:
    """What every request waited for, and what it is to blame for.

    ``victims``: whose waits count; None: everybody's. Those of others are nobody's, and 0.
    """
    nothing = np.zeros(len(found), np.int64)
    window = nothing if victims is None else np.where(victims, 0, -1)
    dispatch, imbalance, blamed, caused, _ = _swept(found, services, nothing, nothing, window, (1, 1, 1))
    return Accounts(dispatch, imbalance, blamed, caused)


def matrices(
    found: Visits, services: Services, victim: Ints, culprit: Ints, window: Ints, shape: tuple[int, int, int]
) -> Iterator[tuple[int, Floats]]:
    """Blamed seconds, windows × victims × culprits (``shape``), some windows at a time.

    ``victim``, ``culprit``: classes per request; ``window``: where its wait goes, -1: nowhere.

    Yields:
        the first window and the matrices from there on.
    """
    windows, victims, culprits = shape
    if not victims or not culprits:
        return
    at_once = max(CELLS // (victims * culprits), 1)
    for first in range(0, windows, at_once):
        count = min(at_once, windows - first)
        here = np.where((window >= first) & (window < first + count), window - first, -1)
        charged = here >= 0
        if not charged.any():
            continue
        # Whoever held a worker while one of them waited matters, too.
        begin, end = found.arrival[charged].min(), found.wait_end[charged].max()
        matter = charged | ((services.end > begin) & (services.begin < end))
        yield first, _swept(found, services, victim, culprit, here, (count, victims, culprits), matter)[-1]


def _swept(
    found: Visits, services: Services, victim: Ints, culprit: Ints, window: Ints, shape: tuple[int, int, int],
    matter: Bools | None = None,
) -> tuple[Floats, Floats, Floats, Floats, Floats]:  # fmt: skip
    kept = slice(None) if matter is None else matter
    charged = window[kept] >= 0
    return accounts_of(
        found.arrival[kept],
        np.where(charged, found.wait_end[kept], np.nan),
        services.begin[kept],
        services.end[kept],
        found.backend[kept].astype(np.int64),
        workers=found.workers.count.astype(np.int64),
        pool=found.pool.astype(np.int64),
        victim=victim[kept],
        culprit=culprit[kept],
        window=window[kept],
        windows=shape[0],
        victims=shape[1],
        culprits=shape[2],
    )
