"""Replay first what was, and predict only if that comes out as it was measured.

A replay takes the measured arrivals and the measured service times and works out anew who waits for whom. It is exact
where a request's service does not depend on the others that are served beside it: one worker, one request. Where
workers share a processor, a lock or a database, services get longer with load, and a replay of fewer or more at a time
is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl

from sojourn.analyses.whatif.intervals import QUANTILES, Resamples, interval
from sojourn.analyses.whatif.loop import Loop, loop_of
from sojourn.analyses.whatif.mismatch_reasons import suspicion
from sojourn.analyses.whatif.replayed import Replayed, replayed
from sojourn.analyses.whatif.result import Variant, WhatIfResult, figures_of
from sojourn.analyses.whatif.variants import Change, change_of
from sojourn.analyses.whatif.workload import Floats, Workload, workload_of
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted, formatted
from sojourn.model.one_worker import doubt
from sojourn.timeline.loop import FOLLOW, SWING
from sojourn.timeline.loop import Loop as SeemingLoop
from sojourn.timeline.station import loop_of_requests
from sojourn.timeline.tables import workers_table
from sojourn.timeline.visits import Visits

TOLERANCE = 0.15  # of the replay's mean and p99 against the measured ones
NEARER = 0.5  # of the error: a replay in a closed loop that misses by less is the likelier one
RANKS = ("p99", "p90", "p50", "mean", "goodput")
SEEDS = 5  # replays of a balancer that leaves something to chance
FEW = 200  # requests


def whatif(
    rows: pl.LazyFrame,
    variants: Sequence[Mapping[str, str | float]] = (),
    *,
    workers: int | Mapping[str, int] | None = None,
    closed_loop: bool = False,
    rank: str = "p99",
    force: bool = False,
    seed: int = 0,
) -> WhatIfResult:
    """Replay split rows as things are, and under each variant.

    Args:
        rows: as from ``SplitResult.rows``; ``request_id`` in it makes duplicates count once, ``remote_addr`` and
            ``connection`` tell clients apart.
        variants: each a change of one thing or of several, as in ``{"workers": "+1", "balancer": "least_conn"}``; see
            ``sojourn.analyses.whatif.variants.KEYS``. None: the usual ones.
        workers: per backend, or the same for all; None: read off the worker values.
        closed_loop: requests come when an earlier one was answered: a faster system then draws more of them.
        rank: the figure of the response time by which variants are ranked, or ``goodput``.
        force: predict even though the replay of things as they are is off by more than ``TOLERANCE``.
        seed: of what is drawn.

    Raises:
        SojournError: nothing to replay, or a variant that cannot be.
    """
    if rank not in RANKS:
        raise SojournError(f"cannot rank by {rank!r}; choose from {', '.join(RANKS)}")
    changes = [change_of(settings) for settings in variants]
    workload = workload_of(rows, workers=workers, seed=seed)
    if not len(workload):
        raise SojournError("there is nothing to replay: no request went to a backend")
    if closed_loop and any(change.pools for change in changes):
        raise SojournError("a pool of its own cannot be replayed in a closed loop: who comes next is one upstream's")
    loop = loop_of(workload) if closed_loop else None
    as_is = replayed(workload, Change(), loop=loop, seed=seed)
    included = workload.counted
    measured = {
        "response_time": figures_of(workload.response[included]),
        "queueing_delay": figures_of(workload.wait[included]),
    }
    if not measured["response_time"]["p99"]:
        raise SojournError("there is nothing to change: no answer took as much as a millisecond, or none was counted")
    again = {"response_time": figures_of(as_is.response[included]), "queueing_delay": figures_of(as_is.wait[included])}
    error = _errors(measured["response_time"], again["response_time"])
    seems = None if closed_loop else loop_of_requests(workload.found.arrival, _answered(workload))
    refused = None if _fits(error) else _refusal(workload, error, seems, seed)
    found: list[Variant] = []
    if refused is None or force:
        resamples = Resamples(workload.found.arrival, seed)
        base = resamples.figures(as_is.response, included)
        found = [
            _variant(workload, change, as_is, base, resamples, loop, seed)
            for change in changes or usual_changes(workload, closed=closed_loop)
        ]
    found.sort(key=lambda v: -v.goodput if rank == "goodput" else v.response_time[rank] or 0.0)
    return WhatIfResult(
        requests=len(workload),
        window=_window(workload.found),
        measured=measured,
        replayed=again,
        error=error,
        refused=refused,
        forced=refused is not None and force,
        variants=found,
        rank=rank,
        closed_loop=closed_loop,
        linked=loop.linked if loop else None,
        system={
            "workers": as_is.workers,
            "timeout": workload.timeout,
            "utilisation": as_is.utilisation,
            "rate": as_is.rate,
            "goodput": as_is.goodput,
            "timeouts": as_is.timeouts,
        },
        workers=workers_table(workload.found),
        imputed=workload.imputed,
        left_early=workload.left_early,
        refused_rows=workload.refused,
        notes=_notes(workload, loop, seems, found, changes),
        measured_values=workload.response[included],
        replayed_values=as_is.response[included],
    )


def usual_changes(workload: Workload, *, closed: bool = False) -> list[Change]:
    """What one would try first; a route of its own only where there are several."""
    found = [{"workers": "+1"}]
    if np.bincount(workload.found.pool).max() > 1:
        found += [{"balancer": "least_conn"}, {"balancer": "shared_queue"}]
    found += [{"discipline": "lifo"}, {"discipline": "adaptive_lifo"}, {"discipline": "sjf"}]
    routes = sorted({str(route) for route in workload.route if route is not None})
    if len(routes) > 1:
        held = {route: float(workload.services[workload.route == route].sum()) for route in routes}
        heaviest = max(routes, key=lambda route: held[route])
        found.append({f"service:{heaviest}": "x0.5"})
        if not closed:
            found.append({f"pool:{heaviest}": str(_enough(held[heaviest], workload))})
    return [change_of(settings) for settings in found]


def _enough(held: float, workload: Workload) -> int:
    """Workers that a load of ``held`` seconds does not fill: one more than are busy on average."""
    seconds = float(workload.found.arrival[-1] - workload.found.arrival[0])
    return int(held / seconds) + 1 if seconds > 0 else 1


def _variant(
    workload: Workload, change: Change, as_is: Replayed, base: dict[str, Floats], resamples: Resamples,
    loop: Loop | None, seed: int,
) -> Variant:  # fmt: skip
    seeds = range(seed, seed + SEEDS) if change.balancer == "two_choices" else (seed,)
    runs = [replayed(workload, change, loop=loop, seed=number) for number in seeds]
    included = workload.counted
    values = np.concatenate([run.response[included] for run in runs])
    waits = np.concatenate([run.wait[included] for run in runs])
    drawn = [resamples.figures(run.response, included) for run in runs]
    # Of several seeds each gives its part of the resamples: their spread is in the interval.
    mixed = {name: np.concatenate([one[name][i :: len(runs)] for i, one in enumerate(drawn)]) for name in base}
    matching = {name: np.concatenate([base[name][i :: len(runs)] for i in range(len(runs))]) for name in base}
    response = figures_of(values)
    before = figures_of(as_is.response[included])
    return Variant(
        settings=dict(change.said),
        response_time=response,
        queueing_delay=figures_of(waits),
        goodput=_mean(run.goodput for run in runs),
        rate=_mean(run.rate for run in runs),
        timeouts=round(_mean(run.timeouts for run in runs)),
        failed=round(_mean(run.failed for run in runs)),
        utilisation=_mean(run.utilisation for run in runs),
        wasted=_mean(run.wasted for run in runs),
        workers=runs[0].workers,
        interval={name: interval(mixed[name]) for name in base},
        change={name: _relative(response[name], before[name]) for name in base},
        change_interval={name: interval(mixed[name] / matching[name] - 1) for name in base},
        values=values,
    )


def _mean(values: Any) -> float:
    return float(np.mean([float(value) for value in values]))


def _relative(new: float | None, old: float | None) -> float:
    return new / old - 1 if new is not None and old else math.nan


def _errors(measured: Mapping[str, float | None], again: Mapping[str, float | None]) -> dict[str, float]:
    return {name: _relative(again[name], measured[name]) for name in ("mean", *QUANTILES, "p999")}


def _fits(error: Mapping[str, float]) -> bool:
    return _worst(error) <= TOLERANCE


def _worst(error: Mapping[str, float]) -> float:
    return max(abs(error["mean"]), abs(error["p99"]))


def _refusal(workload: Workload, error: Mapping[str, float], seems: SeemingLoop | None, seed: int) -> str:
    # Near saturation the little that a worker needs between two requests adds up, as long as arrivals do not care.
    closed = None if seems is None else _errors_closed(workload, seems, seed)
    if closed is not None and _fits(closed):
        why = "clients seem to send the next request after an answer, and a replay of that fits: give --closed-loop"
    elif closed is not None and _worst(closed) < NEARER * _worst(error):
        why = (
            "clients seem to send the next request after an answer: --closed-loop comes nearer and misses the measured "
            f"{_missed(closed)}, because workers were held by something else for part of the time"
        )
    else:
        why = suspicion(workload, error["mean"])
    return f"the replay of things as they are misses the measured {_missed(error)}: {why}"


def _missed(error: Mapping[str, float]) -> str:
    return " and ".join(
        f"{name} by {formatted(error[name], '+.0%')}" for name in ("mean", "p99") if abs(error[name]) > TOLERANCE
    )


def _errors_closed(workload: Workload, seems: SeemingLoop, seed: int) -> dict[str, float] | None:
    """The errors of a replay in which requests follow answers; None where nothing speaks for that."""
    # One sign is enough where the replay fits: short services hide that a request follows an answer, a pause in the log
    # hides that as many are in the system all the time.
    follow = seems.follow is not None and seems.follow < FOLLOW
    constant = seems.swing is not None and seems.swing < SWING
    if not (seems.closed or follow or constant):
        return None
    again = replayed(workload, Change(), loop=loop_of(workload), seed=seed)
    included = workload.counted
    return _errors(figures_of(workload.response[included]), figures_of(again.response[included]))


def _window(found: Visits) -> tuple[Any, Any] | None:
    first, last = float(found.arrival[0]), float(found.arrival[-1])
    return found.base + timedelta(seconds=first), found.base + timedelta(seconds=last)


def _notes(
    workload: Workload,
    loop: Loop | None,
    seems: SeemingLoop | None,
    found: Sequence[Variant],
    asked: Sequence[Change],
) -> list[str]:
    notes = doubt(workers_table(workload.found), "the replay")
    if len(workload) < FEW:
        notes.append(f"Only {counted(len(workload), 'request')}: the tail of so few says little.")
    if workload.imputed:
        notes.append(
            f"{counted(workload.imputed, 'request says', 'requests say')} nothing of how long they held a worker; "
            "theirs was drawn from others of their route. The app's spans (--spans) tell."
        )
    if workload.left_early:
        notes.append(
            f"{counted(workload.left_early, 'request')} whose client left (499) "
            f"{'loads the workers but is' if workload.left_early == 1 else 'load the workers but are'} in no figure: a "
            "client who is served sooner may stay."
        )
    if any("backends" in v.settings and "balancer" not in v.settings for v in found):
        assumed = " and ".join(sorted(set(workload.balancers))).replace("_", " ")
        notes.append(f"With other backends requests cannot go where they went: {assumed} was assumed.")
    elif "least_conn" in workload.balancers and any(
        "workers" in v.settings and "balancer" not in v.settings for v in found
    ):
        notes.append(
            "Requests went where the fewest connections were. With other workers they would go elsewhere: least "
            "connections was assumed."
        )
    if seems is not None and seems.closed:
        notes.append(
            "The number of requests in the system hardly changes, and they follow answers: clients seem to wait for an "
            "answer before they ask again. With --closed-loop a faster system draws more load, as it would."
        )
    if loop is not None and any(change.load != 1 for change in asked):
        notes.append("In a closed loop, load=xK shortens the think times: clients without any ask no oftener.")
    return notes


def _answered(workload: Workload) -> Floats:
    """When each request was answered or given up on, s; by nginx's clock, which tells when the next one came."""
    return workload.found.arrival + workload.response - workload.before
