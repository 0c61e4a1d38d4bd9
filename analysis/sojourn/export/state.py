"""The state of a service's backends, as far as the log is complete, and the signals to scale on.

A request is logged when it ends, so requests in progress are missing from the log. The state at an instant is complete
once every request that was present has ended. It is therefore given as of the instant one lag ago: the longest response
time of the last minute, at most ``LONGEST_LAG``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from sojourn.analyses.whatif.sharing import Sharing
from sojourn.analyses.whatif.workers_needed import workers_needed
from sojourn.analyses.whatif.workload import Workload, workload_of
from sojourn.export.labels import Labels
from sojourn.export.live.demand import Demand, demand_of
from sojourn.export.memory import Memory
from sojourn.export.refusal import REASONS, live_refusal, signal_refusal
from sojourn.export.settings import LONGEST_LAG, MINUTE
from sojourn.export.tally import Sample
from sojourn.model.arrays import Bools
from sojourn.model.client_retries import CLIENT, FAILED, client_retries
from sojourn.model.components import GIVEN_UP_STATUSES
from sojourn.model.errors import SojournError
from sojourn.model.frame import INSTANT
from sojourn.model.objective import Objective
from sojourn.queueing.staffing import erlang_c_workers, square_root_workers
from sojourn.sources.frame_measures import without_upgraded
from sojourn.sources.live.parsing import CLIENT_REQUEST
from sojourn.timeline.backend_state import backend_state
from sojourn.timeline.charge import DISPATCH, IMBALANCE, accounts
from sojourn.timeline.contention.load_dependence import LoadDependence
from sojourn.timeline.contention.resources import BOTTLENECKS, WORKERS, Contention
from sojourn.timeline.named_accounts import SUSPECT_ACCOUNTS
from sojourn.timeline.services import Services, services_of
from sojourn.timeline.visits import Visits, WorkersLike, visits

STATE_WINDOW = 10.0  # s; gauges of the state are means over it
METHODS = ("replay", "erlang_c", "square_root")
"""How the number of workers is computed; the last two apply to queueing delays only."""
LEAST = 1.0  # s of a log that are needed for a state
INSTANTS = {"begun": "start", "ended": "time"}


class ServiceState:
    """The state of one service.

    Args:
        service: its name, as a label value.
        rows: its split rows that ended in the last ``window`` + 2 lags, or more.
        now: the log's time.
        complete_since: begin of the known part of the log.
        window: s, of the requests that the signals are computed from.
        memory: service times and workers that are used where the rows have none; learns those they have.
        workers: per backend, or the same for all; None: read off the log.
    """

    def __init__(
        self, service: str, rows: pl.LazyFrame, now: datetime, complete_since: datetime, window: float, memory: Memory,
        workers: WorkersLike = None,
    ) -> None:  # fmt: skip
        self.service = service
        self._memory = memory
        lag = lag_of(rows, now)
        self.as_of = now - timedelta(seconds=lag)
        self._begin = max(complete_since, self.as_of - timedelta(seconds=window))
        self._workers = workers
        self._judged: tuple[Workload, float | None, Sharing | None, str | None] | None = None
        ended = without_upgraded(rows).filter(pl.col("time") > pl.lit(self._begin, INSTANT))
        self._rows = ended.filter("proxied")

    @property
    def seconds(self) -> float:
        """Length of the window, as far as the log is known."""
        return (self.as_of - self._begin).total_seconds()

    @property
    def is_long_enough(self) -> bool:
        """Whether enough of the log is known."""
        return self.seconds >= LEAST

    def backends(self, labels: Labels) -> Iterator[Sample]:
        """Yield the gauges of the backends, and the causes of waiting; backends with one label value are added up."""
        yield Sample("sojourn_state_timestamp_seconds", (self.service,), self.as_of.timestamp())
        recorded = visits(self._rows, columns=("header",), workers=self._workers, waits_unknown=True)
        requests, is_counted = self._memory.with_workers(self.service, recorded, self.as_of)
        services = services_of(requests)
        causes = self._causes(requests, services)
        requests = _abandoned_wait(requests)
        begin = max(self._begin, self.as_of - timedelta(seconds=STATE_WINDOW))
        totals: dict[str, tuple[float, float, float]] = {}
        for number, name in enumerate(requests.backends):
            label = labels.value("upstream", name)
            waiting, serving, workers = totals.get(label, (0.0, 0.0, 0.0))
            state = backend_state(requests, services, number, begin, self.as_of)
            count = requests.workers.count[number] if is_counted[number] else math.nan
            totals[label] = (waiting + state.waiting, serving + state.serving, workers + count)
        for label, (waiting, serving, workers) in totals.items():
            values = (self.service, label)
            yield Sample("sojourn_requests_waiting", values, waiting)
            yield Sample("sojourn_requests_in_service", values, serving)
            yield Sample("sojourn_requests_in_system", values, waiting + serving)
            if not math.isnan(workers):
                yield Sample("sojourn_workers", values, workers)
                yield Sample("sojourn_utilisation_ratio", values, serving / workers)
        yield from causes

    def signals(self, objectives: Sequence[Objective]) -> Iterator[Sample]:
        """Yield the signals to scale on; nothing where no service time is known."""
        until = pl.lit(self.as_of, INSTANT)
        present = self._rows.with_columns(__arrival=pl.col("start") + pl.duration(
            microseconds=((pl.col("upload") + pl.col("retries")) * 1e6).round().cast(pl.Int64)
        ))  # fmt: skip
        entered = present.filter(pl.col("__arrival") <= until).collect()
        arrived = entered.filter(pl.col("__arrival") > pl.lit(self._begin, INSTANT)).drop("__arrival")
        if arrived.is_empty():
            yield from self._idle(objectives)
            return
        try:
            workload, is_counted = self._workload(arrived)
        except SojournError:  # no service time was ever known
            return
        requests = workload.visits
        workers = float(requests.workers.count.sum())
        refused, live_refused, contention = self._refused(entered.drop("__arrival"))
        sharing = None if live_refused is not None else _sharing(workload, contention)
        self._judged = workload, workers if is_counted.all() else None, sharing, live_refused
        yield from refusals(self.service, refused)
        yield from self._bottleneck(contention)
        if refused is not None:
            return
        slowed = 0.0 if sharing is None else float((workload.head - workload.read - sharing.demand).sum())
        load = (float(workload.services.sum()) - slowed) / self.seconds
        yield Sample("sojourn_offered_load_workers", (self.service,), load)
        if is_counted.all():
            yield Sample("sojourn_saturation", (self.service,), load / workers)
            waiting = float(workload.services[self._waits(workload)].sum())  # worker seconds at ``as_of``
            yield Sample("sojourn_seconds_to_drain", (self.service,), drain(waiting, load, workers))
        first = arrived.filter(~retried(arrived))
        firsts = workload if len(first) in (0, len(arrived)) else self._workload(first)[0]
        sharing = sharing if firsts is workload else _sharing(firsts, contention)
        for objective in objectives:
            for method, needed in self._needed(firsts, objective, sharing).items():
                if needed is not None:
                    yield Sample("sojourn_workers_needed", (self.service, objective.text, method), needed)

    def demand(self, before: Demand | None) -> Demand | None:
        """Return what the recent requests need, after ``signals``; None: it is not known.

        Args:
            before: the demand of earlier requests.
        """
        if self._judged is None:
            return None
        workload, workers, sharing, refused = self._judged
        return demand_of(workload, workers, sharing, before, refused)

    def _workload(self, rows: pl.DataFrame) -> tuple[Workload, Bools]:
        """Return the workload of rows, and for each backend whether its number of workers is known.

        Raises:
            SojournError: no service time was ever known.
        """
        earlier = self._memory.service_times(self.service)
        workload = workload_of(rows.lazy(), workers=self._workers, service_times=earlier)
        requests, is_counted = self._memory.with_workers(self.service, workload.visits, self.as_of)
        return replace(workload, visits=requests), is_counted

    def _refused(self, rows: pl.DataFrame) -> tuple[str | None, str | None, Contention | None]:
        """Return why no signal may be given, the same of the live one, and what services share."""
        workload, is_counted = self._workload(rows)
        contention = LoadDependence.of(workload.visits).contention
        if not is_counted.all():
            return None, None, contention
        since = (self._begin - workload.visits.base).total_seconds()
        refused = signal_refusal(workload, since, contention)
        return refused, live_refusal(workload, since, contention, refused), contention

    def _bottleneck(self, contention: Contention | None) -> Iterator[Sample]:
        """Yield 1 for the resource that saturates first, 0 for each other one."""
        short = WORKERS if contention is None else contention.bottleneck
        for resource in BOTTLENECKS:
            yield Sample("sojourn_bottleneck", (self.service, resource), float(resource == short))

    def _idle(self, objectives: Sequence[Objective]) -> Iterator[Sample]:
        yield from refusals(self.service, None)
        for name in ("sojourn_offered_load_workers", "sojourn_saturation", "sojourn_seconds_to_drain"):
            yield Sample(name, (self.service,), 0.0)
        for objective in objectives:
            for method in METHODS if objective.measure == "queueing_delay" else METHODS[:1]:
                yield Sample("sojourn_workers_needed", (self.service, objective.text, method), 0.0)

    def _needed(self, workload: Workload, objective: Objective, sharing: Sharing | None) -> Mapping[str, int | None]:
        numbers: dict[str, int | None] = {
            METHODS[0]: workers_needed(workload, objective, self._waits(workload), sharing)
        }
        # The formulas assume that services do not depend on the number of workers.
        if objective.measure == "queueing_delay" and sharing is None:
            mean = float(workload.services.mean())
            arguments = (len(workload) / self.seconds, mean, objective.seconds, objective.share)
            formulas = (erlang_c_workers, square_root_workers)
            numbers |= {name: formula(*arguments) for name, formula in zip(METHODS[1:], formulas, strict=True)}
        return numbers

    def _waits(self, workload: Workload) -> Bools:
        """Return for each request whether it was waiting at ``as_of``."""
        requests = _abandoned_wait(workload.visits)
        at = (self.as_of - requests.base).total_seconds()
        return (requests.arrival <= at) & (requests.wait_end > at)

    def _causes(self, requests: Visits, services: Services) -> Iterator[Sample]:
        begin = max(self._begin, self.as_of - timedelta(seconds=MINUTE))
        victims = (requests.arrival >= (begin - requests.base).total_seconds()) & ~np.isnan(requests.wait)
        charged = accounts(requests, services, victims)
        waited = float(np.where(victims, requests.wait, 0.0).sum())
        if waited > 0:
            for account in (DISPATCH, IMBALANCE, *SUSPECT_ACCOUNTS):
                seconds = float(charged.others[account].sum()) if account in charged.others else 0.0
                yield Sample("sojourn_waiting_ratio", (self.service, account), seconds / waited)


def refusals(service: str, refused: str | None) -> Iterator[Sample]:
    """Yield 1 for the reason for which the signals of a service are refused, 0 for each other one.

    Queries have a series at all times.
    """
    for reason in REASONS:
        yield Sample("sojourn_signal_refused", (service, reason), float(reason == refused))


def _sharing(workload: Workload, contention: Contention | None) -> Sharing | None:
    """Return the likeliest law of a contention for other requests of the same backends."""
    if contention is None or contention.inner:  # the queues inside are those of other requests
        return None
    return Sharing.likeliest(workload, contention.on(workload.visits))


def retried(rows: pl.DataFrame) -> pl.Series:
    """Return which requests are a client's own retry: with enough workers they would not have been sent.

    Args:
        rows: of requests, with ``CLIENT_REQUEST`` or the columns of ``CLIENT``; without them no retry is known.
    """
    key = next((key for key in ([CLIENT_REQUEST], [*CLIENT]) if set(key) <= set(rows.columns)), [])
    base = pl.col("start").min()
    instants = {name: (pl.col(of) - base).dt.total_microseconds() / 1e6 for name, of in INSTANTS.items()}
    table = rows.select("start", *key, failed=FAILED, **instants)
    return client_retries(table, key).fill_null(value=False)


def _abandoned_wait(requests: Visits) -> Visits:
    """Return visits in which an abandoned request of unknown wait waits until nginx or the client gave it up."""
    abandoned = requests.rows["status"].is_in(GIVEN_UP_STATUSES).to_numpy() & np.isnan(requests.wait_end)
    return replace(requests, wait_end=np.where(abandoned, requests.ended, requests.wait_end))


def lag_of(rows: pl.LazyFrame, now: datetime) -> float:
    """Return the lag of the state, s: the longest response time in the last minute, at most ``LONGEST_LAG``."""
    begin = pl.lit(now - timedelta(seconds=MINUTE), INSTANT)
    recent = without_upgraded(rows).filter(pl.col("proxied") & (pl.col("time") > begin))
    return min(float(recent.select(pl.col("request_time").max()).collect().item() or 0.0), LONGEST_LAG)


def drain(waiting: float, load: float, workers: float) -> float:
    """Return the time until the queue is empty if requests keep arriving at the recent rate, s; inf if it never is.

    The fluid approximation (Newell 1971): the waiting work shrinks by workers - load seconds per second.

    Args:
        waiting: worker seconds of waiting requests.
        load: offered load, workers.
        workers: the present number.
    """
    if waiting <= 0:
        return 0.0
    return waiting / (workers - load) if workers > load else math.inf
