"""The part of service times in which requests wait inside the app: for a core, a lock, a place of a pool.

It is inferred (``sojourn.timeline.contention``), and no component: the service time contains it. Of a long log, a busy
stretch is looked at first, and all requests only if services depend on the load there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from sojourn.model.verdict import Evidence
from sojourn.sources.frame_measures import FrameMeasures
from sojourn.sources.open_requests import OpenedRequests
from sojourn.timeline.contention.independence import service_ends
from sojourn.timeline.contention.load_dependence import LoadDependence
from sojourn.timeline.contention.resources import Contention
from sojourn.timeline.sample import sample_of
from sojourn.timeline.visit_arrays import Visits
from sojourn.timeline.visits import visits as visits_of_rows

FEWEST = 300  # requests
SERVICE_SHARE = 0.2  # of the response time, from which on services are looked at


@dataclass(frozen=True)
class InnerWaits:
    """What is known of waits inside the app. Durations in s, means over all requests of the distributions.

    Attributes:
        contention: what services share; its ``refused`` says why the waits are unknown.
        mean, tail_mean: of all requests, and of those at and above p99; None: unknown.
        share: of the service time.
    """

    contention: Contention
    mean: float | None = None
    tail_mean: float | None = None
    share: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "mean": self.mean,
            "tail_mean": self.tail_mean,
            "share_of_service": self.share,
            "inferred": True,
            "refused": self.contention.refused,
            **self.contention.to_dict(),
        }

    @property
    def notes(self) -> list[str]:
        """Sentences on the waits, for people."""
        if self.share is None:
            return [
                f"Services depend on the load: {self.contention.refused}. What of the service time is work and what is "
                "waiting inside the app is unknown."
            ]
        notes = self.contention.notes
        return [f"Inferred: {self.share:.0%} of the service time is waiting inside the app.", *notes]

    def in_evidence(self, evidence: Evidence, seconds: float | None) -> Evidence:
        """Return the evidence with mean seconds of waiting inside the app."""
        return replace(evidence, inner=seconds) if seconds else evidence


def inner_waits(requests: OpenedRequests, means: Mapping[str, float], p99: float) -> InnerWaits | None:
    """Return the waits inside the app; None where services do not depend on the load, or are no large part.

    Args:
        requests: the requests; of a store, none are fetched.
        means: component -> mean, s.
        p99: of the response time, s.
    """
    total = sum(means.values())
    if not isinstance(requests.measures, FrameMeasures) or total <= 0 or means["service_time"] < SERVICE_SHARE * total:
        return None
    rows = requests.served
    sample = sample_of(requests, upgraded=False)
    contention = _contention(sample.visits)
    if contention is not None and not sample.whole:
        contention = _contention(visits_of_rows(rows, columns=sample.columns))
    if contention is None:
        return None
    if not contention.explains:
        return InnerWaits(contention)
    visits = contention.visits
    waits = np.nan_to_num(contention.waits)
    slow = visits.rows["request_time"].fill_null(0.0).to_numpy() >= p99
    number, of_tail = rows.select(pl.len(), (pl.col("request_time") >= p99).sum()).collect().row(0)
    service = float(np.nansum(service_ends(visits) - visits.busy_start))
    return InnerWaits(
        contention,
        float(waits.sum()) / max(number, 1),
        float(waits[slow].sum()) / max(of_tail, 1),
        float(waits.sum()) / service if service > 0 else 0.0,
    )


def _contention(visits: Visits) -> Contention | None:
    """Return what the services of requests share; None: nothing, too few are known, or it is in doubt."""
    contention = LoadDependence.of(visits).contention if len(visits) >= FEWEST else None
    if contention is None or contention.in_doubt or not (contention.resources or contention.inner):
        return None
    return contention
