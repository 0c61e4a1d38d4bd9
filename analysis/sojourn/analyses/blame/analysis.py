"""Charge every instant of every wait to exactly one account.

At every instant between a request's arrival at its backend and the end of its wait, the first of these that applies:

    its own process has a free worker                     -> dispatch   (network, accepting, a proxy that holds back)
    another process of the backend has a free one         -> bound      (processes with queues of their own)
    another backend of the same upstream has a free one   -> imbalance  (the balancer chose a busy backend)
    otherwise, in equal parts, what holds the workers     -> blamed on requests; absent; load not in the log

Dispatch beyond the way to an idle backend is charged to a limit in front, a pause, or the start of a worker where the
log shows these. All accounts and the blamed seconds sum to the measured wait, request by request. What remains of
dispatch beyond the way has a cause that the log does not show: ``free_workers`` names what fits the evidence. This is
accounting, not a prediction: without the culprit other requests would have been served in its place, and the delay
would fall by less than its blame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sojourn.analyses.blame.chain import Chain, chain_of
from sojourn.analyses.blame.inside import InnerBlame, inner_blame
from sojourn.analyses.queue_source import MEASURED, QueueSource
from sojourn.model.arrays import Floats, Ints
from sojourn.model.components import STAMP_TICK
from sojourn.model.formatting import iso
from sojourn.model.measures import ROUNDING
from sojourn.model.parallel import in_threads
from sojourn.model.result import Result
from sojourn.timeline.charge import (
    DISPATCH,
    IMBALANCE,
    accounts,
    accounts_and_matrices,
    fit_at_once,
    matrices,
    refuse_too_many,
)
from sojourn.timeline.classes import (
    MOST_CLASSES,
    checked_column,
    classes_of,
    largest,
    named_column,
    selected_by,
    summed,
)
from sojourn.timeline.free_workers import LookedFree, looked_free
from sojourn.timeline.services import Services, services_of
from sojourn.timeline.tables import (
    costliest_requests,
    culprits_table,
    matrix_table,
    others_of,
    over_time_table,
    phases_table,
    victims_table,
    workers_table,
)
from sojourn.timeline.visits import Visits
from sojourn.timeline.windows import Windows

TOLERANCE = "clock_tolerance"

MOST_ROWS = 1_000  # of a list in the JSON


@dataclass(frozen=True, repr=False)
class BlameResult(Result):
    """The result of ``blame``. All times are in seconds.

    Attributes:
        by, culprit_by: the columns that name victims and culprits.
        requests: number of victims.
        present: number of requests with a known wait: victims and possible culprits.
        window: the first arrival and the last end of a wait; None without requests.
        waited: the sum of all waits: blamed and all accounts.
        blamed: seconds that are charged to requests.
        accounts: account -> seconds that are not charged to requests: dispatch, imbalance, and those that occur of
            ``sojourn.timeline.named_accounts.SUSPECT_ACCOUNTS``.
        unknown: of the blamed seconds, those charged to requests without a service time.
        matrix: victim, culprit (null: unknown), seconds, share (of the blamed seconds); largest first, at most 50
            classes each way, the rest as "(other)".
        culprits: culprit, seconds, share (of the blamed seconds), of_waited (of all), requests; every class, exact.
        victims: victim, requests, waited, blamed, and a column for each account; every class.
        over_time: begin, account, culprit (null unless blamed), seconds; by the end of the wait.
        width: length of its windows.
        workers: per backend: upstream, workers, source, names, pool.
        phases: culprit, phase (service, body, after), seconds, share (of the blamed seconds), requests with this phase,
            each (its mean length); empty where all workers were held for services only.
        costliest: single requests: request_id, uri, culprit, upstream, arrival, held, seconds (that others waited).
        chain: the classes that filled the queue and those that held the workers.
        negative, negative_seconds: waits below 0 by more than half a tick and ``clock_tolerance``; all negative waits
            are summed with their sign under dispatch.
        silent: requests without a service time.
        left_out: reason -> requests, as in ``Visits``.
        queue_source: how the queueing delays are known.
        inner: waiting inside the app and which requests caused it; None: none, or unknown.
        free_workers: backends at which requests waited while a worker looked free, those with the most such time first;
            those beyond ``LARGEST`` are one, the last.
        others: ``workers`` -> number (``values``) and ``requests`` of the backends that are not in ``workers``; empty:
            each is.
    """

    TABLES: ClassVar = ("culprits", "matrix", "victims", "over_time", "phases", "costliest")

    by: str
    culprit_by: str
    requests: int
    present: int
    window: tuple[datetime, datetime] | None
    waited: float
    blamed: float
    accounts: dict[str, float]
    unknown: float
    matrix: pl.DataFrame
    culprits: pl.DataFrame
    victims: pl.DataFrame
    over_time: pl.DataFrame
    width: float
    workers: list[dict[str, Any]]
    phases: pl.DataFrame
    costliest: list[dict[str, Any]]
    chain: Chain
    negative: int
    negative_seconds: float
    silent: int
    left_out: dict[str, int]
    queue_source: QueueSource = MEASURED
    free_workers: tuple[LookedFree, ...] = ()
    inner: InnerBlame | None = None
    others: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def dispatch(self) -> float:
        """Seconds with a free worker at the request's own place."""
        return self.accounts[DISPATCH]

    @property
    def imbalance(self) -> float:
        """Seconds with a free worker at another backend of the upstream."""
        return self.accounts[IMBALANCE]

    @property
    def looked_free(self) -> float:
        """Seconds of dispatch beyond the way to an idle backend, over all victims and backends."""
        return sum(backend.seconds for backend in self.free_workers)

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn blame --json`` prints."""
        window = self.window and {"from": iso(self.window[0]), "to": iso(self.window[1])}
        over_time = [{**row, "begin": iso(row["begin"])} for row in self.over_time.iter_rows(named=True)]
        seconds = {
            "waited": self.waited, "blamed": self.blamed, "imbalance": self.imbalance, "dispatch": self.dispatch,
            "accounts": self.accounts, "unknown": self.unknown,
        }  # fmt: skip
        return {
            "by": self.by,
            "culprit_by": self.culprit_by,
            "visits": self.requests,
            "present": self.present,
            "window": window,
            # Without a known wait, none of them is 0.
            **(seconds if self.requests else dict.fromkeys(seconds)),
            "matrix": self.matrix.to_dicts(),
            "culprits": self.culprits.head(MOST_ROWS).to_dicts(),
            "victims": self.victims.head(MOST_ROWS).to_dicts(),
            "workers": self.workers,
            "others": self.others,
            "phases": self.phases.head(MOST_ROWS).to_dicts(),
            "chain": self.chain.to_dict(),
            "requests": [{**row, "arrival": iso(row["arrival"])} for row in self.costliest],
            "over_time": {"seconds": self.width, "windows": over_time},
            "negative": {"requests": self.negative, "seconds": self.negative_seconds},
            "silent": self.silent,
            "left_out": self.left_out,
            "queue_source": self.queue_source.requests,
            "looked_free": self.looked_free,
            "free_workers": [backend.to_dict() for backend in self.free_workers],
            "inner": self.inner and self.inner.to_dict(),
        }


def blame_of(
    visits: Visits,
    *,
    by: str = "route",
    culprit_by: str | None = None,
    where: Mapping[str, object] | None = None,
    width: float | None = None,
    queue_source: QueueSource = MEASURED,
) -> BlameResult:
    """Compute the blame of visits.

    Args:
        visits: with ``by`` and ``culprit_by`` among the columns of its frame. With a column ``header``, a request
            without a service time holds a worker, as an unknown culprit, until its answer began.
        by: column that names the victims.
        culprit_by: column that names the culprits; None: the same.
        where: column -> value that a victim must have; all requests can be culprits.
        width: length of the windows over time, s; None: the shortest that gives at most 240.
        queue_source: how the queueing delays are known.

    Raises:
        SojournError: no request with a known wait meets ``where``, a column was not read, or there are too many
            requests for the interpreter where numba is not installed.
    """
    services = services_of(visits)
    is_victim = selected_by(visits.rows, where or {})
    refuse_too_many(visits)
    wait = np.where(is_victim, visits.wait, 0.0)
    victim, victims = classes_of(checked_column(named_column(visits.rows, by), by))
    culprit, culprits = victim, victims
    if culprit_by not in (None, by):
        culprit, culprits = classes_of(checked_column(named_column(visits.rows, culprit_by), culprit_by))
    # The last class, without a name: requests without a service time.
    culprit_index = np.where(services.known, culprit, len(culprits))
    first, last = (float(visits.wait_end.min()), float(visits.wait_end.max())) if len(visits) else (0.0, 0.0)
    windows = Windows.over(visits.base, first, last, seconds=width)
    ended = windows.of(visits.wait_end)
    window = ended if is_victim.all() else np.where(is_victim, ended, -1)
    shape = (windows.count, len(victims), len(culprits) + 1)
    few = max(len(victims), len(culprits)) <= MOST_CLASSES and fit_at_once(shape)
    if few:
        charged, matrix = accounts_and_matrices(visits, services, victim, culprit_index, window, shape)
    else:
        charged = accounts(visits, services, is_victim)
    waited, blamed = float(wait.sum()), float(charged.blamed.sum())
    tolerance = visits.rows[TOLERANCE].to_numpy() if TOLERANCE in visits.rows.columns else 0.0
    negative = wait < -STAMP_TICK / 2e6 - ROUNDING - tolerance
    table = culprits_table(culprit_index, culprit, culprits, charged.caused, blamed, waited)
    few_victims, victim_names = largest(victim, victims, summed(victim, wait, len(victims)))
    few_culprits, culprit_names = largest(culprit, culprits, summed(culprit, charged.caused, len(culprits)))
    # Compiled code, NumPy and Polars run side by side.
    parts: list[Callable[[], Any]] = [
        lambda: chain_of(visits, services, charged.blamed, few_culprits, culprit_names),
        lambda: workers_table(visits),
        lambda: costliest_requests(visits, services, charged.caused, (*culprits, None), culprit_index),
        lambda: looked_free(visits, services, charged.dispatch, wait),
        lambda: None if where else inner_blame(visits, culprit, culprits),
    ]
    chain, workers, costliest, free, inner = in_threads(lambda part: part(), parts)
    begun = visits.base + timedelta(seconds=float(visits.arrival[0])) if len(visits) else None
    if few:
        cells, over_time = matrix.sum(axis=0), matrix.sum(axis=1)
    else:
        shape = (windows.count, len(victim_names), len(culprit_names) + 1)
        few_culprit_index = np.where(services.known, few_culprits, len(culprit_names))
        cells, over_time = _cells(visits, services, few_victims, few_culprit_index, window, shape)
    return BlameResult(
        by=by,
        culprit_by=culprit_by or by,
        requests=int(is_victim.sum()),
        present=len(visits),
        window=(begun, visits.base + timedelta(seconds=last)) if begun else None,
        waited=waited,
        blamed=blamed,
        accounts={name: float(seconds.sum()) for name, seconds in charged.others.items()},
        unknown=float(charged.caused[~services.known].sum()),
        matrix=matrix_table(cells, victim_names, culprit_names, blamed),
        culprits=table,
        victims=victims_table(victim, victims, is_victim, wait, charged),
        over_time=over_time_table(over_time, culprit_names, windows, charged, ended),
        width=windows.seconds,
        workers=workers,
        phases=phases_table(services, charged, culprit_index, culprits, blamed),
        costliest=costliest,
        chain=chain,
        negative=int(negative.sum()),
        negative_seconds=float(wait[negative].sum()),
        silent=int((~services.known).sum()),
        left_out=dict(visits.left_out),
        queue_source=queue_source,
        free_workers=free,
        inner=inner,
        others=others_of(visits),
    )


def _cells(
    visits: Visits, services: Services, victim: Ints, culprit: Ints, window: Ints, shape: tuple[int, int, int]
) -> tuple[Floats, Floats]:
    """Return the blamed seconds: victims × culprits, and windows × culprits."""
    whole, over_time = np.zeros(shape[1:]), np.zeros((shape[0], shape[2]))
    for first, matrix in matrices(visits, services, victim, culprit, window, shape):
        whole += matrix.sum(axis=0)
        over_time[first : first + len(matrix)] += matrix.sum(axis=1)
    return whole, over_time
