"""Who is waited for, and how deep the queues are: of the last minute, as far as the log can know it by now.

A request is logged when it ends. Of any instant, the requests that are still going on are missing; the picture of it is
complete when the slowest of those present has ended. So depths are told as they were one slowest response time ago.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.formatting import iso
from sojourn.model.frame import INSTANT
from sojourn.sources.frame_measures import without_upgraded
from sojourn.timeline.charge import Services, accounts, services_of
from sojourn.timeline.classes import classes_of
from sojourn.timeline.steps import Steps
from sojourn.timeline.tables import culprits_table
from sojourn.timeline.visits import Visits, visits
from sojourn.watch.figures import fitting

Bools = npt.NDArray[np.bool_]

MINUTE = 60.0  # s
CULPRITS_KEPT = 20
LEAST = 1.0  # s of a log that tell anything of a queue's depth

WAITING, RESPONSE = "blame", "response time"


@dataclass(frozen=True)
class Queues:
    """The last minute. Durations in seconds.

    Attributes:
        kind: what the culprits are ranked by: ``WAITING`` (whom others waited for), or ``RESPONSE`` (the seconds their
            requests took), where no wait is known.
        waited: seconds waited by requests that ended in the minute; ``imbalance`` and ``dispatch`` of them: while a
            worker was free elsewhere, and here.
        culprits: culprit (None: its app did not say how long it worked), seconds, share (of all that was waited).
        lag: the slowest request of the minute took so long; the backends are told as they were then.
        as_of: now, less the lag; None where the log does not reach back that far.
        backends: upstream, workers, source (how their number is known). Of the minute before ``as_of``: busy (share of
            the workers' time), depth (requests waiting, mean), most, last (at ``as_of``). Of the minute before now:
            rate (requests/s) and queueing_delay (mean, p99).
    """

    kind: str
    waited: float
    imbalance: float
    dispatch: float
    culprits: list[dict[str, Any]]
    lag: float
    as_of: datetime | None
    backends: list[dict[str, Any]]

    def to_dict(self, by: str) -> dict[str, Any]:
        """The ``queues`` object of the JSON output; ``by``: what the culprits are."""
        return {
            "seconds": MINUTE,
            "by": by,
            "ranked_by": self.kind,
            "waited": self.waited,
            "imbalance": self.imbalance,
            "dispatch": self.dispatch,
            "culprits": self.culprits,
            "lag": self.lag,
            "as_of": self.as_of and iso(self.as_of),
            "backends": self.backends,
        }


def lag_of(minute: pl.LazyFrame) -> float:
    """How long ago the picture of the queues is complete: the longest a request of the minute took, s."""
    answered = without_upgraded(minute).filter(pl.col("header").is_not_null())
    return float(answered.select(pl.col("request_time").max()).collect().item() or 0.0)


def queues(rows: pl.LazyFrame, now: datetime, lag: float, *, by: str, where: str = "", known_since: datetime) -> Queues:
    """Queues of split rows.

    Args:
        rows: those that ended in the last minute and, before it, in twice the ``lag`` and another minute.
        now: the end of the minute.
        lag: as from ``lag_of``.
        by: column that names the culprits.
        where: a filter (``fitting``) of those whose waits count; whoever held the workers counts in any case.
        known_since: from when on the log is known.
    """
    begin = pl.lit(now - timedelta(seconds=MINUTE), INSTANT)
    asked = (pl.col("time") > begin) & (fitting(where) if where else pl.lit(True))
    found = visits(rows.with_columns(asked=asked), columns=("header", "time", "asked", by))
    services = services_of(found)
    victims = found.frame["asked"].to_numpy()
    charged = accounts(found, services, victims)
    waited = float(np.where(victims, found.wait, 0.0).sum())
    kind, culprits = WAITING, _culprits(found, services, charged.caused, by, waited)
    if not victims.any():
        kind, culprits = RESPONSE, _slowest(without_upgraded(rows).filter(asked), by)
    as_of: datetime | None = now - timedelta(seconds=lag)
    first = max(known_since, now - timedelta(seconds=lag + MINUTE))
    if as_of is None or (as_of - first).total_seconds() < LEAST:
        as_of = None
    minute = found.frame.select(pl.col("time") > begin).to_series().to_numpy()
    seconds = min(max((now - known_since).total_seconds(), LEAST), MINUTE)
    return Queues(
        kind=kind,
        waited=waited,
        imbalance=float(charged.imbalance.sum()),
        dispatch=float(charged.dispatch.sum()),
        culprits=culprits,
        lag=lag,
        as_of=as_of,
        backends=[
            _backend(found, services, code, first, as_of, minute & (found.backend == code), seconds)
            for code in range(len(found.backends))
        ],
    )


def _culprits(
    found: Visits, services: Services, caused: npt.NDArray[np.float64], by: str, waited: float
) -> list[dict[str, Any]]:
    culprit, names = classes_of(found.frame[by])
    whom = np.where(services.known, culprit, len(names))
    table = culprits_table(whom, culprit, names, caused, float(caused.sum()), waited)
    shown = table.filter(pl.col("seconds") > 0).select("culprit", "seconds", share="of_waited")
    return shown.head(CULPRITS_KEPT).to_dicts()


def _slowest(rows: pl.LazyFrame, by: str) -> list[dict[str, Any]]:
    seconds = pl.col("request_time").sum()
    table = (
        rows.group_by(pl.col(by).cast(pl.String).alias("culprit"))
        .agg(seconds=seconds)
        .with_columns(share=pl.col("seconds") / pl.col("seconds").sum())
        .filter(pl.col("seconds") > 0)
        .sort("seconds", "culprit", descending=[True, False], nulls_last=True)
    )
    return table.head(CULPRITS_KEPT).collect().to_dicts()


def _backend(
    found: Visits, services: Services, code: int, first: datetime, as_of: datetime | None, minute: Bools, seconds: float
) -> dict[str, Any]:
    """What is told of one backend; ``minute``: which of its requests ended in the last minute, of so many seconds."""
    here = np.flatnonzero(found.backend == code)
    waits = found.wait[minute]
    told: dict[str, Any] = {
        "upstream": found.backends[code],
        "workers": int(found.workers.count[code]),
        "source": found.workers.source[code],
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
        return told
    begin, end = ((instant - found.base).total_seconds() for instant in (first, as_of))
    edges = np.array([begin, end])
    waiting = Steps.of(found.arrival[here], found.wait_end[here])
    serving = Steps.of(services.begin[here], services.end[here])
    (waited,), (most,) = waiting.between(edges)
    (served,), _ = serving.between(edges)
    reached = int(np.searchsorted(waiting.at, end, "right")) - 1
    told["depth"] = float(waited) / (end - begin)
    told["most"] = int(most)
    told["busy"] = float(served) / (end - begin) / max(told["workers"], 1)
    told["last"] = int(waiting.level[reached]) if reached >= 0 else 0
    return told
