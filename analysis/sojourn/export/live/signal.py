"""The workers that are needed now, from the requests that have begun: computed when the gauge is read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

import numpy as np
import polars as pl

from sojourn.export.labels import Labels
from sojourn.export.live.demand import Demand
from sojourn.export.live.ledger import ALL, Ledger, Passed
from sojourn.export.live.poller import Poller, Source
from sojourn.export.live.reconciliation import FEW_OPEN, Counts, Reconciliation, counts_of, reconciled
from sojourn.export.refusal import AWAY, CLOCKS, REASONS
from sojourn.export.settings import LONGEST_LAG, MINUTE, Settings
from sojourn.export.tally import Sample
from sojourn.model.arrays import Floats
from sojourn.model.components import SWITCHING_PROTOCOLS
from sojourn.queueing.live_staffing import Autoscaler, ServiceTimes, sure_rate

COLUMNS = ("time", "request_time", "service", "upstream", "status", "proxy")
METHOD = "live"
NO_COUNT = "no_count"
TOO_FEW = "too_few_counts"
UNLOGGED = "unlogged_requests"
OPEN = "open_connections"
STALLED = "app_stalled"
LATE = "log_late"
SATURATED = "app_saturated"
NO_TIMES = "no_service_time"
SHORT = "window_too_short"
LIVE_REASONS = {
    NO_COUNT: "a page of --status does not answer, or has no counts",
    TOO_FEW: "the log has requests of more proxies than --status counts",
    UNLOGGED: "requests that are not in the log last as long as others, and whose they are is not known",
    OPEN: "it is not known yet whether requests that are not in the log are open connections, or wait",
    STALLED: "all workers are busy, and for much longer than services last no request has ended",
    LATE: "requests begin, and the log has no lines of them",
    SATURATED: "the app counts the requests that it has begun, and all its workers are busy: others wait uncounted",
    NO_TIMES: "no service time of the service was ever known",
    SHORT: "service times are longer than the time that the rate is computed from, a fifth of --hold",
    **{reason: text for reason, text in REASONS.items() if reason != AWAY},
}
STALE = 2.0  # s without a count
FEW_UNLOGGED = 0.02  # of the rate: so many do not change it
MANY_UNLOGGED, LONG_UNLOGGED = 0.1, 0.2  # of the rate, and of the requests in progress
LATEST = 15.0  # s for which requests may begin without a line of the log
STALL = 10.0  # services, mean and standard deviation, for which none may end while all workers are busy


@dataclass(frozen=True)
class _Course:
    """The arrivals of a service.

    Attributes:
        time: of the counts, unix s.
        arrived: requests until each.
        fewest, most: requests in progress now, without those that remain open: the same, where it is known which do.
    """

    time: Floats
    arrived: Floats
    fewest: float
    most: float


class LiveSignal:
    """Workers needed, by the counts of some sources.

    Args:
        sources: where requests are counted.
        settings: what is exported.
    """

    def __init__(self, sources: Sequence[Source], settings: Settings) -> None:
        self._settings = settings
        self._window = min(settings.window, settings.hold / 5)
        span = max(self._window, MINUTE + LONGEST_LAG) + STALE
        self.poller = Poller(sources, span)
        self._span = span
        self._ledger = Ledger(span)
        self._clocks_disagree = False
        self._demands: dict[str, Demand] = {}
        self._scopes: dict[str, list[int]] = {}  # whose requests are counted -> the sources that do, by position
        for number, source in enumerate(sources):
            self._scopes.setdefault(source.service or ALL, []).append(number)
        self._reconciled: dict[str, Reconciliation] = {}
        self._proxies: dict[str | None, dict[str, float]] = {}

    def add(self, rows: pl.DataFrame, labels: Labels) -> None:
        """Hold when requests began and ended; of canonical rows (columns ``COLUMNS``)."""
        passed: dict[str | None, list[Passed]] = {}
        for (service, has_app), own in rows.select(*COLUMNS).group_by("service", pl.col("upstream").is_not_null()):
            end = own["time"].dt.epoch("us").to_numpy() / 1e6
            is_open = (own["status"] == SWITCHING_PROTOCOLS).fill_null(value=False).to_numpy()
            name = labels.value("service", str(service or "")) if has_app else None
            begin = end - own["request_time"].fill_null(0.0).to_numpy()
            passed.setdefault(name, []).append(Passed(begin, end, is_open))
            for proxy in own["proxy"].drop_nulls().unique():
                for scope in (name, ALL):
                    self._proxies.setdefault(scope, {})[proxy] = float(end.max())
        self._ledger.add({name: Passed.of(each) for name, each in passed.items()})

    def restart(self) -> None:
        """Forget counts and requests: the local clock was set, and their instants are of before."""
        self.poller.clear()
        self._ledger = Ledger(self._span)
        self._reconciled.clear()
        self._proxies.clear()

    def read(self, wall: float, *, complete: bool, clocks_disagree: bool = False) -> None:
        """Learn that the log was read at ``wall``, unix s.

        Args:
            wall: the local time.
            complete: whether all of it was read that had been written.
            clocks_disagree: whether records are ahead of the local clock, so that the log lacks requests.
        """
        self._clocks_disagree = clocks_disagree
        self._ledger.read(wall, complete=complete)

    def learn(self, since: datetime, now: datetime) -> None:
        """Compare the counts with the log, which is known from ``since`` to ``now``."""
        end = now.timestamp()
        longest = min(self._ledger.longest(end - MINUTE), LONGEST_LAG)
        for scope in self._scopes:
            counts, before = self._counts(scope), self._reconciled.get(scope, Reconciliation())
            complete = min(self._complete_until(counts, before, end) or end, end)
            until = min(complete - longest, self._ledger.last_of_app(scope))  # while no app answers, requests wait
            times = max(since.timestamp(), until - MINUTE), until, complete - LONGEST_LAG
            latest = reconciled(counts, self._ledger, scope, *times)
            is_of_before = latest.beyond is None and before.at >= counts.since
            self._reconciled[scope] = before if is_of_before else latest

    def set_demand(self, service: str, demand: Demand) -> None:
        """Hold what the requests of a service need."""
        self._demands[service] = demand

    def demand(self, service: str) -> Demand | None:
        """Return what the requests of a service need."""
        return self._demands.get(service)

    def samples(self, services: Sequence[str], now: float | None = None) -> Iterator[Sample]:
        """Yield the gauges of the services as of ``now``, unix s; None: the local time."""
        now = time.time() if now is None else now
        scopes = {scope: self._counts(scope) for scope in self._scopes}
        present = cache(lambda: self._ledger.present(ALL, scopes[ALL].time))
        for service in services:
            reason, course = self._course(service, scopes, present, now)
            needed = [] if course is None or reason is not None else self._needed(service, course)
            if needed is None:
                reason, needed = OPEN, []
            for name in LIVE_REASONS:
                yield Sample("sojourn_live_refused", (service, name), float(name == reason))
            yield from needed
            if course is not None and course.fewest == course.most:
                yield Sample("sojourn_requests_in_progress", (service,), course.most)

    def _needed(self, service: str, course: _Course) -> list[Sample] | None:
        """Return the workers needed; None: they depend on which of the requests in progress remain open."""
        rate = sure_rate(list(zip(course.time.tolist(), course.arrived.tolist(), strict=True)), self._window)
        if rate is None:
            return []
        demand, autoscaler = self._demands[service], Autoscaler(self._settings.hold, self._settings.startup)
        samples = []
        for objective in self._settings.objectives:
            if objective.measure != "queueing_delay":
                continue
            needed = demand.needed(rate, course.most, objective, autoscaler)
            if course.fewest < course.most and needed != demand.needed(rate, course.fewest, objective, autoscaler):
                return None
            samples.append(Sample("sojourn_workers_needed", (service, objective.text, METHOD), needed))
        return samples

    def _course(
        self, service: str, scopes: Mapping[str, Counts], present: Callable[[], Floats], now: float
    ) -> tuple[str | None, _Course | None]:
        """Return why no number may be given, or None, and the arrivals.

        Args:
            service: whose.
            scopes: the counts of each scope.
            present: returns the requests of the log in progress at each reading of ``ALL``.
            now: unix s.
        """
        scope = service if service in scopes else ALL
        counts = scopes.get(scope)
        if self._clocks_disagree:
            return CLOCKS, None
        if counts is None or not len(counts) or now - counts.time[-1] > max(STALE, 5 * self.poller.every):
            return NO_COUNT, None
        reconciliation = self._reconciled.get(scope, Reconciliation())
        if counts.has_waiting and self._is_short(scope, reconciliation, now):
            return TOO_FEW, None
        # Requests of others that ended before the first count are not in it.
        since = max(now - MINUTE, float(counts.time[counts.restarted]))
        exact = scope != ALL or not self._has_others(service, reconciliation, since)
        course: _Course | None
        if exact and counts.arrived is not None:
            reason, course = None, _exact(counts, counts.arrived, reconciliation)
        else:
            others = present() - self._ledger.present(service, counts.time) if scope == ALL else np.zeros(len(counts))
            reason, course = self._by_log(service, scope, counts, others, now)
        if reason is not None or course is None:
            return reason, course
        return self._refused(service, course, has_waiting=counts.has_waiting), course

    def _refused(self, service: str, course: _Course, *, has_waiting: bool) -> str | None:
        """Return why arrivals do not say how many workers are needed; None: they do."""
        demand = self._demands.get(service, Demand())
        if demand.times is None:
            return NO_TIMES
        if demand.refused is not None:
            return demand.refused
        if demand.times.mean > self._window:
            return SHORT
        if not has_waiting and (demand.workers is None or course.most >= demand.workers):
            return SATURATED
        if self._is_stalled(service, course.fewest, demand, demand.times):
            return STALLED
        return None if len(course.time) > 1 else NO_COUNT

    def _is_stalled(self, service: str, in_progress: float, demand: Demand, times: ServiceTimes) -> bool:
        """Return whether services last longer now than those of which the times are known."""
        if self._ledger.complete_until is None or in_progress < (demand.workers or FEW_OPEN):
            return False
        silent = self._ledger.complete_until - self._ledger.last_of_app(service)
        return silent > max(LATEST, STALL * times.mean * (1.0 + math.sqrt(times.cs2)))

    def _counts(self, scope: str) -> Counts:
        return counts_of(self.poller.ticks(), self._scopes[scope])

    def _is_short(self, scope: str, reconciliation: Reconciliation, now: float) -> bool:
        """Return whether the log has requests that no source counts."""
        unlogged = reconciliation.unlogged
        missing = unlogged is not None and unlogged < -max(FEW_UNLOGGED * reconciliation.rate, 0.2)
        proxies = sum(last > now - MINUTE for last in self._proxies.get(scope, {}).values())
        return missing or proxies > len(self._scopes[scope])

    def _has_others(self, service: str, reconciliation: Reconciliation, since: float) -> bool:
        """Return whether a proxy counts other requests than those of a service, that ended since then (unix s)."""
        unlogged = reconciliation.unlogged
        if unlogged is None or unlogged > max(FEW_UNLOGGED * reconciliation.rate, 0.05):
            return True
        return self._ledger.others_since(service, since)

    def _by_log(
        self, service: str, scope: str, counts: Counts, others: Floats, now: float
    ) -> tuple[str | None, _Course | None]:
        """Return the arrivals as those that ended, by the log, and those in progress at the same instant.

        ``others``: requests of other services in progress at each reading, of those that have ended.
        """
        reconciliation = self._reconciled.get(scope, Reconciliation())
        beyond, present = reconciliation.beyond or 0.0, counts.in_progress - others
        until = self._complete_until(counts, reconciliation, now)
        tail = self._ledger.tail_of_others(service) if scope == ALL else 0.0
        inside = counts.time <= (-np.inf if until is None else until - tail)
        inside[: counts.restarted] = False
        is_late = until is not None and now - until > LATEST
        if not inside.any():
            return LATE if is_late else NO_COUNT, None
        at, present = counts.time[inside], present[inside]
        limits = reconciliation.in_progress_of(float(present[-1]))
        course = _Course(at, self._ledger.ended(service, at) + present - beyond, *limits)
        if is_late:
            return LATE, course
        unlogged = reconciliation.unlogged or 0.0
        many = unlogged > max(MANY_UNLOGGED * reconciliation.rate, 1.0)
        if scope == ALL and many and beyond > max(LONG_UNLOGGED * reconciliation.in_progress, 1.0):
            return UNLOGGED, course
        return None, course

    def _complete_until(self, counts: Counts, reconciliation: Reconciliation, now: float) -> float | None:
        """Return until when the log has every request that ended: not, where requests begin and no line is written."""
        until, last = self._ledger.complete_until, self._ledger.last
        if until is None or last is None or counts.arrived is None or until - last < STALE:
            return until
        since = int(np.searchsorted(counts.time, last))
        if since >= len(counts) - 1:
            return until
        ended = np.diff(counts.arrived[[since, -1]] - counts.in_progress[[since, -1]])[0]
        expected = max(reconciliation.unlogged or 0.0, 0.0) * (now - last)
        return last if ended > 5.0 + 3.0 * expected else until


def _exact(counts: Counts, arrived: Floats, reconciliation: Reconciliation) -> _Course:
    """Return the arrivals where every counted request is of the service."""
    since = counts.restarted
    limits = reconciliation.in_progress_of(float(counts.in_progress[-1]))
    return _Course(counts.time[since:], arrived[since:], *limits)
