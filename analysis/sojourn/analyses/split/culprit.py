"""The route that a queue is due to, for the verdict: few of the requests, most of the waiting."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sojourn.model.errors import SojournError
from sojourn.model.formatting import duration, percent, printable
from sojourn.model.verdict import OPENING_OF_MIXED, OPENINGS, Verdict
from sojourn.sources.frame_measures import FrameMeasures
from sojourn.sources.open_requests import OpenedRequests
from sojourn.timeline.charge import accounts, refuse_too_many
from sojourn.timeline.classes import NO_VALUE, classes_of, having, named_column, summed
from sojourn.timeline.services import services_of
from sojourn.timeline.visits_of import visits_of

QUEUEING, MIXED = "queueing", "mixed"
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
        of_held: its share of the time for which workers are held.
    """

    route: str
    share: float
    requests: float
    held: float
    of_held: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as in the JSON."""
        return asdict(self)


def culprit_of(requests: OpenedRequests) -> Culprit | None:
    """Return the route that a queue is due to; None without one, and where it is not looked for.

    It is not looked for in a store, in a part of a log, and in more than ``MOST_REQUESTS``.
    """
    if not isinstance(requests.measures, FrameMeasures) or requests.log_requests is not None:
        return None
    if requests.whole.once("overall", requests.whole.measures.overall)["requests"] > MOST_REQUESTS:
        return None
    visits = visits_of(requests.whole, columns=tuple(requests.where))
    services = services_of(visits)
    is_victim = having(visits.rows, requests.where)
    try:
        refuse_too_many(visits)
    except SojournError:
        return None
    charged = accounts(visits, services, is_victim)
    waited = float(np.where(is_victim, visits.wait, 0.0).sum())
    if waited <= 0:
        return None
    codes, names = classes_of(named_column(visits.rows, "route"))
    # A request without a service time is an unknown culprit, as for ``blame``.
    caused = summed(codes, np.where(services.known, charged.caused, 0.0), len(names))
    top = int(caused.argmax())
    own = codes == top
    share, part = float(caused[top]) / waited, float(own.mean())
    held = visits.held[own & ~np.isnan(visits.held)]
    of_held = float(held.sum() / np.nansum(visits.held)) if len(held) else 0.0
    if names[top] == NO_VALUE or not len(held) or share < max(LEAST_SHARE, CONTRAST * part):
        return None
    return Culprit(names[top], share, part, float(held.mean()), of_held)


def with_culprit(judged: Verdict, culprit: Culprit | None) -> Verdict:
    """Return the verdict on a queue that begins with the route which causes it, and what helps.

    A verdict without a single cause begins with the route if the work, too, is mostly of its requests.
    """
    opening = f"{OPENINGS[QUEUEING]}: of " if judged.cause == QUEUEING else f"{OPENING_OF_MIXED}: of "
    if culprit is None or judged.cause not in (QUEUEING, MIXED) or not judged.sentence.startswith(opening):
        return judged
    if judged.cause == MIXED and culprit.of_held < LEAST_SHARE:
        return judged
    route = printable(culprit.route, 60)
    begin, work = f"A queue, caused by {route}", ""
    if judged.cause == MIXED:
        begin = f"One route, {route}, is slow and makes others wait"
        work = f" and had {percent(culprit.of_held)} of the workers' time"
    return replace(
        judged,
        sentence=(
            f"{begin}: {percent(culprit.requests)} of the requests, which hold a worker for {duration(culprit.held)} "
            f"each, caused {percent(culprit.share)} of the waiting{work}. Make them shorter, or give them workers of "
            f"their own. Of {judged.sentence.removeprefix(opening)}"
        ),
    )
