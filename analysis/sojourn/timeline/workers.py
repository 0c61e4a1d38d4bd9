"""How many workers each backend has, and how that is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Codes, Ints
from sojourn.model.one_worker import LOOKED_AT, SLACK, Overlap, most_of_each, overlaps

WorkersLike = int | Mapping[str, int] | None
Measured = Mapping[str | None, tuple[Overlap, float]]

FROM_WORKER_VALUES = "worker values"
FROM_OPTION = "told"
FROM_CONCURRENCY = "most at once"
FROM_INFERENCE = "inferred"

MANY_NAMES = 20
FEWEST_OF_A_NAME = 5  # requests on average; with fewer, and ``MANY_NAMES``, the values are no names of workers


@dataclass(frozen=True)
class Workers:
    """How many workers each backend has, and how that is known.

    Attributes:
        count: per backend, at least 1.
        source: per backend: ``FROM_WORKER_VALUES`` (distinct worker values in use at the same time), ``FROM_OPTION``
            (set by the user), or ``FROM_CONCURRENCY`` (no worker value was logged: the maximum number of requests in
            service at the same time, a lower bound), or ``FROM_INFERENCE`` (the queue itself is inferred from the
            log, and the workers with it).
        names: per backend, distinct worker values; more than ``count`` where workers were replaced.
        measure: computes ``overlap`` and ``slack`` per backend when they are used; None: unknown.
    """

    count: Ints
    source: tuple[str, ...]
    names: Ints
    measure: Callable[[], tuple[tuple[Overlap, float], ...]] | None = None

    @cached_property
    def _measured(self) -> tuple[tuple[Overlap, float], ...]:
        return self.measure() if self.measure is not None else ()

    @cached_property
    def overlap(self) -> tuple[Overlap, ...]:
        """Per backend, requests that one of its workers served at the same time."""
        return tuple(overlap for overlap, _ in self._measured)

    @cached_property
    def slack(self) -> tuple[float, ...]:
        """Per backend, s: services that overlap by less may only seem to, by the steps of the app's clock."""
        return tuple(slack for _, slack in self._measured)

    def in_one_worker(self, backend: int) -> int:
        """Return how many requests a worker of a backend serves at a time; 1 if the user set the number of workers."""
        if self.source[backend] == FROM_OPTION or self.measure is None or not self.overlap[backend].concurrent:
            return 1
        return self.overlap[backend].most

    @cached_property
    def several_at_once(self) -> frozenset[int]:
        """The backends of which a worker serves several requests at a time."""
        return frozenset(code for code in range(len(self.source)) if self.in_one_worker(code) > 1)


def workers_of(
    table: pl.DataFrame, backend: Codes, backends: tuple[str | None, ...], order: Ints, option: WorkersLike
) -> Workers:
    """Return the workers of each backend.

    Args:
        table: one row per request: upstream, worker, inferred_workers, __busy_start and __busy_end (s), __app_begin and
            __app_end (us, by the app's clock).
        backend: index into ``backends``, per row.
        backends: addresses.
        order: the rows in the order of their arrivals.
        option: per backend, or the same for all; None: read off the worker values.
    """
    inferred: dict[str | None, int] = {}
    if table["inferred_workers"].null_count() < len(table):
        inferred = dict(table.group_by("upstream").agg(pl.col("inferred_workers").max()).iter_rows())
    held = table.select("worker", "__busy_start", "__busy_end").with_columns(backend=pl.Series(backend, dtype=pl.Int32))
    held = held.filter(pl.col("__busy_end").is_not_null())
    lives = (
        held.filter(pl.col("worker").is_not_null())
        .group_by("backend", "worker")
        .agg(pl.col("__busy_start").min(), pl.col("__busy_end").max())
    )
    names = np.bincount(lives["backend"].to_numpy(), minlength=len(backends))
    requests = np.bincount(held["backend"].to_numpy(), minlength=len(backends))
    # A value for nearly every request names no worker.
    names = np.where(names > np.maximum(MANY_NAMES, requests / FEWEST_OF_A_NAME), 0, names)
    count, source = np.ones(len(backends), np.int64), []
    for code, name in enumerate(backends):
        configured = option.get(name or "") if isinstance(option, Mapping) else option
        if configured is not None:
            count[code] = configured
            source.append(FROM_OPTION)
        elif inferred.get(name):
            count[code] = inferred[name]
            source.append(FROM_INFERENCE)
        else:
            source.append(FROM_WORKER_VALUES if names[code] else FROM_CONCURRENCY)
    for origin, frame in ((FROM_WORKER_VALUES, lives), (FROM_CONCURRENCY, held)):
        if origin in source:
            begin, end, at = (frame[name].to_numpy() for name in ("__busy_start", "__busy_end", "backend"))
            most = most_of_each(begin, end, at, len(backends))
            count = np.where(np.array(source) == origin, np.maximum(most, 1), count)
    instants = table.select("upstream", "worker", begin="__app_begin", end="__app_end")

    def measure() -> tuple[tuple[Overlap, float], ...]:
        # Only a part of a large log is looked at: that which arrived first.
        measured: Measured = overlaps(instants[order] if len(instants) > LOOKED_AT else instants)
        return tuple(measured.get(name, (Overlap(), SLACK)) for name in backends)

    return Workers(count, tuple(source), names, measure)


def places_of(codes: npt.NDArray[np.integer[Any]], count: int) -> list[Ints]:
    """Return the positions of each code from 0 to ``count`` - 1, ascending."""
    return parts_of(*grouped(codes, count))


def grouped(codes: npt.NDArray[np.integer[Any]], count: int) -> tuple[Ints, Ints]:
    """Return the positions of code 0, ascending, then those of code 1 and so on; and where those of each code end."""
    # 16 bits are sorted by radix.
    small = codes.astype(np.uint16) if count <= np.iinfo(np.uint16).max else codes
    order = np.argsort(small, kind="stable").astype(np.int64, copy=False)
    return order, np.cumsum(np.bincount(codes, minlength=count))


def parts_of(order: Ints, ends: Ints) -> list[Ints]:
    """Return the positions of each code, as ``grouped`` has them one after another."""
    return [order[begin:end] for begin, end in pairwise([0, *ends.tolist()])]
