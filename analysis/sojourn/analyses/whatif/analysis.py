"""Replay the recorded configuration first, and predict variants only if that replay matches the measurements.

A replay keeps the measured arrivals and service times and computes the queueing delays again. It is exact where the
service time of a request does not depend on concurrent requests: one worker, one request. Where workers share a
processor, a lock or a database, service times grow with load (``sojourn.timeline.contention``). What they share is
estimated, and the replay slows services by the number in progress; a change is predicted only if the laws that are
plausible agree on it. Where no law fits, there is no prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from sojourn.analyses.queue_source import MEASURED, QueueSource, slots
from sojourn.analyses.whatif.balancing import PINNED, pinned_share
from sojourn.analyses.whatif.closed_loop import ClosedLoop, clients_wait, closed_loop_of
from sojourn.analyses.whatif.fit import errors_of, fits, refusal, relative, shared_resource
from sojourn.analyses.whatif.inside import inside_of, limited_elsewhere
from sojourn.analyses.whatif.intervals import Resamples, interval, ordered
from sojourn.analyses.whatif.mismatch_reasons import accepting_is_slowed, unreplayed
from sojourn.analyses.whatif.replays import Replay, replay_workload
from sojourn.analyses.whatif.result import Curve, Variant, WhatIfResult, Withheld, figures_of
from sojourn.analyses.whatif.sharing import Laws, Sharing
from sojourn.analyses.whatif.variants import Change, change_of
from sojourn.analyses.whatif.withheld import WithheldError
from sojourn.analyses.whatif.workload import Workload, workload_of
from sojourn.model.arrays import Floats
from sojourn.model.errors import SojournError
from sojourn.model.figures import Summary
from sojourn.model.formatting import counted, duration, printable
from sojourn.model.groups import largest_alone
from sojourn.model.one_worker import doubt, holding
from sojourn.model.parallel import in_threads
from sojourn.timeline.classes import summed
from sojourn.timeline.contention.courses import sentences_of
from sojourn.timeline.contention.load_dependence import LoadDependence
from sojourn.timeline.contention.resources import Contention
from sojourn.timeline.station import loop_of_requests
from sojourn.timeline.tables import others_of, workers_table

RANKS = ("p99", "p90", "p50", "mean", "goodput")
SEEDS = 5  # replays of a balancer that chooses at random
FEW = 200  # requests
AT_ONCE = 2  # variants
AGREED = 0.10  # of the mean and of p99: plausible laws whose predictions differ by more give none
FOLLOWING = (
    "clients wait for an answer before they send the next request, so a faster system would receive more of them: give "
    "--closed-loop"
)


def whatif(
    rows: pl.LazyFrame,
    variants: Sequence[Mapping[str, str | float]] = (),
    *,
    workers: int | Mapping[str, int] | None = None,
    closed_loop: bool = False,
    rank: str = "p99",
    force: bool = False,
    seed: int = 0,
    queue_source: QueueSource = MEASURED,
    hosts: Mapping[str, str] | None = None,
    cores: int | None = None,
) -> WhatIfResult:
    """Replay split rows under the recorded configuration, and under each variant, the best first.

    Args:
        rows: as from ``SplitResult.rows``; with ``request_id``, duplicates count once; ``remote_addr`` and
            ``connection`` identify clients.
        variants: each a change of one or several settings; keys: ``sojourn.analyses.whatif.variants.KEYS``. Empty:
            ``usual_changes``.
        workers: per backend, or the same for all; None: counted from the worker values.
        closed_loop: each request arrives after an earlier answer: a faster system then receives more of them.
        rank: the figure of the response time by which variants are ranked, or ``goodput``.
        force: predict even if the replay of the recorded configuration misses by more than ``fit.TOLERANCE``.
        seed: of random choices.
        queue_source: how the queueing delays are known.
        hosts: address of a backend -> name of its host, whose processors its services share; None: by the addresses.
        cores: of each host, where that is known: a change that puts more services in progress is predicted only if it
            does the same for services that wait and for services that compute.

    Raises:
        SojournError: there is nothing to replay, or a variant is not possible.
    """
    if rank not in RANKS:
        raise SojournError(f"rank: {rank!r} is not one of {', '.join(RANKS)}")
    if cores is not None and cores < 1:
        raise SojournError(f"cores: {cores} is not a number of 1 or more")
    changes = [change_of(settings) for settings in variants]
    workload = workload_of(rows, workers=workers, seed=seed)
    has_spans = bool(rows.select(pl.col("span_seconds").is_not_null().any()).collect().item())
    if not len(workload):
        raise SojournError("no request to replay: none was sent to a backend")
    if closed_loop and any(change.pools for change in changes):
        raise SojournError(
            "pool:ROUTE cannot be replayed in a closed loop, because clients are followed within one upstream: "
            "omit pool:ROUTE or --closed-loop"
        )
    loop = closed_loop_of(workload) if closed_loop else None
    # None needs what another one computes: they run side by side.
    parts: list[Callable[[], Any]] = [
        lambda: replay_workload(workload, Change(), loop=loop, seed=seed),
        lambda: LoadDependence.of(workload.visits, hosts, closed_loop=closed_loop),
        lambda: pinned_share(workload.visits) > PINNED,
        lambda: None if closed_loop else loop_of_requests(workload.visits.arrival, _answered(workload)),
    ]
    baseline, dependence, pinned, apparent = in_threads(lambda part: part(), parts)
    _refuse_balancers(changes, pinned=pinned)
    dependent, contention = dependence.independence.dependences, dependence.contention
    original = workload
    explained = contention if contention is not None and contention.explains else None
    # Where requests wait for the start, too, there is no prediction.
    if not closed_loop and limited_elsewhere(original) is None:
        workload = inside_of(workload)
    on_cores = None if cores is None else lambda: dependence.on_cores(cores, hosts)
    laws = Laws(workload, contention, lambda: dependence.possible(hosts), on_cores)
    if workload.inside or laws.likeliest is not None:
        baseline = replay_workload(workload, Change(), seed=seed, sharing=laws.likeliest)
    included = workload.counted
    measured = {
        "response_time": figures_of(workload.response[included]),
        "queueing_delay": figures_of(workload.wait[included]),
    }
    if not measured["response_time"]["p99"]:
        raise SojournError("no response time to predict: p99 is below 1 ms, or every client disconnected (499)")
    replayed = {
        "response_time": figures_of(baseline.response[included]),
        "queueing_delay": figures_of(baseline.wait[included]),
    }
    error = errors_of(measured["response_time"], replayed["response_time"])
    unreplayed_cause = cache(lambda: unreplayed(original))
    reasons: tuple[Callable[[], str | None], ...] = (
        lambda: _unexplained(original, contention),
        lambda: None if closed_loop else limited_elsewhere(original),
        lambda: None if fits(error) and not unreplayed_cause() else accepting_is_slowed(original, contention),
        lambda: None if fits(error) else refusal(original, error, apparent, seed, queue_source.moved),
        lambda: _bounded(queue_source),
        lambda: FOLLOWING if apparent is not None and (apparent.closed or clients_wait(original)) else None,
        unreplayed_cause,
        lambda: shared_resource(dependent, contention) if dependent and explained is None else None,
    )
    refused = next((text for reason in reasons if (text := reason()) is not None), None)
    predictions: list[Variant] = []
    withheld: list[Withheld] = []
    in_order = ordered(baseline.response[included])
    if refused is None or force:
        resamples = Resamples(workload.visits.arrival, included, seed)
        base = resamples.figures(baseline.response[included], in_order)
        context = _Context(
            workload, replayed["response_time"], baseline.workers, base, resamples, loop, seed, laws, cores
        )
        # Compiled code and sorts run side by side; each variant needs memory for arrays of all requests.
        outcomes = in_threads(
            lambda change: _attempt(context, change),
            changes or usual_changes(workload, closed=closed_loop, pinned=pinned, laws=laws.likeliest),
            at_once=AT_ONCE,
        )
        predictions = [outcome for outcome in outcomes if isinstance(outcome, Variant)]
        withheld = [outcome for outcome in outcomes if isinstance(outcome, Withheld)]
    predictions.sort(key=lambda v: -v.goodput if rank == "goodput" else v.response_time[rank] or 0.0)
    visits = workload.visits
    first, last = (visits.base + timedelta(seconds=float(visits.arrival[place])) for place in (0, -1))
    return WhatIfResult(
        requests=len(workload),
        window=(first, last),
        measured=measured,
        replayed=replayed,
        error=error,
        refused=refused,
        has_spans=has_spans,
        forced=refused is not None and force,
        variants=predictions,
        withheld=withheld,
        rank=rank,
        closed_loop=closed_loop,
        linked=loop.linked if loop else None,
        dependence=[each.to_dict() for each in dependent],
        contention=None if explained is None else explained.to_dict(),
        courses=[each.to_dict() for each in dependence.courses],
        system={
            "workers": baseline.workers,
            "timeout": workload.timeout,
            "utilisation": baseline.utilisation,
            "rate": baseline.rate,
            "goodput": baseline.goodput,
            "timeouts": baseline.timeouts,
        },
        workers=workers_table(visits),
        others=others_of(visits),
        imputed=workload.imputed,
        left_early=workload.left_early,
        refused_rows=workload.refused,
        notes=[
            *queue_source.marks,
            *queue_source.gaps,
            *largest_alone(others_of(visits), "workers", "are listed with their workers", "are replayed as well"),
            *_notes(workload, loop, predictions, changes),
            *(explained.notes if explained is not None else []),
            *sentences_of(dependence.courses),
        ],
        queue_source=queue_source.requests,
        measured_curve=Curve.of(ordered(workload.response[included])),
        replayed_curve=Curve.of(in_order),
    )


def _bounded(queue_source: QueueSource) -> str | None:
    """Return that the queue is inferred as a lower bound only, as a clause; None if it is not."""
    if not queue_source.bounds:
        return None
    return (
        f"the queue of {queue_source.bounds[0]} is inferred as a lower bound only: requests waited at least that long, "
        "and services took at most what is left"
    )


def _unexplained(workload: Workload, contention: Contention | None) -> str | None:
    """Return that an app serves several requests at once and what they wait for in it is unknown, as a clause."""
    visits = workload.visits
    several = visits.workers.several_at_once
    if contention is None or contention.refused is None or not several:
        return None
    name = printable(visits.backends[min(several)] or "a backend", 60)
    return f"{name} serves several requests at once in one worker, and they slow each other: {contention.refused}"


def _refuse_balancers(changes: Sequence[Change], *, pinned: bool) -> None:
    """Raise SojournError if each client keeps to one backend, and a change has a balancer that ignores clients."""
    other = next((change.balancer for change in changes if change.balancer not in (None, "given", "pinned")), None)
    if pinned and other is not None:
        raise SojournError(
            f"balancer={other}: over {PINNED:.0%} of the requests of each client go to one backend, as with ip_hash, "
            "sticky sessions or kept connections, and another balancer would move them: give balancer=pinned"
        )


def usual_changes(workload: Workload, *, closed: bool, pinned: bool, laws: Sharing | None) -> list[Change]:
    """Return common changes, replayed if none is given; changes of the heaviest route only if there are several.

    A closed loop does not support a pool for a route; other balancers would move ``pinned`` clients; where services
    share a resource (``laws``), more of it is a change, and other orders are left out.
    """
    shared = laws is not None or bool(workload.inside)
    variants = [] if workload.inside else [{"workers": "+1"}]
    if laws is not None and laws.waits_inside:
        variants.append({"pool": "+1"})
    if laws is not None and laws.has_capacity:
        variants.append({"cores": "+1"})
    if np.bincount(workload.visits.pool).max() > 1 and not pinned and not workload.inside:
        variants += [{"balancer": "least_conn"}, {"balancer": "shared_queue"}]
    if workload.processes:
        variants.append({"processes": "one_queue"})
    if workload.absence.any():
        variants.append({"absent": "none"})
    if workload.limits:
        variants.append({"limit": "+1"})
    if not shared:
        variants += [{"discipline": "lifo"}, {"discipline": "adaptive_lifo"}, {"discipline": "sjf"}]
    codes, routes = workload.routes
    if len(routes) > 1:
        seconds = summed(codes, workload.services, len(routes) + 1)[:-1]
        heaviest = int(seconds.argmax())
        variants.append({f"service:{routes[heaviest]}": "x0.5"})
        if not closed and not shared:
            variants.append({f"pool:{routes[heaviest]}": str(_enough(float(seconds[heaviest]), workload))})
    return [change_of(settings) for settings in variants]


def _enough(busy_seconds: float, workload: Workload) -> int:
    """Return the number of workers that ``busy_seconds`` of service do not saturate: the average busy number + 1."""
    seconds = float(workload.visits.arrival[-1] - workload.visits.arrival[0])
    return int(busy_seconds / seconds) + 1 if seconds > 0 else 1


@dataclass(frozen=True)
class _Context:
    """What all variants have in common; ``before``, ``workers`` and ``base`` are of the recorded configuration."""

    workload: Workload
    before: Summary  # of the response times, replayed
    workers: int
    base: dict[str, Floats]  # figure -> its resamples
    resamples: Resamples
    loop: ClosedLoop | None
    seed: int
    laws: Laws
    cores: int | None


def _attempt(context: _Context, change: Change) -> Variant | Withheld:
    """Return the variant, or why it is not predicted."""
    try:
        return _variant(context, change)
    except WithheldError as error:
        return Withheld(dict(change.settings), str(error))


def _disagreement(context: _Context, change: Change, response: Summary) -> None:
    """Raise WithheldError if a plausible law predicts a mean or p99 that differs by more than ``AGREED``."""
    for sharing in context.laws.others(change):
        if difference := _difference(context, change, response, sharing):
            name, one, other = difference
            raise WithheldError(
                f"the log does not show well enough how much services would slow each other: {name} would be "
                f"{duration(one)} or {duration(other)} by laws that fit it equally well"
            )
    for sharing in context.laws.computing(change):
        if difference := _difference(context, change, response, sharing):
            name, one, other = difference
            raise WithheldError(
                f"the log does not show whether services wait or compute, with {counted(context.cores or 0, 'core')} "
                f"per host: {name} would be {duration(one)} if they wait and {duration(other)} if they compute"
            )


def _difference(
    context: _Context, change: Change, response: Summary, sharing: Sharing
) -> tuple[str, float | None, float | None] | None:
    """Return a figure that differs by more than ``AGREED`` under a law: its name, as predicted, and by the law."""
    run = replay_workload(context.workload, change, seed=context.seed, sharing=sharing)
    other = figures_of(run.response[context.workload.counted])
    for name in ("mean", "p99"):
        if abs(relative(other[name], response[name])) > AGREED:
            return name, response[name], other[name]
    return None


def _variant(context: _Context, change: Change) -> Variant:
    workload, seed, before, base = context.workload, context.seed, context.before, context.base
    chance = change.balancer == "two_choices" or bool(workload.processes)
    seeds = range(seed, seed + SEEDS) if chance else (seed,)
    sharing = context.laws.likeliest
    included = workload.counted
    runs: list[Replay] = []
    in_order, waits, drawn = [], [], []
    for number in seeds:
        run = replay_workload(workload, change, loop=context.loop, seed=number, sharing=sharing)
        values = run.response[included]
        in_order.append(ordered(values))
        drawn.append(context.resamples.figures(values, in_order[-1]))
        waits.append(run.wait[included])
        runs.append(run.without_requests())
    # Each of several seeds contributes its part of the resamples, so that the interval contains their spread.
    mixed = {name: np.concatenate([one[name][i :: len(runs)] for i, one in enumerate(drawn)]) for name in base}
    matching = {name: np.concatenate([base[name][i :: len(runs)] for i in range(len(runs))]) for name in base}
    every = ordered(np.concatenate(in_order)) if len(in_order) > 1 else in_order[0]
    response, curve, queueing_delay = figures_of(every), Curve.of(every), figures_of(np.concatenate(waits))
    del every, in_order, waits, values  # the laws are compared by more replays
    _disagreement(context, change, response)
    more = runs[0].workers > context.workers and sharing is None and not workload.inside
    return Variant(
        settings=dict(change.settings),
        response_time=response,
        queueing_delay=queueing_delay,
        goodput=_mean(run.goodput for run in runs),
        rate=_mean(run.rate for run in runs),
        timeouts=round(_mean(run.timeouts for run in runs)),
        failed=round(_mean(run.failed for run in runs)),
        utilisation=_mean(run.utilisation for run in runs),
        wasted=_mean(run.wasted for run in runs),
        workers=runs[0].workers,
        assumed=more and (context.cores is None or bool(change.pools)),
        interval={name: interval(mixed[name]) for name in base},
        change={name: relative(response[name], before[name]) for name in base},
        change_interval={name: interval(mixed[name] / matching[name] - 1) for name in base},
        curve=curve,
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _notes(
    workload: Workload, loop: ClosedLoop | None, predictions: Sequence[Variant], changes: Sequence[Change]
) -> list[str]:
    workers = workers_table(workload.visits)
    notes = [*slots(workers), *doubt(workers, "the replay"), *holding(workers)]
    notes += _constraints(workload)
    if any(variant.assumed for variant in predictions):
        notes.append(
            "It is assumed that more requests in service than the log has at a time do not slow each other: services "
            "that compute need a core each. --cores N checks it against the cores of each host."
        )
    if len(workload) < FEW:
        notes.append(f"Only {counted(len(workload), 'request')}: too few to estimate the tail.")
    if workload.imputed:
        notes.append(
            f"The service time of {counted(workload.imputed, 'request')} is unknown and was drawn from others of the "
            "same route. The app's spans (--spans) contain it."
        )
    if workload.left_early:
        notes.append(
            f"{counted(workload.left_early, 'request')} whose client disconnected (499) "
            f"{'loads the workers but is' if workload.left_early == 1 else 'load the workers but are'} excluded from "
            "the figures: a client that is served sooner may stay connected."
        )
    if any("backends" in v.settings and "balancer" not in v.settings for v in predictions):
        assumed = " and ".join(sorted(set(workload.balancers))).replace("_", " ")
        notes.append(
            f"With a different number of backends, requests cannot keep their recorded backends: {assumed} was assumed."
        )
    elif "least_conn" in workload.balancers and any(
        "workers" in v.settings and "balancer" not in v.settings for v in predictions
    ):
        notes.append(
            "The recorded balancer chose the backend with the fewest connections. With a different number of workers "
            "it would choose differently: least connections was assumed."
        )
    if loop is not None and any(change.load != 1 for change in changes):
        notes.append("In a closed loop, load=xK shortens the think times: clients without think time do not change.")
    return notes


def _constraints(workload: Workload) -> list[str]:
    """Return sentences on what keeps requests from workers: limits, and processes with queues of their own."""
    visits = workload.visits

    def name_of(code: int) -> str:
        return printable(visits.backends[code] or "a backend", 60)

    notes = [
        f"At most {counted(limit, 'request')} at a time {'reaches' if limit == 1 else 'reach'} the "
        f"{counted(int(visits.workers.count[code]), 'worker')} of {name_of(code)}: a limit is in front of them "
        "(max_conns, maxconn). While it remains, more workers change nothing; limit=+1 raises it."
        for code, limit in workload.limits.items()
    ]
    for code, binding in workload.bindings.items():
        late = f", by loads {duration(binding.age)} old" if binding.age else ""
        notes.append(
            f"The processes of {name_of(code)} have queues of their own; requests are bound to them "
            f"{binding.rule}{late}. processes=one_queue replays one queue for all of them."
        )
    return notes


def _answered(workload: Workload) -> Floats:
    """Return when each request was answered or abandoned, s, by nginx's clock, as the next arrival is."""
    return workload.visits.arrival + workload.response - workload.before
