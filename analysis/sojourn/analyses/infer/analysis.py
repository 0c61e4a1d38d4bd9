"""The inferred queue of each backend, and its service times by the depth of the queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sojourn.components.inferred.backends import BackendInference
from sojourn.estimation.inferred import REFUSED
from sojourn.model.frame import LogFacts
from sojourn.model.groups import LARGEST
from sojourn.model.result import Result

SERVICE_SCHEMA = {
    "upstream": pl.String(),
    "low": pl.Int64(),
    "high": pl.Int64(),
    "requests": pl.Int64(),
    "service": pl.Float64(),
    "error": pl.Float64(),
}
LEAST_OF_DEPTH = 20  # requests
DEPTHS = 12


@dataclass(frozen=True, repr=False)
class InferResult(Result):
    """The result of ``infer``.

    Attributes:
        backends: their inferences, the one with most requests first.
        service: columns upstream, low and high (requests in the system at an arrival, inclusive), requests, service
            (mean of the inferred service times, s) and error (its standard error, s). Of a refused backend, with the
            number of workers that fits best.
        formats: of the logs that are not Sojourn's own.
        proxy_queue: backend -> mean wait in the proxy's own queue, s, which its log measures.
    """

    TABLES: ClassVar = ("backends", "service")

    backends: tuple[BackendInference, ...]
    service: pl.DataFrame
    formats: tuple[LogFacts, ...] = ()
    proxy_queue: Mapping[str | None, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn infer --json`` prints."""
        return {
            "backends": [backend.to_dict() for backend in self.backends[:LARGEST]],
            "others": self.others,
            "formats": [each.to_dict() for each in self.formats],
        }

    @property
    def others(self) -> dict[str, dict[str, int]]:
        """``backends`` -> number (``values``) and ``requests`` of the backends without an entry in the JSON."""
        more = self.backends[LARGEST:]
        return {"backends": {"values": len(more), "requests": sum(each.requests for each in more)}} if more else {}


def result_of(backends: list[BackendInference], formats: list[LogFacts], rows: pl.LazyFrame) -> InferResult:
    """Return the result of the inferences of some backends, from split rows."""
    tables = [
        service_by_depth(backend)
        for backend in backends
        if len(backend.result.depth) and (backend.result.verdict != REFUSED or len(backend.result.tried))
    ]
    service = pl.concat([pl.DataFrame(schema=SERVICE_SCHEMA), *tables])
    queued = rows.filter(pl.col("proxied")).group_by("upstream").agg(pl.col("proxy_queue").mean().fill_null(0.0))
    return InferResult(tuple(backends), service, tuple(formats), dict(queued.collect(engine="streaming").iter_rows()))


def service_by_depth(backend: BackendInference) -> pl.DataFrame:
    """Return the mean inferred service time by the requests in the system at an arrival, as ``SERVICE_SCHEMA``."""
    result = backend.result
    depth, service = result.depth, result.tried if result.verdict == REFUSED else result.service
    edges = np.unique(np.concatenate([np.arange(4), np.geomspace(4, max(int(depth.max()), 4) + 1, DEPTHS).round()]))
    place = np.searchsorted(edges, depth, side="right") - 1
    count = np.bincount(place, minlength=len(edges))
    mean = np.bincount(place, service, minlength=len(edges)) / np.maximum(count, 1)
    square = np.bincount(place, service**2, minlength=len(edges)) / np.maximum(count, 1)
    error = np.sqrt(np.maximum(square - mean**2, 0.0) / np.maximum(count, 1))
    highs = [*(int(edge) - 1 for edge in edges[1:]), max(int(edges[-1]), int(depth.max()))]
    return pl.DataFrame(
        {
            "upstream": [backend.name] * len(edges),
            "low": edges.astype(np.int64),
            "high": highs,
            "requests": count,
            "service": mean,
            "error": error,
        },
        schema=SERVICE_SCHEMA,
    ).filter(pl.col("requests") >= LEAST_OF_DEPTH)
