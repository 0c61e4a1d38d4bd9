"""Blame inside the app: which requests used what others waited for within their services.

Of a pool, the requests that hold its places are charged as those that hold workers are. Of cores or a dependency, the
time that a service loses at an instant is charged, in equal parts, to all services that are in progress there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sojourn.model.arrays import Ints
from sojourn.timeline.charge import accounts
from sojourn.timeline.classes import summed
from sojourn.timeline.contention.independence import service_ends
from sojourn.timeline.contention.inner_queue import inner_visits
from sojourn.timeline.contention.load_dependence import LoadDependence
from sojourn.timeline.contention.resources import Contention
from sojourn.timeline.services import services_of
from sojourn.timeline.visits import Visits

LEAST = 0.1  # of the waiting for workers: services that are shorter in sum are not looked at


@dataclass(frozen=True)
class InnerBlame:
    """Waiting inside the app, inferred. Durations in s.

    Attributes:
        waited: sum over all requests.
        service: sum of their service times, which contain it.
        culprits: culprit, seconds, share; every class, the largest first.
        contention: what they waited for.
    """

    waited: float
    service: float
    culprits: pl.DataFrame
    contention: Contention

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "waited": self.waited,
            "service": self.service,
            "inferred": True,
            "culprits": self.culprits.to_dicts(),
            **self.contention.to_dict(),
        }


def inner_blame(visits: Visits, culprit: Ints, names: Sequence[str]) -> InnerBlame | None:
    """Charge the waiting inside the app to classes, each an index into ``names``; None: there is none, or unknown."""
    end = service_ends(visits)
    service = float(np.nansum(end - visits.busy_start))
    if service < LEAST * float(np.nansum(visits.wait)):
        return None
    contention = LoadDependence.of(visits).contention
    if contention is None or not contention.explains:
        return None
    caused = np.nan_to_num(contention.waits) if contention.resources else np.zeros(len(visits))
    for queue in contention.inner:
        inside = inner_visits(visits, end, queue)
        caused[queue.rows] += accounts(inside, services_of(inside)).caused
    seconds = summed(culprit, caused, len(names))
    table = pl.DataFrame({"culprit": list(names), "seconds": seconds})
    table = table.with_columns(share=pl.col("seconds") / max(float(seconds.sum()), 1e-12))
    table = table.sort("seconds", "culprit", descending=[True, False])
    return InnerBlame(float(np.nansum(contention.waits)), service, table, contention)
