"""What is remembered of a service when its log no longer tells: service times and workers.

In an overload in which every request times out, no response carries the app's times. The last ones known are used then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from sojourn.export.labels import Labels
from sojourn.model.arrays import Bools, Floats
from sojourn.timeline.visits import FROM_CONCURRENCY, Visits

LAST_TIMES = 500  # per service and route
AGE = timedelta(minutes=10)  # after which the workers of a backend are forgotten
ROUTES = 1_000  # services and routes of which times are kept


class Memory:
    """The last service times by service and route, and the last number of workers by backend."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, str | None], Floats] = {}
        self._workers: dict[tuple[str, str | None], tuple[int, datetime]] = {}

    def add(self, rows: pl.DataFrame, labels: Labels) -> None:
        """Remember the service times of canonical rows, by the label value of their service."""
        timed = rows.filter(pl.col("app_service_time").is_not_null()).select("service", "route", "app_service_time")
        groups = timed.group_by("service", "route").agg(pl.col("app_service_time").tail(LAST_TIMES))
        for service, route, times in groups.iter_rows():
            key = (labels.value("service", service), route)
            if key in self._times or len(self._times) < ROUTES:
                before = self._times.get(key, np.empty(0))
                self._times[key] = np.concatenate([before, np.asarray(times, np.float64)])[-LAST_TIMES:]

    def service_times(self, service: str) -> Mapping[str | None, Floats]:
        """Return route -> the last service times, s."""
        # A copy: times of new requests are added while the state is computed.
        return {route: times for (name, route), times in list(self._times.items()) if name == service}

    def with_workers(self, service: str, visits: Visits, now: datetime) -> tuple[Visits, Bools]:
        """Return visits with the last known number of workers where the log has no worker values, and what is known.

        Args:
            service: its label value.
            visits: of this service.
            now: the log's time.

        Returns:
            The visits, and for each backend whether its number of workers is known: without worker values, and without
            a request of known service time, it is not.
        """
        self._workers = {key: value for key, value in self._workers.items() if now - value[1] < AGE}
        count = visits.workers.count.copy()
        is_counted = np.ones(len(count), np.bool_)
        for number, (upstream, source) in enumerate(zip(visits.backends, visits.workers.source, strict=True)):
            key = (service, upstream)
            if source != FROM_CONCURRENCY:
                self._workers[key] = (int(count[number]), now)
            elif key in self._workers:
                count[number] = max(self._workers[key][0], int(count[number]))
            else:
                is_counted[number] = not np.isnan(visits.busy_end[visits.at_backend[number]]).all()
        return replace(visits, workers=replace(visits.workers, count=count)), is_counted
