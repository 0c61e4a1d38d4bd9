"""Causes of waiting and queue depths in the last minute, as far as the log is complete.

A request is logged when it ends, so requests in progress are missing from the log. The state at an instant is complete
once the slowest request present at that instant has ended. Depths are therefore reported as of one slowest response
time ago (the lag).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Bools
from sojourn.model.formatting import iso
from sojourn.model.frame import INSTANT
from sojourn.model.groups import route_name
from sojourn.sources.frame_measures import without_upgraded
from sojourn.timeline.backend_state import backend_state
from sojourn.timeline.charge import DISPATCH, accounts
from sojourn.timeline.classes import classes_of, named_column
from sojourn.timeline.free_workers import MUCH
from sojourn.timeline.services import Services, services_of
from sojourn.timeline.suspicions import HIDDEN
from sojourn.timeline.tables import culprits_table
from sojourn.timeline.visits import Visits, visits
from sojourn.watch.figures import fitting

MINUTE = 60.0  # s
LONG = 0.005  # s a request: less is the way to a free worker
MOST_CULPRITS = 20
LEAST = 1.0  # s of a log needed for a queue's depth

WAITING, RESPONSE = "blame", "response time"


@dataclass(frozen=True)
class Queues:
    """The last minute. Durations in seconds.

    Attributes:
        kind: ranking of the culprits: ``WAITING`` (waiting they caused), or ``RESPONSE`` (seconds their requests took)
            where no wait is known.
        waited: seconds waited by requests that ended in the minute.
        accounts: parts of ``waited`` that are not charged to requests, s; as of ``sojourn.blame``.
        looked_free: whether requests waited for long beside workers that look free: something that the log does not
            show held them, and utilisation is a lower bound.
        culprits: culprit (None: its app reported no service time), seconds, share (of all waiting).
        lag: response time of the minute's slowest request.
        as_of: now minus the lag, the instant of the backends' state; None where the log does not reach back that far.
        backends: upstream, workers, source (of the worker count). For the minute before ``as_of``: busy (share of
            the workers' time), depth (mean requests waiting), most, last (at ``as_of``). For the minute before now:
            rate (requests/s) and queueing_delay (mean, p99).
    """

    kind: str
    waited: float
    accounts: dict[str, float]
    looked_free: bool
    culprits: list[dict[str, Any]]
    lag: float
    as_of: datetime | None
    backends: list[dict[str, Any]]

    def to_dict(self, by: str) -> dict[str, Any]:
        """Return the ``queues`` object of the JSON output; ``by``: the column of the culprits."""
        return {
            "seconds": MINUTE,
            "by": by,
            "ranked_by": self.kind,
            "waited": self.waited,
            "accounts": self.accounts,
            "looked_free": self.looked_free,
            "culprits": self.culprits,
            "lag": self.lag,
            "as_of": self.as_of and iso(self.as_of),
            "backends": self.backends,
        }


def lag_of(minute: pl.LazyFrame) -> float:
    """Return the lag of the queues' state: the longest response time in the minute, s."""
    answered = without_upgraded(minute).filter(pl.col("header").is_not_null())
    return float(answered.select(pl.col("request_time").max()).collect().item() or 0.0)


def queues(rows: pl.LazyFrame, now: datetime, lag: float, *, by: str, where: str = "", log_begin: datetime) -> Queues:
    """Compute the queues of split rows.

    Args:
        rows: requests that ended in the last minute and, before it, in twice the ``lag`` and another minute.
        now: the end of the minute.
        lag: as from ``lag_of``, s.
        by: column that names the culprits.
        where: a filter (``fitting``) of the requests whose waits count; requests that held workers always count.
        log_begin: beginning of the known part of the log.
    """
    begin = pl.lit(now - timedelta(seconds=MINUTE), INSTANT)
    selected = (pl.col("time") > begin) & (fitting(where) if where else pl.lit(True))
    requests = visits(rows.with_columns(selected=selected), columns=("header", "time", "selected", by))
    services = services_of(requests)
    victims = requests.rows["selected"].to_numpy()
    charged = accounts(requests, services, victims)
    waited = float(np.where(victims, requests.wait, 0.0).sum())
    kind, culprits = WAITING, _culprits(requests, services, charged.caused, by, waited)
    if not victims.any():
        kind, culprits = RESPONSE, _slowest(without_upgraded(rows).filter(selected), by)
    as_of: datetime | None = now - timedelta(seconds=lag)
    first = max(log_begin, now - timedelta(seconds=lag + MINUTE))
    if as_of is None or (as_of - first).total_seconds() < LEAST:
        as_of = None
    minute = (requests.rows["time"] > (now - timedelta(seconds=MINUTE))).to_numpy()
    seconds = min(max((now - log_begin).total_seconds(), LEAST), MINUTE)
    unattributed = {name: float(seconds.sum()) for name, seconds in charged.others.items()}
    unexplained = unattributed[DISPATCH] + unattributed.get(HIDDEN, 0.0)
    return Queues(
        kind=kind,
        waited=waited,
        accounts=unattributed,
        looked_free=unexplained > max(MUCH * waited, LONG * int(victims.sum())),
        culprits=culprits,
        lag=lag,
        as_of=as_of,
        backends=[
            _backend(requests, services, code, first, as_of, minute & (requests.backend == code), seconds)
            for code in range(len(requests.backends))
        ],
    )


def _culprits(
    requests: Visits, services: Services, caused: npt.NDArray[np.float64], by: str, waited: float
) -> list[dict[str, Any]]:
    culprit, names = classes_of(named_column(requests.rows, by))
    charged_to = np.where(services.known, culprit, len(names))
    table = culprits_table(charged_to, culprit, names, caused, float(caused.sum()), waited)
    ranked = table.filter(pl.col("seconds") > 0).select("culprit", "seconds", share="of_waited")
    return ranked.head(MOST_CULPRITS).to_dicts()


def _slowest(rows: pl.LazyFrame, by: str) -> list[dict[str, Any]]:
    seconds = pl.col("request_time").sum()
    table = (
        rows.group_by((route_name(rows) if by == "route" else pl.col(by)).cast(pl.String).alias("culprit"))
        .agg(seconds=seconds)
        .with_columns(share=pl.col("seconds") / pl.col("seconds").sum())
        .filter(pl.col("seconds") > 0)
        .sort("seconds", "culprit", descending=[True, False], nulls_last=True)
    )
    return table.head(MOST_CULPRITS).collect().to_dicts()


def _backend(
    requests: Visits,
    services: Services,
    code: int,
    first: datetime,
    as_of: datetime | None,
    minute: Bools,
    seconds: float,
) -> dict[str, Any]:
    """Return the state of one backend: busy and depth from ``first`` to ``as_of`` (None: unknown).

    ``minute``: mask of its requests that ended in the last minute, of which the log covers ``seconds``.
    """
    waits = requests.wait[minute]
    state: dict[str, Any] = {
        "upstream": requests.backends[code],
        "workers": int(requests.workers.count[code]),
        "source": requests.workers.source[code],
        "rate": len(waits) / seconds,
        "queueing_delay": {
            "mean": float(waits.mean()) if len(waits) else None,
            "p99": float(np.quantile(waits, 0.99)) if len(waits) else None,
        },
        "busy": None,
        "depth": None,
        "most": None,
        "last": None,
    }
    if as_of is None:
        return state
    period = backend_state(requests, services, code, first, as_of)
    return state | {"busy": period.utilisation, "depth": period.waiting, "most": period.most, "last": period.last}
