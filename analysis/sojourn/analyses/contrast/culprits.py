"""Which requests held the workers while the selected requests waited.

The wait of every selected request is charged as ``sojourn blame`` charges it: every instant to the requests in service,
in equal parts. The seconds that are charged to a value of a column are compared with its share of all requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sojourn.analyses.contrast.columns import Coded, coded_column
from sojourn.analyses.contrast.counting import Arrivals, counts_of
from sojourn.analyses.contrast.selection import Selection
from sojourn.analyses.queue_source import COLUMN, QueueSource, gaps_of, queue_source_of
from sojourn.model.arrays import Bools, Floats
from sojourn.model.coverage import APP_LOG
from sojourn.model.errors import SojournError
from sojourn.model.formatting import duration, printable
from sojourn.sources.open_requests import OpenedRequests
from sojourn.timeline.charge import accounts, refuse_too_many
from sojourn.timeline.classes import having
from sojourn.timeline.services import services_of
from sojourn.timeline.tables import workers_table
from sojourn.timeline.visits import Visits, WorkersLike
from sojourn.timeline.visits_of import visits_of

LITTLE = 1e-3  # s: a mean wait below nginx's resolution is not a queue


@dataclass(frozen=True)
class Waits:
    """The waits of the selected requests, and what they are charged to. Times are in seconds.

    Attributes:
        requests: selected requests with a known wait.
        waited: their waits: blamed and all accounts.
        blamed: seconds that are charged to requests.
        accounts: account -> seconds that are not, as of ``sojourn blame``.
        unknown: of the blamed seconds, those charged to requests without a service time; they are in no culprit.
        holders: number of requests that seconds are charged to.
        costliest: seconds that are charged to one request, at most.
        workers: per backend: upstream, workers, source, names, pool.
        queue_source: how the waits are known.
    """

    requests: int
    waited: float
    blamed: float
    accounts: dict[str, float]
    unknown: float
    holders: int
    costliest: float
    workers: list[dict[str, Any]]
    queue_source: QueueSource

    def to_dict(self) -> dict[str, Any]:
        """Return the ``waits`` object of the JSON output."""
        return {
            "requests": self.requests, "waited": self.waited, "blamed": self.blamed, "accounts": self.accounts,
            "unknown": self.unknown, "holders": self.holders, "costliest": self.costliest,
            "queue_source": self.queue_source.requests,
        }  # fmt: skip


@dataclass(frozen=True)
class Charged:
    """The charged seconds by column, value and block.

    Attributes:
        waits: the waits; None: unknown.
        counts: as from ``sojourn.analyses.contrast.counting.counts_of``, ``selected`` in seconds.
        runs: columns whose runs are too long -> their length, as there.
        reason: why the culprits are unknown, or why there are none; empty where there are.
    """

    waits: Waits | None
    counts: pl.DataFrame
    runs: dict[str, int]
    reason: str = ""


def charged_seconds(visits: Visits, victims: Bools) -> tuple[Floats, Floats, dict[str, float]]:
    """Return what is charged for the waits of some visits.

    Args:
        visits: the visits.
        victims: the visits whose waits count.

    Returns:
        Per visit the seconds that are charged to it; those of visits without a service time apart; and account ->
        seconds that are charged to no request.

    Raises:
        SojournError: there are too many visits for the interpreter where numba is not installed.
    """
    refuse_too_many(visits)
    services = services_of(visits)
    charged = accounts(visits, services, victims)
    others = {name: float(seconds.sum()) for name, seconds in charged.others.items()}
    return (
        np.where(services.known, charged.caused, 0.0),
        np.where(services.known, 0.0, charged.caused),
        others,
    )


def charged_of(
    requests: OpenedRequests, selection: Selection, columns: Sequence[str], workers: WorkersLike = None
) -> Charged:
    """Charge the waits of the selected requests, and count the seconds by column, value and block.

    Args:
        requests: the compared requests; all of ``requests.whole`` hold workers.
        selection: of the requests whose waits are charged.
        columns: the compared columns.
        workers: number of workers per backend, or one number for all; None: read off the worker values.
    """
    whole = requests.whole
    needed = (*selection.columns, *requests.where, *columns, "service", COLUMN)
    visits = visits_of(whole, columns=tuple(dict.fromkeys(needed)), workers=workers)
    queue_source = queue_source_of(whole, visits.table.lazy())
    victims = selection.chosen(visits.rows) & having(visits.rows, requests.where)
    if not victims.any():
        return Charged(None, *_nothing(), _unknown(whole))
    if queue_source.filtered:
        return Charged(None, *_nothing(), " ".join(queue_source.filtered))
    try:
        seconds, unknown, others = charged_seconds(visits, victims)
    except SojournError as error:
        return Charged(None, *_nothing(), f"The culprits are unknown: {error}.")
    waits = Waits(
        requests=int(victims.sum()),
        waited=float(visits.wait[victims].sum()),
        blamed=float(seconds.sum() + unknown.sum()),
        accounts=others,
        unknown=float(unknown.sum()),
        holders=int(np.count_nonzero(seconds > 0)),
        costliest=float(seconds.max()),
        workers=workers_table(visits),
        queue_source=queue_source,
    )
    if waits.waited < LITTLE * waits.requests or waits.holders == 0:
        mean = duration(max(waits.waited, 0.0) / waits.requests)
        return Charged(waits, *_nothing(), f"The selected requests hardly waited for workers: {mean} on average.")
    arrivals = Arrivals(seconds, np.ones(len(visits)))
    coded = whole.once(("contrast", tuple(columns), str(workers)), lambda: _coded(visits, columns))
    return Charged(waits, *counts_of(coded, arrivals))


def _coded(visits: Visits, columns: Sequence[str]) -> dict[str, Coded]:
    rows = pl.DataFrame({name: visits.rows[name] for name in dict.fromkeys((*columns, "service"))})
    return {name: coded_column(rows, name) for name in columns}


def _nothing() -> tuple[pl.DataFrame, dict[str, int]]:
    return counts_of({}, Arrivals(np.zeros(0), np.zeros(0)))


def _unknown(requests: OpenedRequests) -> str:
    """Return why the waits are unknown, as sentences."""
    gaps = (APP_LOG,) if requests.of_app else gaps_of(requests)
    reason = " ".join(printable(gap, 600) for gap in gaps) or "No selected request reports how long it waited."
    return f"The culprits are unknown. {reason}"
