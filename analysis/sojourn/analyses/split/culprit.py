"""The route that a queue is due to, for the verdict: few of the requests, most of the waiting."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sojourn.analyses.blame.run import blame
from sojourn.model.errors import SojournError
from sojourn.model.formatting import duration, percent, printable
from sojourn.model.verdict import OPENINGS, Verdict
from sojourn.sources.frame_measures import FrameMeasures
from sojourn.sources.open_requests import OpenedRequests
from sojourn.timeline.classes import named_column
from sojourn.timeline.visits_of import visits_of

QUEUEING = "queueing"
MOST_REQUESTS = 200_000  # of more, the split does not compute the causes of all waits
LEAST_SHARE = 0.4  # of the waiting
CONTRAST = 2.0  # times its share of the requests


@dataclass(frozen=True)
class Culprit:
    """A route that causes far more of the waiting than its requests are of all.

    Attributes:
        route: its name; with the service, where there are several.
        share: of all waiting, what it caused.
        requests: its share of the requests.
        held: mean time for which each of its requests holds a worker, s.
    """

    route: str
    share: float
    requests: float
    held: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as in the JSON."""
        return asdict(self)


def culprit_of(requests: OpenedRequests) -> Culprit | None:
    """Return the route that a queue is due to; None without one, of a store, and of more than ``MOST_REQUESTS``."""
    if not isinstance(requests.measures, FrameMeasures):
        return None
    if requests.whole.once("overall", requests.whole.measures.overall)["requests"] > MOST_REQUESTS:
        return None
    try:
        result = blame(requests)
    except SojournError:
        return None
    if result.queue_source.filtered or result.culprits.is_empty() or not result.present:
        return None
    top = result.culprits.row(0, named=True)
    part = top["requests"] / result.present
    if top["culprit"] is None or top["of_waited"] < max(LEAST_SHARE, CONTRAST * part):
        return None
    visits = visits_of(requests.whole)
    own = named_column(visits.rows, "route").eq_missing(top["culprit"]).to_numpy()
    held = visits.held[own & ~np.isnan(visits.held)]
    return Culprit(top["culprit"], top["of_waited"], part, float(held.mean())) if len(held) else None


def with_culprit(judged: Verdict, culprit: Culprit | None) -> Verdict:
    """Return the verdict on a queue that begins with the route which causes it, and what helps."""
    opening = f"{OPENINGS[QUEUEING]}: of "
    if culprit is None or judged.cause != QUEUEING or not judged.sentence.startswith(opening):
        return judged
    route = printable(culprit.route, 60)
    return replace(
        judged,
        sentence=(
            f"A queue, caused by {route}: {percent(culprit.requests)} of the requests, which hold a worker for "
            f"{duration(culprit.held)} each, caused {percent(culprit.share)} of the waiting. Make them shorter, or "
            f"give them workers of their own. Of {judged.sentence.removeprefix(opening)}"
        ),
    )
