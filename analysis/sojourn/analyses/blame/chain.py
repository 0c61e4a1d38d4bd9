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

from sojourn.analyses.blame.explained import explained
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
    """Periods of one backend: ``of``: the period of each of its ``victims`` (indices into the visits)."""

    backend: int
    start: Floats
    end: Floats
    onset: Floats
    burst: Floats
    blamed: Floats
    victims: Ints
    of: Ints
    filled: Floats
    held: Floats
    usual: float


def chain_of(visits: Visits, services: Services, blamed: Floats, culprit: Ints, names: Sequence[str]) -> Chain:
    """Divide the ``blamed`` seconds of each visit by their cause; ``culprit``: its class, an index into ``names``."""
    ends = services.end[~np.isnan(services.end)]
    last = max(visits.wait_end.max(), ends.max(initial=0.0)) if len(visits) else 0.0
    span = float(last - visits.arrival.min()) if len(visits) else 0.0
    by_backend = in_threads(
        lambda backend: _periods(visits, services, blamed, culprit, len(names), backend, span),
        range(len(visits.backends)),
    )
    backends = [periods for periods in by_backend if periods is not None]
    filled = sum((periods.filled for periods in backends), np.zeros(len(names)))
    held = sum((periods.held for periods in backends), np.zeros(len(names)))
    table = pl.DataFrame({"culprit": list(names), "filled": filled, "held": held}, schema=CHAIN_SCHEMA)
    table = table.filter((pl.col("filled") > 0) | (pl.col("held") > 0)).sort(
        pl.col("filled") + pl.col("held"), "culprit", descending=[True, False]
    )
    usual = sum(periods.usual for periods in backends)
    return Chain(table, usual, _costliest(visits, services, blamed, backends, culprit, names))


def _periods(
    visits: Visits, services: Services, blamed: Floats, culprit: Ints, classes: int, backend: int, span: float
) -> _Periods | None:
    at_backend = visits.at_backend[backend]
    victims = at_backend[visits.wait_end[at_backend] > visits.arrival[at_backend]]
    if not len(victims) or span <= 0:
        return None
    until = np.maximum.accumulate(visits.wait_end[victims])
    of = np.concatenate([[0], np.cumsum(visits.arrival[victims][1:] > until[:-1])])
    first = np.flatnonzero(np.diff(of, prepend=-1))
    start, end = visits.arrival[victims][first], until[np.append(first[1:], len(victims)) - 1]
    of_period = summed(of, blamed[victims], len(start))
    filled, held, usual, onset, burst = explained(
        visits.arrival[at_backend], services.begin[at_backend], services.end[at_backend], culprit[at_backend],
        start, end, of_period, classes, span,
    )  # fmt: skip
    return _Periods(backend, start, end, onset, burst, of_period, victims, of, filled, held, usual)


def _costliest(
    visits: Visits, services: Services, blamed: Floats, backends: list[_Periods], culprit: Ints, names: Sequence[str]
) -> list[Period]:
    ranked = sorted(
        ((result.blamed[k], result, int(k)) for result in backends for k in np.argsort(-result.blamed)[:COSTLIEST]),
        key=lambda entry: (-entry[0], entry[1].start[entry[2]]),
    )
    ranked = [entry for entry in ranked[:COSTLIEST] if entry[0] > 0]
    window = np.full(len(visits), -1, np.int64)
    for place, (_, group, k) in enumerate(ranked):
        victims = group.victims[group.of == k]
        window[victims[blamed[victims] > 0]] = place
    # The last class, without a name: requests without a service time.
    culprit_index = np.where(services.known, culprit, len(names))
    cells = np.zeros((len(ranked), len(names) + 1))
    shape = (len(ranked), 1, len(names) + 1)
    for first, matrix in matrices(visits, services, np.zeros(len(visits), np.int64), culprit_index, window, shape):
        cells[first : first + len(matrix)] = matrix[:, 0, :]
    periods = []
    for place, (seconds, group, k) in enumerate(ranked):
        victims = group.victims[group.of == k]
        top = int(cells[place].argmax())
        periods.append(
            Period(
                upstream=visits.backends[group.backend],
                begin=visits.base + timedelta(seconds=float(group.onset[k])),
                seconds=float(group.end[k] - group.onset[k]),
                blamed=float(seconds),
                requests=len(victims),
                peak=most_at_once(visits.arrival[victims], visits.wait_end[victims]),
                burst=float(group.burst[k]),
                culprit=names[top] if top < len(names) else None,
                culprit_seconds=float(cells[place, top]),
            )
        )
    return periods
