"""Divide the blamed seconds between classes that filled the queue and classes that held the workers.

A queue has two makers: more arrived than usual, or what was in service took longer than usual. Per backend, a period
lasts while requests wait there, and begins at the instant at which its last free worker became busy (L seconds
in all). With N_c requests of class c that arrived in it or were in service at its beginning, s their services, and over
the whole log the arrival rate λ_c and the mean service S_c of that class at that backend:

    filled_c = (N_c - λ_c (L + S_c)) S_c      the work of arrivals beyond the usual: λ_c L arrive in it, and by Little's
                                               law (Little 1961) λ_c S_c are in service
    held_c   = Σ s - N_c S_c                   service beyond the usual

The blamed seconds of the period are divided over those of the terms that are positive, in proportion. Where none is,
they are ``usual``: a queue of ordinary load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from sojourn.analyses.blame.explained import explained_each, periods_of
from sojourn.model.arrays import Floats, Ints
from sojourn.model.formatting import iso
from sojourn.model.one_worker import most_at_once
from sojourn.model.parallel import in_threads
from sojourn.timeline.charge import matrices
from sojourn.timeline.classes import summed
from sojourn.timeline.services import Services
from sojourn.timeline.visits import Visits

COSTLIEST = 5
CHAIN_SCHEMA = {"culprit": pl.String(), "filled": pl.Float64(), "held": pl.Float64()}


@dataclass(frozen=True)
class Period:
    """A period in which requests waited at a backend. Seconds, except ``begin``.

    ``peak``: the most requests waiting at once; ``burst``: arrivals relative to the usual number; ``culprit``: the
    class with the most blame, ``culprit_seconds`` of it (None: unknown).
    """

    upstream: str | None
    begin: datetime
    seconds: float
    blamed: float
    requests: int
    peak: int
    burst: float
    culprit: str | None
    culprit_seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**self.__dict__, "begin": iso(self.begin)}


@dataclass(frozen=True)
class Chain:
    """Blamed seconds by their cause.

    Attributes:
        classes: culprit, filled, held (blamed seconds), largest first.
        usual: blamed seconds that neither explains.
        periods: the costliest periods.
    """

    classes: pl.DataFrame
    usual: float
    periods: list[Period] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the ``chain`` object of the JSON output."""
        return {
            "classes": self.classes.to_dicts(),
            "filled": float(self.classes["filled"].sum()),
            "held": float(self.classes["held"].sum()),
            "usual": self.usual,
            "periods": [period.to_dict() for period in self.periods],
        }


@dataclass(frozen=True)
class _Periods:
    """Periods of the backends of a block, in their order.

    ``of``: the period of each request of the block (``rows``: indices into the visits) that waits in one, or -1;
    ``backend``: of each period.
    """

    rows: Ints
    of: Ints
    backend: Ints
    end: Floats
    start: Floats
    onset: Floats
    burst: Floats
    blamed: Floats
    filled: Floats
    held: Floats
    usual: float

    def victims(self, period: int) -> Ints:
        """Return the requests that wait in a period."""
        return self.rows[self.of == period]


def chain_of(visits: Visits, services: Services, blamed: Floats, culprit: Ints, names: Sequence[str]) -> Chain:
    """Divide the ``blamed`` seconds of each visit by their cause; ``culprit``: its class, an index into ``names``."""
    ends = services.end[~np.isnan(services.end)]
    last = max(visits.wait_end.max(), ends.max(initial=0.0)) if len(visits) else 0.0
    span = float(last - visits.arrival.min()) if len(visits) else 0.0
    blocks = in_threads(
        lambda rows: _periods(visits, services, blamed, culprit, len(names), rows, span),
        visits.blocks.rows() if span > 0 else [],
    )
    filled = sum((periods.filled for periods in blocks), np.zeros(len(names)))
    held = sum((periods.held for periods in blocks), np.zeros(len(names)))
    table = pl.DataFrame({"culprit": list(names), "filled": filled, "held": held}, schema=CHAIN_SCHEMA)
    table = table.filter((pl.col("filled") > 0) | (pl.col("held") > 0)).sort(
        pl.col("filled") + pl.col("held"), "culprit", descending=[True, False]
    )
    usual = float(sum(periods.usual for periods in blocks))
    return Chain(table, usual, _costliest(visits, services, blamed, blocks, culprit, names))


def _periods(
    visits: Visits, services: Services, blamed: Floats, culprit: Ints, classes: int, rows: Ints, span: float
) -> _Periods:
    """Return the periods of a block of backends; ``rows``: its requests, backend after backend."""
    backend = visits.backend[rows].astype(np.int64)
    arrival, wait_end = visits.arrival[rows], visits.wait_end[rows]
    of, first = periods_of(backend, arrival, wait_end)
    waits = of >= 0
    of_period = summed(of[waits], blamed[rows][waits], len(first))
    end = np.full(len(first), -np.inf)
    np.maximum.at(end, of[waits], wait_end[waits])
    start, at = arrival[first], backend[first]
    filled, held, usual, onset, burst = explained_each(
        backend, arrival, services.begin[rows], services.end[rows], culprit[rows], at, start, end, of_period, classes,
        span,
    )  # fmt: skip
    return _Periods(rows, of, at, end, start, onset, burst, of_period, filled, held, usual)


def _costliest(
    visits: Visits, services: Services, blamed: Floats, blocks: list[_Periods], culprit: Ints, names: Sequence[str]
) -> list[Period]:
    ranked = sorted(
        ((block.blamed[k], block, int(k)) for block in blocks for k in _most_blamed(block)),
        key=lambda entry: (-entry[0], entry[1].start[entry[2]]),
    )
    ranked = [entry for entry in ranked[:COSTLIEST] if entry[0] > 0]
    window = np.full(len(visits), -1, np.int64)
    for place, (_, block, k) in enumerate(ranked):
        victims = block.victims(k)
        window[victims[blamed[victims] > 0]] = place
    # The last class, without a name: requests without a service time.
    culprit_index = np.where(services.known, culprit, len(names))
    cells = np.zeros((len(ranked), len(names) + 1))
    shape = (len(ranked), 1, len(names) + 1)
    for first, matrix in matrices(visits, services, np.zeros(len(visits), np.int64), culprit_index, window, shape):
        cells[first : first + len(matrix)] = matrix[:, 0, :]
    periods = []
    for place, (seconds, block, k) in enumerate(ranked):
        victims = block.victims(k)
        top = int(cells[place].argmax())
        periods.append(
            Period(
                upstream=visits.backends[block.backend[k]],
                begin=visits.base + timedelta(seconds=float(block.onset[k])),
                seconds=float(block.end[k] - block.onset[k]),
                blamed=float(seconds),
                requests=len(victims),
                peak=most_at_once(visits.arrival[victims], visits.wait_end[victims]),
                burst=float(block.burst[k]),
                culprit=names[top] if top < len(names) else None,
                culprit_seconds=float(cells[place, top]),
            )
        )
    return periods


def _most_blamed(block: _Periods) -> Ints:
    """Return the periods of a block with the most blamed seconds; of equal ones the first."""
    return np.lexsort((block.start, -block.blamed))[:COSTLIEST]
