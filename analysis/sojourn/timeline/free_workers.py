"""Workers that look free while requests wait: for how long, and what the log says against it.

A worker that is free takes a request that waits. Where the log shows otherwise, the worker was held by something that
its headers do not show, or the request could not reach it. ``looked_free`` measures that time per backend, without the
way to an idle backend; ``suspects_of`` names what fits it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.model.groups import LARGEST
from sojourn.model.parallel import in_threads
from sojourn.timeline.classes import OTHER
from sojourn.timeline.concurrency import counts_on_arrival, queue_ends
from sojourn.timeline.services import Services, services_of
from sojourn.timeline.steps import Steps
from sojourn.timeline.suspicions import BODY, BOUND, LIMIT, PAUSE, RESERVED, SEVERAL, STARTED, UNKNOWN, UNNAMED, Suspect
from sojourn.timeline.turnaround import LONGEST
from sojourn.timeline.visits import Visits
from sojourn.timeline.worker_evidence import way_of, ways_of

LOOKED_AT = 20_000  # requests of a backend, the first ones: the way to it does not change
MUCH = 0.1  # share of the wait: below it, time with a worker that looks free needs no explanation
LITTLE = 1e-3  # s: a mean wait below nginx's resolution is not a queue
BODIES = 0.05  # share of the workers' time
MOST_BACKENDS = 50  # with the most such time, whose suspects are named
ROUNDED = 1e-9  # of a limit: sums in another order differ by less


@dataclass(frozen=True)
class LookedFree:
    """The waiting at one backend while one of its workers looked free. Seconds.

    Attributes:
        upstream: address of the backend.
        waited: sum of the waits at the backend.
        way: time that a request takes to an idle backend; 0 if it is too short to be measured.
        on_the_way: waiting explained by the way and by the start of a request in an idle worker.
        seconds: waiting while a worker looked free, beyond that.
        suspects: what may have held the workers, or delayed the requests; the most likely first.
    """

    upstream: str | None
    waited: float
    way: float
    on_the_way: float
    seconds: float
    suspects: tuple[Suspect, ...] = ()

    @property
    def share(self) -> float:
        """Share of the backend's waiting that no log line explains."""
        return self.seconds / self.waited if self.waited > 0 else 0.0

    @property
    def much(self) -> bool:
        """Whether the share is too large to be ignored."""
        return self.share > MUCH

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "upstream": self.upstream,
            "waited": self.waited,
            "way": self.way,
            "on_the_way": self.on_the_way,
            "looked_free": self.seconds,
            "suspects": [suspect.to_dict() for suspect in self.suspects],
        }


def looked_free(visits: Visits, services: Services, dispatch: Floats, wait: Floats) -> tuple[LookedFree, ...]:
    """Return the backends at which requests waited while a worker looked free, those with the most such time first.

    Of many, the ``LARGEST`` have an entry, and the others have one together, the last: ``OTHER``.

    Args:
        visits: with phases.
        services: when each visit held a worker.
        dispatch: seconds of each wait with a free worker at its backend, as of ``charge.accounts``.
        wait: seconds of each wait; 0 for requests that do not count.
    """
    count = len(visits.backends)
    waited = np.bincount(visits.backend, np.maximum(np.nan_to_num(wait), 0.0), count)
    free = np.bincount(visits.backend, np.maximum(dispatch, 0.0), count)
    candidates = np.flatnonzero(free > MUCH * waited)
    if not len(candidates):
        return ()
    waiting, serving = counts_on_arrival(visits, queue_ends(visits, services), services, LOOKED_AT)
    idle = (waiting == 0) & (serving < visits.workers.count[visits.backend]) & visits.blocks.early(LOOKED_AT)
    ways = ways_of(visits.backend[idle], visits.wait[idle], count)
    beyond = np.bincount(visits.backend, np.maximum(dispatch - ways[visits.backend] - LONGEST, 0.0), count)
    order = candidates[np.argsort(-free[candidates], kind="stable")]
    largest, others = order[:LARGEST], order[LARGEST:]
    backends = [
        LookedFree(
            visits.backends[code], float(waited[code]), float(ways[code]), float(free[code] - beyond[code]),
            float(beyond[code]),
        )
        for code in largest.tolist()
    ]  # fmt: skip
    for place, one in enumerate(backends[:MOST_BACKENDS]):
        if one.much:
            backends[place] = replace(one, suspects=suspects_of(visits, int(largest[place])))
    if len(others):
        sums = (float(seconds[others].sum()) for seconds in (waited, free - beyond, beyond))
        in_all, on_the_way, seconds = sums
        backends.append(LookedFree(OTHER, in_all, 0.0, on_the_way, seconds))
    return tuple(backends)


def suspects_of(visits: Visits, backend: int) -> tuple[Suspect, ...]:
    """Return what may have held the workers of a backend that look free; the most likely first, never empty."""
    if visits.workers.in_one_worker(backend) > 1:
        return (Suspect(SEVERAL),)
    holds = visits.holds.get(backend)
    if holds is None or not holds.evidence:
        return (Suspect(UNKNOWN if _has_worker_names(visits, backend) else UNNAMED),)
    doubtful = (Suspect(BODY, holds.doubtful),) if holds.doubtful else ()
    return (*doubtful, *holds.suspects) or (Suspect(UNKNOWN),)


def _has_worker_names(visits: Visits, backend: int) -> bool:
    """Return whether the workers of a backend are named, but too few requests show what they do."""
    if "worker" not in visits.rows.columns:
        return False
    worker = visits.column_at("worker", visits.at_backend[backend])
    return worker.null_count() <= len(worker) // 2


def is_lower_bound(
    visits: Visits, code: int, waiting: Steps, serving: Steps, on_arrival: tuple[Ints, Ints], seconds: float
) -> bool:
    """Return whether the services of a backend understate the time for which its workers were held.

    Either requests waited while a worker looked free, for more than ``MUCH`` of the waiting and beyond the way to an
    idle backend; or bodies of which is not known whether they hold a worker would fill more than ``BODIES`` of the
    workers' time.

    Args:
        visits: with phases, bodies are considered.
        code: the backend.
        waiting: its requests that wait.
        serving: its requests in service.
        on_arrival: requests that waited, and in service, on each arrival at the backend, or on the first ones.
        seconds: length of the log, s.
    """
    members = visits.at_backend[code]
    workers = int(visits.workers.count[code])
    wait = np.nan_to_num(visits.wait_end[members] - visits.arrival[members])
    waited = float(np.maximum(wait, 0.0).sum())
    way = way_of(wait[: len(on_arrival[0])][(on_arrival[0] == 0) & (on_arrival[1] < workers)])
    free = _waiting_with_free_worker(waiting, serving, workers)
    beyond = free - float(np.clip(wait, 0.0, way + LONGEST).sum())
    if waited > LITTLE * len(members) and beyond > MUCH * waited and not _is_explained(visits, code):
        return True
    if visits.phases is None:
        return False
    return float(visits.phases.in_doubt[members].sum()) > BODIES * workers * seconds


def blocking_causes(visits: Visits) -> dict[str | None, tuple[str, ...]]:
    """Return backend -> what kept requests from its workers, or the workers away, by the evidence, as clauses."""
    clauses = {}
    for code, holds in visits.holds.items():
        causes = [suspect for suspect in holds.suspects if suspect.kind in holds.causes]
        if holds.processes is not None:
            causes.append(Suspect(RESERVED if holds.processes.reserved else BOUND))
        if causes:
            clauses[visits.backends[code]] = tuple(suspect.clause for suspect in causes)
    return clauses


def looks_free(visits: Visits) -> bool:
    """Return whether a worker looks free for much of the waiting in the busiest stretch of a backend."""
    return any(holds.free > MUCH for holds in visits.holds.values())


def _is_explained(visits: Visits, code: int) -> bool:
    """Return whether workers of a backend were idle while requests waited, and it is known why."""
    holds = visits.holds.get(code)
    if holds is None:
        return False
    kinds = {suspect.kind for suspect in holds.suspects}
    return (bool(kinds) and kinds <= {LIMIT, PAUSE, STARTED}) or (holds.processes is not None and not kinds)


def understated(visits: Visits) -> frozenset[str | None]:
    """Return the backends whose services understate the time for which their workers were held (``is_lower_bound``).

    Sums decide for most backends. Of those for which they do not, the ``LARGEST`` are looked at one by one; the others
    count as understated, which claims less of them.
    """
    services = services_of(visits)
    waiting, serving = counts_on_arrival(visits, queue_ends(visits, services), services, LOOKED_AT)
    ends = np.fmax(visits.wait_end, services.end)
    seconds = float(ends.max() - visits.arrival.min()) if len(visits) else 0.0

    def is_bound(code: int) -> bool:
        members = visits.at_backend[code]
        queued = Steps.of(visits.arrival[members], visits.wait_end[members])
        held = Steps.of(services.begin[members], services.end[members])
        early = members[:LOOKED_AT]
        return is_lower_bound(visits, code, queued, held, (waiting[early], serving[early]), seconds)

    possible = _possible_bounds(visits, seconds)
    is_large = np.zeros(len(visits.backends), np.bool_)
    is_large[visits.largest] = True
    examined = np.flatnonzero(possible & is_large).tolist()
    bounds = [code for code, bound in zip(examined, in_threads(is_bound, examined), strict=True) if bound]
    return frozenset(visits.backends[code] for code in [*bounds, *np.flatnonzero(possible & ~is_large).tolist()])


def _possible_bounds(visits: Visits, seconds: float) -> Bools:
    """Return for which backends ``is_lower_bound`` may hold, by the sums of their waits and of doubtful bodies."""
    count = len(visits.backends)
    wait = np.nan_to_num(visits.wait)
    waited, short = (
        np.bincount(visits.backend, np.clip(wait, 0.0, longest), count) for longest in (np.inf, LONGEST)
    )  # fmt: skip
    # A worker looks free for the whole of the waits, at most.
    possible = (waited > (LITTLE - ROUNDED) * visits.served) & (waited - short > (MUCH - ROUNDED) * waited)
    if visits.phases is None:
        return possible
    in_doubt = np.bincount(visits.backend, visits.phases.in_doubt, count)
    return possible | (in_doubt > (BODIES - ROUNDED) * visits.workers.count * seconds)


def _waiting_with_free_worker(waiting: Steps, serving: Steps, workers: int) -> float:
    """Return the waiting seconds of requests while fewer than ``workers`` requests are in service."""
    if not len(waiting.at):
        return 0.0
    waited = np.append(0.0, np.cumsum(waiting.level[:-1] * np.diff(waiting.at)))
    full = np.append(False, serving.level >= workers)
    # All workers are held from the first of two instants to the second; the number that waits is constant in steps.
    by_then = np.interp(serving.at[full[1:] != full[:-1]], waiting.at, waited)
    return float(waited[-1] - (by_then[1::2] - by_then[::2]).sum())


def explanation(backends: Sequence[LookedFree]) -> str:
    """Return what fits the evidence at the backends with much unexplained waiting, as a sentence; "" without any."""
    suspects: dict[str, Suspect] = {}
    for backend in backends:
        for suspect in backend.suspects:
            suspects.setdefault(suspect.kind, suspect)
    if not suspects:
        return ""
    return f"The evidence fits {'; or '.join(suspect.clause for suspect in suspects.values())}."
