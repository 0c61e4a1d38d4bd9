"""Requests as customers of a queue: the instants of arrival, end of the wait, start and end of service.

    arrival      nginx had the request and turned to the backend: start + upload + retries
    wait_end     arrival + queueing delay: the app's start, or the instant nginx or the client gave up
    busy_start   the app's start, on nginx's clock; for a request given up on, later than wait_end
    busy_end     the release of the worker: the end of the span where there is one; otherwise of the headers, of a body
                 that holds the worker, or of work after the answer, as the next starts of the worker show (``holds``)

Blame, queue length and what-if all start from these four instants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

import numpy as np
import polars as pl

from sojourn.model.arrays import Bools, Codes, Floats, Ints
from sojourn.model.groups import LARGEST
from sojourn.timeline.blocks import Blocks
from sojourn.timeline.ordered_rows import OrderedRows
from sojourn.timeline.phases import BackendHolds, Phases
from sojourn.timeline.processes import Processes
from sojourn.timeline.workers import Workers, parts_of


@dataclass(frozen=True)
class Places:
    """Where requests wait: a backend, or a process of it with a queue of its own.

    Attributes:
        code: of each request, index into the others.
        workers, backend, pool: of each place: number of workers, index of the backend, index of the upstream.
    """

    code: Ints
    workers: Ints
    backend: Ints
    pool: Ints


@dataclass(frozen=True)
class Visits:
    """Requests that went to a backend and whose wait is known, in the order of their arrivals; n of them.

    Attributes:
        base: the instant 0 of every instant here.
        arrival, wait_end: s after base; NaN only for a wait that is not known. wait_end < arrival where the clocks
            make the wait negative.
        busy_start, busy_end: s after base; NaN if the start of service is unknown.
        backend: index into ``backends``, per request.
        backends: addresses; None for requests without one.
        pool: index into ``pools``, per backend. Backends that serve a (service, route) in common are one upstream.
        pools: names of the upstreams, for people.
        workers: per backend.
        rows: the n rows, in the same order, with the requested columns: by column, or all of them in ``frame``.
        left_out: reason -> requests of the source that are not here: ``not_proxied``, ``no_wait`` (proxied, but nothing
            shows how long it waited), ``duplicates`` (the same request id and end as another row).
        joined: address -> the backend with the same workers, which it is counted as.
        phases: instants between the start and the release; None: all of it is service.
    """

    base: datetime
    arrival: Floats
    wait_end: Floats
    busy_start: Floats
    busy_end: Floats
    backend: Codes
    backends: tuple[str | None, ...]
    pool: Codes
    pools: tuple[str, ...]
    workers: Workers
    rows: pl.DataFrame | OrderedRows
    left_out: dict[str, int] = field(default_factory=dict)
    joined: dict[str, str] = field(default_factory=dict)
    phases: Phases | None = None

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def frame(self) -> pl.DataFrame:
        """The rows with all columns; a single one costs less in ``rows``."""
        return self.rows.frame if isinstance(self.rows, OrderedRows) else self.rows

    @property
    def table(self) -> pl.DataFrame:
        """The rows in any order, for sums over all of them."""
        return self.rows.table if isinstance(self.rows, OrderedRows) else self.rows

    def rows_at(self, places: Ints) -> pl.DataFrame:
        """Return some of the rows, with all columns."""
        return self.rows.at(places) if isinstance(self.rows, OrderedRows) else self.rows[places]

    def column_at(self, name: str, places: Ints) -> pl.Series:
        """Return some values of a column."""
        return self.rows.column_at(name, places) if isinstance(self.rows, OrderedRows) else self.rows[name][places]

    def at(self, rows: Ints) -> Visits:
        """Return some of the visits, in this order."""
        return replace(
            self,
            arrival=self.arrival[rows],
            wait_end=self.wait_end[rows],
            busy_start=self.busy_start[rows],
            busy_end=self.busy_end[rows],
            backend=self.backend[rows],
            rows=self.rows_at(rows),
            phases=None if self.phases is None else self.phases.at(rows),
        )

    @property
    def holds(self) -> Mapping[int, BackendHolds]:
        """What holds the workers of each backend whose evidence is known."""
        return {} if self.phases is None else self.phases.backends

    @property
    def evident_end(self) -> Floats:
        """End of each service, s, as a span or the body shows it: without the time after the answer, if inferred."""
        return self.busy_end if self.phases is None else self.phases.evident_end

    @property
    def occupied(self) -> Floats:
        """When a worker took each request, s: the app's start, or earlier where the worker read the request first."""
        return self.busy_start if self.phases is None else self.phases.occupied

    @property
    def wait(self) -> Floats:
        """Queueing delay per request, s, signed."""
        return self.wait_end - self.arrival

    @cached_property
    def blocks(self) -> Blocks:
        """The requests, backend after backend: computed in one pass for any number of backends."""
        return Blocks(self.backend, len(self.backends))

    @cached_property
    def at_backend(self) -> list[Ints]:
        """Per backend, the indices of its requests, ascending."""
        return parts_of(self.blocks.order, self.blocks.ends)

    @cached_property
    def served(self) -> Ints:
        """The number of requests of each backend."""
        return np.bincount(self.backend, minlength=len(self.backends))

    @cached_property
    def largest(self) -> Ints:
        """The indices of the ``LARGEST`` backends with the most requests, ascending."""
        return np.sort(np.argsort(-self.served, kind="stable")[:LARGEST])

    @property
    def others(self) -> dict[str, int]:
        """``values`` (number) and ``requests`` of the backends that are not among the ``largest``; empty: all are."""
        if len(self.largest) == len(self.backends):
            return {}
        requests = len(self) - int(self.served[self.largest].sum())
        return {"values": len(self.backends) - len(self.largest), "requests": requests}

    @property
    def ended(self) -> Floats:
        """The end of each request in nginx, s after base."""
        return (self.rows["time"] - self.base).dt.total_microseconds().to_numpy() / 1e6

    @property
    def held(self) -> Floats:
        """The time for which each request held a worker, s; NaN if unknown."""
        return self.busy_end - self.occupied

    @cached_property
    def reached(self) -> Floats:
        """When each request reached its backend, s: after the way there, if it is long; at most when it started.

        ``arrival`` itself where no way is long.
        """
        ways = np.zeros(len(self.backends))
        for code, holds in self.holds.items():
            ways[code] = holds.way
        if not ways.any():
            return self.arrival
        return np.maximum(np.fmin(self.arrival + ways[self.backend], self.wait_end), self.arrival)

    @property
    def _processes(self) -> dict[int, Processes]:
        """The processes of each backend whose processes have queues of their own."""
        return {code: each.processes for code, each in self.holds.items() if each.processes is not None}

    @cached_property
    def places(self) -> Places:
        """Where each request waits. A request whose worker is not known counts at the first process of its backend."""
        code = self.backend.astype(np.int64)
        workers, backend = [self.workers.count.astype(np.int64)], [np.arange(len(self.backends))]
        count = len(self.backends)
        for number, processes in self._processes.items():
            members = self.at_backend[number]
            names = self.column_at("worker", members)
            process = names.replace_strict(processes.of_worker, default=0, return_dtype=pl.Int64).to_numpy()
            # The first process takes the place of the backend.
            code[members] = np.where(process == 0, number, count + process - 1)
            workers[0][number] = processes.workers[0]
            workers.append(np.array(processes.workers[1:], np.int64))
            backend.append(np.full(len(processes.workers) - 1, number))
            count += len(processes.workers) - 1
        of_backend = np.concatenate(backend)
        return Places(code, np.concatenate(workers), of_backend, self.pool.astype(np.int64)[of_backend])

    @property
    def is_bound(self) -> bool:
        """Whether processes of a backend have queues of their own."""
        return len(self.places.workers) > len(self.backends)

    def with_suspect(self, kind: str) -> list[int]:
        """Return the backends whose workers look free for this reason alone, or where workers are absent, too."""
        return [code for code, each in self.holds.items() if kind in each.causes]

    @property
    def reserved(self) -> Bools:
        """Per backend, whether its processes serve routes of their own."""
        bound = self._processes
        return np.array([code in bound and bound[code].reserved for code in range(len(self.backends))], np.bool_)
